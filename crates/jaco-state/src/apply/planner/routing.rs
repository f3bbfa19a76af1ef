//! Endpoint consumers, and instances that leave the endpoints.

use jaco_types::routing::{CONSUMERS_MAX, LEASE_MAX, LEASE_MIN};
use jaco_types::{
    Consumer, ConsumerName, ErrorCode, Instance, InstanceId, Rejection, Slot, TerminatingInstance,
};

use crate::apply::audit::Audit;
use crate::apply::cluster::{is_member, unknown_node};
use crate::audit::AuditKind;
use crate::command::{ConsumerAttach, ConsumerDetach, Entry, Outcome};
use crate::state::ClusterState;
use crate::view::is_running;

/// A consumer that attaches under the name of another replaces it: it is most likely the same one after
/// a restart.
pub(in crate::apply) fn attach(
    state: &mut ClusterState,
    entry: &Entry,
    command: &ConsumerAttach,
    audit: &mut Audit<'_>,
) -> Outcome {
    let ConsumerAttach { name, node, lease } = command;
    let (node, lease) = (*node, *lease);
    if !is_member(state, node) {
        return unknown_node(node);
    }
    if state.consumers.len() >= CONSUMERS_MAX && !state.consumers.contains(name) {
        let message = format!("{CONSUMERS_MAX} consumers are attached already");
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

/// Ends an attachment, unless a newer one replaced it.
pub(in crate::apply) fn detach(
    state: &mut ClusterState,
    command: &ConsumerDetach,
    audit: &mut Audit<'_>,
) -> Outcome {
    let ConsumerDetach { name, session } = command;
    let session = *session;
    if state.consumers.get(name).is_some_and(|consumer| consumer.session == session) {
        end_consumer(state, name, "detached", audit);
    }
    Outcome::Done
}

/// Removes a consumer.
pub(in crate::apply) fn end_consumer(
    state: &mut ClusterState,
    name: &ConsumerName,
    reason: &str,
    audit: &mut Audit<'_>,
) {
    let facts = [("consumer", name.to_string()), ("reason", reason.to_owned())];
    audit.event(AuditKind::ConsumerDetached, facts);
    state.consumers.remove(name);
}

/// Removes an instance that its slot drops from the endpoints. It stops at once if no traffic can reach
/// it: there is no consumer, or it was not among the endpoints.
pub(in crate::apply) fn leave(
    state: &mut ClusterState,
    entry: &Entry,
    slot: &Slot,
    instance: &Instance,
) {
    let id = InstanceId { replica: slot.id.clone(), raft_index: instance.raft_index };
    let node = state.nodes.get(&instance.node);
    let is_reachable = node.is_some_and(|node| node.status.is_working());
    if state.consumers.is_empty() || !is_reachable || !is_running(state, &id) {
        return;
    }
    let terminating = TerminatingInstance {
        id: id.clone(),
        service: slot.service.clone(),
        node: instance.node,
        revision: instance.revision,
        spec_hash: instance.spec_hash,
        gpus: instance.gpus.clone(),
        addresses: instance.addresses.clone(),
        left_at: entry.index,
        since: entry.at,
    };
    state.terminating.insert(id, terminating);
}
