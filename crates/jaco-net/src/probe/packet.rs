//! The packets of a probe, as bytes. Pure.

use std::net::Ipv4Addr;

/// Bytes of an IPv4 header without options.
const IP: usize = 20;

/// What the packets of probes begin with, behind the header of the protocol.
const MARK: &[u8; 8] = b"jaco/prb";

/// Bytes of an echo without padding: its header, the mark, the kind and the sender.
const ECHO: usize = 8 + MARK.len() + 1 + 4;

/// TCP flags.
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

/// What an echo is sent for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Whether anything arrives.
    Small,
    /// Whether the largest packet of the tunnel arrives.
    Full,
    /// What the rules must not let through.
    Forbidden,
}

impl Kind {
    fn byte(self) -> u8 {
        match self {
            Self::Small => 1,
            Self::Full => 2,
            Self::Forbidden => 3,
        }
    }

    fn of(byte: u8) -> Option<Self> {
        [Self::Small, Self::Full, Self::Forbidden].into_iter().find(|kind| kind.byte() == byte)
    }
}

/// Where a packet comes from and goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Way {
    pub(super) source: Ipv4Addr,
    pub(super) destination: Ipv4Addr,
}

/// An echo of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Echo {
    pub(super) way: Way,
    /// Which probe it belongs to.
    pub(super) id: u16,
    pub(super) kind: Kind,
    /// The router that asks, by its address in the mesh.
    pub(super) asks: Ipv4Addr,
}

/// The beginning of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Knock {
    pub(super) way: Way,
    pub(super) source_port: u16,
    pub(super) port: u16,
}

/// A packet that was heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    Question(Echo),
    Answer(Echo),
    /// The other end of a connection listens; `sequence` is the number that it expects next.
    Accepted {
        knock: Knock,
        sequence: u32,
    },
    /// Nothing listens there.
    Refused(Knock),
}

/// An echo request of `length` bytes, its IP header included, that may not be taken apart on its way.
pub(super) fn question(echo: Echo, length: u16) -> Vec<u8> {
    let length = usize::from(length).max(IP + ECHO);
    let mut body = vec![0; length - IP];
    body[0] = 8;
    body[4..6].copy_from_slice(&echo.id.to_be_bytes());
    body[8..16].copy_from_slice(MARK);
    body[16] = echo.kind.byte();
    body[17..21].copy_from_slice(&echo.asks.octets());
    let sum = checksum(&[&body]);
    body[2..4].copy_from_slice(&sum.to_be_bytes());
    with_header(echo.way, 1, &body)
}

/// The first packet of a connection.
pub(super) fn knock(knock: Knock) -> Vec<u8> {
    segment(knock, 0, SYN)
}

/// Gives a connection up that was accepted; `sequence` as it was heard.
pub(super) fn give_up(knock: Knock, sequence: u32) -> Vec<u8> {
    segment(knock, sequence, RST)
}

fn segment(knock: Knock, sequence: u32, flags: u8) -> Vec<u8> {
    let mut body = vec![0; 20];
    body[0..2].copy_from_slice(&knock.source_port.to_be_bytes());
    body[2..4].copy_from_slice(&knock.port.to_be_bytes());
    body[4..8].copy_from_slice(&sequence.to_be_bytes());
    // Five words of header, and a window that says nothing.
    body[12] = 5 << 4;
    body[13] = flags;
    body[14..16].copy_from_slice(&1024_u16.to_be_bytes());
    let Way { source, destination } = knock.way;
    let pseudo = [&source.octets()[..], &destination.octets(), &[0, 6, 0, 20]].concat();
    let sum = checksum(&[&pseudo, &body]);
    body[16..18].copy_from_slice(&sum.to_be_bytes());
    with_header(knock.way, 6, &body)
}

/// The kernel fills in what is left at zero: identification and checksum.
fn with_header(way: Way, protocol: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(IP + body.len()).unwrap_or(u16::MAX);
    let mut packet = vec![0x45, 0];
    packet.extend(length.to_be_bytes());
    // Do not fragment.
    packet.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
    packet.extend(way.source.octets());
    packet.extend(way.destination.octets());
    packet.extend(body);
    packet
}

