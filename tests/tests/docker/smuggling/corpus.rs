//! What is said to the edge over HTTP/1, from the literature of request smuggling, and what may become of it.
//!
//! `CASE` stands for a word of the case, so that nginx's log tells whose a request was. After each sequence the client
//! says [`fence`] on the same connection: what the edge took for the end of a request decides what becomes of that.

/// A sequence of bytes.
pub(super) struct Case {
    pub(super) name: String,
    pub(super) says: Vec<u8>,
    pub(super) becomes: Becomes,
}

/// What may become of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Becomes {
    /// So many requests with an answer of nginx, and the fence is one more.
    Forwarded(usize),
    /// So many requests with an answer of nginx; then the edge refuses what follows, and closes the connection.
    ThenRefused(usize),
    /// So many requests with an answer of nginx, of which the last one ends the connection: the fence is not read.
    ThenClosed(usize),
    /// Refused, and the connection closed: nothing reaches nginx.
    Refused,
    /// Refused without doubt about where it ends: nothing of it reaches nginx, and the fence is answered.
    Declined,
    /// Refused in its body, after the head may have gone on: nginx gets no whole request.
    Broken,
    /// Never said to its end; the client goes away instead of saying the fence. nginx gets no whole request.
    Unfinished,
}

use Becomes::{Broken, Declined, Forwarded, Refused, ThenClosed, ThenRefused, Unfinished};

/// A request of 50 bytes (hexadecimal 32) that is only ever said as a part of another one.
pub(super) const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: shop.example.com\r\n\r\n";

/// The last request of a connection.
pub(super) fn fence() -> &'static [u8] {
    b"GET /CASE/fence HTTP/1.1\r\nHost: shop.example.com\r\nConnection: close\r\n\r\n"
}

