//! Laws about networks (NET-1, NET-2, NET-3, NET-4, NET-6), and a watch over a history of entries: that an
//! address was not given too early shows in no single state (NET-3).

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use jaco_types::network::ADDRESS_QUARANTINE;
use jaco_types::{
    InstanceAddress, InstanceId, Ipv4Prefix, NetworkId, NetworkScope, Revision, ServiceKey,
    SpecHash, Timestamp,
};

use super::{Law, Violation, Violations};
use crate::network::Network;
use crate::state::ClusterState;

pub(super) fn check(state: &ClusterState, found: &mut Violations) {
    check_mesh(state, found);
    check_subnets(state, found);
    check_holders(state, found);
    for live in live(state) {
        check_networks(state, &live, found);
    }
    for (id, quarantine) in state.networks.quarantine.iter() {
        if quarantine.until.is_none() && !state.observed.contains(id) {
            let subject = format!("what {id} had is in quarantine until a report that cannot come");
            found.add(Law::AddressQuarantined, subject);
        }
    }
}

/// An instance that may hold addresses: in a slot and not at its end, or terminating.
struct Live<'a> {
    id: InstanceId,
    service: &'a ServiceKey,
    revision: Revision,
    hash: SpecHash,
    addresses: &'a [InstanceAddress],
}

fn live(state: &ClusterState) -> impl Iterator<Item = Live<'_>> {
    let in_slots = state.slots.values().flat_map(|slot| {
        slot.instances().map(|(id, instance)| Live {
            id,
            service: &slot.service,
            revision: instance.revision,
            hash: instance.spec_hash,
            addresses: &instance.addresses,
        })
    });
    let terminating = state.terminating.values().map(|row| Live {
        id: row.id.clone(),
        service: &row.service,
        revision: row.revision,
        hash: row.spec_hash,
        addresses: &row.addresses,
    });
    in_slots.chain(terminating)
}

