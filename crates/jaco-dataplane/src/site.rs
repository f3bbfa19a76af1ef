//! What the router of one site should hold.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};

use jaco_types::{Ipv4Prefix, NetworkId, Subnet};

use crate::edge::ListenerKey;
use crate::names::Names;
use crate::topology::{InterfaceName, PublicKey};

/// What the router of one site should hold. Made by [`plan`](crate::plan()) alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SitePlan {
    /// Which packets are let through.
    pub policy: Policy,
    /// The way to other sites. `None`: there is none, and no peers and no routes either.
    pub tunnel: Option<Tunnel>,
    /// The networks that have an instance here.
    pub ports: BTreeMap<NetworkId, Port>,
    /// The other sites that have an instance in one of these networks, or one that edges serve; all, if one that
    /// edges serve is here.
    pub peers: BTreeMap<PublicKey, Peer>,
    /// Addresses of instances elsewhere that lead into the tunnel, with their network. Each is among the
    /// addresses of exactly one peer.
    pub routes: BTreeMap<Ipv4Addr, NetworkId>,
    /// What the resolver answers.
    pub names: Names,
    /// The sockets of the edge, in the namespace of the node.
    pub listeners: BTreeSet<ListenerKey>,
}

/// Which packets are let through; what is not named here is dropped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// Between the tunnel and a network: one scope per port, its name being unique.
    pub scopes: BTreeMap<NetworkId, Scope>,
    /// The instances here that the edges of other sites connect to, with their network. Their packets come from
    /// addresses of the mesh, and leave with the address of this router in the network.
    pub served: BTreeMap<Ipv4Addr, NetworkId>,
    /// Whose packets out of the tunnel may reach the router itself. `None`: nobody's, and nothing is served.
    pub mesh: Option<Ipv4Prefix>,
}

impl Policy {
    /// The policy of a router with these ports: one scope for each. Nothing is served.
    pub fn of(ports: &BTreeMap<NetworkId, Port>, mesh: Option<Ipv4Prefix>) -> Self {
        let scopes = ports.iter().map(|(id, port)| (*id, Scope::of(port))).collect();
        Self { scopes, served: BTreeMap::new(), mesh }
    }
}

/// Packets between the tunnel and `interface` are let through if source and destination are in `subnet`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// The router's interface of the network.
    pub interface: InterfaceName,
    /// The network's addresses.
    pub subnet: Subnet,
}

impl Scope {
    /// That of a port.
    pub(crate) fn of(port: &Port) -> Self {
        Self { interface: port.interface.clone(), subnet: port.subnet }
    }
}

/// The router's end of the tunnel to all other sites.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tunnel {
    /// The router's address in the mesh.
    pub address: Ipv4Addr,
    /// The addresses of all routers.
    pub mesh: Ipv4Prefix,
    /// The key that the other sites expect of this one.
    pub key: PublicKey,
    /// The largest packet, in bytes.
    pub mtu: u16,
}

/// The router's port in the bridge of a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// The interface in the router.
    pub interface: InterfaceName,
    /// The other end, in the bridge.
    pub bridge_end: InterfaceName,
    /// The bridge, in the namespace of the container engine.
    pub bridge: InterfaceName,
    /// The network's addresses; the router has [`Subnet::router`].
    pub subnet: Subnet,
    /// The largest packet, in bytes.
    pub mtu: u16,
}

/// Another site.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Peer {
    /// Where its tunnel listens. `None`: it has to begin.
    pub endpoint: Option<SocketAddr>,
    /// The only addresses that it may send from, and that are sent to it: its own in the mesh, those of its live
    /// instances in the networks of this site, and of those that edges serve the first.
    pub addresses: BTreeSet<Ipv4Addr>,
}

impl Port {
    /// The port of a network.
    pub fn new(id: NetworkId, bridge: InterfaceName, subnet: Subnet, mtu: u16) -> Self {
        Self {
            interface: Self::interface_of(id),
            bridge_end: InterfaceName::numbered("jr", id),
            bridge,
            subnet,
            mtu,
        }
    }

    /// The interface in the router that the port of a network has.
    pub(crate) fn interface_of(id: NetworkId) -> InterfaceName {
        InterfaceName::numbered("s", id)
    }
}
