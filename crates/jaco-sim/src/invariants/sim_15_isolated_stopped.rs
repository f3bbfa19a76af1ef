//! SIM-15: an instance that stops by itself on a node that is cut off has stopped before its
//! successor starts, while a daemon with an engine looks after it.

use std::collections::{BTreeMap, BTreeSet};

use jaco_agent::engine::ObservedContainer;
use jaco_state::command::{DeploymentDelete, Previous, ReplaceCause};
use jaco_state::{Change, Command};
use jaco_types::{DeploymentName, InstanceId, Slot, StateIndex};

use super::facts::{in_turn, is_up, stops_after};
use super::{Committed, Facts, Invariant, InvariantViolation, Verdict};
use crate::network::MachineIx;

#[derive(Debug, Default)]
pub(super) struct IsolatedStopped {
    /// Instances that were to stop by themselves, and that were placed elsewhere when their nodes
    /// were lost.
    given_up: BTreeSet<InstanceId>,
    /// Machines on which nothing can be stopped: no daemon runs that was in contact since, or the
    /// engine does not answer it.
    unattended: BTreeSet<MachineIx>,
    /// When deployments were deleted last.
    deleted: BTreeMap<DeploymentName, StateIndex>,
}

impl Invariant for IsolatedStopped {
    fn committed(&mut self, facts: &Facts, step: &Committed<'_>) -> Verdict {
        if let Command::DeploymentDelete(DeploymentDelete { name }) = &step.entry.command {
            self.deleted.insert(name.clone(), step.entry.index);
        }
        let Some((_, changes)) = step.plan() else { return Ok(()) };
        in_turn(step.before, changes, |before, change| {
            if let Change::SlotReplace { id, previous, cause, .. } = change
                && (*previous, *cause) == (Previous::Drop, ReplaceCause::NodeLost)
                && let Some(slot) = before.slots.get(id)
                && facts.state.nodes.contains(&slot.current.node)
                && stops_after(before, &slot.service, slot.current.revision).is_some()
                && !self.is_of_deleted(slot)
            {
                self.given_up.insert(slot.current_id());
            }
            Ok(())
        })
    }

    fn containers(
        &mut self,
        facts: &Facts,
        _machine: MachineIx,
        _before: &[ObservedContainer],
    ) -> Verdict {
        let attended = facts.machines.iter().filter(|(ix, _)| !self.unattended.contains(ix));
        for (machine, there) in attended {
            let is_given_up = |seen: &&ObservedContainer| self.given_up.contains(&seen.instance);
            let mut lost = there.values().filter(|seen| is_up(seen)).filter(is_given_up);
            if let Some(lost) = lost.find(|lost| runs_elsewhere(facts, *machine, lost)) {
                let (instance, machine) = (lost.instance.clone(), machine.0);
                return Err(InvariantViolation::IsolatedStillRuns { instance, machine });
            }
        }
        Ok(())
    }

    fn attended(&mut self, facts: &Facts, machine: MachineIx) {
        if self.unattended.remove(&machine) {
            // What was placed elsewhere meanwhile could not be stopped, and is stopped now.
            for seen in facts.on(machine) {
                self.given_up.remove(&seen.instance);
            }
        }
    }

    fn unattended(&mut self, machine: MachineIx) {
        self.unattended.insert(machine);
    }
}

impl IsolatedStopped {
    /// Whether the current instance was started under a deployment that was deleted since, and goes on
    /// in the one that has its name now. Its node follows the policy of the former (harsh seed 432610).
    fn is_of_deleted(&self, slot: &Slot) -> bool {
        let deleted = self.deleted.get(&slot.service.deployment);
        deleted.is_some_and(|deleted| slot.current.raft_index < *deleted)
    }
}

/// Whether a newer instance of the same slot is up on another machine.
fn runs_elsewhere(facts: &Facts, machine: MachineIx, lost: &ObservedContainer) -> bool {
    let is_newer = |seen: &ObservedContainer| {
        seen.instance.replica == lost.instance.replica
            && seen.instance.raft_index > lost.instance.raft_index
    };
    let mut others = facts.machines.iter().filter(|(other, _)| **other != machine);
    others.any(|(_, there)| there.values().any(|seen| is_up(seen) && is_newer(seen)))
}