/// Requests with a body; the name, the fields that say where it ends, and the body. `SMUGGLED` is [`SMUGGLED`].
const LENGTHS: &[(&str, &str, &str, Becomes)] = &[
    ("CL.TE", "Content-Length: 55\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\nSMUGGLED", Refused),
    (
        "TE.CL",
        "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
        "32\r\nSMUGGLED\r\n0\r\n\r\n",
        Refused,
    ),
    (
        "TE.CL with a length of 0",
        "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n",
        "0\r\n\r\n",
        Refused,
    ),
    ("CL.0", "Content-Length: 50\r\n", "SMUGGLED", Forwarded(1)),
    ("0.CL", "Content-Length: 0\r\n", "", Forwarded(1)),
    ("CL.CL", "Content-Length: 0\r\nContent-Length: 50\r\n", "SMUGGLED", Refused),
    (
        "CL.CL, the other way round",
        "Content-Length: 50\r\nContent-Length: 0\r\n",
        "SMUGGLED",
        Refused,
    ),
    ("twice the same length", "Content-Length: 50\r\nContent-Length: 50\r\n", "SMUGGLED", Refused),
    (
        "two lengths, one in capitals",
        "Content-Length: 0\r\nCONTENT-LENGTH: 50\r\n",
        "SMUGGLED",
        Refused,
    ),
    ("a list of lengths", "Content-Length: 50, 50\r\n", "SMUGGLED", Refused),
    ("two lengths with a space", "Content-Length: 50 50\r\n", "SMUGGLED", Refused),
    ("a length with plus", "Content-Length: +50\r\n", "SMUGGLED", Refused),
    ("a negative length", "Content-Length: -50\r\n", "SMUGGLED", Refused),
    ("minus zero", "Content-Length: -0\r\n", "SMUGGLED", Refused),
    ("a hexadecimal length", "Content-Length: 0x32\r\n", "SMUGGLED", Refused),
    ("a hexadecimal digit", "Content-Length: 3b\r\n", "SMUGGLED", Refused),
    ("an octal length", "Content-Length: 0o62\r\n", "SMUGGLED", Refused),
    ("an exponent", "Content-Length: 5e1\r\n", "SMUGGLED", Refused),
    ("a fraction", "Content-Length: 50.0\r\n", "SMUGGLED", Refused),
    ("a separator of digits", "Content-Length: 5_0\r\n", "SMUGGLED", Refused),
    ("a length in quotes", "Content-Length: \"50\"\r\n", "SMUGGLED", Refused),
    ("a length with a parameter", "Content-Length: 50;a=b\r\n", "SMUGGLED", Refused),
    ("no length", "Content-Length:\r\n", "SMUGGLED", Refused),
    ("a blank length", "Content-Length: \t \r\n", "SMUGGLED", Refused),
    ("digits of another alphabet", "Content-Length: \u{665}\u{660}\r\n", "SMUGGLED", Refused),
    ("a vertical tab before the length", "Content-Length: \u{b}50\r\n", "SMUGGLED", Refused),
    ("a form feed after the length", "Content-Length: 50\u{c}\r\n", "SMUGGLED", Refused),
    ("a NUL after the length", "Content-Length: 50\0\r\n", "SMUGGLED", Refused),
    ("blanks around the length", "Content-Length: \t50 \t\r\n", "SMUGGLED", Forwarded(1)),
    ("leading zeros", "Content-Length: 00050\r\n", "SMUGGLED", Forwarded(1)),
    ("very many zeros", "Content-Length: 000000000000000000000050\r\n", "SMUGGLED", Refused),
    ("2^64 and the length", "Content-Length: 18446744073709551666\r\n", "SMUGGLED", Refused),
    ("2^63", "Content-Length: 9223372036854775808\r\n", "SMUGGLED", Refused),
    ("2^63 less 1", "Content-Length: 9223372036854775807\r\n", "SMUGGLED", Unfinished),
    ("a space before the colon of a length", "Content-Length : 50\r\n", "SMUGGLED", Refused),
    ("a length that continues", "Content-Length:\r\n 50\r\n", "SMUGGLED", Refused),
    ("a length after a bare line feed", "X: a\nContent-Length: 50\r\n", "SMUGGLED", Refused),
    ("a length after a bare return", "X: a\rContent-Length: 50\r\n", "SMUGGLED", Refused),
    ("a name like that of a length", "Content_Length: 50\r\n", "", Forwarded(1)),
    ("a space in the name of a length", "Content Length: 50\r\n", "SMUGGLED", Refused),
    ("a NUL in the name of a length", "Content-\0Length: 50\r\n", "SMUGGLED", Refused),
    ("less than the length", "Content-Length: 51\r\n", "SMUGGLED", Unfinished),
    ("TE.TE: an unknown encoding", "Transfer-Encoding: xchunked\r\n", "0\r\n\r\n", Refused),
    ("TE.TE: a shorter word", "Transfer-Encoding: chunk\r\n", "0\r\n\r\n", Refused),
    ("TE.TE: identity", "Transfer-Encoding: identity\r\n", "0\r\n\r\n", Refused),
    ("TE.TE: gzip before it", "Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n", Refused),
    ("TE.TE: identity after it", "Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n", Refused),
    ("TE.TE: twice in a list", "Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n", Refused),
    ("TE.TE: a comma before it", "Transfer-Encoding: ,chunked\r\n", "0\r\n\r\n", Refused),
    ("TE.TE: a comma after it", "Transfer-Encoding: chunked,\r\n", "0\r\n\r\n", Refused),
    ("TE.TE: a parameter", "Transfer-Encoding: chunked;q=1\r\n", "0\r\n\r\n", Refused),
    ("TE.TE: in quotes", "Transfer-Encoding: \"chunked\"\r\n", "0\r\n\r\n", Refused),
    ("TE.TE: empty", "Transfer-Encoding:\r\n", "0\r\n\r\n", Refused),
    (
        "TE.TE: twice",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "0\r\n\r\n",
        Refused,
    ),
    (
        "TE.TE: and an unknown one",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n",
        "0\r\n\r\n",
        Refused,
    ),
    (
        "TE.TE: after an unknown one",
        "Transfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n",
        "0\r\n\r\n",
        Refused,
    ),
    ("TE.TE: a vertical tab", "Transfer-Encoding: \u{b}chunked\r\n", "0\r\n\r\n", Refused),
    ("TE.TE: a form feed", "Transfer-Encoding: chunked\u{c}\r\n", "0\r\n\r\n", Refused),
    ("TE.TE: a NUL", "Transfer-Encoding: chunked\0\r\n", "0\r\n\r\n", Refused),
    ("TE.TE: a byte of Latin 1", "Transfer-Encoding: \u{a0}chunked\r\n", "0\r\n\r\n", Refused),
    ("TE.TE: a space before the colon", "Transfer-Encoding : chunked\r\n", "0\r\n\r\n", Refused),
    ("TE.TE: a tab before the colon", "Transfer-Encoding\t: chunked\r\n", "0\r\n\r\n", Refused),
    ("TE.TE: a space before the name", " Transfer-Encoding: chunked\r\n", "0\r\n\r\n", Refused),
    ("TE.TE: a continued field", "X: a\r\n Transfer-Encoding: chunked\r\n", "0\r\n\r\n", Refused),
    ("TE.TE: a continued value", "Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n", Refused),
    ("TE.TE: a continued name", "Transfer-Encoding\r\n : chunked\r\n", "0\r\n\r\n", Refused),
    ("TE.TE: after a bare line feed", "X: a\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n", Refused),
    ("TE.TE: after a bare return", "X: a\rTransfer-Encoding: chunked\r\n", "0\r\n\r\n", Refused),
    ("TE.TE: a return before the name", "\rTransfer-Encoding: chunked\r\n", "0\r\n\r\n", Refused),
    ("TE.TE: after two returns", "X: a\r\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n", Refused),
    (
        "TE.TE: a name with underscore",
        "Content-Length: 5\r\nTransfer_Encoding: chunked\r\n",
        "0\r\n\r\n",
        Forwarded(1),
    ),
    (
        "TE.TE: a name with underscore, alone",
        "Transfer_Encoding: chunked\r\n",
        "0\r\n\r\n",
        ThenRefused(1),
    ),
    ("TE.TE: a dash that is none", "Transfer\u{2010}Encoding: chunked\r\n", "0\r\n\r\n", Refused),
    (
        "the encoding of something else",
        "Content-Length: 5\r\nContent-Encoding: chunked\r\n",
        "0\r\n\r\n",
        Forwarded(1),
    ),
    (
        "chunked in capitals",
        "TRANSFER-ENCODING: CHUNKED\r\n",
        "32\r\nSMUGGLED\r\n0\r\n\r\n",
        Forwarded(1),
    ),
    (
        "chunked without a space",
        "Transfer-Encoding:chunked\r\n",
        "32\r\nSMUGGLED\r\n0\r\n\r\n",
        Forwarded(1),
    ),
    (
        "chunked after a tab",
        "Transfer-Encoding:\tchunked \r\n",
        "32\r\nSMUGGLED\r\n0\r\n\r\n",
        Forwarded(1),
    ),
    (
        "Connection names the length",
        "Content-Length: 50\r\nConnection: content-length\r\n",
        "SMUGGLED",
        Forwarded(1),
    ),
    (
        "Connection names the encoding",
        "Transfer-Encoding: chunked\r\nConnection: transfer-encoding\r\n",
        "32\r\nSMUGGLED\r\n0\r\n\r\n",
        Forwarded(1),
    ),
    (
        "Connection names both",
        "Content-Length: 50\r\nConnection: Content-Length, Transfer-Encoding\r\n",
        "SMUGGLED",
        Forwarded(1),
    ),
    (
        "TE asks for an encoding",
        "Content-Length: 50\r\nTE: chunked\r\nConnection: TE\r\n",
        "SMUGGLED",
        Forwarded(1),
    ),
    (
        "Expect, with a length",
        "Content-Length: 50\r\nExpect: 100-continue\r\n",
        "SMUGGLED",
        Forwarded(1),
    ),
    (
        "Expect, with chunks",
        "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n",
        "32\r\nSMUGGLED\r\n0\r\n\r\n",
        Forwarded(1),
    ),
    ("Expect, without a body", "Content-Length: 0\r\nExpect: 100-continue\r\n", "", Forwarded(1)),
    ("Expect something else", "Content-Length: 50\r\nExpect: 200-ok\r\n", "SMUGGLED", Forwarded(1)),
    (
        "Expect in disguise",
        "Content-Length: 50\r\nExpect: y 100-continue\r\n",
        "SMUGGLED",
        Forwarded(1),
    ),
    (
        "Expect twice",
        "Content-Length: 50\r\nExpect: 100-continue\r\nExpect: x\r\n",
        "SMUGGLED",
        Forwarded(1),
    ),
    (
        "Expect that continues",
        "Content-Length: 50\r\nExpect:\r\n 100-continue\r\n",
        "SMUGGLED",
        Refused,
    ),
    (
        "h2c and a body",
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\nContent-Length: 50\r\n",
        "SMUGGLED",
        Forwarded(1),
    ),
    (
        "a WebSocket and a body",
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nContent-Length: 50\r\n",
        "SMUGGLED",
        Forwarded(1),
    ),
    (
        "another method by field",
        "X-HTTP-Method-Override: GET\r\nContent-Length: 50\r\n",
        "SMUGGLED",
        Forwarded(1),
    ),
];

