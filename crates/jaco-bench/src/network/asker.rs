//! Asks the resolver of a container as its programs do: from its network namespace, and the server that its
//! `resolv.conf` names.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Between questions: a resolver answers a container at most 200 a second.
const PAUSE: Duration = Duration::from_millis(6);
/// An answer takes less than a millisecond.
const PATIENCE: Duration = Duration::from_secs(2);
const LIMIT: Duration = Duration::from_secs(60);

/// The bytes before the question.
const HEAD: usize = 12;

/// A socket inside a container, connected to its resolver.
pub(super) struct Asker {
    socket: UdpSocket,
}

impl Asker {
    /// In the container whose first process has this folder below `/proc`.
    pub(super) fn open(process: &Path) -> Result<Self> {
        let settings = fs::read_to_string(process.join("root/etc/resolv.conf"))?;
        let server = settings.lines().find_map(|line| line.strip_prefix("nameserver "));
        let server: Ipv4Addr = server.context("the container has a resolver")?.trim().parse()?;
        let namespace = File::open(process.join("ns/net"))?;
        // A thread of its own, as the namespace of a thread is for its whole life. The socket stays in there.
        let open = || -> io::Result<UdpSocket> {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
            UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
        };
        let opened = thread::scope(|scope| scope.spawn(open).join());
        let socket = opened.map_err(|_| anyhow::anyhow!("the thread in the container ended"))??;
        socket.connect((server, 53))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { socket })
    }

    /// Waits until the answer for a name has an address.
    pub(super) fn until_known(&self, name: &str, address: Ipv4Addr) -> Result<()> {
        self.until(name, |found| found.contains(&address)).map(drop)
    }

    /// When the first answer for a name came that lacks an address.
    pub(super) fn until_gone(&self, name: &str, address: Ipv4Addr) -> Result<Instant> {
        self.until(name, |found| !found.contains(&address))
    }

    fn until(&self, name: &str, holds: impl Fn(&[Ipv4Addr]) -> bool) -> Result<Instant> {
        let begun = Instant::now();
        loop {
            if holds(&self.ask(name)?) {
                return Ok(Instant::now());
            }
            ensure!(begun.elapsed() < LIMIT, "the answer for {name} did not change");
            thread::sleep(PAUSE);
        }
    }

    fn ask(&self, name: &str) -> Result<Vec<Ipv4Addr>> {
        self.socket.send(&question(name))?;
        let mut answer = [0; 1500];
        let length = self.socket.recv(&mut answer).with_context(|| format!("asking for {name}"))?;
        addresses(&answer[..length], question(name).len()).context("an answer is not readable")
    }
}

/// Asks for IPv4 addresses. One question is on its way at a time, so all have one number.
fn question(name: &str) -> Vec<u8> {
    // The number, recursion desired, one question.
    let mut bytes = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len()).unwrap_or(u8::MAX));
        bytes.extend_from_slice(label.as_bytes());
    }
    bytes.extend([0, 0, 1, 0, 1]);
    bytes
}

/// The addresses of an answer whose first record begins at `at`. Names in it are two bytes that point to the question, or
/// labels.
fn addresses(answer: &[u8], mut at: usize) -> Option<Vec<Ipv4Addr>> {
    let short = |at: usize| Some(u16::from_be_bytes(answer.get(at..at + 2)?.try_into().ok()?));
    let mut found = Vec::new();
    debug_assert!(at > HEAD, "there is a question");
    for _ in 0..short(6)? {
        while let length @ 1..=63 = *answer.get(at)? {
            at += 1 + usize::from(length);
        }
        at += if *answer.get(at)? == 0 { 1 } else { 2 };
        let (kind, length) = (short(at)?, usize::from(short(at + 8)?));
        let data = answer.get(at + 10..at + 10 + length)?;
        if kind == 1 {
            found.push(Ipv4Addr::from(<[u8; 4]>::try_from(data).ok()?));
        }
        at += 10 + length;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let asked = question("db.shop");
        assert_eq!(asked[HEAD..].len(), 1 + 2 + 1 + 4 + 1 + 4);
        let mut answer = asked.clone();
        answer[7] = 2;
        let record = |name: &[u8], last: u8| {
            [name, &[0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 10, 65, 0, last]].concat()
        };
        answer.extend(record(&[0xc0, 12], 3));
        answer.extend(record(b"\x02db\x04shop\0", 4));
        let expected = [Ipv4Addr::new(10, 65, 0, 3), Ipv4Addr::new(10, 65, 0, 4)];
        assert_eq!(addresses(&answer, asked.len()).as_deref(), Some(&expected[..]));
        answer.pop();
        assert_eq!(addresses(&answer, asked.len()), None);
    }
}
