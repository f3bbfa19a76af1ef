//! Follows the bytes of an HTTP/1 connection from request to request, so that each head is judged as a whole before
//! hyper sees its first byte, and no byte of a body is taken for one of a head.

use super::inspect::{Fault, Framing, Upgrade, inspect};

/// What heads may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadLimits {
    /// Bytes, from the method to the empty line.
    pub bytes_max: usize,
    /// Fields.
    pub fields_max: usize,
}

/// Where in a connection its next byte belongs.
#[derive(Debug)]
pub struct Screen {
    limits: HeadLimits,
    place: Place,
}

/// What may be done with the bytes that are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advance {
    /// So many of them are fine; more than none.
    Pass(usize),
    /// Nothing until there are more.
    More,
    /// Nothing until it is decided whether the connection changes its protocol.
    Held,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In a head, of which so many bytes have no line end that ends it.
    Head {
        searched: usize,
    },
    /// So many bytes before the end of a body.
    Body {
        left: u64,
        then: Then,
    },
    Chunk {
        phase: Phase,
        then: Then,
    },
    Held,
    /// No HTTP any more.
    Open,
}

/// What follows a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Head,
    Held,
}

/// Where in the chunks of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Size {
        value: u64,
        digits: u8,
    },
    Extension {
        size: u64,
        length: u16,
    },
    SizeLineFeed {
        size: u64,
    },
    Data {
        left: u64,
    },
    DataReturn,
    DataLineFeed,
    /// In the fields after the last chunk; `line`: bytes of this line, `total`: of all.
    Trailer {
        line: u16,
        total: u16,
    },
    TrailerLineFeed {
        line: u16,
        total: u16,
    },
}

/// The most bytes of an extension of a chunk, which nobody uses, and of all fields after the last chunk.
const EXTENSION_MAX: u16 = 256;
const TRAILERS_MAX: u16 = 8192;

impl Screen {
    /// The begin of a connection.
    pub fn new(limits: HeadLimits) -> Self {
        Self { limits, place: Place::Head { searched: 0 } }
    }

    /// Whether the next byte belongs to a head.
    pub fn is_in_head(&self) -> bool {
        matches!(self.place, Place::Head { .. })
    }

    /// Whether the next byte belongs to a body.
    pub fn is_in_body(&self) -> bool {
        matches!(self.place, Place::Body { .. } | Place::Chunk { .. })
    }

    /// Whether it is open if the connection changes its protocol.
    pub fn is_held(&self) -> bool {
        matches!(self.place, Place::Held)
    }

    /// Whether the connection may change its protocol after the request that has begun.
    pub fn may_change(&self) -> bool {
        match self.place {
            Place::Held => true,
            Place::Body { then, .. } | Place::Chunk { then, .. } => then == Then::Held,
            Place::Head { .. } | Place::Open => false,
        }
    }

    /// The connection changes its protocol: all that follows may pass.
    pub fn open(&mut self) {
        self.place = Place::Open;
    }

    /// The connection does not change its protocol: the next request follows.
    pub fn resume(&mut self) {
        if matches!(self.place, Place::Held | Place::Body { .. } | Place::Chunk { .. }) {
            self.place = self.place.without_hold();
        }
    }

    /// Looks at all bytes that are there and have not passed. What passes is not shown again.
    ///
    /// # Errors
    /// The fault, after which nothing of the connection may be read.
    pub fn advance(&mut self, bytes: &[u8]) -> Result<Advance, Fault> {
        match self.place {
            Place::Open => Ok(pass(bytes.len())),
            Place::Held => Ok(Advance::Held),
            Place::Head { searched } => self.advance_head(bytes, searched),
            Place::Body { left, then } => {
                let count = left.min(bytes.len() as u64);
                self.place = match left - count {
                    0 => then.place(),
                    left => Place::Body { left, then },
                };
                Ok(pass(usize::try_from(count).unwrap_or(bytes.len())))
            }
            Place::Chunk { phase, then } => self.advance_chunk(bytes, phase, then),
        }
    }

    fn advance_head(&mut self, bytes: &[u8], searched: usize) -> Result<Advance, Fault> {
        // An empty line before a request is ignored, as RFC 9112 (2.2) asks for.
        if bytes.starts_with(b"\r\n") {
            self.place = Place::Head { searched: 0 };
            return Ok(Advance::Pass(2));
        }
        let Some(end) = end_of_head(bytes, searched)? else {
            self.place = Place::Head { searched: bytes.len() };
            return if bytes.len() > self.limits.bytes_max {
                Err(Fault::TooLarge)
            } else {
                Ok(Advance::More)
            };
        };
        if end > self.limits.bytes_max {
            return Err(Fault::TooLarge);
        }
        let head = inspect(&bytes[..end], self.limits.fields_max)?;
        let then = match head.upgrade {
            Upgrade::Requested => Then::Held,
            Upgrade::No => Then::Head,
        };
        self.place = match head.framing {
            Framing::Length(0) => then.place(),
            Framing::Length(left) => Place::Body { left, then },
            Framing::Chunked => Place::Chunk { phase: Phase::START, then },
        };
        Ok(Advance::Pass(end))
    }

