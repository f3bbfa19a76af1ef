//! The steps from what a router holds to what it should hold, in the order that keeps every moment between
//! them safe.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use jaco_types::NetworkId;

use crate::change::PeerChange;
use crate::edge::ListenerKey;
use crate::names::{ByDeployment, Names, NamesChange};
use crate::seen::{Found, Seen};
use crate::site::{Peer, Policy, Port, Scope, SitePlan, Tunnel};
use crate::topology::{InterfaceName, PublicKey};

/// One step. Each is idempotent, and leaves everything that it does not name as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Replace the whole policy at once, settings of the namespace included.
    LoadPolicy(Policy),
    /// Change what the resolver answers.
    ChangeNames(NamesChange),
    /// Packets to these addresses have no way any more.
    RemoveRoutes(BTreeSet<Ipv4Addr>),
    /// The peer may neither send nor receive any more.
    RemovePeer(PublicKey),
    /// The tunnel is removed, with the routes and peers that are left.
    RemoveTunnel,
    /// The port is removed, at both ends.
    RemovePort(InterfaceName),
    /// Packets of these scopes are dropped.
    CloseScopes(BTreeMap<NetworkId, Scope>),
    /// Packets of these scopes are let through.
    OpenScopes(BTreeMap<NetworkId, Scope>),
    /// Packets of other edges to these addresses, with their network, are dropped.
    CloseServed(BTreeMap<Ipv4Addr, NetworkId>),
    /// Packets of other edges to these addresses, with their network, are let through.
    OpenServed(BTreeMap<Ipv4Addr, NetworkId>),
    /// The tunnel is made, without peers.
    AddTunnel(Tunnel),
    /// The tunnel has this key from now on. Peers and routes stay; with each peer there is another handshake.
    SetKey(PublicKey),
    /// The port is made, or made as it should be.
    AddPort(Port),
    /// There is a new peer with exactly these properties; an address that another peer has is taken from it.
    SetPeer {
        /// Which peer.
        key: PublicKey,
        /// Its properties.
        peer: Peer,
    },
    /// A peer that is there changes; an address that it gains and another peer has is taken from that one.
    ChangePeer {
        /// Which peer.
        key: PublicKey,
        /// What changes of it.
        change: PeerChange,
    },
    /// Packets to these addresses go into the tunnel.
    AddRoutes(BTreeSet<Ipv4Addr>),
    /// These sockets of the edge are closed.
    CloseListeners(BTreeSet<ListenerKey>),
    /// These sockets of the edge are opened.
    OpenListeners(BTreeSet<ListenerKey>),
}

/// The steps from `seen` to `plan`; none if they agree (NET-12).
///
/// The policy comes first of all where there is none, so that no port ever is without it. Then what goes, in the order
/// listeners, names, a policy of another mesh, routes, peers, ports, scopes; then what comes, in the reverse order: a
/// name is answered only while the way to its addresses stands.
pub fn diff(plan: &SitePlan, seen: &Seen) -> Vec<Step> {
    let mut steps = Vec::new();
    let loaded = seen.policy.as_ref().filter(|policy| policy.mesh == plan.policy.mesh);
    let load = loaded.is_none().then(|| Step::LoadPolicy(plan.policy.clone()));
    let (first, later) = if seen.policy.is_none() { (load, None) } else { (None, load) };
    steps.extend(first);
    steps.extend(listeners(Step::CloseListeners, &seen.listeners, &plan.listeners));
    let fewer = fewer_names(&plan.names, &seen.names);
    push_names(&mut steps, fewer.clone());
    steps.extend(later);
    let fate = fate(plan, seen);
    let tunnel_stays = fate != Fate::Remade;
    if tunnel_stays {
        remove_from_tunnel(&mut steps, plan, seen);
    } else if seen.tunnel.is_some() {
        steps.push(Step::RemoveTunnel);
    }
    remove_ports(&mut steps, plan, seen);
    if let Some(policy) = loaded {
        change_policy(&mut steps, &plan.policy, policy);
    }
    match fate {
        Fate::Stays => {}
        Fate::Rekeyed(key) => steps.push(Step::SetKey(key)),
        Fate::Remade => steps.extend(plan.tunnel.map(Step::AddTunnel)),
    }
    add_ports(&mut steps, plan, seen);
    let nothing = Seen::default();
    add_to_tunnel(&mut steps, plan, if tunnel_stays { seen } else { &nothing });
    push_names(&mut steps, new_names(&plan.names, &seen.names, &fewer));
    steps.extend(listeners(Step::OpenListeners, &plan.listeners, &seen.listeners));
    steps
}

