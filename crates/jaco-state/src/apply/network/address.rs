//! The addresses of instances (NET-1 to NET-4), and their quarantine.

use std::collections::BTreeMap;

use jaco_types::network::ADDRESS_QUARANTINE;
use jaco_types::{
    DesiredState, InstanceAddress, InstanceId, NetworkId, NodeId, ReplicaId, Revision, ServiceKey,
    Timestamp,
};

use super::wanted;
use crate::command::Change;
use crate::network::{Network, Quarantine};
use crate::state::ClusterState;

/// Why the instances that a batch starts cannot have addresses, if that is so. Nothing that the same
/// batch ends gives its addresses to them: those go into quarantine.
pub(in crate::apply) fn lacking(
    state: &ClusterState,
    now: Timestamp,
    changes: &[Change],
) -> Option<String> {
    let mut wanted: BTreeMap<NetworkId, u32> = BTreeMap::new();
    for (service, revision) in changes.iter().filter_map(|change| started(state, change)) {
        let Some(networks) = state.networks_of(service, revision) else {
            return Some(format!("a network of {service} at revision {revision}"));
        };
        for network in networks {
            *wanted.entry(network.id).or_default() += 1;
        }
    }
    let is_full = |(id, count): &(NetworkId, u32)| {
        let network = state.networks.rows.get(id);
        network.is_none_or(|network| state.networks.free(network, now) < *count)
    };
    let (id, _) = wanted.into_iter().find(is_full)?;
    let scope = state.networks.rows.get(&id).map(|network| network.scope.to_string());
    Some(format!("the room of network {}", scope.unwrap_or_default()))
}

/// The service and revision of an instance that a change starts.
fn started<'a>(state: &'a ClusterState, change: &'a Change) -> Option<(&'a ServiceKey, Revision)> {
    match change {
        Change::SlotCreate { service, instance, desired_state: DesiredState::Active, .. } => {
            Some((service, instance.revision))
        }
        Change::SlotReplace { id, instance, .. } => {
            Some((&state.slots.get(id)?.service, instance.revision))
        }
        Change::SlotCreate { .. }
        | Change::SlotSettle { .. }
        | Change::SlotRevert { .. }
        | Change::SlotSetRestarts { .. }
        | Change::SlotDisable { .. }
        | Change::SlotFinish { .. }
        | Change::SlotRemove { .. }
        | Change::SchedulingSet { .. }
        | Change::TerminatingRemove { .. }
        | Change::ConsumerExpire { .. }
        | Change::NodeStatusSet { .. }
        | Change::ImageResolve { .. }
        | Change::DrainTimeout { .. } => None,
    }
}

/// Gives an instance that is about to start an address in each network of its revision, in the order of
/// its attachments. There is room: [`lacking`] was asked.
pub(in crate::apply) fn assign(
    state: &mut ClusterState,
    service: &ServiceKey,
    id: &InstanceId,
    revision: Revision,
) -> Vec<InstanceAddress> {
    let networks = state.networks_of(service, revision).unwrap_or_default();
    let ids: Vec<NetworkId> = networks.into_iter().map(|network| network.id).collect();
    let mut addresses = Vec::with_capacity(ids.len());
    for network in ids {
        let Some(row) = state.networks.rows.get_mut(&network) else { continue };
        if let Some(address) = take_next(row, id) {
            addresses.push(InstanceAddress { network, address });
        }
    }
    addresses
}

/// Takes the first free address from the cursor on: one that was freed is used again as late as possible.
fn take_next(network: &mut Network, id: &InstanceId) -> Option<std::net::Ipv4Addr> {
    let capacity = network.subnet.capacity();
    let place = (0..capacity)
        .map(|step| (network.cursor % capacity + step) % capacity)
        .find(|place| !network.taken.contains_key(&network.subnet.instance_address(*place)))?;
    let address = network.subnet.instance_address(place);
    network.cursor = (place + 1) % capacity;
    network.taken.insert(address, id.clone());
    Some(address)
}

/// The instances of a slot that have addresses, with their nodes.
pub(in crate::apply) fn held(state: &ClusterState, slot: Option<&ReplicaId>) -> Vec<Held> {
    let slot = slot.and_then(|id| state.slots.get(id));
    let instances = slot.into_iter().flat_map(|slot| {
        let instances = std::iter::once(&slot.current).chain(&slot.retiring);
        instances.map(|instance| Held {
            id: InstanceId { replica: slot.id.clone(), raft_index: instance.raft_index },
            node: instance.node,
            addresses: instance.addresses.clone(),
        })
    });
    instances.filter(|held| !held.addresses.is_empty()).collect()
}