    fn advance_chunk(&mut self, bytes: &[u8], phase: Phase, then: Then) -> Result<Advance, Fault> {
        let (mut phase, mut at) = (phase, 0);
        while at < bytes.len() {
            if let Phase::Data { left } = phase {
                let rest = (bytes.len() - at) as u64;
                let count = left.min(rest);
                at += usize::try_from(count).unwrap_or(bytes.len() - at);
                phase = if count == left {
                    Phase::DataReturn
                } else {
                    Phase::Data { left: left - count }
                };
                continue;
            }
            let next = phase.after(bytes[at])?;
            at += 1;
            match next {
                Some(next) => phase = next,
                None => {
                    self.place = then.place();
                    return Ok(pass(at));
                }
            }
        }
        self.place = Place::Chunk { phase, then };
        Ok(pass(at))
    }
}

impl Place {
    fn without_hold(self) -> Self {
        match self {
            Self::Held => Self::Head { searched: 0 },
            Self::Body { left, .. } => Self::Body { left, then: Then::Head },
            Self::Chunk { phase, .. } => Self::Chunk { phase, then: Then::Head },
            Self::Head { .. } | Self::Open => self,
        }
    }
}

impl Then {
    fn place(self) -> Place {
        match self {
            Self::Head => Place::Head { searched: 0 },
            Self::Held => Place::Held,
        }
    }
}

impl Phase {
    const START: Self = Self::Size { value: 0, digits: 0 };

    /// The phase after a byte outside of the data; `None`: it was the last of the body.
    fn after(self, byte: u8) -> Result<Option<Self>, Fault> {
        let next = match (self, byte) {
            (Self::Size { value, digits }, _) if byte.is_ascii_hexdigit() && digits < 15 => {
                let digit = char::from(byte).to_digit(16).unwrap_or(0);
                Self::Size { value: value << 4 | u64::from(digit), digits: digits + 1 }
            }
            (Self::Size { digits: 0, .. }, _) => return Err(Fault::Chunk),
            (Self::Size { value, .. }, b'\r') => Self::SizeLineFeed { size: value },
            (Self::Size { value, .. }, b';') => Self::Extension { size: value, length: 0 },
            (Self::Extension { size, .. }, b'\r') => Self::SizeLineFeed { size },
            (Self::Extension { size, length }, b'\t' | 0x20..=0x7e) if length < EXTENSION_MAX => {
                Self::Extension { size, length: length + 1 }
            }
            (Self::SizeLineFeed { size: 0 }, b'\n') => Self::Trailer { line: 0, total: 0 },
            (Self::SizeLineFeed { size }, b'\n') => Self::Data { left: size },
            (Self::DataReturn, b'\r') => Self::DataLineFeed,
            (Self::DataLineFeed, b'\n') => Self::START,
            (Self::Trailer { line, total }, b'\r') => Self::TrailerLineFeed { line, total },
            (Self::Trailer { line, total }, b'\t' | 0x20..=0x7e | 0x80..)
                if total < TRAILERS_MAX =>
            {
                Self::Trailer { line: line + 1, total: total + 1 }
            }
            (Self::TrailerLineFeed { line: 0, .. }, b'\n') => return Ok(None),
            (Self::TrailerLineFeed { total, .. }, b'\n') => Self::Trailer { line: 0, total },
            _ => return Err(Fault::Chunk),
        };
        Ok(Some(next))
    }
}

/// Where a head ends: after the first empty line.
fn end_of_head(bytes: &[u8], searched: usize) -> Result<Option<usize>, Fault> {
    let mut from = searched;
    while let Some(at) = bytes[from..].iter().position(|byte| *byte == b'\n') {
        let feed = from + at;
        if feed == 0 || bytes[feed - 1] != b'\r' {
            return Err(Fault::LineEnd);
        }
        if feed >= 3 && bytes[feed - 2] == b'\n' {
            return Ok(Some(feed + 1));
        }
        from = feed + 1;
    }
    Ok(None)
}

