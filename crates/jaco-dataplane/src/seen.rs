//! What the router of a site holds, as it was observed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use crate::edge::ListenerKey;
use crate::names::Names;
use crate::site::{Peer, Policy, Port, SitePlan, Tunnel};
use crate::topology::{InterfaceName, PublicKey};

/// What the router of a site holds. What was found and is not as any plan could want it is seen as missing or
/// [`Found::Broken`], so that it is made anew.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// `None`: not loaded, or not as it was loaded.
    pub policy: Option<Policy>,
    /// `None`: there is none.
    pub tunnel: Option<Found<Tunnel>>,
    /// By the name of the interface in the router.
    pub ports: BTreeMap<InterfaceName, Found<Port>>,
    /// Peers of the tunnel.
    pub peers: BTreeMap<PublicKey, Peer>,
    /// Addresses that lead into the tunnel.
    pub routes: BTreeSet<Ipv4Addr>,
    /// What the resolver answers.
    pub names: Names,
    /// Sockets of the edge that are open.
    pub listeners: BTreeSet<ListenerKey>,
}

/// A port or a tunnel that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found<T> {
    /// It works as this one should.
    Sound(T),
    /// Something of it is missing or different: it is removed and made anew.
    Broken,
}

impl Seen {
    /// What is there once a plan has been carried out in full.
    pub fn of(plan: &SitePlan) -> Self {
        let port = |port: &Port| (port.interface.clone(), Found::Sound(port.clone()));
        Self {
            policy: Some(plan.policy.clone()),
            tunnel: plan.tunnel.map(Found::Sound),
            ports: plan.ports.values().map(port).collect(),
            peers: plan.peers.clone(),
            routes: plan.routes.keys().copied().collect(),
            names: plan.names.clone(),
            listeners: plan.listeners.clone(),
        }
    }
}
