//! What is said to the edge over HTTP/2, in frames that no client library would send, and what may become of it.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;

use super::client::{Fence, Heard, connect};
use super::corpus::Becomes;

use Becomes::{Broken, Forwarded, Refused};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

/// The stream of a case, and that of the fence.
const STREAM: u32 = 1;
const FENCE: u32 = 3;

/// A request, as what differs from a good one.
pub(super) struct Case {
    pub(super) name: &'static str,
    /// Fields in their order; a field `CASE` alone is that of a good request.
    fields: &'static [(&'static str, &'static str)],
    data: &'static [&'static str],
    trailers: &'static [(&'static str, &'static str)],
    pub(super) becomes: Becomes,
}

const fn case(
    name: &'static str,
    fields: &'static [(&'static str, &'static str)],
    becomes: Becomes,
) -> Case {
    Case { name, fields, data: &[], trailers: &[], becomes }
}

const fn with_data(
    name: &'static str,
    fields: &'static [(&'static str, &'static str)],
    data: &'static [&'static str],
    becomes: Becomes,
) -> Case {
    Case { name, fields, data, trailers: &[], becomes }
}

const fn with_trailers(
    name: &'static str,
    trailers: &'static [(&'static str, &'static str)],
    becomes: Becomes,
) -> Case {
    Case { name, fields: &[POST], data: &["hello"], trailers, becomes }
}

/// Stand for the pseudo fields of a good request.
const GET: (&str, &str) = ("GET", "");
const POST: (&str, &str) = ("POST", "");

const M: (&str, &str) = (":method", "GET");
const S: (&str, &str) = (":scheme", "http");
const A: (&str, &str) = (":authority", "shop.example.com");
const P: (&str, &str) = (":path", "/CASE");