fn pass(count: usize) -> Advance {
    if count == 0 { Advance::More } else { Advance::Pass(count) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: HeadLimits = HeadLimits { bytes_max: 256, fields_max: 8 };

    /// What passes of a connection that comes in parts of `step` bytes, and how it ends.
    fn screened(bytes: &[u8], step: usize) -> (Vec<u8>, Option<Fault>) {
        let (mut screen, mut passed, mut held) = (Screen::new(LIMITS), Vec::new(), Vec::new());
        for part in bytes.chunks(step) {
            held.extend_from_slice(part);
            loop {
                match screen.advance(&held) {
                    Ok(Advance::Pass(count)) => passed.extend(held.drain(..count)),
                    Ok(Advance::More | Advance::Held) => break,
                    Err(fault) => return (passed, Some(fault)),
                }
            }
        }
        (passed, None)
    }

    const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

    #[test]
    fn requests_follow_each_other() {
        let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab\ncd";
        let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        let chunks = "5\r\nab\ncd\r\nA;x=\"y\"\r\n0123456789\r\n0\r\nX: y\r\n\r\n";
        let whole = format!("{GET}{post}{head}{chunks}\r\n{GET}");
        for step in [1, 2, 3, 7, 1000] {
            assert_eq!(
                screened(whole.as_bytes(), step),
                (whole.clone().into_bytes(), None),
                "{step}"
            );
        }
    }

    #[test]
    fn nothing_of_a_faulty_head_passes() {
        for (bad, fault) in [
            ("GET / HTTP/1.1\nHost: a\n\n", Fault::LineEnd),
            ("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", Fault::LineEnd),
            ("GET / HTTP/1.1\r\nHost: a\r\nX: b\n\r\n", Fault::LineEnd),
        ] {
            let (passed, found) = screened(format!("{GET}{bad}").as_bytes(), 5);
            assert_eq!((passed.as_slice(), found), (GET.as_bytes(), Some(fault)), "{bad:?}");
        }
        let long = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}", "y".repeat(300));
        assert_eq!(screened(long.as_bytes(), 50), (Vec::new(), Some(Fault::TooLarge)));
        assert_eq!(screened(format!("{long}\r\n\r\n").as_bytes(), 999).1, Some(Fault::TooLarge));
    }

    #[test]
    fn chunks_are_strict() {
        let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        for bad in [
            "\r\n",
            "x\r\n",
            "5\nabcde\r\n",
            "5\r\nabcdeX",
            "5\r\nabcde\n",
            "-1\r\n",
            "0x5\r\n",
            "5 \r\nabcde\r\n",
            "5;a\nb\r\n",
            "FFFFFFFFFFFFFFFFF\r\n",
            "0\r\nX: y\n\r\n",
            "0\r\n\n",
        ] {
            let (_, fault) = screened(format!("{head}{bad}").as_bytes(), 3);
            assert_eq!(fault, Some(Fault::Chunk), "{bad:?}");
        }
    }

    #[test]
    fn an_upgrade_is_held_until_it_is_decided() {
        let head =
            b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
        let mut screen = Screen::new(LIMITS);
        assert_eq!(screen.advance(head), Ok(Advance::Pass(head.len())));
        assert_eq!(screen.advance(b"\x81\n"), Ok(Advance::Held));
        screen.open();
        assert_eq!(screen.advance(b"\x81\n"), Ok(Advance::Pass(2)));

        let mut screen = Screen::new(LIMITS);
        assert_eq!(screen.advance(head), Ok(Advance::Pass(head.len())));
        screen.resume();
        assert_eq!(screen.advance(GET.as_bytes()), Ok(Advance::Pass(GET.len())));
    }

    proptest! {
        /// Law: what passes does not depend on how the bytes were cut, and is a prefix of them.
        #[test]
        fn cuts_do_not_matter(parts in prop::collection::vec(0_usize..9, 0..12), step in 1_usize..40) {
            let pieces = [
                GET, "POST / HTTP/1.1\r\nHost: a\r\n", "Content-Length: 3\r\n\r\n", "\r\n", "abc",
                "Transfer-Encoding: chunked\r\n\r\n", "3\r\nabc\r\n", "0\r\n\r\n", "\n",
            ];
            let bytes: String = parts.iter().map(|part| pieces[*part]).collect();
            let (whole, _) = screened(bytes.as_bytes(), bytes.len().max(1));
            let (cut, _) = screened(bytes.as_bytes(), step);
            prop_assert!(bytes.as_bytes().starts_with(&whole));
            // A fault may be found earlier or later within a body, never before the end of what was fine.
            prop_assert!(whole.starts_with(&cut) || cut.starts_with(&whole));
        }
    }
}
