//! A WebSocket (RFC 6455) whose messages come back, as a browser speaks it: text in one masked frame each.

use std::io::{self, BufRead, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1_smol::Sha1;

use crate::http::{After, Request, Response};

/// What the key of a client is hashed with (RFC 6455, section 1.3).
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Longest message in bytes; a longer one ends the connection.
const MESSAGE_MAX: usize = 64 * 1024;

/// Marks the last frame of a message.
const LAST: u8 = 0x80;
/// Marks a payload that is masked.
const MASKED: u8 = 0x80;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

struct Frame {
    opcode: u8,
    payload: Vec<u8>,
}

/// `GET /websocket`: each message comes back until the client closes.
pub(super) fn serve(
    request: &Request,
    input: &mut impl BufRead,
    out: &mut impl Write,
) -> io::Result<()> {
    let Some(key) = &request.websocket_key else {
        return Response::new(400, "not a WebSocket\n").write(out, After::Close);
    };
    let accept = accept(key);
    write!(
        out,
        "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-accept: {accept}\r\n\r\n"
    )?;
    out.flush()?;
    while let Some(frame) = read(input)? {
        let opcode = if frame.opcode == PING { PONG } else { frame.opcode };
        write(out, &Frame { opcode, payload: frame.payload })?;
        if opcode == CLOSE {
            break;
        }
    }
    Ok(())
}

fn accept(key: &str) -> String {
    STANDARD.encode(Sha1::from(format!("{key}{GUID}")).digest().bytes())
}

/// The next frame; `None` when the peer is gone, or does what no browser does here.
fn read(input: &mut impl BufRead) -> io::Result<Option<Frame>> {
    let mut head = [0; 2];
    if input.read_exact(&mut head).is_err() {
        return Ok(None);
    }
    let length = match head[1] & !MASKED {
        126 => {
            let mut long = [0; 2];
            input.read_exact(&mut long)?;
            usize::from(u16::from_be_bytes(long))
        }
        127 => return Ok(None),
        short => usize::from(short),
    };
    if head[0] & LAST == 0 || head[1] & MASKED == 0 || length > MESSAGE_MAX {
        return Ok(None);
    }
    let (mut mask, mut payload) = ([0; 4], vec![0; length]);
    input.read_exact(&mut mask)?;
    input.read_exact(&mut payload)?;
    for (byte, mask) in payload.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= mask;
    }
    Ok(Some(Frame { opcode: head[0] & 0x0f, payload }))
}

/// Servers do not mask.
fn write(out: &mut impl Write, frame: &Frame) -> io::Result<()> {
    let mut bytes = vec![LAST | frame.opcode];
    match u8::try_from(frame.payload.len()).ok().filter(|length| *length < 126) {
        Some(length) => bytes.push(length),
        None => {
            let length = u16::try_from(frame.payload.len()).map_err(io::Error::other)?;
            bytes.push(126);
            bytes.extend(length.to_be_bytes());
        }
    }
    bytes.extend(&frame.payload);
    out.write_all(&bytes)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http;

    /// The example of RFC 6455, section 1.3, and of its section 5.7 the masked "Hello".
    #[test]
    fn messages_come_back_unmasked() {
        let head = "GET /websocket HTTP/1.1\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        let request = http::read(&mut head.as_bytes()).expect("valid").expect("there");
        let hello = [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
        let close = [0x88, 0x80, 0, 0, 0, 0];
        let mut out = Vec::new();
        serve(&request, &mut &*[&hello[..], &close].concat(), &mut out).expect("taken");
        let end = out.windows(4).position(|part| part == b"\r\n\r\n").expect("a head") + 4;
        let (head, frames) = out.split_at(end);
        let head = String::from_utf8_lossy(head);
        assert!(head.contains("sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"), "{head}");
        assert_eq!(frames, [0x81, 5, b'H', b'e', b'l', b'l', b'o', 0x88, 0]);
    }
}