fn check_mesh(state: &ClusterState, found: &mut Violations) {
    let mesh = state.networks.pool.as_ref().map(crate::network::NetworkPool::mesh);
    let mut used = BTreeSet::new();
    for node in state.nodes.values() {
        let is_sound = match (mesh, node.mesh_address) {
            (Some(mesh), Some(address)) => mesh.contains(address) && used.insert(address),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        if !is_sound {
            let address = node.mesh_address.map_or("none".to_owned(), |own| own.to_string());
            let subject = format!("node {} has {address} in the mesh", node.hostname);
            found.add(Law::MeshAddress, subject);
        }
    }
}

fn check_subnets(state: &ClusterState, found: &mut Violations) {
    let mut before: Option<Ipv4Prefix> = None;
    let mut networks: Vec<&Network> = state.networks.rows.values().collect();
    networks.sort_unstable_by_key(|network| network.subnet);
    for network in networks {
        let (prefix, pool) = (network.subnet.prefix(), state.networks.pool.as_ref());
        let is_in_pool =
            pool.is_some_and(|pool| pool.prefix.covers(prefix) && !pool.mesh().overlaps(prefix));
        if !is_in_pool || before.is_some_and(|before| before.overlaps(prefix)) {
            let subject = format!("network {} has {prefix}", network.scope);
            found.add(Law::AddressInNetwork, subject);
        }
        if network.taken.keys().any(|address| !network.subnet.is_for_instances(*address)) {
            let subject = format!("network {} has taken addresses outside", network.scope);
            found.add(Law::AddressInNetwork, subject);
        }
        before = Some(prefix);
    }
}

/// Each address has one holder, live or in quarantine, and its network knows it.
fn check_holders(state: &ClusterState, found: &mut Violations) {
    let mut holders: BTreeMap<InstanceAddress, InstanceId> = BTreeMap::new();
    let quarantined = state.networks.quarantine.iter();
    let quarantined = quarantined.map(|(id, row)| (id.clone(), &*row.addresses));
    for (id, addresses) in live(state).map(|live| (live.id, live.addresses)).chain(quarantined) {
        for address in addresses {
            let network = state.networks.rows.get(&address.network);
            if !network.is_some_and(|network| network.subnet.is_for_instances(address.address)) {
                let subject = format!("{id} has {} outside of its network", address.address);
                found.add(Law::AddressInNetwork, subject);
            }
            if let Some(other) = holders.insert(*address, id.clone()) {
                let subject = format!("{} is held by {other} and {id}", address.address);
                found.add(Law::AddressHeldOnce, subject);
            }
        }
    }
    let known: BTreeMap<InstanceAddress, InstanceId> = state
        .networks
        .rows
        .values()
        .flat_map(|network| {
            let address = |address: &Ipv4Addr| (network.id, *address);
            network.taken.iter().map(move |(at, holder)| (address(at), holder.clone()))
        })
        .map(|((network, address), holder)| (InstanceAddress { network, address }, holder))
        .collect();
    if known != holders {
        let differs = known.iter().find(|(address, id)| holders.get(address) != Some(id));
        let subject = match differs {
            Some((address, id)) => format!("{} is taken for {id} and not held", address.address),
            None => "an address is held that its network does not know".to_owned(),
        };
        found.add(Law::AddressHeldOnce, subject);
    }
}

fn check_networks(state: &ClusterState, live: &Live<'_>, found: &mut Violations) {
    let spec = state.service_spec(live.service, live.revision);
    let is_known = spec.is_some_and(|spec| spec.hash == live.hash);
    let expected = state.networks_of(live.service, live.revision).filter(|_| is_known);
    let Some(expected) = expected else { return };
    if expected.is_empty() {
        return check_joined(state, live, found);
    }
    let expected: Vec<_> = expected.iter().map(|network| (&network.scope, network.reach)).collect();
    let row = |id: &NetworkId| state.networks.rows.get(id).map(|row| (&row.scope, row.reach));
    let own: Option<Vec<_>> = live.addresses.iter().map(|address| row(&address.network)).collect();
    if own.as_ref() != Some(&expected) {
        let subject = format!("{} has other networks than its revision", live.id);
        found.add(Law::NetworksOfRevision, subject);
    }
}

/// An instance of a revision without networks may have joined those of its deployment, and shared ones.
fn check_joined(state: &ClusterState, live: &Live<'_>, found: &mut Violations) {
    let is_own = |id: &NetworkId| match state.networks.rows.get(id).map(|row| &row.scope) {
        Some(NetworkScope::Deployment { deployment, .. }) => *deployment == live.service.deployment,
        Some(NetworkScope::Shared(_)) => true,
        None => false,
    };
    if !live.addresses.iter().all(|address| is_own(&address.network)) {
        let subject = format!("{} has joined networks that are not its deployment's", live.id);
        found.add(Law::NetworksOfRevision, subject);
    }
}

/// Watches a history for addresses that are given within [`ADDRESS_QUARANTINE`] of their last holder, by
/// nothing but who has which address and what nodes reported.
#[derive(Debug, Clone, Default)]
pub struct AddressWatch {
    /// Who has an address, or had it and may still be there.
    holders: BTreeMap<Ipv4Addr, InstanceId>,
    /// When the last holder of an address was gone.
    gone_at: BTreeMap<Ipv4Addr, Timestamp>,
}

impl AddressWatch {
    /// Looks at the state after an entry of this time; returns what breaks NET-3.
    pub fn follow(&mut self, state: &ClusterState, at: Timestamp) -> Vec<Violation> {
        let mut found = Violations::default();
        let now: BTreeMap<Ipv4Addr, InstanceId> = live(state)
            .flat_map(|live| live.addresses.iter().map(move |own| (own.address, live.id.clone())))
            .collect();
        let is_there =
            |id: &InstanceId| state.observed.get(id).is_some_and(|seen| !seen.state.is_over());
        let left = self.holders.iter().filter(|(address, id)| now.get(address) != Some(id));
        let left: Vec<_> = left.map(|(address, id)| (*address, id.clone())).collect();
        for (address, id) in left {
            if is_there(&id) {
                if let Some(next) = now.get(&address) {
                    let subject = format!("{next} has {address} of {id}, which is there");
                    found.add(Law::AddressQuarantined, subject);
                }
            } else {
                self.holders.remove(&address);
                self.gone_at.insert(address, at);
            }
        }
        for (address, id) in now {
            let is_new = self.holders.get(&address) != Some(&id);
            let gone_at = self.gone_at.get(&address).filter(|_| is_new);
            if let Some(gone_at) = gone_at.filter(|gone| gone.after(ADDRESS_QUARANTINE) > at) {
                let since = at.0.saturating_sub(gone_at.0);
                let subject = format!("{id} has {address}, free for {since} ms");
                found.add(Law::AddressQuarantined, subject);
            }
            self.holders.insert(address, id);
        }
        found.0
    }
}
