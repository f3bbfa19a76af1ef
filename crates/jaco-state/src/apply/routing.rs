//! Who follows the endpoints, and what leaves them.

use jaco_types::routing::{CONSUMERS_MAX, LEASE_MAX, LEASE_MIN};
use jaco_types::{
    Consumer, ConsumerName, ErrorCode, Instance, InstanceId, Leaving, Millis, NodeId, Rejection,
    Slot, StateIndex,
};

use super::Audit;
use super::cluster::{is_member, unknown_node};
use crate::audit::AuditKind;
use crate::command::{Entry, Outcome};
use crate::state::ClusterState;
use crate::view::is_running;

/// One that attaches under a name that is taken replaces its owner: it is most likely the same one
/// after a restart.
pub(super) fn attach(
    state: &mut ClusterState,
    entry: &Entry,
    name: &ConsumerName,
    node: NodeId,
    lease: Millis,
    audit: &mut Audit<'_>,
) -> Outcome {
    if !is_member(state, node) {
        return unknown_node(node);
    }
    if state.consumers.len() >= CONSUMERS_MAX && !state.consumers.contains(name) {
        let message = format!("{CONSUMERS_MAX} consumers follow the endpoints already");
        return Outcome::Rejected(Rejection::new(ErrorCode::TooLarge, message));
    }
    let consumer = Consumer {
        name: name.clone(),
        node,
        lease: lease.clamp(LEASE_MIN, LEASE_MAX),
        session: entry.index,
        attached_at: entry.at,
    };
    audit.event(
        AuditKind::ConsumerAttached,
        [("consumer", name.to_string()), ("node_id", node.to_string())],
    );
    state.consumers.insert(name.clone(), consumer);
    Outcome::Done
}

/// Ends one attachment. One that was replaced has ended already.
pub(super) fn detach(
    state: &mut ClusterState,
    name: &ConsumerName,
    session: StateIndex,
    audit: &mut Audit<'_>,
) -> Outcome {
    if state.consumers.get(name).is_some_and(|consumer| consumer.session == session) {
        end_consumer(state, name, "detached", audit);
    }
    Outcome::Done
}

/// Forgets a consumer.
pub(super) fn end_consumer(
    state: &mut ClusterState,
    name: &ConsumerName,
    reason: &str,
    audit: &mut Audit<'_>,
) {
    let facts = [("consumer", name.to_string()), ("reason", reason.to_owned())];
    audit.event(AuditKind::ConsumerDetached, facts);
    state.consumers.remove(name);
}

/// Takes an instance that its slot has no use for any more out of the endpoints. It stops at once
/// where nobody can be sending traffic to it: nobody follows the endpoints, or it was not among them.
pub(super) fn leave(state: &mut ClusterState, entry: &Entry, slot: &Slot, instance: &Instance) {
    let id = InstanceId { replica: slot.id.clone(), raft_index: instance.raft_index };
    let node = state.nodes.get(&instance.node);
    let is_reachable = node.is_some_and(|node| node.status.is_working());
    if state.consumers.is_empty() || !is_reachable || !is_running(state, &id) {
        return;
    }
    let leaving = Leaving {
        id: id.clone(),
        service: slot.service.clone(),
        node: instance.node,
        revision: instance.revision,
        spec_hash: instance.spec_hash,
        gpus: instance.gpus.clone(),
        left_at: entry.index,
        since: entry.at,
    };
    state.leaving.insert(id, leaving);
}
