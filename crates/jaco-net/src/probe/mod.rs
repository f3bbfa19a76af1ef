//! What holds between this router and others right now, by packets: echoes to the routers behind the tunnel, small
//! ones and such of full size, one that the rules there must drop, and the first packet of connections.
//!
//! All routers of a cluster are asked at the same time, so that each hears what the others send: what does not come
//! back may have been lost in either direction. Packets are heard below the rules, so a connection can be tried in the
//! name of a replica, whose answer is the replica's: it never listened, and gives the connection up.
//!
//! ```text
//! packet    the packets as bytes
//! socket    in and out of the router
//! run       sends and hears
//! ```

mod packet;
mod run;
mod socket;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use jaco_dataplane::{Peer, PublicKey, SitePlan, Tunnel};
use nix::sys::socket::{getsockopt, sockopt};
use serde::{Deserialize, Serialize};

use crate::error::chain;
use crate::namespace::Namespace;
use crate::netlink::PeerLink;
use run::{Found, run};

/// What is asked of a router.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeQuestion {
    /// How long packets are sent and listened for at most, in milliseconds.
    pub window_ms: u64,
    /// An address of an instance of this site, and the name that it asks for.
    pub lookup: Option<(Ipv4Addr, String)>,
    /// Connections to try.
    pub connect: Option<Connect>,
}

/// Connections to try in the name of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connect {
    /// The address of the instance. Where the target is of the same site, the router's own is used.
    pub source: Ipv4Addr,
    /// The TCP port of the targets.
    pub port: u16,
    /// The addresses to connect to.
    pub targets: Vec<Ipv4Addr>,
}

/// What a router found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeReport {
    /// Why packets could not be sent, if that is so.
    pub error: Option<String>,
    /// What the asked name leads to; `None` if the resolver knows no such asker or name.
    pub addresses: Option<Vec<Ipv4Addr>>,
    /// The other routers that this one has a way to.
    pub peers: Vec<PeerReport>,
    /// What came of each connection.
    pub connections: Vec<(Ipv4Addr, Connection)>,
    /// Routers by their addresses in the mesh whose forbidden packets left the tunnel here.
    pub arrived_forbidden: Vec<Ipv4Addr>,
}

/// Another router, as this one's tunnel and packets see it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerReport {
    /// Its WireGuard key.
    pub key: [u8; 32],
    /// Where it was heard of last, or is said to listen.
    pub endpoint: Option<SocketAddr>,
    /// Milliseconds since the last handshake; `None` if there was none.
    pub handshake_ms: Option<u64>,
    /// Bytes that came from it, of the tunnel's own included.
    pub received: u64,
    /// Bytes that were sent to it.
    pub sent: u64,
    /// Whether its small packets arrived here.
    pub hears: bool,
    /// Whether its packets of full size arrived here.
    pub hears_full: bool,
    /// The round trip of a small packet, in microseconds; `None` without an answer.
    pub answered_us: Option<u64>,
    /// Whether a packet of full size came back.
    pub answered_full: bool,
    /// Whether a packet was sent that the rules there must drop.
    pub sent_forbidden: bool,
    /// The largest packet that the way to its endpoint takes, in bytes, as far as this machine knows it.
    pub path_mtu: Option<u32>,
}

/// What came of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Connection {
    /// Something listens.
    Accepted {
        /// The round trip, in microseconds.
        taken_us: u64,
    },
    /// Nothing listens.
    Refused,
    /// No answer came.
    Silent,
}

/// A probe that can begin.
#[derive(Debug)]
pub(crate) struct Probe {
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) work: Work,
    /// The number of the tunnel's interface.
    pub(crate) tunnel: Option<u32>,
    pub(crate) links: BTreeMap<PublicKey, PeerLink>,
    pub(crate) addresses: Option<Vec<Ipv4Addr>>,
}

impl Probe {
    /// Sends and hears. Blocks for the window of the question, or as long as a connection may take.
    pub(crate) fn run(self) -> ProbeReport {
        let tunnel = self.tunnel.and_then(|index| usize::try_from(index).ok());
        let (found, error) = match run(&self.namespace, &self.work, tunnel.unwrap_or_default()) {
            Ok(found) => (found, None),
            Err(error) => (Found::default(), Some(chain(&error))),
        };
        let peers = self.work.others.iter();
        ProbeReport {
            error,
            addresses: self.addresses,
            peers: peers.map(|other| report(other, self.links.get(&other.key), &found)).collect(),
            connections: found.connections.into_iter().collect(),
            arrived_forbidden: found.arrived_forbidden.into_iter().collect(),
        }
    }
}

