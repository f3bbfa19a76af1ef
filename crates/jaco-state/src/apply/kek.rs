//! The rotation of the key-encryption key (ADR 0127). No phase is left before the report of each member, none is entered
//! twice, and no envelope comes in that the phase does not open: all are checked here, where no other entry can come in
//! between.

use std::collections::BTreeMap;
use std::sync::Arc;

use jaco_types::{ErrorCode, Identity, KekId, Node, NodeId, Rejection, StateIndex};

use super::audit::Audit;
use crate::audit::AuditKind;
use crate::command::{
    Command, Entry, KekAbandon, KekAdvance, KekReport, KekReseal, KekRotate, Outcome,
};
use crate::edge::SealedKey;
use crate::kek::{KekPhase, KekRotation, KekStep};
use crate::state::ClusterState;
use crate::view::{envelopes, envelopes_of, sealing_key};

mod brought;
mod envelope;

use brought::brought;

/// Begins a rotation, unless one is in progress or has left something behind.
pub(super) fn begin(
    state: &mut ClusterState,
    entry: &Entry,
    command: &KekRotate,
    audit: &mut Audit<'_>,
) -> Outcome {
    let KekRotate { replaces, new, holder, naming_key } = command;
    if let Err(rejection) = may_begin(state, command) {
        return Outcome::Rejected(rejection);
    }
    if state.sealing.naming_key.is_none() {
        state.sealing.naming_key.clone_from(naming_key);
    }
    state.sealing.rotation = Some(KekRotation {
        id: entry.index,
        begun_at: entry.at,
        phase: KekPhase::HandingOut,
        entered: entry.index,
        since: entry.at,
        old: *replaces,
        new: *new,
        reports: BTreeMap::from([(*holder, KekStep::Holds)]),
    });
    note(state, AuditKind::KekRotationBegun, audit);
    Outcome::Done
}

fn may_begin(state: &ClusterState, command: &KekRotate) -> Result<(), Rejection> {
    let KekRotate { replaces, new, holder, naming_key } = command;
    if state.meta.is_none() {
        return Err(held("this node has no cluster yet"));
    }
    if let Some(last) = &state.sealing.rotation {
        if !last.phase.is_last() {
            return Err(held(format!(
                "the key-encryption key is being rotated already, and is in the phase {}: see jaco cluster rotate-kek \
                 --status",
                last.phase.as_str()
            )));
        }
        if !last.is_complete(&state.nodes) {
            return Err(waits_for(state, last, "has not dropped what the last rotation left"));
        }
    }
    // Another leader has rotated it since this one looked.
    if sealing_key(state) != Some(*replaces) || new == replaces {
        return Err(held(
            "the key-encryption key was rotated a moment ago: try again if that was not you",
        ));
    }
    if !state.nodes.contains(holder) {
        let message = format!("node {holder} is not a member");
        return Err(Rejection::new(ErrorCode::NodeNotFound, message));
    }
    if state.sealing.naming_key.is_none() && !naming_key.as_ref().is_some_and(SealedKey::fits) {
        return Err(held("the rotation brings no key that names secrets"));
    }
    // What nobody can open now could never be resealed.
    let stranger = envelopes(state).find(|(_, it)| KekId::of_envelope(it) != Some(*replaces));
    if let Some((place, _)) = stranger {
        return Err(held(format!(
            "{place} is sealed with another key than the cluster's, and could not be sealed anew: replace or remove it \
             first"
        )));
    }
    Ok(())
}

/// Records a report. One that comes too late, for an earlier rotation or an earlier phase, changes nothing.
pub(super) fn report(state: &mut ClusterState, entry: &Entry, command: &KekReport) -> Outcome {
    let KekReport { rotation, node, step } = command;
    if entry.by != (Identity::Node { id: *node }) {
        let message = format!("{} may not report for node {node}: only that node may", entry.by);
        return Outcome::Rejected(Rejection::new(ErrorCode::PermissionDenied, message));
    }
    if !state.nodes.contains(node) {
        let message = format!("node {node} is not a member");
        return Outcome::Rejected(Rejection::new(ErrorCode::NodeNotFound, message));
    }
    let current = state.sealing.rotation.as_mut().filter(|current| current.id == *rotation);
    let Some(current) = current else { return Outcome::Done };
    let goal = current.phase.goal();
    if *step != goal {
        return match *step < goal {
            true => Outcome::Done,
            false => Outcome::Rejected(held(format!(
                "node {node} reports {:?}, which no member can have done in the phase {}",
                step.as_str(),
                current.phase.as_str()
            ))),
        };
    }
    current.reports.insert(*node, *step);
    Outcome::Done
}

/// From a phase to the next one.
pub(super) fn advance(
    state: &mut ClusterState,
    entry: &Entry,
    command: &KekAdvance,
    audit: &mut Audit<'_>,
) -> Outcome {
    let KekAdvance { rotation, leaves } = command;
    let next = match leaves {
        KekPhase::HandingOut => (KekPhase::Resealing, AuditKind::KekRotationResealing),
        KekPhase::Resealing => (KekPhase::Settled, AuditKind::KekRotationSettled),
        KekPhase::Settled | KekPhase::Abandoned => {
            let message = format!("no phase follows {}", leaves.as_str());
            return Outcome::Rejected(held(message));
        }
    };
    if let Err(rejection) = may_leave(state, *rotation, *leaves) {
        return Outcome::Rejected(rejection);
    }
    enter(state, entry, next.0);
    note(state, next.1, audit);
    Outcome::Done
}