/// The Internet checksum of several parts, all but the last of an even length.
fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0_u32;
    for pair in parts.iter().flat_map(|part| part.chunks(2)) {
        let low = pair.get(1).copied().unwrap_or_default();
        sum += u32::from(u16::from_be_bytes([pair[0], low]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or(u16::MAX)
}

/// Reads a packet; `None` if it is of no probe. Only its first 64 bytes are needed.
pub(super) fn read(packet: &[u8]) -> Option<Heard> {
    let header = usize::from(packet.first()? & 0x0f) * 4;
    let (source, destination) = (address(packet, 12)?, address(packet, 16)?);
    let body = packet.get(header..)?;
    match packet.get(9)? {
        1 => read_echo(Way { source, destination }, body),
        6 => read_segment(Way { source: destination, destination: source }, body),
        _ => None,
    }
}

fn read_echo(way: Way, body: &[u8]) -> Option<Heard> {
    let is_ours = body.get(8..16)? == MARK;
    let (id, kind) = (number(body, 4)?, Kind::of(*body.get(16)?)?);
    let echo = Echo { way, id, kind, asks: address(body, 17)? };
    match (is_ours, body.first()?) {
        (true, 8) => Some(Heard::Question(echo)),
        (true, 0) => Some(Heard::Answer(echo)),
        _ => None,
    }
}

/// `way` is that of the packet it answers.
fn read_segment(way: Way, body: &[u8]) -> Option<Heard> {
    let knock = Knock { way, source_port: number(body, 2)?, port: number(body, 0)? };
    let expected = u32::from_be_bytes(body.get(8..12)?.try_into().ok()?);
    let flags = body.get(13)? & (SYN | RST | ACK);
    if flags & RST != 0 {
        return Some(Heard::Refused(knock));
    }
    (flags == SYN | ACK).then_some(Heard::Accepted { knock, sequence: expected })
}

fn address(bytes: &[u8], at: usize) -> Option<Ipv4Addr> {
    let octets: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(Ipv4Addr::from(octets))
}

fn number(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way() -> Way {
        Way { source: Ipv4Addr::new(10, 64, 0, 1), destination: Ipv4Addr::new(10, 64, 0, 2) }
    }

    #[test]
    fn an_echo_is_read_as_it_was_written() {
        let echo = Echo { way: way(), id: 7, kind: Kind::Full, asks: way().source };
        let packet = question(echo, 1420);
        assert_eq!(packet.len(), 1420);
        assert_eq!(checksum(&[&packet[IP..]]), 0, "the sum of all is nothing");
        assert_eq!(read(&packet[..64]), Some(Heard::Question(echo)));
        let small = question(Echo { kind: Kind::Small, ..echo }, 0);
        assert_eq!(small.len(), IP + ECHO);
    }

    #[test]
    fn the_answers_to_a_knock_are_told_apart() {
        let knocked = Knock { way: way(), source_port: 20_001, port: 5432 };
        let back = |flags| {
            let Way { source, destination } = knocked.way;
            let way = Way { source: destination, destination: source };
            segment(Knock { way, source_port: 5432, port: 20_001 }, 0, flags)
        };
        let accepted = Heard::Accepted { knock: knocked, sequence: 0 };
        assert_eq!(read(&back(SYN | ACK)), Some(accepted));
        assert_eq!(read(&back(RST | ACK)), Some(Heard::Refused(knocked)));
        assert_eq!(read(&back(ACK)), None);
        let pseudo = [10, 64, 0, 1, 10, 64, 0, 2, 0, 6, 0, 20];
        assert_eq!(checksum(&[&pseudo, &knock(knocked)[IP..]]), 0);
    }

    #[test]
    fn packets_of_others_are_not_read() {
        let echo = Echo { way: way(), id: 7, kind: Kind::Small, asks: way().source };
        let mut foreign = question(echo, 0);
        foreign[IP + 8] ^= 1;
        for packet in [&foreign[..], &[], &[0x45; 10], &[0x4f; 24]] {
            assert_eq!(read(packet), None);
        }
    }
}
