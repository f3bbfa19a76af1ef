//! SIM-16: what is disabled is never started, and only what the user disabled is disabled.

use jaco_state::{Change, ClusterState};
use jaco_types::{DesiredState, ReplicaId};

use super::facts::in_turn;
use super::{Committed, Facts, Invariant, InvariantViolation, Started, Verdict};

#[derive(Debug, Default)]
pub(super) struct DisabledStarted;

impl Invariant for DisabledStarted {
    fn committed(&mut self, _facts: &Facts, step: &Committed<'_>) -> Verdict {
        let Some((_, changes)) = step.plan() else { return Ok(()) };
        in_turn(step.before, changes, |before, change| {
            if let Change::SlotDisable { id, .. } = change {
                check_disable(before, id)?;
            }
            Ok(())
        })
    }

    fn started(&mut self, _facts: &Facts, started: &Started<'_>) -> Verdict {
        let Started { instance, state, .. } = started;
        let is_disabled = state.slots.get(&instance.replica).is_some_and(|slot| {
            slot.desired_state == DesiredState::Disabled && slot.current_id() == **instance
        });
        match is_disabled {
            true => Err(InvariantViolation::DisabledStarted { instance: (*instance).clone() }),
            false => Ok(()),
        }
    }
}

fn check_disable(before: &ClusterState, id: &ReplicaId) -> Verdict {
    let Some(slot) = before.slots.get(id) else { return Ok(()) };
    let is_asked_for = before.disabled.of_slot(slot).is_some();
    match slot.desired_state == DesiredState::Active && !is_asked_for {
        true => Err(InvariantViolation::DisabledUnasked { slot: id.clone() }),
        false => Ok(()),
    }
}
