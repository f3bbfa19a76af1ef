//! One HTTP GET, over TCP or over the engine's socket. Nothing more: pings and the demo need no client library.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// A loopback peer that does not answer within this time is not there.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Longest answer that is read.
const ANSWER_MAX: u64 = 64 * 1024;

/// Status and body of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// GET over TCP.
///
/// # Errors
/// If nobody answers in HTTP within five seconds.
pub(crate) fn get(address: SocketAddr, path: &str) -> io::Result<Answer> {
    let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    exchange(stream, &address.to_string(), path)
}

/// GET over a unix socket.
///
/// # Errors
/// If nobody answers in HTTP within five seconds.
pub(crate) fn get_unix(socket: &Path, path: &str) -> io::Result<Answer> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    exchange(stream, "localhost", path)
}

/// HTTP/1.0 so that the peer closes after the answer and nothing has to be counted.
fn exchange(mut stream: impl Read + Write, host: &str, path: &str) -> io::Result<Answer> {
    write!(stream, "GET {path} HTTP/1.0\r\nhost: {host}\r\n\r\n")?;
    stream.flush()?;
    let mut text = String::new();
    stream.take(ANSWER_MAX).read_to_string(&mut text)?;
    parse(&text).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "answer is not HTTP"))
}

fn parse(text: &str) -> Option<Answer> {
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
    Some(Answer { status, body: body.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read() {
        let answer = parse("HTTP/1.0 200 OK\r\nserver: x\r\n\r\nOK").expect("valid");
        assert_eq!(answer, Answer { status: 200, body: "OK".to_owned() });
        assert_eq!(parse("SSH-2.0-x\r\n\r\n"), None);
    }
}