/// What an instance of a slot has.
pub(in crate::apply) struct Held {
    id: InstanceId,
    node: NodeId,
    addresses: Vec<InstanceAddress>,
}

/// Puts what instances held `before` a change into quarantine, as far as neither their slot nor the list of
/// terminating instances names it any more.
pub(in crate::apply) fn withhold_dropped(
    state: &mut ClusterState,
    now: Timestamp,
    slot: Option<&ReplicaId>,
    before: Vec<Held>,
) {
    if before.is_empty() {
        return;
    }
    let in_slot = held(state, slot);
    for Held { id, node, addresses } in before {
        let terminating = state.terminating.get(&id).map(|row| row.addresses.clone());
        let kept =
            in_slot.iter().flat_map(|held| &held.addresses).chain(terminating.iter().flatten());
        let kept: Vec<&InstanceAddress> = kept.collect();
        let dropped = addresses.iter().copied().filter(|address| !kept.contains(&address));
        let dropped: Vec<InstanceAddress> = dropped.collect();
        withhold(state, now, id, node, dropped);
    }
}

/// Puts addresses of an instance into quarantine that is in no slot and not terminating: until its node
/// reports that it is gone, and a minute longer. Of one that ended, or that its node never reported, nothing
/// is to come.
pub(in crate::apply) fn withhold(
    state: &mut ClusterState,
    now: Timestamp,
    id: InstanceId,
    node: NodeId,
    addresses: Vec<InstanceAddress>,
) {
    if addresses.is_empty() {
        return;
    }
    let is_there = state.observed.get(&id).is_some_and(|seen| !seen.state.is_over());
    let until = (!is_there).then(|| now.after(ADDRESS_QUARANTINE));
    insert(state, id, Quarantine { node, addresses, until });
}

/// Two instances that one entry started in the same slot have one id, and so one row.
fn insert(state: &mut ClusterState, id: InstanceId, new: Quarantine) {
    match state.networks.quarantine.get_mut(&id) {
        Some(known) => {
            known.addresses.extend(new.addresses);
            known.until = known.until.zip(new.until).map(|(a, b)| a.max(b));
        }
        None => drop(state.networks.quarantine.insert(id, new)),
    }
}

/// Notes that a node has nothing of an instance any more, or that no report of it is left.
pub(in crate::apply) fn note_gone(
    state: &mut ClusterState,
    now: Timestamp,
    node: NodeId,
    id: &InstanceId,
) {
    let is_unknown = !state.observed.contains(id);
    let quarantine = state.networks.quarantine.get_mut(id);
    if let Some(quarantine) = quarantine.filter(|row| row.node == node || is_unknown) {
        quarantine.until = Some(now.after(ADDRESS_QUARANTINE));
    }
}

/// Notes that a node has something of an instance that it was not known to have started.
pub(in crate::apply) fn note_there(
    state: &mut ClusterState,
    now: Timestamp,
    node: NodeId,
    id: &InstanceId,
) {
    let quarantine = state.networks.quarantine.get_mut(id);
    if let Some(quarantine) = quarantine.filter(|quarantine| quarantine.node == node) {
        let until = quarantine.until.map(|until| until.max(now.after(ADDRESS_QUARANTINE)));
        quarantine.until = until;
    }
}

/// Notes that a node is no member any more: nothing of it is reported from now on.
pub(in crate::apply) fn note_left(state: &mut ClusterState, now: Timestamp, node: NodeId) {
    let is_open = |(id, quarantine): &(&InstanceId, &Quarantine)| {
        quarantine.until.is_none() && (quarantine.node == node || !state.observed.contains(id))
    };
    let rows = state.networks.quarantine.iter().filter(is_open);
    let ids: Vec<InstanceId> = rows.map(|(id, _)| id.clone()).collect();
    for id in ids {
        note_gone(state, now, node, &id);
    }
}

/// Frees the addresses whose quarantine is over, and removes the networks that were kept for them.
pub(in crate::apply) fn expire(state: &mut ClusterState, now: Timestamp) {
    let is_over = |quarantine: &Quarantine| quarantine.until.is_some_and(|until| until <= now);
    let rows = state.networks.quarantine.iter().filter(|(_, quarantine)| is_over(quarantine));
    let ids: Vec<InstanceId> = rows.map(|(id, _)| id.clone()).collect();
    if ids.is_empty() {
        return;
    }
    for id in ids {
        let Some(quarantine) = state.networks.quarantine.remove(&id) else { continue };
        for InstanceAddress { network, address } in &quarantine.addresses {
            if let Some(network) = state.networks.rows.get_mut(network) {
                network.taken.remove(address);
            }
        }
    }
    wanted::settle(state);
}