/// The step for the listeners that are in the first set alone.
fn listeners(
    step: fn(BTreeSet<ListenerKey>) -> Step,
    set: &BTreeSet<ListenerKey>,
    other: &BTreeSet<ListenerKey>,
) -> Option<Step> {
    let own: BTreeSet<ListenerKey> = set.difference(other).copied().collect();
    (!own.is_empty()).then(|| step(own))
}

/// What becomes of the tunnel that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It is as planned, with its peers and routes.
    Stays,
    /// It gets this key, and is as planned otherwise.
    Rekeyed(PublicKey),
    /// There is none, or it is removed; the planned one is made.
    Remade,
}

fn fate(plan: &SitePlan, seen: &Seen) -> Fate {
    match (seen.tunnel, plan.tunnel) {
        (Some(Found::Sound(seen)), Some(planned)) if seen == planned => Fate::Stays,
        (Some(Found::Sound(seen)), Some(planned))
            if Tunnel { key: planned.key, ..seen } == planned =>
        {
            Fate::Rekeyed(planned.key)
        }
        (Some(Found::Sound(_) | Found::Broken) | None, Some(_) | None) => Fate::Remade,
    }
}

fn push_names(steps: &mut Vec<Step>, change: NamesChange) {
    if !change.is_empty() {
        steps.push(Step::ChangeNames(change));
    }
}

fn remove_from_tunnel(steps: &mut Vec<Step>, plan: &SitePlan, seen: &Seen) {
    let gone = |address: &&Ipv4Addr| !plan.routes.contains_key(address);
    let routes: BTreeSet<Ipv4Addr> = seen.routes.iter().filter(gone).copied().collect();
    if !routes.is_empty() {
        steps.push(Step::RemoveRoutes(routes));
    }
    for (key, peer) in &seen.peers {
        let successor = || successor(plan, seen, peer);
        let Some(wanted) = plan.peers.get(key).or_else(successor) else {
            steps.push(Step::RemovePeer(*key));
            continue;
        };
        let change = PeerChange::between(Some(peer), wanted);
        if !change.lost.is_empty() {
            let change = PeerChange { gained: BTreeSet::new(), ..change };
            steps.push(Step::ChangePeer { key: *key, change });
        }
    }
}

/// The new peer that is the same router under another key: it has its address in the mesh.
fn successor<'a>(plan: &'a SitePlan, seen: &Seen, peer: &Peer) -> Option<&'a Peer> {
    let mesh = plan.tunnel?.mesh;
    let own = peer.addresses.iter().find(|address| mesh.contains(**address))?;
    let mut new = plan.peers.iter().filter(|(key, _)| !seen.peers.contains_key(key));
    new.find(|(_, peer)| peer.addresses.contains(own)).map(|(_, peer)| peer)
}

fn remove_ports(steps: &mut Vec<Step>, plan: &SitePlan, seen: &Seen) {
    let wanted: BTreeMap<&InterfaceName, &Port> =
        plan.ports.values().map(|port| (&port.interface, port)).collect();
    for (interface, port) in &seen.ports {
        let sound = match port {
            Found::Sound(port) => wanted.get(interface) == Some(&port),
            Found::Broken => false,
        };
        if !sound {
            steps.push(Step::RemovePort(interface.clone()));
        }
    }
}

fn change_policy(steps: &mut Vec<Step>, plan: &Policy, loaded: &Policy) {
    steps.extend(unless_empty(Step::CloseServed, only_in(&loaded.served, &plan.served)));
    steps.extend(unless_empty(Step::CloseScopes, only_in(&loaded.scopes, &plan.scopes)));
    steps.extend(unless_empty(Step::OpenScopes, only_in(&plan.scopes, &loaded.scopes)));
    steps.extend(unless_empty(Step::OpenServed, only_in(&plan.served, &loaded.served)));
}

fn unless_empty<K, V>(step: fn(BTreeMap<K, V>) -> Step, entries: BTreeMap<K, V>) -> Option<Step> {
    (!entries.is_empty()).then(|| step(entries))
}

