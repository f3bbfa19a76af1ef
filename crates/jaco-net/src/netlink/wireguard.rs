//! WireGuard devices of the kernel, over generic netlink.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jaco_dataplane::{Peer, PeerChange, PublicKey};
use netlink_packet_generic::GenlMessage;
use netlink_packet_generic::ctrl::nlas::GenlCtrlAttrs;
use netlink_packet_generic::ctrl::{GenlCtrl, GenlCtrlCmd};
use netlink_packet_wireguard::{
    WireguardAddressFamily, WireguardAllowedIp, WireguardAllowedIpAttr, WireguardAttribute,
    WireguardCmd, WireguardMessage, WireguardPeer, WireguardPeerAttribute, WireguardPeerFlags,
};

use super::socket::{Missing, Socket};

/// Addresses that one message may carry: a message must fit into 64 KiB.
const ADDRESSES: usize = 1024;

/// Seconds between keepalives: so often that the other side is found again soon after it was restarted.
const KEEPALIVE: u16 = 10;

/// Speaks to the kernel's WireGuard.
#[derive(Debug)]
pub(crate) struct WireGuard {
    socket: Socket,
    family: u16,
}

/// What a device has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Device {
    pub(crate) key: PublicKey,
    pub(crate) port: u16,
    pub(crate) peers: BTreeMap<PublicKey, Peer>,
    pub(crate) links: BTreeMap<PublicKey, PeerLink>,
}

/// What a tunnel knows of a peer besides what it was told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PeerLink {
    /// Where it was heard of last, or is said to listen.
    pub(crate) endpoint: Option<SocketAddr>,
    /// How long ago the last handshake was.
    pub(crate) handshake: Option<Duration>,
    /// Bytes.
    pub(crate) received: u64,
    /// Bytes.
    pub(crate) sent: u64,
}

impl WireGuard {
    /// Opens it, in the namespace of the calling thread.
    ///
    /// # Errors
    /// If the kernel has no WireGuard.
    pub(crate) fn open() -> io::Result<Self> {
        let mut socket = Socket::generic()?;
        let request =
            GenlMessage::from_payload(GenlCtrl { cmd: GenlCtrlCmd::GetFamily, nlas: Vec::new() });
        let families = socket.dump(request, 0)?;
        let family = families.iter().find_map(|family| wireguard_id(&family.payload.nlas));
        let family = family.ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
        Ok(Self { socket, family })
    }

    /// Gives a device its key and port.
    pub(crate) fn configure(&mut self, name: &str, key: [u8; 32], port: u16) -> io::Result<()> {
        let attributes = vec![
            WireguardAttribute::IfName(name.to_owned()),
            WireguardAttribute::PrivateKey(key),
            WireguardAttribute::ListenPort(port),
        ];
        self.set([attributes])
    }

    /// Begins a handshake with each peer that there is no session with: the kernel sends a keepalive where it is told to
    /// begin with them.
    pub(crate) fn greet(&mut self, name: &str) -> io::Result<()> {
        let peers = self.device(name)?.peers.into_keys();
        let messages = peers.flat_map(|key| {
            [0, KEEPALIVE].map(|seconds| device(name, with_keepalive(key, seconds)))
        });
        let messages: Vec<_> = messages.collect();
        self.set(messages)
    }

    /// Changes a peer, and adds one that is not there; without an endpoint it keeps its own. Addresses that stay are
    /// never without it.
    pub(crate) fn change_peer(
        &mut self,
        name: &str,
        key: PublicKey,
        change: &PeerChange,
    ) -> io::Result<()> {
        let gone: Vec<Ipv4Addr> = change.lost.iter().copied().collect();
        let new: Vec<Ipv4Addr> = change.gained.iter().copied().collect();
        let mut messages = Vec::new();
        // The kernel takes an address from a peer by giving it to another; that other one is then removed.
        let nobody = PublicKey([0xff; 32]);
        for part in gone.chunks(ADDRESSES) {
            messages.push(device(name, encoded(nobody, Vec::new(), part)));
            messages.push(device(name, removed(nobody)));
        }
        let mut fixed = vec![WireguardPeerAttribute::PersistentKeepalive(KEEPALIVE)];
        fixed.extend(change.endpoint.map(WireguardPeerAttribute::Endpoint));
        let mut parts = new.chunks(ADDRESSES);
        let first = parts.next().unwrap_or_default();
        messages.push(device(name, encoded(key, fixed, first)));
        messages.extend(parts.map(|part| device(name, encoded(key, Vec::new(), part))));
        self.set(messages)
    }

    /// Removes a peer that may be gone already.
    pub(crate) fn remove_peer(&mut self, name: &str, key: PublicKey) -> io::Result<()> {
        self.set([device(name, removed(key))])
    }

    /// What a device has.
    pub(crate) fn device(&mut self, name: &str) -> io::Result<Device> {
        let attributes = vec![WireguardAttribute::IfName(name.to_owned())];
        let message = self.message(WireguardCmd::GetDevice, attributes);
        let answers = self.socket.dump(message, 0)?;
        Ok(read(answers.into_iter().flat_map(|answer| answer.payload.attributes)))
    }

    fn set(
        &mut self,
        messages: impl IntoIterator<Item = Vec<WireguardAttribute>>,
    ) -> io::Result<()> {
        let messages: Vec<_> = messages
            .into_iter()
            .map(|attributes| self.message(WireguardCmd::SetDevice, attributes))
            .collect();
        self.socket.request(messages, 0, Missing::Error)
    }

