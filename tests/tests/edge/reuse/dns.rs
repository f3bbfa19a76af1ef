//! Asks a name server as a resolver does (RFC 1035).

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

/// How long an answer may take.
const ANSWERED: Duration = Duration::from_secs(1);

const HEADER: usize = 12;

/// The IPv4 addresses of a name.
///
/// # Errors
/// When there is no answer, or it cannot be read.
pub(super) fn addresses(server: IpAddr, name: &str) -> Result<Vec<Ipv4Addr>, String> {
    let asked = || -> std::io::Result<Vec<u8>> {
        let socket = UdpSocket::bind(("0.0.0.0", 0))?;
        socket.set_read_timeout(Some(ANSWERED))?;
        socket.connect(SocketAddr::from((server, 53)))?;
        socket.send(&question(name))?;
        let mut answer = vec![0; 4096];
        let length = socket.recv(&mut answer)?;
        answer.truncate(length);
        Ok(answer)
    };
    let answer = asked().map_err(|error| format!("{name} at {server}: {error}"))?;
    found(&answer).ok_or_else(|| format!("{name} at {server}: {answer:?}"))
}

/// One question for an A record; recursion is desired.
fn question(name: &str) -> Vec<u8> {
    let mut bytes = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len()).expect("labels are short"));
        bytes.extend_from_slice(label.as_bytes());
    }
    bytes.extend_from_slice(&[0, 0, 1, 0, 1]);
    bytes
}

/// The A records of an answer; `None` if it is not whole.
fn found(answer: &[u8]) -> Option<Vec<Ipv4Addr>> {
    let number = |at: usize| {
        let bytes = answer.get(at..at + 2)?;
        Some(usize::from(u16::from_be_bytes([bytes[0], bytes[1]])))
    };
    let mut at = HEADER;
    for _ in 0..number(4)? {
        at = after_name(answer, at)? + 4;
    }
    let mut found = Vec::new();
    for _ in 0..number(6)? {
        at = after_name(answer, at)?;
        let (kind, length) = (number(at)?, number(at + 8)?);
        let data = answer.get(at + 10..at + 10 + length)?;
        if let (1, Ok(octets)) = (kind, <[u8; 4]>::try_from(data)) {
            found.push(Ipv4Addr::from(octets));
        }
        at += 10 + length;
    }
    Some(found)
}

/// Where a name ends: labels up to an empty one, or to a pointer.
fn after_name(answer: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match usize::from(*answer.get(at)?) {
            0 => return Some(at + 1),
            pointer if pointer >= 0xc0 => return Some(at + 2),
            length => at += 1 + length,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_found_behind_names_and_pointers() {
        let mut answer = question("a");
        answer[7] = 2;
        let cname = [0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 0, 0, 2, 0xc0, 12];
        let address = [1, b'a', 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 10, 65, 0, 9];
        answer.extend_from_slice(&cname);
        answer.extend_from_slice(&address);
        assert_eq!(found(&answer), Some(vec![Ipv4Addr::new(10, 65, 0, 9)]));
        assert_eq!(found(&answer[..answer.len() - 1]), None);
    }
}