/// The entries that are not the same in the other table.
fn only_in<K: Ord + Clone, V: Clone + PartialEq>(
    table: &BTreeMap<K, V>,
    other: &BTreeMap<K, V>,
) -> BTreeMap<K, V> {
    let own = table.iter().filter(|(key, value)| other.get(key) != Some(value));
    own.map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn add_ports(steps: &mut Vec<Step>, plan: &SitePlan, seen: &Seen) {
    for port in plan.ports.values() {
        let sound = matches!(seen.ports.get(&port.interface), Some(Found::Sound(it)) if it == port);
        if !sound {
            steps.push(Step::AddPort(port.clone()));
        }
    }
}

fn add_to_tunnel(steps: &mut Vec<Step>, plan: &SitePlan, seen: &Seen) {
    for (key, peer) in &plan.peers {
        let Some(before) = seen.peers.get(key) else {
            steps.push(Step::SetPeer { key: *key, peer: peer.clone() });
            continue;
        };
        let PeerChange { endpoint, lost, gained } = PeerChange::between(Some(before), peer);
        // Where addresses were removed before, that step has set the endpoint.
        let moved = before.endpoint != endpoint && lost.is_empty();
        if moved || !gained.is_empty() {
            let change = PeerChange { endpoint, lost: BTreeSet::new(), gained };
            steps.push(Step::ChangePeer { key: *key, change });
        }
    }
    // Its successor has taken its addresses over: they were never without a peer.
    for (key, peer) in &seen.peers {
        if !plan.peers.contains_key(key) && successor(plan, seen, peer).is_some() {
            steps.push(Step::RemovePeer(*key));
        }
    }
    let new = |address: &&Ipv4Addr| !seen.routes.contains(address);
    let routes: BTreeSet<Ipv4Addr> = plan.routes.keys().filter(new).copied().collect();
    if !routes.is_empty() {
        steps.push(Step::AddRoutes(routes));
    }
}

/// Removes what is no longer planned; an entry that stays loses the addresses that do not.
fn fewer_names(plan: &Names, seen: &Names) -> NamesChange {
    let known = seen.known.iter().filter_map(|(key, seen)| {
        let left = plan.known.get(key).map(|wanted| common(wanted, seen));
        (left.as_ref() != Some(seen)).then(|| (key.clone(), left))
    });
    NamesChange {
        known: known.collect(),
        owners: removed(&plan.owners, &seen.owners),
        askers: removed(&plan.askers, &seen.askers),
        pool: None,
    }
}

fn common(wanted: &ByDeployment, seen: &ByDeployment) -> ByDeployment {
    let mut left = seen.clone();
    left.retain(|deployment, addresses| match wanted.get(deployment) {
        Some(wanted) => {
            addresses.retain(|address| wanted.contains(address));
            true
        }
        None => false,
    });
    left
}

/// What is planned and not there yet, or there in another form, once `fewer` has been carried out.
fn new_names(plan: &Names, seen: &Names, fewer: &NamesChange) -> NamesChange {
    NamesChange {
        known: added(&plan.known, &seen.known, &fewer.known),
        owners: added(&plan.owners, &seen.owners, &fewer.owners),
        askers: added(&plan.askers, &seen.askers, &fewer.askers),
        pool: (plan.pool != seen.pool).then_some(plan.pool),
    }
}

fn removed<K: Ord + Clone, V>(
    plan: &BTreeMap<K, V>,
    seen: &BTreeMap<K, V>,
) -> BTreeMap<K, Option<V>> {
    let gone = seen.keys().filter(|key| !plan.contains_key(key));
    gone.map(|key| (key.clone(), None)).collect()
}

fn added<K: Ord + Clone, V: Clone + PartialEq>(
    plan: &BTreeMap<K, V>,
    seen: &BTreeMap<K, V>,
    fewer: &BTreeMap<K, Option<V>>,
) -> BTreeMap<K, Option<V>> {
    let there = |key: &K| match fewer.get(key) {
        Some(left) => left.as_ref(),
        None => seen.get(key),
    };
    let new = plan.iter().filter(|(key, value)| there(key) != Some(*value));
    new.map(|(key, value)| (key.clone(), Some(value.clone()))).collect()
}