    fn message(
        &self,
        cmd: WireguardCmd,
        attributes: Vec<WireguardAttribute>,
    ) -> GenlMessage<WireguardMessage> {
        let mut message = GenlMessage::from_payload(WireguardMessage { cmd, attributes });
        message.set_resolved_family_id(self.family);
        message
    }
}

fn wireguard_id(attributes: &[GenlCtrlAttrs]) -> Option<u16> {
    let is_it = |attribute: &GenlCtrlAttrs| matches!(attribute, GenlCtrlAttrs::FamilyName(name) if name == "wireguard");
    attributes.iter().any(is_it).then_some(())?;
    attributes.iter().find_map(|attribute| {
        if let GenlCtrlAttrs::FamilyId(id) = attribute { Some(*id) } else { None }
    })
}

fn device(name: &str, peer: WireguardPeer) -> Vec<WireguardAttribute> {
    vec![WireguardAttribute::IfName(name.to_owned()), WireguardAttribute::Peers(vec![peer])]
}

fn encoded(
    key: PublicKey,
    more: Vec<WireguardPeerAttribute>,
    addresses: &[Ipv4Addr],
) -> WireguardPeer {
    let allowed = addresses.iter().map(|address| {
        WireguardAllowedIp(vec![
            WireguardAllowedIpAttr::Family(WireguardAddressFamily::Ipv4),
            WireguardAllowedIpAttr::IpAddr(IpAddr::V4(*address)),
            WireguardAllowedIpAttr::Cidr(32),
        ])
    });
    let mut attributes = vec![WireguardPeerAttribute::PublicKey(key.0)];
    attributes.extend(more);
    attributes.push(WireguardPeerAttribute::AllowedIps(allowed.collect()));
    WireguardPeer(attributes)
}

/// A peer that is there, with this interval of keepalives; 0 for none.
fn with_keepalive(key: PublicKey, seconds: u16) -> WireguardPeer {
    WireguardPeer(vec![
        WireguardPeerAttribute::PublicKey(key.0),
        WireguardPeerAttribute::Flags(WireguardPeerFlags::UpdateOnly),
        WireguardPeerAttribute::PersistentKeepalive(seconds),
    ])
}

fn removed(key: PublicKey) -> WireguardPeer {
    WireguardPeer(vec![
        WireguardPeerAttribute::PublicKey(key.0),
        WireguardPeerAttribute::Flags(WireguardPeerFlags::RemoveMe),
    ])
}

/// A peer with many addresses comes in several parts, each with its key.
fn read(attributes: impl Iterator<Item = WireguardAttribute>) -> Device {
    let mut device =
        Device { key: PublicKey([0; 32]), port: 0, peers: BTreeMap::new(), links: BTreeMap::new() };
    for attribute in attributes {
        if let WireguardAttribute::PublicKey(key) = attribute {
            device.key = PublicKey(key);
        } else if let WireguardAttribute::ListenPort(port) = attribute {
            device.port = port;
        } else if let WireguardAttribute::Peers(peers) = attribute {
            for (key, endpoint, addresses) in peers.iter().filter_map(read_peer) {
                let peer = device.peers.entry(key).or_default();
                peer.endpoint = endpoint.or(peer.endpoint);
                peer.addresses.extend(addresses);
            }
            for peer in &peers {
                read_link(peer, &mut device.links);
            }
        }
    }
    device
}

/// Only the first part of a peer with many addresses has these.
fn read_link(peer: &WireguardPeer, links: &mut BTreeMap<PublicKey, PeerLink>) {
    let key = peer.iter().find_map(|part| {
        if let WireguardPeerAttribute::PublicKey(key) = part { Some(PublicKey(*key)) } else { None }
    });
    let Some(key) = key else { return };
    let link = links.entry(key).or_default();
    for part in peer.iter() {
        if let WireguardPeerAttribute::Endpoint(found) = part {
            link.endpoint = Some(*found);
        } else if let WireguardPeerAttribute::LastHandshake(at) = part {
            link.handshake = since(at.seconds, at.nano_seconds);
        } else if let WireguardPeerAttribute::RxBytes(bytes) = part {
            link.received = *bytes;
        } else if let WireguardPeerAttribute::TxBytes(bytes) = part {
            link.sent = *bytes;
        }
    }
}

/// The kernel says when a handshake was, by the clock on the wall, and zero for never.
fn since(seconds: i64, nanoseconds: i64) -> Option<Duration> {
    let seconds = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0)?;
    let nanoseconds = u32::try_from(nanoseconds).unwrap_or_default();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Some(now.saturating_sub(Duration::new(seconds, nanoseconds)))
}

fn read_peer(peer: &WireguardPeer) -> Option<(PublicKey, Option<SocketAddr>, BTreeSet<Ipv4Addr>)> {
    let (mut key, mut endpoint, mut addresses) = (None, None, BTreeSet::new());
    for attribute in peer.iter() {
        if let WireguardPeerAttribute::PublicKey(found) = attribute {
            key = Some(PublicKey(*found));
        } else if let WireguardPeerAttribute::Endpoint(found) = attribute {
            endpoint = Some(*found);
        } else if let WireguardPeerAttribute::AllowedIps(allowed) = attribute {
            let all = allowed.iter().flat_map(|allowed| allowed.iter());
            addresses.extend(all.filter_map(|part| {
                let WireguardAllowedIpAttr::IpAddr(IpAddr::V4(address)) = part else { return None };
                Some(*address)
            }));
        }
    }
    Some((key?, endpoint, addresses))
}
