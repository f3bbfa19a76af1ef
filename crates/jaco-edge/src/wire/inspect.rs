//! The head of an HTTP/1 request, judged before anything else reads it: what two servers could read differently is
//! refused (request smuggling), as is what hyper lets pass: bare line feeds, a length beside an encoding.

use http::Uri;

/// How the body of a request is delimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// By its length in bytes; 0 if there is none.
    Length(u64),
    /// By chunks.
    Chunked,
}

/// What is known of a request whose head is fine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// How its body is delimited.
    pub framing: Framing,
    /// Whether it asks for another protocol, so that what follows may be no HTTP.
    pub upgrade: Upgrade,
}

/// Whether a request asks for another protocol on its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upgrade {
    /// It does.
    Requested,
    /// It does not.
    No,
}

/// Why a request is refused before anything reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// A line ends without a carriage return, or one stands alone.
    LineEnd,
    /// The first line is not a method, a target and `HTTP/1.0` or `HTTP/1.1`, with one space between them.
    RequestLine,
    /// The name of a field is not a token and `:`; or a line begins with a space, which once continued a field.
    FieldName,
    /// A field has a control character.
    FieldValue,
    /// There is none or more than one `Host`.
    Host,
    /// `Content-Length` is there twice, or is no number.
    Length,
    /// `Transfer-Encoding` is anything but one `chunked`.
    Encoding,
    /// `Content-Length` and `Transfer-Encoding` are both there.
    LengthAndEncoding,
    /// A chunk is not a size in hex digits and so many bytes, with CRLF after each.
    Chunk,
    /// The head has more bytes, or more fields, than are allowed.
    TooLarge,
    /// The head took too long.
    Slow,
}

/// Judges a head: from the method to the empty line, both included.
///
/// # Errors
/// The first fault.
pub fn inspect(head: &[u8], fields_max: usize) -> Result<Head, Fault> {
    let mut lines = Lines { rest: head };
    let version = request_line(lines.next().ok_or(Fault::RequestLine)??)?;
    let mut seen = Seen::default();
    for line in lines {
        let line = line?;
        if line.is_empty() {
            break;
        }
        seen.fields += 1;
        if seen.fields > fields_max {
            return Err(Fault::TooLarge);
        }
        let (name, value) = field(line)?;
        seen.note(name, value)?;
    }
    seen.judge(version)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    Http10,
    Http11,
}

#[derive(Default)]
struct Seen {
    fields: usize,
    hosts: usize,
    length: Option<u64>,
    chunked: bool,
    upgrade: bool,
    connection_upgrade: bool,
}

impl Seen {
    fn note(&mut self, name: &[u8], value: &[u8]) -> Result<(), Fault> {
        if name.eq_ignore_ascii_case(b"host") {
            self.hosts += 1;
        } else if name.eq_ignore_ascii_case(b"content-length") {
            let length = number(value).ok_or(Fault::Length)?;
            if self.length.replace(length).is_some() {
                return Err(Fault::Length);
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if self.chunked || !value.eq_ignore_ascii_case(b"chunked") {
                return Err(Fault::Encoding);
            }
            self.chunked = true;
        } else if name.eq_ignore_ascii_case(b"upgrade") {
            self.upgrade = true;
        } else if name.eq_ignore_ascii_case(b"connection") {
            let mut tokens = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
            self.connection_upgrade |= tokens.any(|token| token.eq_ignore_ascii_case(b"upgrade"));
        }
        Ok(())
    }

    fn judge(&self, version: Version) -> Result<Head, Fault> {
        match (version, self.hosts) {
            (Version::Http11, 1) | (Version::Http10, 0 | 1) => {}
            (Version::Http11 | Version::Http10, _) => return Err(Fault::Host),
        }
        let framing = match (self.length, self.chunked) {
            (Some(_), true) => return Err(Fault::LengthAndEncoding),
            (None, true) if version == Version::Http10 => return Err(Fault::Encoding),
            (None, true) => Framing::Chunked,
            (length, false) => Framing::Length(length.unwrap_or(0)),
        };
        let upgrade =
            if self.upgrade && self.connection_upgrade { Upgrade::Requested } else { Upgrade::No };
        Ok(Head { framing, upgrade })
    }
}

/// Lines without their CRLF.
struct Lines<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Lines<'a> {
    type Item = Result<&'a [u8], Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        let end = self.rest.iter().position(|byte| *byte == b'\n')?;
        let line = &self.rest[..end];
        self.rest = &self.rest[end + 1..];
        match line.split_last() {
            Some((b'\r', line)) if !line.contains(&b'\r') => Some(Ok(line)),
            Some(_) | None => Some(Err(Fault::LineEnd)),
        }
    }
}

