//! Which replicas may be moved for better balance at all.

use jaco_state::ClusterState;
use jaco_types::spec::{Placement, ServiceSpec, Storage, UpdateOrder};
use jaco_types::{Ordinal, Slot};

/// Whether a replica may be moved. Data and global replicas stay, also where their service is global no
/// more and they serve until others do; so does a replica that cannot run beside its successor, for a move
/// must not cost a request; one that is colocated with others, or others with it; and one that has GPUs
/// reserved, because nobody measures those.
pub(super) fn is_movable(state: &ClusterState, slot: &Slot, spec: &ServiceSpec) -> bool {
    can_hand_over(spec)
        && spec.placement != Placement::Global
        && !matches!(slot.ordinal, Ordinal::Host(_))
        && spec.gpus.is_none()
        && has_free_addresses(state, slot)
        && !is_colocated(state, slot)
}

/// Whether its networks have an address for the successor of a replica. One in quarantine is none: a move
/// for better balance can wait.
fn has_free_addresses(state: &ClusterState, slot: &Slot) -> bool {
    let networks = state.networks_of(&slot.service, slot.current.revision);
    let has_room = |network: &&jaco_state::network::Network| {
        u32::try_from(network.taken.len()).is_ok_and(|taken| taken < network.subnet.capacity())
    };
    networks.is_some_and(|networks| networks.iter().all(has_room))
}

/// Whether a replica can run on two nodes until its successor serves.
pub(super) fn can_hand_over(spec: &ServiceSpec) -> bool {
    spec.storage == Storage::Stateless && spec.update.order == UpdateOrder::StartFirst
}

/// Whether the place of a replica has to do with that of another service.
fn is_colocated(state: &ClusterState, slot: &Slot) -> bool {
    let deployment = state.deployments.get(&slot.service.deployment);
    let kept = deployment.and_then(|known| known.revisions.get(&slot.current.revision));
    let services = kept.into_iter().flat_map(|record| record.spec.services.values());
    services.into_iter().any(|spec| {
        let policy = &spec.scheduling;
        let mut named = policy.shares_namespaces_with.iter().chain(&policy.place_with);
        if spec.name == slot.service.service {
            named.next().is_some()
        } else {
            named.any(|name| *name == slot.service.service)
        }
    })
}
