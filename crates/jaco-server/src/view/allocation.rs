//! Allocations: the replicas of a service on a node (R-SEL-2, R-SEL-5). Pure.

use std::collections::BTreeMap;

use jaco_proto::v1;
use jaco_state::ClusterState;
use jaco_state::view::describe;
use jaco_types::{DesiredState, Disablement, NodeId, ServiceKey, Slot};

use crate::view;

/// The namespace of allocation ids, a random UUID of version 4. It must never change: ids are derived from it.
const NAMESPACE: [u8; 16] = [
    0x6f, 0x1c, 0x0e, 0x52, 0x8d, 0x3b, 0x4f, 0x7a, 0x9b, 0x04, 0x2e, 0x61, 0xc7, 0xd5, 0x93, 0xa8,
];

/// The id of a service on a node: the UUID of version 5 (RFC 9562, 5.5) of the name
/// `deployment/service@host`. None of the three can contain `/` or `@`, so no two pairs share one.
#[must_use]
pub(crate) fn allocation_id(service: &ServiceKey, hostname: &str) -> String {
    let mut hash = ring::digest::Context::new(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY);
    hash.update(&NAMESPACE);
    hash.update(format!("{service}@{hostname}").as_bytes());
    let digest = hash.finish();
    let mut id = [0; 16];
    id.copy_from_slice(&digest.as_ref()[..16]);
    id[6] = (id[6] & 0x0f) | 0x50;
    id[8] = (id[8] & 0x3f) | 0x80;
    let text = hex::encode(id);
    [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]].join("-")
}

/// The allocations that a request selects, by deployment, service and host name.
#[must_use]
pub(crate) fn list(
    state: &ClusterState,
    request: &v1::AllocationsRequest,
) -> Vec<v1::AllocationInfo> {
    let matches = |wanted: &str, name: &str| wanted.is_empty() || wanted == name;
    let mut pairs: BTreeMap<(&ServiceKey, String), Vec<&Slot>> = BTreeMap::new();
    for slot in state.slots.values() {
        let key = &slot.service;
        let host = view::hostname(state, slot.current.node);
        if matches(&request.deployment, key.deployment.as_str())
            && matches(&request.service, key.service.as_str())
            && matches(&request.node, &host)
        {
            pairs.entry((key, host)).or_default().push(slot);
        }
    }
    pairs.into_iter().map(|((key, host), slots)| info(state, key, &host, &slots)).collect()
}

/// Adds removed allocations that left logs or volumes on their nodes.
pub(crate) fn add_removed(
    allocations: &mut Vec<v1::AllocationInfo>,
    state: &ClusterState,
    request: &v1::AllocationsRequest,
    left: &v1::CollectVolumesResponse,
) {
    let matches = |wanted: &str, name: &str| wanted.is_empty() || wanted == name;
    for one in &left.removed {
        let names = (one.deployment.parse(), one.service.parse());
        let (Ok(deployment), Ok(service)) = names else { continue };
        if !matches(&request.service, &one.service) || !matches(&request.node, &one.node) {
            continue;
        }
        let node = state.nodes.values().find(|node| node.hostname.as_str() == one.node);
        let volumes = left
            .volumes
            .iter()
            .filter(|volume| (&volume.node, &volume.deployment) == (&one.node, &one.deployment));
        allocations.push(v1::AllocationInfo {
            alloc_id: allocation_id(&ServiceKey { deployment, service }, &one.node),
            deployment: one.deployment.clone(),
            service: one.service.clone(),
            node: one.node.clone(),
            zone: node.and_then(|node| node.label("zone")).unwrap_or_default().to_owned(),
            removed: true,
            removed_at_ms: one.removed_at_ms,
            log_bytes: one.log_bytes,
            volumes: volumes.map(|volume| volume.volume.clone()).collect(),
            ..v1::AllocationInfo::default()
        });
    }
    allocations.sort_by(|a, b| {
        (&a.deployment, &a.service, &a.node).cmp(&(&b.deployment, &b.service, &b.node))
    });
}

/// An allocation is disabled if all its replicas are.
fn info(state: &ClusterState, key: &ServiceKey, host: &str, slots: &[&Slot]) -> v1::AllocationInfo {
    let first = slots.first().expect("an allocation has at least one slot");
    let is_disabled = slots.iter().all(|slot| slot.desired_state == DesiredState::Disabled);
    let desired = state.deployments.get(&key.deployment);
    let desired = desired.and_then(|known| known.spec().services.get(&key.service));
    let is_current = |slot: &&Slot| desired.is_some_and(|spec| spec.hash == slot.current.spec_hash);
    let disablement = state.disabled.of_slot(first).filter(|_| is_disabled);
    let zone = |id: NodeId| state.nodes.get(&id)?.label("zone").map(str::to_owned);
    let by = |disablement: &Disablement| disablement.by.to_string();
    v1::AllocationInfo {
        alloc_id: allocation_id(key, host),
        deployment: key.deployment.to_string(),
        service: key.service.to_string(),
        node: host.to_owned(),
        zone: zone(first.current.node).unwrap_or_default(),
        disabled: is_disabled,
        removed: false,
        replicas: slots.iter().map(|slot| slot.id.to_string()).collect(),
        spec_hash: first.current.spec_hash.short(),
        revision: first.current.revision.0,
        version: if slots.iter().all(is_current) { "current" } else { "outdated" }.to_owned(),
        disabled_by: disablement
            .as_ref()
            .map(|(_, disablement)| by(disablement))
            .unwrap_or_default(),
        disabled_at_ms: disablement.as_ref().map_or(0, |(_, it)| view::millis(it.at)),
        disabled_with: disablement.map(|(scope, _)| describe(state, &scope)).unwrap_or_default(),
        ..v1::AllocationInfo::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-SEL-2: the id is a UUID of version 5, derived from service and host alone, and never changes.
    #[test]
    fn an_id_is_derived_from_service_and_host() {
        let key = |text: &str| {
            let (deployment, service) = text.split_once('/').unwrap();
            ServiceKey {
                deployment: deployment.parse().unwrap(),
                service: service.parse().unwrap(),
            }
        };
        let id = allocation_id(&key("shop/web"), "n1");
        // From another implementation of RFC 9562.
        assert_eq!(id, "d0317727-953f-5094-8a1b-7623539790b3");
        assert_eq!((&id[14..15], id.len()), ("5", 36));
        assert!("89ab".contains(&id[19..20]));
        let others = [("shop/web", "n2"), ("shop/we", "bn1"), ("blog/web", "n1")];
        for (service, host) in others {
            assert_ne!(allocation_id(&key(service), host), id);
        }
    }
}
