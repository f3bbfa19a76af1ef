//! The rotation of the cluster's authority (ADR 0121). No phase is left before the report of each member, and none is
//! entered twice: both are checked here, where no other entry can come in between.

use std::collections::BTreeMap;

use jaco_types::{ErrorCode, Identity, Node, NodeId, Rejection, Timestamp, TokenId};

use super::audit::Audit;
use crate::audit::AuditKind;
use crate::command::{
    AuthorityAbandon, AuthorityContinue, AuthorityReport, AuthorityRotate, AuthoritySettle, Entry,
    OpenJoinTokens, Outcome,
};
use crate::rotation::{AuthorityRotation, RotatedAuthority, RotationPhase, RotationStep};
use crate::state::ClusterState;

/// Begins a rotation, unless one is in progress.
pub(super) fn begin(
    state: &mut ClusterState,
    entry: &Entry,
    command: &AuthorityRotate,
    audit: &mut Audit<'_>,
) -> Outcome {
    let AuthorityRotate { replaces, new } = command;
    let Some(meta) = &state.meta else { return held("this node has no cluster yet") };
    if let Some(last) = &state.rotation {
        if !last.phase.is_last() {
            return held(format!(
                "the authority is being rotated already, and is in the phase {}: see jaco cluster rotate-ca --status",
                last.phase.as_str()
            ));
        }
        // Another leader has rotated it since this one looked.
        if last.signs().fingerprint != *replaces {
            return held("the authority was rotated a moment ago: try again if that was not you");
        }
    }
    let old = RotatedAuthority {
        certificate: meta.ca_certificate.clone(),
        fingerprint: *replaces,
        sealed_key: meta.sealed_ca_key.clone(),
    };
    state.rotation = Some(AuthorityRotation {
        id: entry.index,
        begun_at: entry.at,
        phase: RotationPhase::Trusting,
        since: entry.at,
        old,
        new: new.clone(),
        reports: BTreeMap::new(),
    });
    publish(state);
    note(state, AuditKind::AuthorityRotationBegun, audit);
    Outcome::Done
}

/// Records a report. One that comes too late, for an earlier rotation or an earlier phase, changes nothing.
pub(super) fn report(
    state: &mut ClusterState,
    entry: &Entry,
    command: &AuthorityReport,
) -> Outcome {
    let AuthorityReport { rotation, node, step } = command;
    if entry.by != (Identity::Node { id: *node }) {
        let message = format!("{} may not report for node {node}: only that node may", entry.by);
        return Outcome::Rejected(Rejection::new(ErrorCode::PermissionDenied, message));
    }
    if !state.nodes.contains(node) {
        let message = format!("node {node} is not a member");
        return Outcome::Rejected(Rejection::new(ErrorCode::NodeNotFound, message));
    }
    let Some(current) = state.rotation.as_mut().filter(|current| current.id == *rotation) else {
        return Outcome::Done;
    };
    if !may_be_reported(current.phase, *step) {
        return match *step < current.phase.goal() {
            true => Outcome::Done,
            false => held(format!(
                "node {node} reports {:?}, which no member can have done in the phase {}",
                step.as_str(),
                current.phase.as_str()
            )),
        };
    }
    let known = current.reports.entry(*node).or_insert(*step);
    *known = (*known).max(*step);
    Outcome::Done
}

/// Whether a member can have done this in a phase, and not in an earlier one.
const fn may_be_reported(phase: RotationPhase, step: RotationStep) -> bool {
    match phase {
        RotationPhase::Trusting => matches!(step, RotationStep::Trusts),
        RotationPhase::Renewing => {
            matches!(step, RotationStep::Renewed | RotationStep::Reconnected)
        }
        RotationPhase::Settled | RotationPhase::Abandoned => matches!(step, RotationStep::Dropped),
    }
}

/// From *trusting* to *renewing*.
pub(super) fn go_on(
    state: &mut ClusterState,
    entry: &Entry,
    command: &AuthorityContinue,
    audit: &mut Audit<'_>,
) -> Outcome {
    let AuthorityContinue { rotation, join_tokens } = command;
    if let Err(rejection) = leaves(state, *rotation, RotationPhase::Trusting) {
        return Outcome::Rejected(rejection);
    }
    let open = open_join_tokens(state, entry.at);
    if !open.is_empty() {
        match join_tokens {
            OpenJoinTokens::Wait => {
                let ids: Vec<&str> = open.iter().map(TokenId::as_str).collect();
                let ids = ids.join(", ");
                return Outcome::Rejected(
                    Rejection::new(
                        ErrorCode::RotationHeld,
                        format!(
                            "join tokens name the old authority and could not be used any more: {ids}; wait until they \
                             are used or expire, or revoke them with --revoke-join-tokens"
                        ),
                    )
                    .with("join_tokens", ids),
                );
            }
            OpenJoinTokens::Revoke => revoke(state, entry, &open, audit),
        }
    }
    enter(state, entry, RotationPhase::Renewing);
    note(state, AuditKind::AuthorityRotationContinued, audit);
    Outcome::Done
}