fn request_line(line: &[u8]) -> Result<Version, Fault> {
    let mut parts = line.split(|byte| *byte == b' ');
    let (method, target, version) = (parts.next(), parts.next(), parts.next());
    let (Some(method), Some(target), Some(version), None) = (method, target, version, parts.next())
    else {
        return Err(Fault::RequestLine);
    };
    let is_target = target == b"*"
        || target.starts_with(b"/")
        || target.starts_with(b"http://")
        || target.starts_with(b"https://");
    if !is_token(method) || !is_target || !target.iter().all(|byte| matches!(byte, 0x21..=0x7e)) {
        return Err(Fault::RequestLine);
    }
    // What hyper cannot read it would refuse without a word.
    if !is_plain(target) && Uri::try_from(target).is_err() {
        return Err(Fault::RequestLine);
    }
    match version {
        b"HTTP/1.1" => Ok(Version::Http11),
        b"HTTP/1.0" => Ok(Version::Http10),
        _ => Err(Fault::RequestLine),
    }
}

/// Whether a target is a path of the usual kind, which anybody can read.
fn is_plain(target: &[u8]) -> bool {
    let is_usual = |byte: &u8| byte.is_ascii_alphanumeric() || b"/-._~%?&=+,:;@".contains(byte);
    target.starts_with(b"/") && target.iter().all(is_usual)
}

fn field(line: &[u8]) -> Result<(&[u8], &[u8]), Fault> {
    let colon = line.iter().position(|byte| *byte == b':').ok_or(Fault::FieldName)?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    if !is_token(name) {
        return Err(Fault::FieldName);
    }
    let is_text = |byte: &u8| matches!(byte, b'\t' | 0x20..=0x7e | 0x80..);
    if !value.iter().all(is_text) {
        return Err(Fault::FieldValue);
    }
    Ok((name, trimmed(value)))
}

/// Without the spaces and tabs around it; other white space counts.
fn trimmed(value: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = value.iter().position(|byte| !is_blank(byte)).unwrap_or(value.len());
    let end = value.iter().rposition(|byte| !is_blank(byte)).map_or(start, |last| last + 1);
    &value[start..end]
}

/// Servers that keep a length in a signed number read one of 2^63 and more in a way of their own.
fn number(value: &[u8]) -> Option<u64> {
    let is_number = (1..=19).contains(&value.len()) && value.iter().all(u8::is_ascii_digit);
    let number: i64 = is_number.then(|| std::str::from_utf8(value).ok()?.parse().ok()).flatten()?;
    u64::try_from(number).ok()
}