/// Bodies of chunks. `SMUGGLED` is [`SMUGGLED`].
const CHUNKS: &[(&str, &str, Becomes)] = &[
    ("two chunks", "5\r\nhello\r\n32\r\nSMUGGLED\r\n0\r\n\r\n", Forwarded(1)),
    ("only the last chunk", "0\r\n\r\n", Forwarded(1)),
    ("zeros before the size", "00005\r\nhello\r\n0\r\n\r\n", Forwarded(1)),
    ("zeros as the size", "000\r\n\r\n", Forwarded(1)),
    ("very many zeros before the size", "00000000000000005\r\nhello\r\n0\r\n\r\n", Broken),
    ("a digit in capitals", "A\r\nhello12345\r\n0\r\n\r\n", Forwarded(1)),
    ("a digit in small letters", "a\r\nhello12345\r\n0\r\n\r\n", Forwarded(1)),
    ("0x before the size", "0x5\r\nhello\r\n0\r\n\r\n", Broken),
    ("0X before a size of 0", "0X0\r\n\r\n", Broken),
    ("plus before the size", "+5\r\nhello\r\n0\r\n\r\n", Broken),
    ("minus before the size", "-5\r\nhello\r\n0\r\n\r\n", Broken),
    ("a space before the size", " 5\r\nhello\r\n0\r\n\r\n", Broken),
    ("a space after the size", "5 \r\nhello\r\n0\r\n\r\n", Broken),
    ("a tab after the size", "5\t\r\nhello\r\n0\r\n\r\n", Broken),
    ("spaces after the last size", "0 \r\n\r\n", Broken),
    ("a separator of digits in the size", "0_5\r\nhello\r\n0\r\n\r\n", Broken),
    ("no digit", "g\r\nhello\r\n0\r\n\r\n", Broken),
    ("a letter after the size", "5g\r\nhello\r\n0\r\n\r\n", Broken),
    ("no size", "\r\nhello\r\n0\r\n\r\n", Broken),
    ("2^64 and the size", "10000000000000005\r\nhello\r\n0\r\n\r\n", Broken),
    ("2^64 less 1", "FFFFFFFFFFFFFFFF\r\nhello\r\n0\r\n\r\n", Broken),
    ("2^32 and the size, all of it missing", "100000005\r\nhello\r\n0\r\n\r\n", Unfinished),
    ("2^60 less 1", "fffffffffffffff\r\nhello\r\n0\r\n\r\n", Unfinished),
    ("an extension without value", "5;ext\r\nhello\r\n0\r\n\r\n", Forwarded(1)),
    ("an extension with value", "5;ext=value\r\nhello\r\n0;last=1\r\n\r\n", Forwarded(1)),
    ("an extension in quotes", "5;ext=\"a b\"\r\nhello\r\n0\r\n\r\n", Forwarded(1)),
    ("an empty extension", "5;\r\nhello\r\n0\r\n\r\n", Forwarded(1)),
    ("an extension with a line end in quotes", "5;ext=\"a\r\nb\"\r\nhello\r\n0\r\n\r\n", Broken),
    ("an extension with a line feed", "5;ext\nhello\r\n0\r\n\r\n", Broken),
    ("an extension with a return", "5;a\rb\r\nhello\r\n0\r\n\r\n", Broken),
    ("an extension with a NUL", "5;a\0b\r\nhello\r\n0\r\n\r\n", Broken),
    (
        "an empty extension with a line feed (TERM.EXT)",
        "2;\nxx\r\n32\r\nSMUGGLED\r\n0\r\n\r\n",
        Broken,
    ),
    ("an extension of the last chunk with a line feed", "0;\n\r\n", Broken),
    ("a space before an extension", "5 ;ext\r\nhello\r\n0\r\n\r\n", Broken),
    ("only an extension", ";ext\r\nhello\r\n0\r\n\r\n", Broken),
    ("a bare line feed after the size", "5\nhello\r\n0\r\n\r\n", Broken),
    ("a bare return after the size", "5\rhello\r\n0\r\n\r\n", Broken),
    ("two returns after the size", "5\r\r\nhello\r\n0\r\n\r\n", Broken),
    ("a bare line feed after the data", "5\r\nhello\n0\r\n\r\n", Broken),
    ("a bare return after the data", "5\r\nhello\r0\r\n\r\n", Broken),
    ("nothing after the data", "5\r\nhello0\r\n\r\n", Broken),
    ("two bytes instead of the line end (SPILL)", "5\r\nhelloXX0\r\n\r\n", Broken),
    ("one byte too many", "5\r\nhello!\r\n0\r\n\r\n", Broken),
    ("one byte too few", "6\r\nhello\r\n0\r\n\r\n", Broken),
    ("no last chunk", "5\r\nhello\r\n", Broken),
    ("a last chunk with data", "0\r\nhello\r\n\r\n", Broken),
    ("a line feed as the end", "0\r\n\n", Broken),
    ("two line feeds as the end", "0\n\n", Broken),
    ("two returns as the end", "0\r\r\n\r\n", Broken),
    ("a trailer", "5\r\nhello\r\n0\r\nX-Trailer: a\r\n\r\n", Forwarded(1)),
    ("a trailer with a length", "5\r\nhello\r\n0\r\nContent-Length: 50\r\n\r\n", Forwarded(1)),
    (
        "a trailer with an encoding",
        "5\r\nhello\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n",
        Forwarded(1),
    ),
    ("a trailer with a host", "5\r\nhello\r\n0\r\nHost: other.example.com\r\n\r\n", Forwarded(1)),
    ("a trailer with a bare line feed", "0\r\nX: a\n\r\n", Broken),
    ("a trailer with a line feed as its end", "0\r\nX: a\r\n\n", Broken),
    ("a trailer with a bare return", "0\r\nX: a\rb\r\n\r\n", Broken),
    ("a trailer with a NUL", "0\r\nX: a\0b\r\n\r\n", Broken),
    ("a trailer without colon", "0\r\nX\r\n\r\n", Broken),
    ("a trailer that continues", "0\r\nX: a\r\n b\r\n\r\n", Broken),
    ("a trailer with a space before the colon", "0\r\nX : a\r\n\r\n", Broken),
];

