//! Answers that take their time: events, and an upgraded connection that echoes.

use std::io::{self, BufRead, Write};
use std::thread;
use std::time::Duration;

use crate::http::Request;

/// Events of a stream, unless it is asked for another number.
const EVENTS: u64 = 10;
/// Most of them.
const EVENTS_MAX: u64 = 100_000;
/// Pause between two of them, in milliseconds, unless it is asked for another one.
const PAUSE_MS: u64 = 5;
/// Longest pause.
const PAUSE_MAX_MS: u64 = 60_000;
/// Length of a message that is echoed.
const MESSAGE: usize = 4;

/// `GET /events?count=N&ms=N`: so many events, with so long a pause after each.
pub(super) fn events(request: &Request, out: &mut impl Write) -> io::Result<()> {
    let count = request.number("count").unwrap_or(EVENTS).min(EVENTS_MAX);
    let pause = Duration::from_millis(request.number("ms").unwrap_or(PAUSE_MS).min(PAUSE_MAX_MS));
    out.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
    )?;
    for number in 0..count {
        let event = format!("data: {number}\n\n");
        out.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes())?;
        out.flush()?;
        thread::sleep(pause);
    }
    out.write_all(b"0\r\n\r\n")?;
    out.flush()
}

/// `GET /socket`: after the upgrade each message of four bytes comes back, until the peer ends.
pub(super) fn echo(input: &mut impl BufRead, out: &mut impl Write) -> io::Result<()> {
    out.write_all(
        b"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\n",
    )?;
    out.flush()?;
    let mut message = [0; MESSAGE];
    while input.read_exact(&mut message).is_ok() {
        out.write_all(&message)?;
        out.flush()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http;

    fn request(line: &str) -> Request {
        let text = format!("{line} HTTP/1.1\r\n\r\n");
        http::read(&mut text.as_bytes()).expect("valid").expect("there")
    }

    #[test]
    fn events_are_sent_one_by_one() {
        let mut out = Vec::new();
        let asked = request("GET /events?count=2&ms=0");
        events(&asked, &mut out).expect("a vector takes all");
        let text = String::from_utf8(out).expect("ascii");
        assert!(
            text.ends_with("\r\n\r\n9\r\ndata: 0\n\n\r\n9\r\ndata: 1\n\n\r\n0\r\n\r\n"),
            "{text}"
        );
    }

    #[test]
    fn messages_come_back() {
        let mut out = Vec::new();
        echo(&mut &b"pingpongre"[..], &mut out).expect("a vector takes all");
        assert!(out.ends_with(b"\r\n\r\npingpong"));
    }
}