fn is_token(text: &[u8]) -> bool {
    let is_token_char =
        |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !text.is_empty() && text.iter().all(is_token_char)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(fields: &str) -> Result<Head, Fault> {
        inspect(format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes(), 10)
    }

    #[test]
    fn one_reading_or_none() {
        let plain = |framing| Ok(Head { framing, upgrade: Upgrade::No });
        assert_eq!(judge(""), plain(Framing::Length(0)));
        assert_eq!(judge("Content-Length:  5 \r\n"), plain(Framing::Length(5)));
        assert_eq!(judge("transfer-encoding: Chunked\r\n"), plain(Framing::Chunked));
        for (fields, fault) in [
            ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", Fault::LengthAndEncoding),
            ("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", Fault::LengthAndEncoding),
            ("Content-Length: 5\r\nContent-Length: 5\r\n", Fault::Length),
            ("Content-Length: 5, 5\r\n", Fault::Length),
            ("Content-Length: +5\r\n", Fault::Length),
            ("Content-Length: -1\r\n", Fault::Length),
            ("Content-Length: 0x5\r\n", Fault::Length),
            ("Content-Length:\r\n", Fault::Length),
            ("Content-Length: 99999999999999999999\r\n", Fault::Length),
            ("Content-Length: 9223372036854775808\r\n", Fault::Length),
            ("Transfer-Encoding: gzip, chunked\r\n", Fault::Encoding),
            ("Transfer-Encoding: chunked, identity\r\n", Fault::Encoding),
            ("Transfer-Encoding: xchunked\r\n", Fault::Encoding),
            ("Transfer-Encoding: \x0bchunked\r\n", Fault::FieldValue),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", Fault::Encoding),
            ("Transfer-Encoding : chunked\r\n", Fault::FieldName),
            ("X: a\r\n b\r\n", Fault::FieldName),
            (" X: a\r\n", Fault::FieldName),
            (": a\r\n", Fault::FieldName),
            ("X\r\n", Fault::FieldName),
            ("X: a\0b\r\n", Fault::FieldValue),
            ("X: a\rb\r\n", Fault::LineEnd),
            ("X: a\n", Fault::LineEnd),
            ("Host: b\r\n", Fault::Host),
        ] {
            assert_eq!(judge(fields), Err(fault), "{fields:?}");
        }
        let many: String = (0..10).map(|number| format!("X{number}: a\r\n")).collect();
        assert_eq!(judge(&many), Err(Fault::TooLarge));
    }

    #[test]
    fn request_lines_have_three_parts() {
        let line = |line: &str| inspect(format!("{line}\r\nHost: a\r\n\r\n").as_bytes(), 10).err();
        for fine in
            ["GET / HTTP/1.1", "GET /a?b HTTP/1.0", "OPTIONS * HTTP/1.1", "GET http://a/ HTTP/1.1"]
        {
            assert_eq!(line(fine), None, "{fine}");
        }
        for bad in [
            "",
            "GET",
            "GET /",
            "GET  / HTTP/1.1",
            "GET / HTTP/1.1 ",
            " GET / HTTP/1.1",
            "GET\t/ HTTP/1.1",
            "GET / HTTP/1.2",
            "GET / http/1.1",
            "GET / HTTP/2.0",
            "GET a HTTP/1.1",
            "CONNECT a:1 HTTP/1.1",
            "G(T / HTTP/1.1",
            "GET /\u{7f} HTTP/1.1",
            "GET /ü HTTP/1.1",
            "GET http:///a HTTP/1.1",
            "GET http://[a/ HTTP/1.1",
            "GET /<a> HTTP/1.1",
        ] {
            assert_eq!(line(bad), Some(Fault::RequestLine), "{bad}");
        }
        let bare = inspect(b"GET / HTTP/1.1\r\n\r\n", 10);
        assert_eq!(bare, Err(Fault::Host));
        assert!(inspect(b"GET / HTTP/1.0\r\n\r\n", 10).is_ok());
        let chunked = inspect(b"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 10);
        assert_eq!(chunked, Err(Fault::Encoding));
    }

    #[test]
    fn an_upgrade_needs_both_fields() {
        let upgrade = |fields| judge(fields).unwrap().upgrade;
        let both = "Upgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n";
        assert_eq!(upgrade(both), Upgrade::Requested);
        assert_eq!(upgrade("Upgrade: websocket\r\n"), Upgrade::No);
        assert_eq!(upgrade("Connection: upgrade\r\n"), Upgrade::No);
    }
}