fn may_leave(state: &ClusterState, id: StateIndex, phase: KekPhase) -> Result<(), Rejection> {
    let rotation = is_in(state, id, phase)?;
    if !rotation.holders(&state.nodes).is_empty() {
        return Err(waits_for(state, rotation, "does not have the new key yet"));
    }
    let left = match phase {
        KekPhase::Resealing => envelopes_of(state, rotation.old).next(),
        KekPhase::HandingOut | KekPhase::Settled | KekPhase::Abandoned => None,
    };
    match left {
        Some((place, _)) => Err(held(format!("{place} is still sealed with the old key"))),
        None => Ok(()),
    }
}

/// Replaces envelopes, each only where it is still the one that was read.
pub(super) fn reseal(state: &mut ClusterState, command: &KekReseal) -> Outcome {
    let KekReseal { rotation, envelopes } = command;
    let new = match is_in(state, *rotation, KekPhase::Resealing) {
        Ok(rotation) => rotation.new,
        Err(rejection) => return Outcome::Rejected(rejection),
    };
    let is_new = |envelope: &Arc<[u8]>| KekId::of_envelope(envelope) == Some(new);
    if let Some(wrong) = envelopes.iter().find(|one| !is_new(&one.envelope)) {
        let message = format!("{} would not be sealed with the new key", wrong.place);
        return Outcome::Rejected(held(message));
    }
    for one in envelopes {
        envelope::replace(state, &one.place, &one.replaces, &one.envelope);
    }
    Outcome::Done
}

/// From *handing out* back to the old key.
pub(super) fn abandon(
    state: &mut ClusterState,
    entry: &Entry,
    command: &KekAbandon,
    audit: &mut Audit<'_>,
) -> Outcome {
    let KekAbandon { rotation } = command;
    if let Err(rejection) = is_in(state, *rotation, KekPhase::HandingOut) {
        return Outcome::Rejected(rejection);
    }
    enter(state, entry, KekPhase::Abandoned);
    note(state, AuditKind::KekRotationAbandoned, audit);
    Outcome::Done
}

/// A member that is admitted once no phase follows gets the key that is left, and no other. Before that it reports what
/// it got, as everyone does: it may have lost the answer.
pub(super) fn admitted(state: &mut ClusterState, node: NodeId) {
    let Some(rotation) = &mut state.sealing.rotation else { return };
    if rotation.phase.is_last() {
        rotation.reports.insert(node, KekStep::Dropped);
    }
}

/// Nobody waits for a member that was removed.
pub(super) fn removed(state: &mut ClusterState, node: NodeId) {
    if let Some(rotation) = &mut state.sealing.rotation {
        rotation.reports.remove(&node);
    }
}

/// Refuses envelopes that the phase does not open: a leader that was replaced may have sealed with a key that is gone.
pub(super) fn check_brought(state: &ClusterState, command: &Command) -> Result<(), Rejection> {
    let Some(rotation) = &state.sealing.rotation else { return Ok(()) };
    let opens = rotation.opens();
    let is_open = |envelope: &&[u8]| {
        KekId::of_envelope(envelope).is_some_and(|sealed_by| opens.contains(&sealed_by))
    };
    match brought(command).iter().all(is_open) {
        true => Ok(()),
        false => Err(held(
            "the key-encryption key was replaced while this was being sealed: try it again",
        )),
    }
}

fn is_in(state: &ClusterState, id: StateIndex, phase: KekPhase) -> Result<&KekRotation, Rejection> {
    match &state.sealing.rotation {
        None => {
            Err(held("the key-encryption key was never rotated: jaco cluster rotate-kek begins it"))
        }
        Some(rotation) if rotation.id != id => {
            Err(held("another rotation of the key-encryption key has begun meanwhile"))
        }
        Some(rotation) if rotation.phase != phase => Err(held(format!(
            "the rotation of the key-encryption key is in the phase {}, and this is for the phase {}",
            rotation.phase.as_str(),
            phase.as_str()
        ))),
        Some(rotation) => Ok(rotation),
    }
}

fn waits_for(state: &ClusterState, rotation: &KekRotation, lacks: &str) -> Rejection {
    let holders = rotation.holders(&state.nodes);
    let names: Vec<&str> = holders.into_iter().map(|node: &Node| node.hostname.as_str()).collect();
    let names = names.join(", ");
    held(format!("{names} {lacks}: bring the node back, or remove it with jaco node rm"))
        .with("nodes", names)
}

fn enter(state: &mut ClusterState, entry: &Entry, phase: KekPhase) {
    if let Some(rotation) = &mut state.sealing.rotation {
        rotation.phase = phase;
        rotation.entered = entry.index;
        rotation.since = entry.at;
    }
}

fn note(state: &ClusterState, kind: AuditKind, audit: &mut Audit<'_>) {
    let Some(rotation) = &state.sealing.rotation else { return };
    let facts = [
        ("rotation", rotation.id.to_string()),
        ("old", rotation.old.to_string()),
        ("new", rotation.new.to_string()),
    ];
    audit.event(kind, facts);
}

fn held(message: impl Into<String>) -> Rejection {
    Rejection::new(ErrorCode::RotationHeld, message.into())
}
