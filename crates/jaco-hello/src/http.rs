//! As much HTTP/1.1 as a test server needs: request heads, bodies of a known length, keep-alive.
//!
//! Every size is bounded: a hostile client costs a thread and [`HEAD_MAX`] bytes, never more.

use std::io::{self, BufRead, Read, Write};

/// Longest request head in bytes, the limit that common servers use per header line.
pub(crate) const HEAD_MAX: u64 = 16 * 1024;
/// Longest request body in bytes that is read and dropped.
const BODY_MAX: u64 = 1024 * 1024;

/// Whether the connection is good for another request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    KeepAlive,
    Close,
}

/// The parts of a request that the server looks at.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) after: After,
    /// How many bytes follow the head.
    pub(crate) body_length: u64,
    /// What a client of WebSockets wants to see again, hashed (RFC 6455, section 4.2.2).
    pub(crate) websocket_key: Option<String>,
}

impl Request {
    /// Returns the value of a query parameter if it is a number.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .find(|(key, _)| *key == name)
            .and_then(|(_, value)| value.parse().ok())
    }
}

/// What the server answers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Response {
    pub(crate) fn ok(body: impl Into<String>) -> Self {
        Self::new(200, body)
    }

    pub(crate) fn new(status: u16, body: impl Into<String>) -> Self {
        Self { status, body: body.into() }
    }

    /// Sends the response in one write, so that it is never seen half done.
    ///
    /// # Errors
    /// If the peer is gone.
    pub(crate) fn write(&self, out: &mut impl Write, after: After) -> io::Result<()> {
        let Self { status, body } = self;
        let reason = reason(*status);
        let length = body.len();
        let connection = match after {
            After::KeepAlive => "keep-alive",
            After::Close => "close",
        };
        let message = format!(
            "HTTP/1.1 {status} {reason}\r\ncontent-type: text/plain; charset=utf-8\r\n\
             content-length: {length}\r\nconnection: {connection}\r\n\r\n{body}"
        );
        out.write_all(message.as_bytes())?;
        out.flush()
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        404 => "Not Found",
        405 => "Method Not Allowed",
        503 => "Service Unavailable",
        _ => "Bad Request",
    }
}

/// Reads the head of the next request; `None` when the peer closed between two of them. Its body is still to be read.
///
/// # Errors
/// `InvalidData` if it is not HTTP/1.x or breaks a bound; else what the socket said.
pub(crate) fn read(input: &mut impl BufRead) -> io::Result<Option<Request>> {
    let mut head = input.by_ref().take(HEAD_MAX);
    let mut line = String::new();
    if head.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let (method, target, mut after) = start_line(&line)?;
    let (mut body_length, mut websocket_key) = (0, None);
    loop {
        let mut header = String::new();
        if head.read_line(&mut header)? == 0 {
            return Err(bad("request head is cut off or too long"));
        }
        let header = header.trim_end();
        let Some((name, value)) = header.split_once(':') else {
            if header.is_empty() {
                break;
            }
            return Err(bad("header without a colon"));
        };
        let value = value.trim();
        if name.eq_ignore_ascii_case("connection") && value.eq_ignore_ascii_case("close") {
            after = After::Close;
        } else if name.eq_ignore_ascii_case("content-length") {
            body_length = value.parse().map_err(|_| bad("content-length is not a number"))?;
        } else if name.eq_ignore_ascii_case("sec-websocket-key") {
            websocket_key = Some(value.to_owned());
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(bad("transfer encodings are not supported"));
        }
    }
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let (path, query) = (path.to_owned(), query.to_owned());
    Ok(Some(Request { method, path, query, after, body_length, websocket_key }))
}

fn start_line(line: &str) -> io::Result<(String, String, After)> {
    let mut words = line.split_whitespace();
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(bad("request line does not have three words"));
    };
    let after = match version {
        "HTTP/1.1" => After::KeepAlive,
        "HTTP/1.0" => After::Close,
        _ => return Err(bad("not HTTP/1.x")),
    };
    Ok((method.to_owned(), target.to_owned(), after))
}

/// Reads the body of a request and drops it.
///
/// # Errors
/// `InvalidData` if it is longer than 1 MiB or cut off; else what the socket said.
pub(crate) fn skip_body(input: &mut impl BufRead, length: u64) -> io::Result<()> {
    if length > BODY_MAX {
        return Err(bad("request body is too long"));
    }
    let skipped = io::copy(&mut input.by_ref().take(length), &mut io::sink())?;
    if skipped < length {
        return Err(bad("request body is cut off"));
    }
    Ok(())
}

fn bad(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Option<Request>, String> {
        let mut input = text.as_bytes();
        let request = read(&mut input).and_then(|request| {
            request.iter().try_for_each(|request| skip_body(&mut input, request.body_length))?;
            Ok(request)
        });
        request.map_err(|error| error.to_string())
    }

    #[test]
    fn a_request_is_read_and_the_next_one_left() {
        let mut input =
            &b"POST /a?ms=5&x=1 HTTP/1.1\r\nContent-Length: 2\r\n\r\nhiGET / HTTP/1.0\r\n\r\n"[..];
        let first = read(&mut input).expect("valid").expect("there");
        assert_eq!((first.method.as_str(), first.path.as_str()), ("POST", "/a"));
        assert_eq!((first.number("ms"), first.number("y")), (Some(5), None));
        assert_eq!((first.after, first.body_length), (After::KeepAlive, 2));
        skip_body(&mut input, first.body_length).expect("it is there");
        let second = read(&mut input).expect("valid").expect("there");
        assert_eq!((second.path.as_str(), second.after), ("/", After::Close));
        assert_eq!(read(&mut input).expect("valid"), None);
    }

    #[test]
    fn bad_requests_are_refused_within_bounds() {
        let check = |text: &str, why: &str| assert_eq!(parse(text), Err(why.to_owned()));
        check("hello\r\n\r\n", "request line does not have three words");
        check("GET / HTTP/2\r\n\r\n", "not HTTP/1.x");
        check("GET / HTTP/1.1\r\n", "request head is cut off or too long");
        check("GET / HTTP/1.1\r\nx\r\n\r\n", "header without a colon");
        check("GET / HTTP/1.1\r\ncontent-length: 9999999\r\n\r\n", "request body is too long");
        check("GET / HTTP/1.1\r\ncontent-length: 3\r\n\r\nx", "request body is cut off");
        let long = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(20_000));
        check(&long, "request head is cut off or too long");
    }

    #[test]
    fn a_response_carries_its_length() {
        let mut out = Vec::new();
        Response::ok("hi\n").write(&mut out, After::Close).expect("a vector takes all");
        let text = String::from_utf8(out).expect("ascii");
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        assert!(text.ends_with("content-length: 3\r\nconnection: close\r\n\r\nhi\n"), "{text}");
    }
}
