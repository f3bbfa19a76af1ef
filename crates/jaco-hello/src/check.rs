//! `hello check URL` and `hello expect FILE WORD`: health probes of an image that has no shell, no curl and no grep.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::process::ExitCode;
use std::time::Duration;

use crate::say;

/// How long a connection may take to begin.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long an answer may take; engines kill a probe after 30 s by default, this answers well before.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// Probes once and prints what it saw: the engine keeps that line with the health result.
pub(crate) fn run(url: &str) -> ExitCode {
    match probe(url) {
        Ok(answer) if (200..300).contains(&answer.status) => {
            say::line(answer.body.trim_end());
            ExitCode::SUCCESS
        }
        Ok(answer) => {
            say::line(&format!("{} {}", answer.status, answer.body.trim_end()));
            ExitCode::FAILURE
        }
        Err(error) => {
            say::line(&format!("{url}: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Whether a file has a word in it.
pub(crate) fn content(file: &str, word: &str) -> ExitCode {
    match std::fs::read_to_string(file) {
        Ok(content) if content.contains(word) => ExitCode::SUCCESS,
        Ok(_) => {
            say::line(&format!("{file} has no {word:?}"));
            ExitCode::FAILURE
        }
        Err(error) => {
            say::line(&format!("{file}: {error}"));
            ExitCode::FAILURE
        }
    }
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// One request to the first address that the name of a URL has now.
///
/// # Errors
/// If it has none, or as [`ask`].
pub(crate) fn probe(url: &str) -> io::Result<Answer> {
    let (authority, path) = split(url)?;
    let address = authority.to_socket_addrs()?.next().ok_or_else(|| bad("name has no address"))?;
    ask(&address, &authority, &path)
}

/// One request on a connection of its own.
///
/// # Errors
/// If there is no answer within the time of a probe, or none that is HTTP.
pub(crate) fn ask(address: &SocketAddr, authority: &str, path: &str) -> io::Result<Answer> {
    let mut stream = TcpStream::connect_timeout(address, CONNECT_TIMEOUT)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: {authority}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut text = String::new();
    stream.take(64 * 1024).read_to_string(&mut text)?;
    answer(&text)
}

/// Splits `http://host[:port][/path]`.
pub(crate) fn split(url: &str) -> io::Result<(String, String)> {
    let rest = url.strip_prefix("http://").ok_or_else(|| bad("URL does not begin with http://"))?;
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let has_port = authority.rsplit(']').next().is_some_and(|tail| tail.contains(':'));
    let authority = if has_port { authority.to_owned() } else { format!("{authority}:80") };
    Ok((authority, format!("/{path}")))
}

fn answer(text: &str) -> io::Result<Answer> {
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(|| bad("answer is not HTTP"))?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok(Answer { status: status.ok_or_else(|| bad("answer has no status"))?, body: body.to_owned() })
}

pub(crate) fn bad(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_split() {
        let check = |url, authority: &str, path: &str| {
            assert_eq!(split(url).expect(url), (authority.to_owned(), path.to_owned()));
        };
        check("http://127.0.0.1:8080/healthz", "127.0.0.1:8080", "/healthz");
        check("http://web", "web:80", "/");
        check("http://[::1]/a", "[::1]:80", "/a");
        assert!(split("https://web/").is_err());
    }

    #[test]
    fn answers_are_read() {
        let seen = answer("HTTP/1.1 503 Service Unavailable\r\nx: y\r\n\r\nsick\n").expect("valid");
        assert_eq!((seen.status, seen.body.as_str()), (503, "sick\n"));
        assert!(answer("hello").is_err());
    }
}
