//! Members of the cluster.

pub(super) mod constraints;
pub(super) mod data_move;
pub(super) mod disabled;
pub(super) mod drain;
pub(super) mod tokens;

use jaco_types::node::LABELS_MAX;
use jaco_types::{Availability, ErrorCode, InstanceId, NodeId, Rejection, TerminatingInstance};

use super::audit::Audit;
use super::network::{address, mesh};
use super::{kek, rotation};
use crate::audit::AuditKind;
use crate::command::{
    ClusterInit, Entry, NodeAdmit, NodeRemove, NodeReport, NodeSetAvailability, NodeSetLabels,
    Outcome,
};
use crate::state::ClusterState;

pub(in crate::apply) fn init(
    state: &mut ClusterState,
    entry: &Entry,
    command: &ClusterInit,
    audit: &mut Audit<'_>,
) -> Outcome {
    let ClusterInit { meta, node, token } = command;
    if let Some(present) = &state.meta {
        let message = format!("this daemon already belongs to cluster {}", present.id);
        return Outcome::Rejected(Rejection::new(ErrorCode::ClusterAlreadyInitialized, message));
    }
    let id = NodeId::FIRST;
    audit.event(
        AuditKind::ClusterInit,
        [("cluster", meta.id.to_string()), ("node", node.hostname.to_string())],
    );
    state.meta = Some(meta.clone());
    state.operator_tokens.insert(token.id.clone(), (**token).clone());
    state.nodes.insert(id, node.clone().into_member(id, entry));
    Outcome::NodeAdmitted { id }
}

/// A node joins: its token's use is counted in the same entry that makes it a member, so a token
/// cannot be used twice.
pub(in crate::apply) fn admit(
    state: &mut ClusterState,
    entry: &Entry,
    command: &NodeAdmit,
    audit: &mut Audit<'_>,
) -> Outcome {
    let NodeAdmit { node, token } = command;
    // A joiner that lost the reply asks again with the same key, and gets the same id.
    let known = state.nodes.values().find(|member| member.key_fingerprint == node.key_fingerprint);
    if let Some(member) = known {
        return Outcome::NodeAdmitted { id: member.id };
    }
    if let Some(member) = state.node_by_hostname(&node.hostname) {
        let message =
            format!("node {:?} is a member already, as node {}", node.hostname, member.id);
        return Outcome::Rejected(Rejection::new(ErrorCode::NodeAlreadyMember, message));
    }
    let Some(known) = state.join_tokens.get(token) else {
        let message = format!("join token {token} is not known");
        return Outcome::Rejected(Rejection::new(ErrorCode::JoinTokenInvalid, message));
    };
    if known.revoked_at.is_some() {
        let message = format!("join token {token} was revoked");
        return Outcome::Rejected(Rejection::new(ErrorCode::TokenRevoked, message));
    }
    if entry.at >= known.expires_at {
        let message = format!("join token {token} has expired");
        return Outcome::Rejected(Rejection::new(ErrorCode::JoinTokenExpired, message));
    }
    if known.uses_left == 0 {
        let message = format!("join token {token} was used before");
        return Outcome::Rejected(Rejection::new(ErrorCode::JoinTokenConsumed, message));
    }
    if let Some(token) = state.join_tokens.get_mut(token) {
        token.uses_left -= 1;
    }
    let id = NodeId(entry.index.0);
    audit.event(
        AuditKind::NodeJoin,
        [
            ("node", node.hostname.to_string()),
            ("node_id", id.to_string()),
            ("address", node.address.clone()),
            ("token", token.to_string()),
        ],
    );
    // Whoever answers the joiner signs its certificate for exactly this id and key.
    audit.event(
        AuditKind::CertificateIssued,
        [("node", node.hostname.to_string()), ("node_id", id.to_string())],
    );
    state.nodes.insert(id, node.clone().into_member(id, entry));
    mesh::assign(state, id);
    rotation::admitted(state, id);
    kek::admitted(state, id);
    Outcome::NodeAdmitted { id }
}

pub(in crate::apply) fn report(
    state: &mut ClusterState,
    entry: &Entry,
    command: &NodeReport,
) -> Outcome {
    let NodeReport { node: id, address, facts } = command;
    let id = *id;
    let Some(node) = state.nodes.get(&id) else { return unknown_node(id) };
    if node.address == *address && node.facts == *facts {
        return Outcome::Done;
    }
    if let Some(node) = state.nodes.get_mut(&id) {
        address.clone_into(&mut node.address);
        node.facts = facts.clone();
        node.modified = entry.index;
    }
    Outcome::Done
}