/// Whole sequences. `HOST` stands for the field that names the host.
const REQUESTS: &[(&str, &str, Becomes)] = &[
    ("a request", "GET /CASE HTTP/1.1\r\nHOST\r\n\r\n", Forwarded(1)),
    (
        "two at once",
        "GET /CASE/a HTTP/1.1\r\nHOST\r\n\r\nGET /CASE/b HTTP/1.1\r\nHOST\r\n\r\n",
        Forwarded(2),
    ),
    (
        "one with a body and one after it",
        "POST /CASE/a HTTP/1.1\r\nHOST\r\nContent-Length: 50\r\n\r\nSMUGGLEDGET /CASE/b HTTP/1.1\r\nHOST\r\n\r\n",
        Forwarded(2),
    ),
    (
        "a body of GET",
        "GET /CASE HTTP/1.1\r\nHOST\r\nContent-Length: 50\r\n\r\nSMUGGLED",
        Forwarded(1),
    ),
    (
        "chunks of GET",
        "GET /CASE HTTP/1.1\r\nHOST\r\nTransfer-Encoding: chunked\r\n\r\n32\r\nSMUGGLED\r\n0\r\n\r\n",
        Forwarded(1),
    ),
    (
        "a body of DELETE",
        "DELETE /CASE HTTP/1.1\r\nHOST\r\nContent-Length: 50\r\n\r\nSMUGGLED",
        Forwarded(1),
    ),
    (
        "a body of OPTIONS",
        "OPTIONS /CASE HTTP/1.1\r\nHOST\r\nContent-Length: 50\r\n\r\nSMUGGLED",
        Forwarded(1),
    ),
    ("an empty line before", "\r\nGET /CASE HTTP/1.1\r\nHOST\r\n\r\n", Forwarded(1)),
    ("a bare line feed before", "\nGET /CASE HTTP/1.1\r\nHOST\r\n\r\n", Refused),
    ("a bare return before", "\rGET /CASE HTTP/1.1\r\nHOST\r\n\r\n", Refused),
    ("line feeds alone", "GET /CASE HTTP/1.1\nHOST\n\n", Refused),
    ("a line feed as the end", "GET /CASE HTTP/1.1\r\nHOST\r\n\n", Refused),
    ("returns alone", "GET /CASE HTTP/1.1\rHOST\r\r", Refused),
    ("HTTP/0.9", "GET /CASE\r\n", Refused),
    ("HTTP/0.9 by name", "GET /CASE HTTP/0.9\r\nHOST\r\n\r\n", Refused),
    ("HTTP/1.0", "GET /CASE HTTP/1.0\r\nHOST\r\n\r\n", ThenClosed(1)),
    (
        "HTTP/1.0 that goes on",
        "GET /CASE HTTP/1.0\r\nHOST\r\nConnection: keep-alive\r\n\r\n",
        Forwarded(1),
    ),
    (
        "HTTP/1.0 with a body",
        "POST /CASE HTTP/1.0\r\nHOST\r\nContent-Length: 50\r\nConnection: keep-alive\r\n\r\nSMUGGLED",
        Forwarded(1),
    ),
    (
        "HTTP/1.0 with chunks",
        "POST /CASE HTTP/1.0\r\nHOST\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        Refused,
    ),
    ("HTTP/1.0 without host", "GET /CASE HTTP/1.0\r\n\r\n", Refused),
    ("HTTP/1.2", "GET /CASE HTTP/1.2\r\nHOST\r\n\r\n", Refused),
    ("HTTP/1.10", "GET /CASE HTTP/1.10\r\nHOST\r\n\r\n", Refused),
    ("HTTP/01.1", "GET /CASE HTTP/01.1\r\nHOST\r\n\r\n", Refused),
    ("HTTP/1", "GET /CASE HTTP/1\r\nHOST\r\n\r\n", Refused),
    ("HTTP/2.0", "GET /CASE HTTP/2.0\r\nHOST\r\n\r\n", Refused),
    ("a version in small letters", "GET /CASE http/1.1\r\nHOST\r\n\r\n", Refused),
    ("another protocol", "GET /CASE ICY/1.1\r\nHOST\r\n\r\n", Refused),
    ("a space after the version", "GET /CASE HTTP/1.1 \r\nHOST\r\n\r\n", Refused),
    ("two spaces before the target", "GET  /CASE HTTP/1.1\r\nHOST\r\n\r\n", Refused),
    ("a space in the target", "GET /CASE x HTTP/1.1\r\nHOST\r\n\r\n", Refused),
    ("a version in the target", "GET /CASE HTTP/1.1 HTTP/1.1\r\nHOST\r\n\r\n", Refused),
    ("a tab before the target", "GET\t/CASE HTTP/1.1\r\nHOST\r\n\r\n", Refused),
    ("a vertical tab before the version", "GET /CASE\u{b}HTTP/1.1\r\nHOST\r\n\r\n", Refused),
    ("a space before the method", " GET /CASE HTTP/1.1\r\nHOST\r\n\r\n", Refused),
    ("a NUL in the method", "GE\0T /CASE HTTP/1.1\r\nHOST\r\n\r\n", Refused),
    ("a colon in the method", "GET: /CASE HTTP/1.1\r\nHOST\r\n\r\n", Refused),
    ("a method in small letters", "get /CASE HTTP/1.1\r\nHOST\r\n\r\n", Declined),
    ("a method with a mark", "GET! /CASE HTTP/1.1\r\nHOST\r\n\r\n", Declined),
    ("a method that nobody knows", "SMUGGLE /CASE HTTP/1.1\r\nHOST\r\n\r\n", Forwarded(1)),
    ("TRACE", "TRACE /CASE HTTP/1.1\r\nHOST\r\n\r\n", Declined),
    ("CONNECT", "CONNECT shop.example.com:80 HTTP/1.1\r\nHOST\r\n\r\n", Refused),
    ("an asterisk", "OPTIONS * HTTP/1.1\r\nHOST\r\n\r\n", Declined),
    ("a target without slash", "GET CASE HTTP/1.1\r\nHOST\r\n\r\n", Refused),
    ("a target with a NUL", "GET /CASE\0 HTTP/1.1\r\nHOST\r\n\r\n", Refused),
    ("a target with a byte of UTF-8", "GET /CASE\u{e9} HTTP/1.1\r\nHOST\r\n\r\n", Refused),
    ("a target with a fragment", "GET /CASE#a HTTP/1.1\r\nHOST\r\n\r\n", Forwarded(1)),
    ("a target with a backslash", "GET /CASE\\..\\x HTTP/1.1\r\nHOST\r\n\r\n", Forwarded(1)),
    (
        "CRLF with escapes in the path",
        "GET /CASE%0d%0aHost:%20x HTTP/1.1\r\nHOST\r\n\r\n",
        Forwarded(1),
    ),
    (
        "a request with escapes in the path",
        "GET /CASE%20HTTP/1.1%0D%0A%0D%0AGET%20/ HTTP/1.1\r\nHOST\r\n\r\n",
        Forwarded(1),
    ),
    (
        "CRLF with escapes in the query",
        "GET /CASE?a=%0d%0ax HTTP/1.1\r\nHOST\r\n\r\n",
        Forwarded(1),
    ),
    ("a NUL with escape in the path", "GET /CASE%00x HTTP/1.1\r\nHOST\r\n\r\n", Refused),
    ("an escape without digits", "GET /CASE%zz HTTP/1.1\r\nHOST\r\n\r\n", Refused),
    ("an escape that is cut off", "GET /CASE%4 HTTP/1.1\r\nHOST\r\n\r\n", Refused),
    ("two escapes in one", "GET /CASE%250d%250a HTTP/1.1\r\nHOST\r\n\r\n", Forwarded(1)),
    ("a path above the root", "GET /../../CASE HTTP/1.1\r\nHOST\r\n\r\n", Forwarded(1)),
    (
        "a path above the root, with escapes",
        "GET /%2e%2e/CASE HTTP/1.1\r\nHOST\r\n\r\n",
        Forwarded(1),
    ),
    (
        "two slashes before a host",
        "GET //other.example.com/CASE HTTP/1.1\r\nHOST\r\n\r\n",
        Forwarded(1),
    ),
    (
        "an absolute target",
        "GET http://shop.example.com/CASE HTTP/1.1\r\nHOST\r\n\r\n",
        Forwarded(1),
    ),
    (
        "an absolute target without path",
        "GET http://shop.example.com?CASE HTTP/1.1\r\nHOST\r\n\r\n",
        Forwarded(1),
    ),
    (
        "an absolute target with another host",
        "GET http://other.example.com/CASE HTTP/1.1\r\nHOST\r\n\r\n",
        Declined,
    ),
    (
        "an absolute target with a user",
        "GET http://u@shop.example.com/CASE HTTP/1.1\r\nHOST\r\n\r\n",
        Declined,
    ),
    (
        "an absolute target with a host as its user",
        "GET http://shop.example.com@other.example.com/CASE HTTP/1.1\r\nHOST\r\n\r\n",
        Declined,
    ),
    ("an absolute target without host", "GET http:///CASE HTTP/1.1\r\nHOST\r\n\r\n", Refused),
    (
        "an absolute target with a wrong port",
        "GET http://shop.example.com:99999/CASE HTTP/1.1\r\nHOST\r\n\r\n",
        Declined,
    ),
    (
        "an absolute target of another scheme",
        "GET ftp://shop.example.com/CASE HTTP/1.1\r\nHOST\r\n\r\n",
        Refused,
    ),
    (
        "an absolute target without Host",
        "GET http://shop.example.com/CASE HTTP/1.1\r\n\r\n",
        Refused,
    ),
    ("no Host", "GET /CASE HTTP/1.1\r\n\r\n", Refused),
    ("an empty Host", "GET /CASE HTTP/1.1\r\nHost:\r\n\r\n", Declined),
    ("Host twice", "GET /CASE HTTP/1.1\r\nHOST\r\nHOST\r\n\r\n", Refused),
    ("another Host", "GET /CASE HTTP/1.1\r\nHOST\r\nHost: other.example.com\r\n\r\n", Refused),
    ("a list of hosts", "GET /CASE HTTP/1.1\r\nHOST, other.example.com\r\n\r\n", Declined),
    ("two hosts with a space", "GET /CASE HTTP/1.1\r\nHOST other.example.com\r\n\r\n", Declined),
    ("two hosts with a tab", "GET /CASE HTTP/1.1\r\nHOST\tother.example.com\r\n\r\n", Declined),
    ("a host with a path", "GET /CASE HTTP/1.1\r\nHOST/x\r\n\r\n", Declined),
    ("a host with a query", "GET /CASE HTTP/1.1\r\nHOST?x\r\n\r\n", Declined),
    ("a host with a fragment", "GET /CASE HTTP/1.1\r\nHOST#x\r\n\r\n", Declined),
    ("a host with a user", "GET /CASE HTTP/1.1\r\nHost: other@shop.example.com\r\n\r\n", Declined),
    ("a host as a user", "GET /CASE HTTP/1.1\r\nHOST@other.example.com\r\n\r\n", Declined),
    ("a host with a port", "GET /CASE HTTP/1.1\r\nHOST:80\r\n\r\n", Forwarded(1)),
    ("a host with two ports", "GET /CASE HTTP/1.1\r\nHOST:80:90\r\n\r\n", Declined),
    ("a host with a port that is none", "GET /CASE HTTP/1.1\r\nHOST:x\r\n\r\n", Declined),
    (
        "a host and a user after the port",
        "GET /CASE HTTP/1.1\r\nHOST:80@other.example.com\r\n\r\n",
        Declined,
    ),
    ("only a port", "GET /CASE HTTP/1.1\r\nHost: :80\r\n\r\n", Declined),
    ("a host in capitals", "GET /CASE HTTP/1.1\r\nHost: SHOP.Example.com\r\n\r\n", Forwarded(1)),
    ("a host with the dot of the root", "GET /CASE HTTP/1.1\r\nHOST.\r\n\r\n", Forwarded(1)),
    ("a host with two dots", "GET /CASE HTTP/1.1\r\nHOST..\r\n\r\n", Declined),
    ("a host with a NUL", "GET /CASE HTTP/1.1\r\nHOST\0.other.example.com\r\n\r\n", Refused),
    (
        "a space before the colon of Host",
        "GET /CASE HTTP/1.1\r\nHost : shop.example.com\r\n\r\n",
        Refused,
    ),
    ("a space before Host", "GET /CASE HTTP/1.1\r\n HOST\r\nHOST\r\n\r\n", Refused),
    ("a Host that continues", "GET /CASE HTTP/1.1\r\nHost:\r\n shop.example.com\r\n\r\n", Refused),
    ("a field that continues", "GET /CASE HTTP/1.1\r\nHOST\r\nX: a\r\n b\r\n\r\n", Refused),
    (
        "a field that continues with a tab",
        "GET /CASE HTTP/1.1\r\nHOST\r\nX: a\r\n\tb\r\n\r\n",
        Refused,
    ),
    ("a space in the name of a field", "GET /CASE HTTP/1.1\r\nHOST\r\nX Y: a\r\n\r\n", Refused),
    ("a tab in the name of a field", "GET /CASE HTTP/1.1\r\nHOST\r\nX\tY: a\r\n\r\n", Refused),
    ("a NUL in the name of a field", "GET /CASE HTTP/1.1\r\nHOST\r\nX\0: a\r\n\r\n", Refused),
    ("a bracket in the name of a field", "GET /CASE HTTP/1.1\r\nHOST\r\nX(: a\r\n\r\n", Refused),
    ("UTF-8 in the name of a field", "GET /CASE HTTP/1.1\r\nHOST\r\nX\u{e9}: a\r\n\r\n", Refused),
    (
        "an underscore in the name of a field",
        "GET /CASE HTTP/1.1\r\nHOST\r\nX_Y: a\r\n\r\n",
        Forwarded(1),
    ),
    ("a field without name", "GET /CASE HTTP/1.1\r\nHOST\r\n: a\r\n\r\n", Refused),
    ("a field without colon", "GET /CASE HTTP/1.1\r\nHOST\r\nX\r\n\r\n", Refused),
    ("a NUL in a value", "GET /CASE HTTP/1.1\r\nHOST\r\nX: a\0b\r\n\r\n", Refused),
    ("a bell in a value", "GET /CASE HTTP/1.1\r\nHOST\r\nX: a\u{7}b\r\n\r\n", Refused),
    ("DEL in a value", "GET /CASE HTTP/1.1\r\nHOST\r\nX: a\u{7f}b\r\n\r\n", Refused),
    (
        "a return in a value",
        "GET /CASE HTTP/1.1\r\nHOST\r\nX: a\rGET /smuggled HTTP/1.1\r\n\r\n",
        Refused,
    ),
    (
        "a line feed and an empty line in a value",
        "GET /CASE HTTP/1.1\r\nHOST\r\nX: a\n\nGET /smuggled HTTP/1.1\r\n\r\n",
        Refused,
    ),
    ("UTF-8 in a value", "GET /CASE HTTP/1.1\r\nHOST\r\nX: \u{e9}\u{2028}\r\n\r\n", Forwarded(1)),
    ("a tab in a value", "GET /CASE HTTP/1.1\r\nHOST\r\nX: a\tb\r\n\r\n", Forwarded(1)),
    (
        "Connection names Host",
        "GET /CASE HTTP/1.1\r\nHOST\r\nConnection: host\r\n\r\n",
        Forwarded(1),
    ),
    (
        "Connection names what the edge says",
        "GET /CASE HTTP/1.1\r\nHOST\r\nX-Forwarded-For: 127.0.0.1\r\nAuthorization: Basic eDp5\r\n\
         Connection: x-forwarded-for, x-real-ip, authorization\r\n\r\n",
        Forwarded(1),
    ),
    (
        "fields that look like those of the edge",
        "GET /CASE HTTP/1.1\r\nX_Forwarded_For: 127.0.0.1\r\nX-Forwarded_For: 127.0.0.1\r\nHOST\r\n\r\n",
        Forwarded(1),
    ),
    (
        "Connection names nothing",
        "GET /CASE HTTP/1.1\r\nHOST\r\nConnection: , ,\r\n\r\n",
        Forwarded(1),
    ),
    ("Connection: close", "GET /CASE HTTP/1.1\r\nHOST\r\nConnection: close\r\n\r\n", ThenClosed(1)),
    (
        "Connection: close and keep-alive",
        "GET /CASE HTTP/1.1\r\nHOST\r\nConnection: close, keep-alive\r\n\r\n",
        ThenClosed(1),
    ),
    (
        "fields about the connection",
        "GET /CASE HTTP/1.1\r\nHOST\r\nKeep-Alive: timeout=1000\r\nProxy-Connection: close\r\nTE: trailers\r\n\r\n",
        Forwarded(1),
    ),
    (
        "a trailer that is announced",
        "POST /CASE HTTP/1.1\r\nHOST\r\nTrailer: Content-Length\r\nTransfer-Encoding: chunked\r\n\r\n\
         5\r\nhello\r\n0\r\nContent-Length: 0\r\n\r\n",
        Forwarded(1),
    ),
    (
        "h2c",
        "GET /CASE HTTP/1.1\r\nHOST\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\
         HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n",
        Forwarded(1),
    ),
    (
        "h2c, and on with HTTP/2",
        "GET /CASE HTTP/1.1\r\nHOST\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\
         HTTP2-Settings: AAMAAABk\r\n\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\u{4}\0\0\0\0\0",
        ThenRefused(1),
    ),
    (
        "a WebSocket that is not agreed to",
        "GET /CASE HTTP/1.1\r\nHOST\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
        Forwarded(1),
    ),
    (
        "a WebSocket of a version that is none",
        "GET /CASE HTTP/1.1\r\nHOST\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 777\r\n\
         Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
        Forwarded(1),
    ),
    (
        "a WebSocket without key",
        "GET /CASE HTTP/1.1\r\nHOST\r\nConnection: Upgrade\r\nUpgrade: websocket, h2c\r\n\r\n",
        Forwarded(1),
    ),
    (
        "a WebSocket of HTTP/1.0",
        "GET /CASE HTTP/1.0\r\nHOST\r\nConnection: Upgrade, keep-alive\r\nUpgrade: websocket\r\n\r\n",
        Forwarded(1),
    ),
    ("HTTP/2 from the start, but wrong", "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", Refused),
    (
        "the PROXY protocol of nobody",
        "PROXY TCP4 127.0.0.1 127.0.0.1 1 80\r\nGET /CASE HTTP/1.1\r\nHOST\r\n\r\n",
        Refused,
    ),
    ("a handshake of TLS in clear", "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}\u{3}\u{3}", Refused),
];

/// All sequences.
pub(super) fn corpus() -> Vec<Case> {
    let lengths = LENGTHS.iter().map(|(name, fields, body, becomes)| {
        let head = format!("POST /CASE HTTP/1.1\r\nHOST\r\n{fields}\r\n{body}");
        case(name, &head, *becomes)
    });
    let chunks = CHUNKS.iter().map(|(name, body, becomes)| {
        let fields = "Transfer-Encoding: chunked\r\n";
        let head = format!("POST /CASE HTTP/1.1\r\nHOST\r\n{fields}\r\n{body}");
        case(&format!("chunks: {name}"), &head, *becomes)
    });
    let requests = REQUESTS.iter().map(|(name, says, becomes)| case(name, says, *becomes));
    lengths.chain(chunks).chain(requests).collect()
}

fn case(name: &str, says: &str, becomes: Becomes) -> Case {
    let says = says.replace("HOST", "Host: shop.example.com").replace("SMUGGLED", SMUGGLED);
    Case { name: name.to_owned(), says: says.into_bytes(), becomes }
}
