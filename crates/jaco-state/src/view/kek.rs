//! Which keys a member needs, and what it has to do next for the rotation of the key-encryption key. Both follow from the
//! state and from what the member has on its disk, so that a member that was killed anywhere goes on where it was.

use std::collections::BTreeSet;

use jaco_types::{KekId, NodeId, StateIndex};

use crate::kek::{KekPhase, KekRotation, KekStep};
use crate::state::ClusterState;

/// What a member has on its disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldKeys {
    /// The key-encryption keys.
    pub keys: BTreeSet<KekId>,
    /// The oldest state that its snapshots and its log can bring back.
    pub oldest: StateIndex,
}

/// What a member has to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KekDuty {
    /// Get this key from a member that has it, and store it.
    Fetch(KekId),
    /// Make a snapshot, and delete everything that could bring back a state of before this entry.
    Compact(StateIndex),
    /// Delete every key but this one.
    Keep(KekId),
    /// Report what is done.
    Report(KekStep),
}

/// The key that seals; `None` as long as there is no cluster.
#[must_use]
pub fn sealing_key(state: &ClusterState) -> Option<KekId> {
    match &state.sealing.rotation {
        Some(rotation) => Some(rotation.seals()),
        None => KekId::of_envelope(&state.meta.as_ref()?.sealed_ca_key),
    }
}

/// The keys without which something in the state does not open; none as long as there is no cluster.
#[must_use]
pub fn needed_keys(state: &ClusterState) -> Vec<KekId> {
    match &state.sealing.rotation {
        Some(rotation) => rotation.opens(),
        None => sealing_key(state).into_iter().collect(),
    }
}

/// Which members have the new key and can hand it out.
pub fn key_holders(rotation: &KekRotation) -> impl Iterator<Item = NodeId> {
    rotation.reports.keys().copied()
}

/// What `node` has to do next; nothing if it is done, or others have to act before it.
#[must_use]
pub fn kek_duty(state: &ClusterState, node: NodeId, held: &HeldKeys) -> Option<KekDuty> {
    let rotation = state.sealing.rotation.as_ref()?;
    if !state.nodes.contains(&node) {
        return None;
    }
    let is_due = |step| rotation.reports.get(&node) < Some(&step);
    let report = |step| is_due(step).then_some(KekDuty::Report(step));
    // A member that has reported the end has nothing of this rotation left, and may have a key of the next one.
    if rotation.phase.is_last() && !is_due(KekStep::Dropped) {
        return None;
    }
    match rotation.phase {
        KekPhase::HandingOut | KekPhase::Resealing | KekPhase::Settled
            if !held.keys.contains(&rotation.new) =>
        {
            Some(KekDuty::Fetch(rotation.new))
        }
        KekPhase::HandingOut | KekPhase::Resealing => report(KekStep::Holds),
        // What a restart could bring back opens with the old key only.
        KekPhase::Settled if held.oldest < rotation.entered => {
            Some(KekDuty::Compact(rotation.entered))
        }
        KekPhase::Settled | KekPhase::Abandoned => {
            let kept = rotation.seals();
            match held.keys == BTreeSet::from([kept]) {
                true => report(KekStep::Dropped),
                false => Some(KekDuty::Keep(kept)),
            }
        }
    }
}
