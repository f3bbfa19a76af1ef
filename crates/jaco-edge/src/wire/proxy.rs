//! The PROXY protocol: who the client of a connection is, before its first byte. Versions 1 and 2 are read, from
//! trusted peers only; version 2 is written.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// What a connection begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preamble {
    /// No header of the PROXY protocol.
    None,
    /// It may be one, or its beginning: more bytes are needed.
    More,
    /// One of so many bytes, and the client that it names. `None`: the peer itself is the client.
    Header {
        /// Its length in bytes.
        length: usize,
        /// The client.
        client: Option<SocketAddr>,
    },
    /// One that is broken.
    Invalid,
}

/// What is carried after the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carried {
    /// A connection.
    Stream,
    /// A datagram.
    Datagram,
}

/// The most bytes of a header: [`read`] never asks for more.
pub const LENGTH_MAX: usize = 16 + 1024;

const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
const V1: &[u8] = b"PROXY ";
/// Of version 1, with its CRLF.
const V1_LENGTH_MAX: usize = 107;

/// Reads the header at the begin of a connection.
pub fn read(bytes: &[u8]) -> Preamble {
    if begins(bytes, SIGNATURE) {
        return if bytes.len() < 16 { Preamble::More } else { read_v2(bytes) };
    }
    if begins(bytes, V1) {
        return if bytes.len() < V1.len() { Preamble::More } else { read_v1(bytes) };
    }
    Preamble::None
}

/// Whether `bytes` begins with `expected`, as far as they go.
fn begins(bytes: &[u8], expected: &[u8]) -> bool {
    let length = bytes.len().min(expected.len());
    bytes[..length] == expected[..length]
}

fn read_v1(bytes: &[u8]) -> Preamble {
    let Some(end) = bytes.iter().take(V1_LENGTH_MAX).position(|byte| *byte == b'\n') else {
        return if bytes.len() < V1_LENGTH_MAX { Preamble::More } else { Preamble::Invalid };
    };
    let Some(line) = bytes[..end].strip_suffix(b"\r") else { return Preamble::Invalid };
    let Ok(line) = std::str::from_utf8(line) else { return Preamble::Invalid };
    let mut parts = line.split(' ').skip(1);
    let client = match parts.next() {
        Some("UNKNOWN") => None,
        Some(family @ ("TCP4" | "TCP6")) => match read_v1_addresses(parts, family == "TCP4") {
            Some(client) => Some(client),
            None => return Preamble::Invalid,
        },
        Some(_) | None => return Preamble::Invalid,
    };
    Preamble::Header { length: end + 1, client }
}

fn read_v1_addresses<'a>(
    mut parts: impl Iterator<Item = &'a str>,
    is_ipv4: bool,
) -> Option<SocketAddr> {
    let source: IpAddr = parts.next()?.parse().ok()?;
    let destination: IpAddr = parts.next()?.parse().ok()?;
    let port = read_port(parts.next()?)?;
    read_port(parts.next()?)?;
    let valid = source.is_ipv4() == is_ipv4 && destination.is_ipv4() == is_ipv4;
    (valid && parts.next().is_none()).then(|| SocketAddr::new(source, port))
}

fn read_port(text: &str) -> Option<u16> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn read_v2(bytes: &[u8]) -> Preamble {
    let (command, family) = (bytes[12], bytes[13]);
    let length = 16 + usize::from(u16::from_be_bytes([bytes[14], bytes[15]]));
    if length > LENGTH_MAX || command >> 4 != 2 {
        return Preamble::Invalid;
    }
    let Some(addresses) = bytes.get(16..length) else { return Preamble::More };
    let client = match (command & 0xf, family >> 4) {
        // LOCAL: a check of health by the proxy itself.
        (0, _) | (1, 0) => None,
        (1, 1) => match addresses.first_chunk::<12>() {
            Some([a, b, c, d, _, _, _, _, high, low, _, _]) => {
                let port = u16::from_be_bytes([*high, *low]);
                Some(SocketAddr::new(Ipv4Addr::new(*a, *b, *c, *d).into(), port))
            }
            None => return Preamble::Invalid,
        },
        (1, 2) => match (addresses.first_chunk::<16>(), addresses.get(32..36)) {
            (Some(address), Some([high, low, _, _])) => {
                let port = u16::from_be_bytes([*high, *low]);
                Some(SocketAddr::new(Ipv6Addr::from(*address).to_canonical(), port))
            }
            _ => return Preamble::Invalid,
        },
        // AF_UNIX names no client on a network.
        (1, 3) => None,
        _ => return Preamble::Invalid,
    };
    Preamble::Header { length, client }
}

