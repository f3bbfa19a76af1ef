//! What differs between two plans of a site, so that a router which holds the one can be told the other at the price
//! of the difference.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};

use jaco_types::{Ipv4Prefix, NetworkId};

use crate::edge::ListenerKey;
use crate::names::{Names, NamesChange, change_all};
use crate::site::{Peer, Port, Scope, SitePlan, Tunnel};
use crate::topology::PublicKey;

/// What differs between two plans of a site; what it does not name stays. `None` in a table removes the entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlanChange {
    /// The new [`SitePlan::tunnel`], if it changes.
    pub tunnel: Option<Option<Tunnel>>,
    /// The new [`Policy::mesh`](crate::Policy::mesh), if it changes.
    pub mesh: Option<Option<Ipv4Prefix>>,
    /// Of [`Policy::served`](crate::Policy::served).
    pub served: BTreeMap<Ipv4Addr, Option<NetworkId>>,
    /// Of [`SitePlan::ports`], and with each port its scope.
    pub ports: BTreeMap<NetworkId, Option<Port>>,
    /// Of [`SitePlan::peers`].
    pub peers: BTreeMap<PublicKey, Option<PeerChange>>,
    /// Of [`SitePlan::routes`].
    pub routes: BTreeMap<Ipv4Addr, Option<NetworkId>>,
    /// Of [`SitePlan::names`].
    pub names: NamesChange,
    /// The new [`SitePlan::listeners`], if they change.
    pub listeners: Option<BTreeSet<ListenerKey>>,
}

/// What changes of a peer. One that was not there had no addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PeerChange {
    /// Its endpoint from now on.
    pub endpoint: Option<SocketAddr>,
    /// Addresses that it has no more.
    pub lost: BTreeSet<Ipv4Addr>,
    /// Addresses that it has from now on.
    pub gained: BTreeSet<Ipv4Addr>,
}

impl PlanChange {
    /// What leads from one plan to another.
    pub fn between(before: &SitePlan, after: &SitePlan) -> Self {
        let gone = before.peers.keys().filter(|key| !after.peers.contains_key(key));
        let changed = after.peers.iter().filter(|(key, peer)| before.peers.get(key) != Some(peer));
        let changed = changed.map(|(key, peer)| {
            let change = PeerChange::between(before.peers.get(key), peer);
            (*key, Some(change))
        });
        let mesh = after.policy.mesh;
        Self {
            tunnel: (before.tunnel != after.tunnel).then_some(after.tunnel),
            mesh: (before.policy.mesh != mesh).then_some(mesh),
            served: changes(&before.policy.served, &after.policy.served),
            ports: changes(&before.ports, &after.ports),
            peers: gone.map(|key| (*key, None)).chain(changed).collect(),
            routes: changes(&before.routes, &after.routes),
            names: NamesChange::between(&before.names, &after.names),
            listeners: (before.listeners != after.listeners).then(|| after.listeners.clone()),
        }
    }

    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.tunnel.is_none()
            && self.mesh.is_none()
            && self.served.is_empty()
            && self.ports.is_empty()
            && self.peers.is_empty()
            && self.routes.is_empty()
            && self.names.is_empty()
            && self.listeners.is_none()
    }
}

impl PeerChange {
    pub(crate) fn between(before: Option<&Peer>, after: &Peer) -> Self {
        let nothing = BTreeSet::new();
        let had = before.map_or(&nothing, |before| &before.addresses);
        Self {
            endpoint: after.endpoint,
            lost: had.difference(&after.addresses).copied().collect(),
            gained: after.addresses.difference(had).copied().collect(),
        }
    }
}

impl NamesChange {
    /// What leads from some names to others.
    pub(crate) fn between(before: &Names, after: &Names) -> Self {
        Self {
            known: changes(&before.known, &after.known),
            owners: changes(&before.owners, &after.owners),
            askers: changes(&before.askers, &after.askers),
            pool: (before.pool != after.pool).then_some(after.pool),
        }
    }
}

impl SitePlan {
    /// Makes this plan the one that the change leads to.
    pub fn change(&mut self, change: &PlanChange) {
        self.tunnel = change.tunnel.unwrap_or(self.tunnel);
        self.policy.mesh = change.mesh.unwrap_or(self.policy.mesh);
        change_all(&mut self.policy.served, &change.served);
        change_all(&mut self.ports, &change.ports);
        for (id, port) in &change.ports {
            match port {
                Some(port) => drop(self.policy.scopes.insert(*id, Scope::of(port))),
                None => drop(self.policy.scopes.remove(id)),
            }
        }
        for (key, change) in &change.peers {
            match change {
                Some(change) => self.peers.entry(*key).or_default().change(change),
                None => drop(self.peers.remove(key)),
            }
        }
        change_all(&mut self.routes, &change.routes);
        self.names.change(&change.names);
        if let Some(listeners) = &change.listeners {
            self.listeners.clone_from(listeners);
        }
    }

    /// What it has of these networks, given their addresses; peers have only what they have in them.
    pub(crate) fn part(&self, networks: &BTreeMap<NetworkId, Ipv4Prefix>) -> Self {
        let mut part = Self {
            tunnel: self.tunnel,
            names: Names { pool: self.names.pool, ..Names::default() },
            listeners: self.listeners.clone(),
            ..Self::default()
        };
        part.policy.mesh = self.policy.mesh;
        for (id, prefix) in networks {
            if let Some(port) = self.ports.get(id) {
                part.ports.insert(*id, port.clone());
                part.policy.scopes.insert(*id, Scope::of(port));
            }
            let range = prefix.first()..=prefix.last();
            part.policy.served.extend(self.policy.served.range(range.clone()));
            part.routes.extend(self.routes.range(range.clone()));
            for (key, peer) in &self.peers {
                let addresses: Vec<Ipv4Addr> =
                    peer.addresses.range(range.clone()).copied().collect();
                if !addresses.is_empty() {
                    let part = part.peers.entry(*key).or_default();
                    part.endpoint = peer.endpoint;
                    part.addresses.extend(addresses);
                }
            }
            copy(&mut part.names.owners, self.names.owners.range(range.clone()));
            copy(&mut part.names.askers, self.names.askers.range(range));
            let known = self.names.known.range((*id, String::new())..);
            copy(&mut part.names.known, known.take_while(|((network, _), _)| network == id));
        }
        part
    }
}

impl Peer {
    pub(crate) fn change(&mut self, change: &PeerChange) {
        self.endpoint = change.endpoint;
        for address in &change.lost {
            self.addresses.remove(address);
        }
        self.addresses.extend(&change.gained);
    }
}

fn changes<K: Ord + Clone, V: Clone + PartialEq>(
    before: &BTreeMap<K, V>,
    after: &BTreeMap<K, V>,
) -> BTreeMap<K, Option<V>> {
    let gone = before.keys().filter(|key| !after.contains_key(key));
    let new = after.iter().filter(|(key, value)| before.get(key) != Some(value));
    let new = new.map(|(key, value)| (key.clone(), Some(value.clone())));
    gone.map(|key| (key.clone(), None)).chain(new).collect()
}

fn copy<'a, K: Ord + Clone + 'a, V: Clone + 'a>(
    to: &mut BTreeMap<K, V>,
    from: impl Iterator<Item = (&'a K, &'a V)>,
) {
    to.extend(from.map(|(key, value)| (key.clone(), value.clone())));
}
