//! What the running replicas of a service are of.

use std::collections::BTreeMap;

use jaco_proto::v1;
use jaco_state::{ClusterState, view};
use jaco_types::{DesiredState, Instance, InstanceId, Revision, ServiceKey, Slot};

use super::is_up;

/// The revisions of the running replicas, the newest first. A replica in a handover counts for the instance
/// that serves.
pub(super) fn serving(state: &ClusterState, slots: &[&Slot]) -> Vec<v1::ServedRevision> {
    let mut replicas: BTreeMap<Revision, (&ServiceKey, u32)> = BTreeMap::new();
    for slot in slots.iter().filter(|slot| slot.desired_state == DesiredState::Active) {
        let serves = |(id, instance): &(InstanceId, &Instance)| {
            is_up(state, instance.node) && view::is_running(state, id)
        };
        if let Some((_, instance)) = slot.instances().find(serves) {
            replicas.entry(instance.revision).or_insert((&slot.service, 0)).1 += 1;
        }
    }
    let row = |(revision, (service, replicas)): (Revision, (&ServiceKey, u32))| {
        let spec = state.service_spec(service, revision);
        let digest = state.image_digest(service, revision);
        v1::ServedRevision {
            revision: revision.0,
            image: spec.map(|spec| spec.image.to_string()).unwrap_or_default(),
            image_digest: digest.map(ToString::to_string).unwrap_or_default(),
            replicas,
        }
    };
    replicas.into_iter().rev().map(row).collect()
}