/// The header of version 2 for a client and the address that it used.
pub fn write(client: SocketAddr, used: SocketAddr, carried: Carried) -> Vec<u8> {
    let transport = match carried {
        Carried::Stream => 1,
        Carried::Datagram => 2,
    };
    let mut header = Vec::with_capacity(16 + 36);
    header.extend_from_slice(SIGNATURE);
    header.push(0x21);
    match (client.ip().to_canonical(), used.ip().to_canonical()) {
        (IpAddr::V4(client), IpAddr::V4(used)) => {
            header.extend_from_slice(&[0x10 | transport, 0, 12]);
            header.extend_from_slice(&client.octets());
            header.extend_from_slice(&used.octets());
        }
        (client, used) => {
            header.extend_from_slice(&[0x20 | transport, 0, 36]);
            header.extend_from_slice(&as_ipv6(client).octets());
            header.extend_from_slice(&as_ipv6(used).octets());
        }
    }
    header.extend_from_slice(&client.port().to_be_bytes());
    header.extend_from_slice(&used.port().to_be_bytes());
    header
}

fn as_ipv6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(length: usize, client: &str) -> Preamble {
        Preamble::Header { length, client: client.parse().ok() }
    }

    #[test]
    fn version_1_is_one_line() {
        let line = b"PROXY TCP4 192.0.2.1 192.0.2.2 5000 80\r\nGET";
        assert_eq!(read(line), header(40, "192.0.2.1:5000"));
        assert_eq!(read(b"PROXY TCP6 2001:db8::1 ::1 1 2\r\n"), header(32, "[2001:db8::1]:1"));
        assert_eq!(read(b"PROXY UNKNOWN x y\r\n"), header(19, ""));
        for more in [&b""[..], b"P", b"PROXY", b"PROXY TCP4 192.0.2.1"] {
            assert_eq!(read(more), Preamble::More, "{more:?}");
        }
        for invalid in [
            &b"PROXY \r\n"[..],
            b"PROXY TCP4 192.0.2.1 192.0.2.2 5000 80\n",
            b"PROXY UDP4 1.1.1.1 1.1.1.1 1 1\r\n",
            b"PROXY TCP4 ::1 ::1 1 1\r\n",
            b"PROXY TCP4 1.1.1.1 1.1.1.1 1 65536\r\n",
            b"PROXY TCP4 1.1.1.1 1.1.1.1 +1 1\r\n",
            b"PROXY TCP4 1.1.1.1 1.1.1.1 1 1 1\r\n",
            &[&b"PROXY "[..], &[b'x'; 120]].concat(),
        ] {
            assert_eq!(read(invalid), Preamble::Invalid, "{}", String::from_utf8_lossy(invalid));
        }
        for none in [&b"GET / HTTP/1.1"[..], b"PRI * HTTP/2.0", b"PROX: "] {
            assert_eq!(read(none), Preamble::None);
        }
    }

    #[test]
    fn version_2_has_commands_and_families() {
        let mut local = SIGNATURE.to_vec();
        local.extend_from_slice(&[0x20, 0, 0, 0]);
        assert_eq!(read(&local), header(16, ""));
        let mut short = SIGNATURE.to_vec();
        short.extend_from_slice(&[0x21, 0x11, 0, 4, 1, 2, 3, 4]);
        assert_eq!(read(&short), Preamble::Invalid);
        short[12] = 0x31;
        assert_eq!(read(&short), Preamble::Invalid);
        short[12..16].copy_from_slice(&[0x21, 0x11, 0xff, 0xff]);
        assert_eq!(read(&short), Preamble::Invalid);
    }

    proptest! {
        /// Law: what is written is read again, and every part of it asks for more.
        #[test]
        fn what_is_written_is_read(client: [u8; 16], used: [u8; 16], ports: (u16, u16), v4: (bool, bool)) {
            let address = |bytes: [u8; 16], is_v4, port| {
                let [a, b, c, d, ..] = bytes;
                let address: IpAddr = if is_v4 { Ipv4Addr::new(a, b, c, d).into() } else { Ipv6Addr::from(bytes).into() };
                SocketAddr::new(address.to_canonical(), port)
            };
            let client = address(client, v4.0, ports.0);
            let written = write(client, address(used, v4.1, ports.1), Carried::Stream);
            prop_assert_eq!(read(&written), Preamble::Header { length: written.len(), client: Some(client) });
            for cut in 0..written.len() {
                prop_assert_eq!(read(&written[..cut]), Preamble::More);
            }
        }

        /// Law: nothing panics, and nothing asks for more than the most.
        #[test]
        fn anything_is_read(tail: Vec<u8>, v2: bool) {
            let mut bytes = if v2 { SIGNATURE.to_vec() } else { V1.to_vec() };
            bytes.extend(tail);
            bytes.resize(LENGTH_MAX.max(bytes.len()), b' ');
            prop_assert_ne!(read(&bytes), Preamble::More);
        }
    }
}
