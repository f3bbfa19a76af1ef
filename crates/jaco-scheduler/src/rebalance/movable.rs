//! Which replicas may be moved for better balance at all.

use jaco_state::ClusterState;
use jaco_types::Slot;
use jaco_types::spec::{Placement, ServiceSpec, Storage, UpdateOrder};

/// Whether a replica may be moved. Data and global replicas stay; so does a replica that cannot run
/// beside its successor, for a move must not cost a request; one that is colocated with others, or
/// others with it; and one that has GPUs reserved, because nobody measures those.
pub(super) fn is_movable(state: &ClusterState, slot: &Slot, spec: &ServiceSpec) -> bool {
    can_hand_over(spec)
        && spec.placement != Placement::Global
        && spec.gpus.is_none()
        && !is_colocated(state, slot)
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
