//! SIM-19: what completed is not started again as the same spec, whatever happens to nodes and leaders.

use std::collections::BTreeMap;

use jaco_state::{Change, ClusterState};
use jaco_types::{Completion, ReplicaId, SpecHash};

use super::facts::{begun_runs, in_turn};
use super::{Committed, Facts, Invariant, InvariantViolation, Started, Verdict};

/// The specs that slots completed last.
#[derive(Debug, Default)]
pub(super) struct FinishedOnce(BTreeMap<ReplicaId, SpecHash>);

impl Invariant for FinishedOnce {
    fn committed(&mut self, facts: &Facts, step: &Committed<'_>) -> Verdict {
        self.begin_runs(facts, step.before);
        let Some((_, changes)) = step.plan() else { return Ok(()) };
        in_turn(step.before, changes, |before, change| {
            if let Change::SlotFinish { id, completion: Completion::Succeeded, .. } = change {
                let slot = before.slots.get(id);
                self.0.extend(slot.map(|slot| (id.clone(), slot.current.spec_hash)));
            }
            if let Change::SlotReplace { id, instance, .. } = change
                && self.0.get(id) != Some(&instance.spec_hash)
            {
                self.0.remove(id);
            }
            // A slot of the same name that is made later is another one, and so is one that operators
            // disabled and enabled.
            if let Change::SlotRemove { id } | Change::SlotDisable { id, .. } = change {
                self.0.remove(id);
            }
            Ok(())
        })
    }

    fn started(&mut self, _facts: &Facts, started: &Started<'_>) -> Verdict {
        let Started { instance, state, .. } = started;
        let Some(slot) = state.slots.get(&instance.replica) else { return Ok(()) };
        let is_again = slot.current_id() == **instance
            && self.0.get(&slot.id) == Some(&slot.current.spec_hash);
        match is_again {
            true => Err(InvariantViolation::FinishedStarted { instance: (*instance).clone() }),
            false => Ok(()),
        }
    }
}

impl FinishedOnce {
    /// Another run of a job has its slots do the same once more.
    fn begin_runs(&mut self, facts: &Facts, before: &ClusterState) {
        for (service, _) in begun_runs(before, &facts.state) {
            let slots = facts.state.slots.values();
            for slot in slots.filter(|slot| slot.service == *service) {
                self.0.remove(&slot.id);
            }
        }
    }
}
