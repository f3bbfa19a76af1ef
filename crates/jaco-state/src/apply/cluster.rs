//! Membership and tokens.

use std::collections::{BTreeMap, BTreeSet};

use jaco_types::node::LABELS_MAX;
use jaco_types::{Availability, ErrorCode, InstanceId, NodeFacts, NodeId, Rejection, TokenId};

use super::{Audit, disabled};
use crate::audit::AuditKind;
use crate::command::{Entry, NewNode, Outcome};
use crate::state::{ClusterMeta, ClusterState};
use crate::token::{JoinToken, OperatorToken};

pub(super) fn init(
    state: &mut ClusterState,
    entry: &Entry,
    meta: &ClusterMeta,
    node: &NewNode,
    token: &OperatorToken,
    audit: &mut Audit<'_>,
) -> Outcome {
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
    state.operator_tokens.insert(token.id.clone(), token.clone());
    state.nodes.insert(id, node.clone().into_member(id, entry));
    Outcome::NodeAdmitted { id }
}

/// A node joins: its token's use is counted in the same entry that makes it a member, so a token
/// cannot be used twice.
pub(super) fn admit(
    state: &mut ClusterState,
    entry: &Entry,
    node: &NewNode,
    token: &TokenId,
    audit: &mut Audit<'_>,
) -> Outcome {
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
    Outcome::NodeAdmitted { id }
}

pub(super) fn report(
    state: &mut ClusterState,
    entry: &Entry,
    id: NodeId,
    address: &str,
    facts: &NodeFacts,
) -> Outcome {
    let Some(node) = state.nodes.get(&id) else { return unknown_node(id) };
    if node.address == address && node.facts == *facts {
        return Outcome::Done;
    }
    if let Some(node) = state.nodes.get_mut(&id) {
        address.clone_into(&mut node.address);
        node.facts = facts.clone();
        node.modified = entry.index;
    }
    Outcome::Done
}

pub(super) fn set_availability(
    state: &mut ClusterState,
    entry: &Entry,
    id: NodeId,
    availability: Availability,
    audit: &mut Audit<'_>,
) -> Outcome {
    let Some(node) = state.nodes.get(&id) else { return unknown_node(id) };
    if node.availability == availability {
        return Outcome::Done;
    }
    make_available(state, entry, id, availability, audit);
    Outcome::Done
}

/// Changes a node's availability as people want it.
pub(super) fn make_available(
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

/// Sets and unsets labels; what is as it was leaves no trace.
pub(super) fn set_labels(
    state: &mut ClusterState,
    entry: &Entry,
    id: NodeId,
    (set, unset): (&BTreeMap<String, String>, &BTreeSet<String>),
    audit: &mut Audit<'_>,
) -> Outcome {
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

/// The node and what it observed go; slots that name it are the planner's to mend.
pub(super) fn remove(
    state: &mut ClusterState,
    entry: &Entry,
    id: NodeId,
    audit: &mut Audit<'_>,
) -> Outcome {
    let Some(node) = state.nodes.get(&id) else { return unknown_node(id) };
    audit.event(
        AuditKind::NodeRemove,
        [("node", node.hostname.to_string()), ("node_id", id.to_string())],
    );
    state.nodes.remove(&id);
    state.observed.retain(|_: &InstanceId, observed| observed.node != id);
    state.leaving.retain(|_: &InstanceId, leaving| leaving.node != id);
    disabled::forget(state, entry.index, |scope| scope.node() == Some(id));
    Outcome::Done
}

pub(super) fn issue_token(
    state: &mut ClusterState,
    token: &OperatorToken,
    audit: &mut Audit<'_>,
) -> Outcome {
    if state.operator_tokens.contains(&token.id) {
        let message =
            format!("a token named {} exists; revoke it or choose another name", token.id);
        return Outcome::Rejected(Rejection::new(ErrorCode::TokenExists, message));
    }
    audit.event(
        AuditKind::TokenIssue,
        [("token", token.id.to_string()), ("role", "operator".into())],
    );
    state.operator_tokens.insert(token.id.clone(), token.clone());
    Outcome::Done
}

pub(super) fn revoke_token(
    state: &mut ClusterState,
    entry: &Entry,
    id: &TokenId,
    audit: &mut Audit<'_>,
) -> Outcome {
    if !state.operator_tokens.contains(id) {
        let message = format!("there is no operator token named {id}");
        return Outcome::Rejected(Rejection::new(ErrorCode::TokenNotFound, message));
    }
    audit.event(AuditKind::TokenRevoke, [("token", id.to_string())]);
    if let Some(token) = state.operator_tokens.get_mut(id) {
        token.revoked_at.get_or_insert(entry.at);
    }
    Outcome::Done
}

/// Tokens that cannot be used any more go with the next one that is issued, so their number is
/// bounded by what is issued within one lifetime.
pub(super) fn issue_join_token(
    state: &mut ClusterState,
    token: &JoinToken,
    audit: &mut Audit<'_>,
) -> Outcome {
    if state.join_tokens.contains(&token.id) {
        let message = format!("a join token with the id {} exists", token.id);
        return Outcome::Rejected(Rejection::new(ErrorCode::TokenExists, message));
    }
    audit.event(AuditKind::TokenIssue, [("token", token.id.to_string()), ("role", "join".into())]);
    let now = token.issued_at;
    state.join_tokens.retain(|_, known| now < known.expires_at);
    state.join_tokens.insert(token.id.clone(), token.clone());
    Outcome::Done
}

pub(super) fn unknown_node(id: NodeId) -> Outcome {
    Outcome::Rejected(Rejection::new(ErrorCode::NodeNotFound, format!("node {id} is not a member")))
}

/// Whether a node may write about itself at all.
pub(super) fn is_member(state: &ClusterState, id: NodeId) -> bool {
    state.nodes.contains(&id)
}
