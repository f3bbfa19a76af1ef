//! Where a packet arrives, by the plans of all sites alone: the meaning of a [`SitePlan`], for tests and
//! simulations. The kernel has the last say; tests with real packets compare it with this.
//!
//! Containers and routers differ: [`deliver`] is about what a container sends, whatever source it claims,
//! [`deliver_of_router`] about what a router itself sends, as the edge in it does.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use jaco_types::{NetworkId, NodeId};

use crate::site::{Port, Scope, SitePlan};

/// A packet that a container sends; its source address may be forged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// Where it claims to come from.
    pub source: Ipv4Addr,
    /// Where it is sent.
    pub destination: Ipv4Addr,
}

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// It is in the bridge of a network: whoever has the destination there gets it.
    Bridge {
        /// The site of the bridge.
        site: NodeId,
        /// The network of the bridge.
        network: NetworkId,
    },
    /// It ends at the router of its own site.
    Router,
    /// Nobody gets it.
    Dropped(Dropped),
}

/// Why a packet is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dropped {
    /// The site has no port in that network.
    NoPort,
    /// The source address is not behind the interface that the packet came from.
    ForgedSource,
    /// No route leads to the destination.
    NoRoute,
    /// No scope has source and destination.
    Policy,
    /// The tunnel has no peer for it.
    NoPeer,
    /// The peer that it comes from may not send from its source address.
    NotOfPeer,
}

/// Where a packet arrives that a container of `site` sends into the bridge of `network`, given the plans of all
/// sites, each carried out in full.
pub fn deliver<P: Borrow<SitePlan>>(
    plans: &BTreeMap<NodeId, P>,
    site: NodeId,
    network: NetworkId,
    packet: Packet,
) -> Delivery {
    try_deliver(plans, site, network, packet).unwrap_or_else(Delivery::Dropped)
}

fn try_deliver<P: Borrow<SitePlan>>(
    plans: &BTreeMap<NodeId, P>,
    site: NodeId,
    network: NetworkId,
    packet: Packet,
) -> Result<Delivery, Dropped> {
    let plan = plans.get(&site).ok_or(Dropped::NoPort)?.borrow();
    let port = plan.ports.get(&network).ok_or(Dropped::NoPort)?;
    let remote = plan.routes.contains_key(&packet.destination);
    // The bridge itself carries a packet to whoever answers for the address there.
    if port.subnet.prefix().contains(packet.destination) && !remote {
        let to_router = packet.destination == port.subnet.router();
        return Ok(if to_router { Delivery::Router } else { Delivery::Bridge { site, network } });
    }
    if !port.subnet.prefix().contains(packet.source) || plan.routes.contains_key(&packet.source) {
        return Err(Dropped::ForgedSource);
    }
    if !remote {
        return Err(Dropped::NoRoute);
    }
    let scope = plan.policy.scopes.get(&network).ok_or(Dropped::Policy)?;
    if scope.interface != port.interface || !admits(scope, packet) {
        return Err(Dropped::Policy);
    }
    let (site, plan) = through_tunnel(plans, plan, packet)?;
    receive(site, plan, packet)
}

/// Where a packet arrives that the router of `site` sends by itself, given the plans of all sites, each carried out
/// in full. Its source is the router's address in the network of the destination, or in the mesh if that is elsewhere.
pub fn deliver_of_router<P: Borrow<SitePlan>>(
    plans: &BTreeMap<NodeId, P>,
    site: NodeId,
    destination: Ipv4Addr,
) -> Delivery {
    try_deliver_of_router(plans, site, destination).unwrap_or_else(Delivery::Dropped)
}

fn try_deliver_of_router<P: Borrow<SitePlan>>(
    plans: &BTreeMap<NodeId, P>,
    site: NodeId,
    destination: Ipv4Addr,
) -> Result<Delivery, Dropped> {
    let plan = plans.get(&site).ok_or(Dropped::NoPort)?.borrow();
    if !plan.routes.contains_key(&destination) {
        let (network, port) = port_of(plan, destination).ok_or(Dropped::NoRoute)?;
        let to_itself = destination == port.subnet.router();
        return Ok(if to_itself { Delivery::Router } else { Delivery::Bridge { site, network } });
    }
    let source = plan.tunnel.ok_or(Dropped::NoPeer)?.address;
    let (site, plan) = through_tunnel(plans, plan, Packet { source, destination })?;
    let (network, _) = port_of(plan, destination)
        .filter(|_| !plan.routes.contains_key(&destination))
        .ok_or(Dropped::NoRoute)?;
    let is_of_mesh = plan.policy.mesh.is_some_and(|mesh| mesh.contains(source));
    if !is_of_mesh || !plan.policy.served.contains_key(&destination) {
        return Err(Dropped::Policy);
    }
    Ok(Delivery::Bridge { site, network })
}

/// The site in whose tunnel a packet arrives that goes into that of another one, if it may send it.
fn through_tunnel<'a, P: Borrow<SitePlan>>(
    plans: &'a BTreeMap<NodeId, P>,
    plan: &SitePlan,
    packet: Packet,
) -> Result<(NodeId, &'a SitePlan), Dropped> {
    let sent_to = |plan: &SitePlan, address| {
        let mut peers = plan.peers.iter();
        peers.find(|(_, peer)| peer.addresses.contains(&address)).map(|(key, _)| *key)
    };
    let receiver = sent_to(plan, packet.destination).ok_or(Dropped::NoPeer)?;
    let sender = plan.tunnel.ok_or(Dropped::NoPeer)?.key;
    let of_receiver = |plan: &SitePlan| plan.tunnel.is_some_and(|tunnel| tunnel.key == receiver);
    let mut sites = plans.iter().map(|(site, plan)| (*site, plan.borrow()));
    let (site, plan) = sites.find(|(_, plan)| of_receiver(plan)).ok_or(Dropped::NoPeer)?;
    if sent_to(plan, packet.source) != Some(sender) {
        return Err(Dropped::NotOfPeer);
    }
    Ok((site, plan))
}

/// The port of the network that an address is in.
fn port_of(plan: &SitePlan, address: Ipv4Addr) -> Option<(NetworkId, &Port)> {
    let mut ports = plan.ports.iter();
    let (network, port) = ports.find(|(_, port)| port.subnet.prefix().contains(address))?;
    Some((*network, port))
}

/// A packet of a container that comes out of the tunnel. Those of routers are told apart by their source, which no
/// container can have: each peer sends from its own addresses only, and each router lets out what is of its ports.
fn receive(site: NodeId, plan: &SitePlan, packet: Packet) -> Result<Delivery, Dropped> {
    if !plan.routes.contains_key(&packet.source) {
        return Err(Dropped::ForgedSource);
    }
    let (network, port) = port_of(plan, packet.destination)
        .filter(|_| !plan.routes.contains_key(&packet.destination))
        .ok_or(Dropped::NoRoute)?;
    let admitted = |scope: &Scope| scope.interface == port.interface && admits(scope, packet);
    if !plan.policy.scopes.values().any(admitted) {
        return Err(Dropped::Policy);
    }
    Ok(Delivery::Bridge { site, network })
}

fn admits(scope: &Scope, packet: Packet) -> bool {
    scope.subnet.prefix().contains(packet.source)
        && scope.subnet.prefix().contains(packet.destination)
}
