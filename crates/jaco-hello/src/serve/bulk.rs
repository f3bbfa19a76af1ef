//! Bodies of any length, whose bytes both ends know: each is told by its place.

use std::io::{self, Read, Write};

use crate::http::{Request, Response};

/// How many bytes are read and written at once.
const PIECE: usize = 64 * 1024;
/// Longest download, in MiB, whatever is asked for.
const DOWNLOAD_MAX_MIB: u64 = 4096;

/// The byte at a place: the upper bits of Knuth's multiplicative hash (The Art of Computer Programming, volume 3, 6.4), so that
/// a piece that is lost, repeated or moved shows.
#[expect(clippy::cast_possible_truncation, reason = "the places of 4 GiB differ in 32 bits")]
fn byte_at(place: u64) -> u8 {
    ((place as u32).wrapping_mul(2_654_435_761) >> 24) as u8
}

/// `GET /download?mib=N`: so many MiB.
pub(super) fn download(request: &Request, out: &mut impl Write) -> io::Result<()> {
    let length = request.number("mib").unwrap_or(1).min(DOWNLOAD_MAX_MIB) << 20;
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\ncontent-length: {length}\r\n\r\n"
    );
    out.write_all(head.as_bytes())?;
    let mut place = 0;
    while place < length {
        let piece: Vec<u8> = (place..length).take(PIECE).map(byte_at).collect();
        out.write_all(&piece)?;
        place += piece.len() as u64;
    }
    out.flush()
}

/// `POST /upload`: reads what a download of that length has, and says how much it was; 400 at the first other byte.
pub(super) fn upload(request: &Request, input: &mut impl Read) -> io::Result<Response> {
    let mut body = input.take(request.body_length);
    let (mut piece, mut place, mut differs) = (vec![0; PIECE], 0, None);
    loop {
        let count = match body.read(&mut piece)? {
            0 if place < request.body_length => return Err(io::ErrorKind::UnexpectedEof.into()),
            0 => break,
            count => count,
        };
        let wrong = (place..).zip(&piece[..count]).find(|(place, byte)| byte_at(*place) != **byte);
        differs = differs.or(wrong.map(|(place, _)| place));
        place += count as u64;
    }
    Ok(match differs {
        None => Response::ok(format!("took {place} bytes\n")),
        Some(first) => Response::new(400, format!("another byte than sent at {first}\n")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http;

    fn request(text: &str) -> Request {
        http::read(&mut text.as_bytes()).expect("valid").expect("there")
    }

    #[test]
    fn what_is_downloaded_can_be_uploaded() {
        let mut out = Vec::new();
        download(&request("GET /download?mib=2 HTTP/1.1\r\n\r\n"), &mut out).expect("taken");
        let end = out.windows(4).position(|part| part == b"\r\n\r\n").expect("a head") + 4;
        let mut body = out.split_off(end);
        assert_eq!(body.len(), 2 << 20);
        let post = format!("POST /upload HTTP/1.1\r\ncontent-length: {}\r\n\r\n", body.len());
        let post = request(&post);
        let taken = |body: &[u8]| upload(&post, &mut &*body).map(|answer| answer.status);
        assert_eq!(taken(&body).expect("whole"), 200);
        assert!(taken(&body[1..]).is_err(), "cut off");
        body.rotate_left(PIECE);
        assert_eq!(taken(&body).expect("whole"), 400, "a piece is elsewhere");
    }
}
