//! One probe: what is sent, what was heard, and when there is nothing left to wait for.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use super::packet::{self, Echo, Heard, Kind, Knock, Way};
use super::socket::{Place, Sockets};
use super::{Connection, Work};
use crate::error::NetError;
use crate::namespace::Namespace;

/// Between two tries of what has not been answered.
const AGAIN: Duration = Duration::from_millis(200);

/// How long others are listened to, even if everything here is answered: they were asked at the same time, but not
/// at the same moment.
const LISTEN: Duration = Duration::from_millis(500);

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(2);

/// Source ports of connections: below those that systems choose by themselves.
const PORTS: (u16, u16) = (20_000, 10_000);

/// What was found out by packets, by the addresses of routers in the mesh.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) answered: BTreeMap<Ipv4Addr, Duration>,
    pub(crate) answered_full: BTreeSet<Ipv4Addr>,
    pub(crate) heard: BTreeSet<Ipv4Addr>,
    pub(crate) heard_full: BTreeSet<Ipv4Addr>,
    pub(crate) sent_forbidden: BTreeSet<Ipv4Addr>,
    pub(crate) arrived_forbidden: BTreeSet<Ipv4Addr>,
    pub(crate) connections: BTreeMap<Ipv4Addr, Connection>,
}

/// Sends and hears, on a thread that may block. `tunnel` is the index of the tunnel's interface.
///
/// # Errors
/// If no sockets can be opened in the router's namespace, or they fail.
pub(crate) fn run(namespace: &Namespace, work: &Work, tunnel: usize) -> Result<Found, NetError> {
    let seed = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic).tv_nsec;
    let chance = u16::try_from(seed.unsigned_abs() / 1000 % u64::from(PORTS.1)).unwrap_or(0);
    let source_port = PORTS.0 + chance;
    let sockets = Sockets::open(namespace, source_port, tunnel)?;
    let mut probe =
        Probe { work, id: chance, source_port, begun: Instant::now(), found: Found::default() };
    let mut next = probe.begun;
    while !probe.is_over() {
        if Instant::now() >= next {
            next = Instant::now() + AGAIN;
            probe.send(&sockets);
        }
        let patience = next.saturating_duration_since(Instant::now());
        let heard = sockets.hear(patience);
        if let Some((heard, place)) = heard.map_err(crate::error::refused("hear packets"))? {
            probe.note(heard, place, &sockets);
        }
    }
    let targets = work.connect.iter().flat_map(|(_, ways)| ways);
    for (_, target) in targets {
        probe.found.connections.entry(*target).or_insert(Connection::Silent);
    }
    Ok(probe.found)
}

struct Probe<'a> {
    work: &'a Work,
    id: u16,
    source_port: u16,
    begun: Instant,
    found: Found,
}

impl Probe<'_> {
    fn is_over(&self) -> bool {
        let (passed, found) = (self.begun.elapsed(), &self.found);
        let window = Duration::from_millis(self.work.window_ms);
        let mut targets = self.work.connect.iter().flat_map(|(_, ways)| ways);
        let connected = targets.all(|(_, target)| found.connections.contains_key(target));
        let mut others = self.work.others.iter();
        let answered = others.all(|other| found.answered_full.contains(&other.address));
        let listened = window.min(if answered { LISTEN } else { window });
        passed >= listened && (connected || passed >= CONNECT.max(listened))
    }

    /// Sends what is not answered. What cannot be sent is as good as lost, and found as such.
    fn send(&mut self, sockets: &Sockets) {
        let own = self.work.tunnel.map(|tunnel| (tunnel.address, tunnel.mtu));
        if let Some((own, mtu)) = own {
            for other in &self.work.others {
                let echo = |kind, (source, destination)| Echo {
                    way: Way { source, destination },
                    id: self.id,
                    kind,
                    asks: own,
                };
                let direct = (own, other.address);
                if !self.found.answered.contains_key(&other.address) {
                    drop(sockets.send(&packet::question(echo(Kind::Small, direct), 0)));
                }
                if !self.found.answered_full.contains(&other.address) {
                    drop(sockets.send(&packet::question(echo(Kind::Full, direct), mtu)));
                }
                if let Some(way) = other.forbidden
                    && sockets.send(&packet::question(echo(Kind::Forbidden, way), 0)).is_ok()
                {
                    self.found.sent_forbidden.insert(other.address);
                }
            }
        }
        for knock in self.knocks() {
            if !self.found.connections.contains_key(&knock.way.destination) {
                drop(sockets.send(&packet::knock(knock)));
            }
        }
    }

    fn knocks(&self) -> Vec<Knock> {
        let Some((port, ways)) = &self.work.connect else { return Vec::new() };
        let knock = |(source, destination): &(Ipv4Addr, Ipv4Addr)| Knock {
            way: Way { source: *source, destination: *destination },
            source_port: self.source_port,
            port: *port,
        };
        ways.iter().map(knock).collect()
    }

    fn note(&mut self, heard: Heard, place: Place, sockets: &Sockets) {
        let taken = self.begun.elapsed();
        let taken_us = u64::try_from(taken.as_micros()).unwrap_or(u64::MAX);
        match heard {
            Heard::Question(echo) => self.note_question(echo, place),
            Heard::Answer(echo) if echo.id == self.id => match echo.kind {
                Kind::Small => {
                    self.found.answered.entry(echo.way.source).or_insert(taken);
                }
                Kind::Full => {
                    self.found.answered_full.insert(echo.way.source);
                }
                Kind::Forbidden => {}
            },
            Heard::Answer(_) => {}
            Heard::Accepted { knock, sequence } if self.knocks().contains(&knock) => {
                drop(sockets.send(&packet::give_up(knock, sequence)));
                let accepted = Connection::Accepted { taken_us };
                self.found.connections.entry(knock.way.destination).or_insert(accepted);
            }
            Heard::Refused(knock) if self.knocks().contains(&knock) => {
                let refused = Connection::Refused;
                self.found.connections.entry(knock.way.destination).or_insert(refused);
            }
            Heard::Accepted { .. } | Heard::Refused(_) => {}
        }
    }

    fn note_question(&mut self, echo: Echo, place: Place) {
        // One's own are heard on their way out.
        if self.work.tunnel.is_some_and(|tunnel| tunnel.address == echo.asks) {
            return;
        }
        match (echo.kind, place) {
            (Kind::Small, _) => self.found.heard.insert(echo.asks),
            (Kind::Full, _) => self.found.heard_full.insert(echo.asks),
            (Kind::Forbidden, Place::Port) => self.found.arrived_forbidden.insert(echo.asks),
            (Kind::Forbidden, Place::Tunnel) => false,
        };
    }
}