/// From *renewing* to *settled*.
pub(super) fn settle(
    state: &mut ClusterState,
    entry: &Entry,
    command: &AuthoritySettle,
    audit: &mut Audit<'_>,
) -> Outcome {
    let AuthoritySettle { rotation } = command;
    if let Err(rejection) = leaves(state, *rotation, RotationPhase::Renewing) {
        return Outcome::Rejected(rejection);
    }
    enter(state, entry, RotationPhase::Settled);
    if let Some(rotation) = &mut state.rotation {
        rotation.old.sealed_key.clear();
    }
    note(state, AuditKind::AuthorityRotationSettled, audit);
    Outcome::Done
}

/// From *trusting* back to the old authority.
pub(super) fn abandon(
    state: &mut ClusterState,
    entry: &Entry,
    command: &AuthorityAbandon,
    audit: &mut Audit<'_>,
) -> Outcome {
    let AuthorityAbandon { rotation } = command;
    if let Err(rejection) = is_in(state, *rotation, RotationPhase::Trusting) {
        return Outcome::Rejected(rejection);
    }
    enter(state, entry, RotationPhase::Abandoned);
    if let Some(rotation) = &mut state.rotation {
        rotation.new.sealed_key.clear();
    }
    note(state, AuditKind::AuthorityRotationAbandoned, audit);
    Outcome::Done
}

/// A member that is admitted during a rotation gets what is trusted then with its certificate.
pub(super) fn admitted(state: &mut ClusterState, node: NodeId) {
    let Some(rotation) = &mut state.rotation else { return };
    let step = match rotation.phase {
        RotationPhase::Trusting | RotationPhase::Renewing => RotationStep::Trusts,
        RotationPhase::Settled | RotationPhase::Abandoned => RotationStep::Dropped,
    };
    rotation.reports.insert(node, step);
}

/// Nobody waits for a member that was removed.
pub(super) fn removed(state: &mut ClusterState, node: NodeId) {
    if let Some(rotation) = &mut state.rotation {
        rotation.reports.remove(&node);
    }
}

/// Whether this rotation is in `phase`, and each member has done what that asks for.
fn leaves(
    state: &ClusterState,
    id: jaco_types::StateIndex,
    phase: RotationPhase,
) -> Result<(), Rejection> {
    let rotation = is_in(state, id, phase)?;
    let goal = phase.goal();
    let is_missing = |node: &&Node| rotation.reports.get(&node.id) < Some(&goal);
    let missing: Vec<&str> =
        state.nodes.values().filter(is_missing).map(|node| node.hostname.as_str()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let missing = missing.join(", ");
    let message = format!(
        "the phase {} waits for {missing}: bring the node back, or remove it with jaco node rm",
        phase.as_str()
    );
    Err(Rejection::new(ErrorCode::RotationHeld, message).with("nodes", missing))
}

fn is_in(
    state: &ClusterState,
    id: jaco_types::StateIndex,
    phase: RotationPhase,
) -> Result<&AuthorityRotation, Rejection> {
    let refused = |message: String| Err(Rejection::new(ErrorCode::RotationHeld, message));
    match &state.rotation {
        None => {
            refused("the authority was never rotated: jaco cluster rotate-ca begins it".to_owned())
        }
        Some(rotation) if rotation.id != id => {
            refused("another rotation of the authority has begun meanwhile".to_owned())
        }
        Some(rotation) if rotation.phase != phase => refused(format!(
            "the rotation of the authority is in the phase {}, and this is for the phase {}",
            rotation.phase.as_str(),
            phase.as_str()
        )),
        Some(rotation) => Ok(rotation),
    }
}

fn enter(state: &mut ClusterState, entry: &Entry, phase: RotationPhase) {
    if let Some(rotation) = &mut state.rotation {
        rotation.phase = phase;
        rotation.since = entry.at;
    }
    publish(state);
}

/// What is trusted and what signs is read from the cluster's record, by members of all versions.
fn publish(state: &mut ClusterState) {
    let (Some(rotation), Some(meta)) = (&state.rotation, &mut state.meta) else { return };
    meta.ca_certificate = rotation.certificates();
    meta.sealed_ca_key.clone_from(&rotation.signs().sealed_key);
}

/// Join tokens with which a node could join now.
fn open_join_tokens(state: &ClusterState, now: Timestamp) -> Vec<TokenId> {
    let open = state.join_tokens.values().filter(|token| {
        token.revoked_at.is_none() && token.uses_left > 0 && now < token.expires_at
    });
    open.map(|token| token.id.clone()).collect()
}

fn revoke(state: &mut ClusterState, entry: &Entry, ids: &[TokenId], audit: &mut Audit<'_>) {
    for id in ids {
        if let Some(token) = state.join_tokens.get_mut(id) {
            token.revoked_at = Some(entry.at);
            let facts = [("token", id.to_string()), ("role", "join".to_owned())];
            audit.event(AuditKind::TokenRevoke, facts);
        }
    }
}

fn note(state: &ClusterState, kind: AuditKind, audit: &mut Audit<'_>) {
    let Some(rotation) = &state.rotation else { return };
    let facts = [
        ("rotation", rotation.id.to_string()),
        ("old", hex(&rotation.old.fingerprint)),
        ("new", hex(&rotation.new.fingerprint)),
    ];
    audit.event(kind, facts);
}

fn hex(bytes: &[u8; 32]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn held(message: impl Into<String>) -> Outcome {
    Outcome::Rejected(Rejection::new(ErrorCode::RotationHeld, message.into()))
}
