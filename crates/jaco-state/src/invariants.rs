//! What must hold of every state that `apply` can produce. Checked by the property tests and by
//! the simulation after every entry.

use jaco_types::{ReplicaId, ServiceName, StateIndex};

use crate::audit::KEPT_EVENTS;
use crate::audit_refusals::IDENTITIES_MAX;
use crate::requests::KEPT_REQUESTS;
use crate::state::ClusterState;
use crate::{contents, disabled, registries};

/// A broken invariant: its id (see ARCHITECTURE.md) and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The invariant, for example `ST-5`.
    pub id: &'static str,
    /// What breaks it.
    pub what: String,
}

/// Every broken invariant of this state; empty when all is well.
#[must_use]
pub fn violations(state: &ClusterState) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut broken = |id, what: String| found.push(Violation { id, what });
    for deployment in state.deployments.values() {
        if !deployment.revisions.contains_key(&deployment.revision) {
            broken("ST-5", format!("{} has lost its wanted revision", deployment.name));
        }
        for (revision, record) in &deployment.revisions {
            let is_strange = |service: &&ServiceName| !record.spec.services.contains_key(*service);
            if let Some(service) = record.digests.keys().find(is_strange) {
                let name = &deployment.name;
                broken("ST-16", format!("{name} has an image of {service} at {revision}"));
            }
        }
    }
    for slot in state.slots.values() {
        if slot.id != ReplicaId::new(&slot.service, &slot.ordinal) {
            broken("ST-6", format!("{} is not named after its service", slot.id));
        }
        let newest = slot.current.raft_index;
        if slot.retiring.as_ref().is_some_and(|old| old.raft_index >= newest) {
            broken("ST-7", format!("{} retires an instance that is not older", slot.id));
        }
        if slot.modified > state.index || newest > state.index {
            broken("ST-8", format!("{} comes from the future", slot.id));
        }
    }
    for (key, record) in state.scheduling.iter() {
        if record.modified > state.index {
            broken("ST-8", format!("the scheduling of {key} comes from the future"));
        }
    }
    for leaving in state.leaving.values() {
        let slot = state.slots.get(&leaving.id.replica);
        if slot.is_some_and(|slot| slot.instances().any(|(id, _)| id == leaving.id)) {
            broken("ST-11", format!("{} leaves, and its slot has it", leaving.id));
        }
        if leaving.left_at > state.index {
            broken("ST-8", format!("the leaving of {} comes from the future", leaving.id));
        }
    }
    for node in state.nodes.values() {
        if StateIndex(node.id.0) > state.index {
            broken("ST-9", format!("node {} was never admitted", node.id));
        }
    }
    let (events, requests) = (state.audit.events.len(), state.requests.outcomes.len());
    let counts = state.audit.refusals.len();
    // One more than the most is counted until the next entry.
    if events > KEPT_EVENTS || requests > KEPT_REQUESTS || counts > IDENTITIES_MAX + 1 {
        let kept = format!("{events} events, {requests} outcomes and {counts} counts are kept");
        broken("ST-10", kept);
    }
    for (id, what) in disabled::violations(state) {
        broken(id, what);
    }
    for what in contents::violations(state) {
        broken("ST-12", what);
    }
    for what in registries::violations(state) {
        broken("ST-17", what);
    }
    found
}