pub(in crate::apply) fn set_availability(
    state: &mut ClusterState,
    entry: &Entry,
    command: &NodeSetAvailability,
    audit: &mut Audit<'_>,
) -> Outcome {
    let NodeSetAvailability { node: id, availability } = command;
    let (id, availability) = (*id, *availability);
    let Some(node) = state.nodes.get(&id) else { return unknown_node(id) };
    if node.availability == availability {
        // Why an earlier drain ended is no news any more once an operator has said what is wanted. Nothing that
        // is planned by has changed, so the node counts as unmodified.
        if let Some(node) = state.nodes.get_mut(&id) {
            node.availability_reason.clear();
        }
        return Outcome::Done;
    }
    make_available(state, entry, id, availability, audit);
    Outcome::Done
}

/// Changes a node's availability at the request of an operator.
pub(in crate::apply) fn make_available(
    state: &mut ClusterState,
    entry: &Entry,
    id: NodeId,
    availability: Availability,
    audit: &mut Audit<'_>,
) {
    let Some(node) = state.nodes.get_mut(&id) else { return };
    audit.event(
        AuditKind::NodeAvailability,
        [
            ("node", node.hostname.to_string()),
            ("from", node.availability.as_str().to_owned()),
            ("to", availability.as_str().to_owned()),
        ],
    );
    node.availability = availability;
    node.availability_reason.clear();
    node.drain = None;
    node.modified = entry.index;
}

/// Sets and unsets labels; without a change there is no event.
pub(in crate::apply) fn set_labels(
    state: &mut ClusterState,
    entry: &Entry,
    command: &NodeSetLabels,
    audit: &mut Audit<'_>,
) -> Outcome {
    let NodeSetLabels { node: id, set, unset } = command;
    let id = *id;
    let Some(node) = state.nodes.get(&id) else { return unknown_node(id) };
    let mut labels = node.labels.clone();
    labels.retain(|key, _| !unset.contains(key));
    labels.extend(set.iter().map(|(key, value)| (key.clone(), value.clone())));
    if labels.len() > LABELS_MAX {
        let message = format!("node {:?} would have more than {LABELS_MAX} labels", node.hostname);
        return Outcome::Rejected(Rejection::new(ErrorCode::TooLarge, message));
    }
    if labels == node.labels {
        return Outcome::Done;
    }
    let given = set.iter().map(|(key, value)| format!("{key}={value}"));
    let words: Vec<String> = given.chain(unset.iter().map(|key| format!("{key}-"))).collect();
    audit.event(
        AuditKind::NodeLabels,
        [("node", node.hostname.to_string()), ("labels", words.join(" "))],
    );
    if let Some(node) = state.nodes.get_mut(&id) {
        node.labels = labels;
        node.modified = entry.index;
    }
    Outcome::Done
}

/// Removes the node and its observed state; the planner repairs slots that name it.
pub(in crate::apply) fn remove(
    state: &mut ClusterState,
    entry: &Entry,
    command: &NodeRemove,
    audit: &mut Audit<'_>,
) -> Outcome {
    let NodeRemove { node: id } = command;
    let id = *id;
    let Some(node) = state.nodes.get(&id) else { return unknown_node(id) };
    audit.event(
        AuditKind::NodeRemove,
        [("node", node.hostname.to_string()), ("node_id", id.to_string())],
    );
    state.nodes.remove(&id);
    rotation::removed(state, id);
    kek::removed(state, id);
    state.images.held.remove(&id);
    state.observed.retain(|_: &InstanceId, observed| observed.node != id);
    let ended: Vec<TerminatingInstance> =
        state.terminating.values().filter(|row| row.node == id).cloned().collect();
    for row in ended {
        state.terminating.remove(&row.id);
        address::withhold(state, entry.at, row.id, id, row.addresses);
    }
    address::note_left(state, entry.at, id);
    disabled::forget(state, entry.index, |scope| scope.node() == Some(id));
    Outcome::Done
}

pub(in crate::apply) fn unknown_node(id: NodeId) -> Outcome {
    Outcome::Rejected(Rejection::new(ErrorCode::NodeNotFound, format!("node {id} is not a member")))
}

/// Whether a node may write about itself at all.
pub(in crate::apply) fn is_member(state: &ClusterState, id: NodeId) -> bool {
    state.nodes.contains(&id)
}

/// The name of a node, for audit events; its id once it is gone.
pub(in crate::apply) fn hostname(state: &ClusterState, id: NodeId) -> String {
    let node = state.nodes.get(&id);
    node.map_or_else(|| id.to_string(), |node| node.hostname.to_string())
}