fn report(other: &Other, link: Option<&PeerLink>, found: &Found) -> PeerReport {
    let link = link.copied().unwrap_or_default();
    let micros = |time: &Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let address = &other.address;
    PeerReport {
        key: other.key.0,
        endpoint: link.endpoint,
        handshake_ms: link.handshake.map(millis),
        received: link.received,
        sent: link.sent,
        hears: found.heard.contains(address),
        hears_full: found.heard_full.contains(address),
        answered_us: found.answered.get(address).map(micros),
        answered_full: found.answered_full.contains(address),
        sent_forbidden: found.sent_forbidden.contains(address),
        path_mtu: link.endpoint.and_then(path_mtu),
    }
}

/// The largest packet to an endpoint, in the namespace of the container engine, where this thread is.
fn path_mtu(endpoint: SocketAddr) -> Option<u32> {
    let SocketAddr::V4(endpoint) = endpoint else { return None };
    let socket = UdpSocket::bind((IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0)).ok()?;
    socket.connect(endpoint).ok()?;
    u32::try_from(getsockopt(&socket, sockopt::IpMtu).ok()?).ok()
}

/// What a probe sends, and for how long.
#[derive(Debug, Clone, Default)]
pub(crate) struct Work {
    window_ms: u64,
    tunnel: Option<Tunnel>,
    others: Vec<Other>,
    connect: Option<(u16, Vec<(Ipv4Addr, Ipv4Addr)>)>,
}

/// Another router.
#[derive(Debug, Clone, Copy)]
struct Other {
    key: PublicKey,
    /// In the mesh.
    address: Ipv4Addr,
    /// Source and destination of a packet that it must drop.
    forbidden: Option<(Ipv4Addr, Ipv4Addr)>,
}

impl Work {
    /// What is to be sent to answer a question, by the plan that the router holds.
    pub(crate) fn of(plan: &SitePlan, question: &ProbeQuestion) -> Self {
        let other = |(key, peer): (&PublicKey, &Peer)| {
            let mesh = plan.tunnel?.mesh;
            let address = peer.addresses.iter().copied().find(|one| mesh.contains(*one))?;
            Some(Other { key: *key, address, forbidden: forbidden(plan, peer) })
        };
        let connect = question.connect.as_ref().map(|connect| {
            let source = |target: &Ipv4Addr| match plan.routes.contains_key(target) {
                true => connect.source,
                false => local_source(plan, *target).unwrap_or(connect.source),
            };
            let ways = connect.targets.iter().map(|target| (source(target), *target));
            (connect.port, ways.collect())
        });
        Self {
            window_ms: question.window_ms,
            tunnel: plan.tunnel,
            others: plan.peers.iter().filter_map(other).collect(),
            connect,
        }
    }
}

/// The router's own address in the network of an address.
fn local_source(plan: &SitePlan, target: Ipv4Addr) -> Option<Ipv4Addr> {
    let mut ports = plan.ports.values();
    ports.find(|port| port.subnet.prefix().contains(target)).map(|port| port.subnet.router())
}

/// From an instance here to one there that it shares no network with; where there is none, from the router itself.
/// The tunnel there admits both sources, so that only its rules can stop them.
fn forbidden(plan: &SitePlan, peer: &Peer) -> Option<(Ipv4Addr, Ipv4Addr)> {
    let there = || {
        let routes = peer.addresses.iter();
        routes.filter_map(|address| Some((*address, *plan.routes.get(address)?)))
    };
    let stranger = plan.names.askers.iter().find_map(|(source, asker)| {
        let network = plan.names.owners.get(source)?.network;
        there().find(|(_, other)| *other == network)?;
        let foreign = there().find(|(_, other)| !asker.networks.contains(other))?;
        Some((*source, foreign.0))
    });
    stranger.or_else(|| Some((plan.tunnel?.address, there().next()?.0)))
}