/// All cases.
pub(super) const CORPUS: &[Case] = &[
    case("a request", &[GET], Forwarded(1)),
    with_data("a body", &[POST], &["hello"], Forwarded(1)),
    with_data(
        "a body with its length",
        &[POST, ("content-length", "5")],
        &["he", "llo"],
        Forwarded(1),
    ),
    with_data(
        "H2.CL: a length that is too small",
        &[POST, ("content-length", "4")],
        &["hello"],
        Broken,
    ),
    with_data(
        "H2.CL: a length of 0",
        &[POST, ("content-length", "0")],
        &["GET /smuggled HTTP/1.1\r\n\r\n"],
        Broken,
    ),
    with_data(
        "H2.CL: a length that is too large",
        &[POST, ("content-length", "6")],
        &["hello"],
        Broken,
    ),
    case("H2.CL: a length without a body", &[GET, ("content-length", "50")], Broken),
    with_data("H2.CL: a length with plus", &[POST, ("content-length", "+5")], &["hello"], Broken),
    with_data("H2.CL: a list of lengths", &[POST, ("content-length", "5, 5")], &["hello"], Broken),
    with_data(
        "H2.CL: two lengths",
        &[POST, ("content-length", "5"), ("content-length", "0")],
        &["hello"],
        Broken,
    ),
    with_data(
        "H2.CL: twice the same length",
        &[POST, ("content-length", "5"), ("content-length", "5")],
        &["hello"],
        Broken,
    ),
    with_data("H2.CL: no number", &[POST, ("content-length", "x")], &["hello"], Broken),
    with_data(
        "H2.CL: 2^64 and the length",
        &[POST, ("content-length", "18446744073709551621")],
        &["hello"],
        Broken,
    ),
    with_data(
        "H2.TE",
        &[POST, ("transfer-encoding", "chunked")],
        &["0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: shop.example.com\r\n\r\n"],
        Refused,
    ),
    with_data(
        "H2.TE in a value",
        &[POST, ("x", "a\r\ntransfer-encoding: chunked")],
        &["0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n"],
        Refused,
    ),
    with_data(
        "H2.TE in a name",
        &[POST, ("transfer-encoding: chunked\r\nx", "a")],
        &["0\r\n\r\n"],
        Refused,
    ),
    case(
        "a request in a value",
        &[GET, ("x", "a\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: x")],
        Refused,
    ),
    case("a line feed in a value", &[GET, ("x", "a\nb: c")], Refused),
    case("a return in a value", &[GET, ("x", "a\rb")], Refused),
    case("a NUL in a value", &[GET, ("x", "a\0b")], Refused),
    case("a request in a name", &[GET, ("x\r\n\r\nGET /smuggled HTTP/1.1\r\nx", "a")], Refused),
    case("a colon in a name", &[GET, ("x:y", "a")], Refused),
    case("a space in a name", &[GET, ("x y", "a")], Refused),
    case("a NUL in a name", &[GET, ("x\0", "a")], Refused),
    case("capitals in a name", &[GET, ("X", "a")], Refused),
    case("an empty name", &[GET, ("", "a")], Refused),
    case(
        "a cookie with a request",
        &[GET, ("cookie", "a=1"), ("cookie", "b\r\n\r\nGET /smuggled")],
        Refused,
    ),
    case("connection", &[GET, ("connection", "close")], Refused),
    case("connection names the host", &[GET, ("connection", "host")], Refused),
    case("keep-alive", &[GET, ("keep-alive", "timeout=5")], Refused),
    case("proxy-connection", &[GET, ("proxy-connection", "keep-alive")], Refused),
    case("upgrade", &[GET, ("upgrade", "h2c")], Refused),
    case("te: gzip", &[GET, ("te", "gzip")], Refused),
    case("te: trailers", &[GET, ("te", "trailers")], Forwarded(1)),
    case("expect", &[GET, ("expect", "100-continue")], Forwarded(1)),
    case("a path with a space", &[M, S, A, (":path", "/CASE x")], Refused),
    case("a path with a version", &[M, S, A, (":path", "/CASE HTTP/1.1")], Refused),
    case(
        "a path with a request",
        &[M, S, A, (":path", "/CASE HTTP/1.1\r\nHost: x\r\n\r\nGET /smuggled")],
        Refused,
    ),
    case("a path with a line feed", &[M, S, A, (":path", "/CASE\n")], Refused),
    case("a path with a tab", &[M, S, A, (":path", "/CASE\tx")], Refused),
    case("a path with a NUL", &[M, S, A, (":path", "/CASE\0")], Refused),
    case("a path with a NUL as an escape", &[M, S, A, (":path", "/CASE%00")], Refused),
    case("a path with CRLF as escapes", &[M, S, A, (":path", "/CASE%0d%0aX:%20a")], Forwarded(1)),
    case("a path with a fragment", &[M, S, A, (":path", "/CASE#x")], Forwarded(1)),
    case("an empty path", &[M, S, A, (":path", "")], Refused),
    case("a path without slash", &[M, S, A, (":path", "CASE")], Refused),
    case("an asterisk", &[M, S, A, (":path", "*")], Refused),
    case(
        "a path that is absolute",
        &[M, S, A, (":path", "http://other.example.com/CASE")],
        Refused,
    ),
    case("a query alone", &[M, S, A, (":path", "?CASE")], Forwarded(1)),
    case("no path", &[M, S, A], Refused),
    case("two paths", &[M, S, A, P, (":path", "/smuggled")], Refused),
    case("a method with a space", &[(":method", "GET /smuggled HTTP/1.1"), S, A, P], Refused),
    case(
        "a method with a request",
        &[(":method", "GET / HTTP/1.1\r\nx: y\r\n\r\nGET"), S, A, P],
        Refused,
    ),
    case("a method in small letters", &[(":method", "get"), S, A, P], Refused),
    case("an empty method", &[(":method", ""), S, A, P], Refused),
    case("two methods", &[M, (":method", "POST"), S, A, P], Refused),
    case("no method", &[S, A, P], Refused),
    case("TRACE", &[(":method", "TRACE"), S, A, P], Refused),
    case("CONNECT", &[(":method", "CONNECT"), A], Refused),
    case("CONNECT with a path", &[(":method", "CONNECT"), S, A, P], Refused),
    case(
        "CONNECT to something else",
        &[(":method", "CONNECT"), (":protocol", "connect-udp"), S, A, P],
        Refused,
    ),
    case("a protocol without CONNECT", &[M, (":protocol", "websocket"), S, A, P], Refused),
    case("no scheme", &[M, A, P], Refused),
    case("two schemes", &[M, S, S, A, P], Refused),
    case(
        "a scheme with a request",
        &[M, (":scheme", "http://x/ HTTP/1.1\r\n\r\nGET"), A, P],
        Refused,
    ),
    case("no authority", &[M, S, P], Refused),
    case("a host instead of the authority", &[M, S, P, ("host", "shop.example.com")], Forwarded(1)),
    case("both, the same", &[GET, ("host", "shop.example.com")], Forwarded(1)),
    case("both, different", &[GET, ("host", "other.example.com")], Refused),
    case("two hosts", &[GET, ("host", "shop.example.com"), ("host", "other.example.com")], Refused),
    case(
        "two hosts and no authority",
        &[M, S, P, ("host", "shop.example.com"), ("host", "other.example.com")],
        Refused,
    ),
    case("two authorities", &[M, S, A, (":authority", "other.example.com"), P], Refused),
    case("an authority with a user", &[M, S, (":authority", "u@shop.example.com"), P], Refused),
    case("an authority with a path", &[M, S, (":authority", "shop.example.com/x"), P], Refused),
    case("an authority with a space", &[M, S, (":authority", "shop.example.com x"), P], Refused),
    case(
        "an authority with a field",
        &[M, S, (":authority", "shop.example.com\r\nx: y"), P],
        Refused,
    ),
    case(
        "an authority with a port",
        &[M, S, (":authority", "shop.example.com:80"), P],
        Forwarded(1),
    ),
    case("an empty authority", &[M, S, (":authority", ""), P], Refused),
    case("a pseudo field after others", &[M, S, A, ("x", "a"), P], Refused),
    case("a second path after others", &[GET, ("x", "a"), (":path", "/smuggled")], Refused),
    case("a pseudo field that nobody knows", &[GET, (":smuggled", "a")], Refused),
    case("a pseudo field of responses", &[M, S, A, P, (":status", "200")], Refused),
    with_trailers("trailers", &[("x-trailer", "a")], Forwarded(1)),
    with_trailers("trailers with a length", &[("content-length", "0")], Forwarded(1)),
    with_trailers("trailers with a host", &[("host", "other.example.com")], Forwarded(1)),
    with_trailers("trailers with a request", &[("x", "a\r\n\r\nGET /smuggled HTTP/1.1")], Broken),
    with_trailers("trailers with an encoding", &[("transfer-encoding", "chunked")], Broken),
    // Not a field of the trailers that anybody is sent.
    with_trailers("trailers with a pseudo field", &[(":path", "/smuggled")], Forwarded(1)),
];

impl Case {
    /// The bytes; `word` stands in the path.
    fn bytes(&self, word: &str) -> Vec<u8> {
        let mut block = Vec::new();
        for (name, value) in self.fields {
            match *name {
                "GET" | "POST" => {
                    for (name, value) in [(":method", *name), S, A, P] {
                        literal(&mut block, name, &value.replace("CASE", word));
                    }
                }
                name => literal(&mut block, name, &value.replace("CASE", word)),
            }
        }
        let mut frames = PREFACE.to_vec();
        let is_all = self.data.is_empty() && self.trailers.is_empty();
        frame(&mut frames, HEADERS, END_HEADERS | ending(is_all), STREAM, &block);
        for (at, data) in self.data.iter().enumerate() {
            let is_last = at + 1 == self.data.len() && self.trailers.is_empty();
            frame(&mut frames, DATA, ending(is_last), STREAM, data.as_bytes());
        }
        if !self.trailers.is_empty() {
            let mut block = Vec::new();
            for (name, value) in self.trailers {
                literal(&mut block, name, value);
            }
            frame(&mut frames, HEADERS, END_HEADERS | END_STREAM, STREAM, &block);
        }
        let mut block = Vec::new();
        for (name, value) in [M, S, A, (":path", &*format!("/{word}/fence"))] {
            literal(&mut block, name, value);
        }
        frame(&mut frames, HEADERS, END_HEADERS | END_STREAM, FENCE, &block);
        frames
    }

    /// Says it over a connection of its own, and a good request after it. What is heard of that one is left out.
    pub(super) fn say(&self, edge: SocketAddr, word: &str) -> Heard {
        let mut stream = connect(edge);
        let _closed = stream.write_all(&self.bytes(word)).is_err();
        let mut heard = Heard::nothing(Fence::Apart);
        let (mut came, mut part) = (Vec::new(), [0; 4096]);
        let (mut body, mut ended) = (Vec::new(), BTreeSet::new());
        while !ended.is_superset(&[STREAM, FENCE].into()) {
            match stream.read(&mut part) {
                Ok(0) => break,
                Ok(count) => came.extend_from_slice(&part[..count]),
                Err(error) => {
                    heard.is_late = error.kind() == ErrorKind::WouldBlock;
                    break;
                }
            }
            while let Some(Frame { kind, flags, stream: of, payload }) = Frame::take(&mut came) {
                match kind {
                    SETTINGS if flags & ACK == 0 => {
                        let mut acknowledged = Vec::new();
                        frame(&mut acknowledged, SETTINGS, ACK, 0, &[]);
                        let _closed = stream.write_all(&acknowledged).is_err();
                    }
                    DATA if of == STREAM => body.extend(payload),
                    RST_STREAM if of == STREAM => heard.refusals.push("reset".to_owned()),
                    GOAWAY => heard.refusals.push("goaway".to_owned()),
                    _ => {}
                }
                if kind == RST_STREAM || (kind <= HEADERS && flags & END_STREAM != 0) {
                    ended.insert(of);
                }
            }
        }
        let text = String::from_utf8_lossy(&body).into_owned();
        match text.split_once(": ") {
            Some((reason, _)) if !text.starts_with("seen ") => {
                heard.refusals.push(reason.to_owned());
            }
            _ if text.is_empty() => {}
            _ => heard.note(&text),
        }
        heard
    }
}

fn ending(is_last: bool) -> u8 {
    if is_last { END_STREAM } else { 0 }
}

/// A field that is in no table, and not compressed (RFC 7541, 6.2.2).
fn literal(block: &mut Vec<u8>, name: &str, value: &str) {
    block.push(0);
    for text in [name, value] {
        let length = u8::try_from(text.len()).ok().filter(|length| *length < 127);
        block.push(length.expect("the corpus has short fields"));
        block.extend_from_slice(text.as_bytes());
    }
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let length = u32::try_from(payload.len()).expect("frames are short").to_be_bytes();
    out.extend_from_slice(&length[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

impl Frame {
    /// The first of what came, once all of it is there.
    fn take(came: &mut Vec<u8>) -> Option<Self> {
        let head: [u8; 9] = came.get(..9)?.try_into().ok()?;
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let payload = came.get(9..9 + length)?.to_vec();
        came.drain(..9 + length);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        Some(Self { kind: head[3], flags: head[4], stream, payload })
    }
}
