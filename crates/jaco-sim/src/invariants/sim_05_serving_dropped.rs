//! SIM-5: a serving instance is dropped without a successor only for a reason: it failed, its node is
//! lost, or the service cannot run two side by side. A plan is judged by what the state said that it
//! is based on: what a node reports while the plan is being written comes too late for it.

use std::collections::BTreeMap;

use jaco_state::command::{Observe, Previous, RebalanceRevert, ReplaceCause};
use jaco_state::view::is_running;
use jaco_state::{Change, ClusterState, Command, Outcome};
use jaco_types::{DesiredState, InstanceId, ReplicaId, Revision, StateIndex};

use super::facts::{in_turn, is_lost, must_stop_first};
use super::{Committed, Facts, Invariant, InvariantViolation, Verdict};

/// How far back a plan can be based that is still written. More than ever is in flight.
const REPORTS_KEPT: u64 = 200;

#[derive(Debug, Default)]
pub(super) struct ServingDropped {
    /// By the entry that reported something of an instance: whether it ran according to the state
    /// before.
    reports: BTreeMap<InstanceId, BTreeMap<StateIndex, bool>>,
}

impl Invariant for ServingDropped {
    fn committed(&mut self, facts: &Facts, step: &Committed<'_>) -> Verdict {
        if let Command::Observe(Observe { observed, gone, .. }) = &step.entry.command {
            let reported = observed.iter().map(|seen| &seen.id).chain(gone);
            reported.for_each(|id| self.note(id, step));
        }
        if let (Command::RebalanceRevert(RebalanceRevert { based_on, reverts }), Outcome::Done) =
            (&step.entry.command, step.outcome)
        {
            let (after, before, reports) = (&facts.state, step.before, &self.reports);
            let plan = Plan { after, before, based_on: *based_on, reports };
            reverts.iter().try_for_each(|one| plan.check_revert(&one.id))?;
        }
        let Some((based_on, changes)) = step.plan() else { return Ok(()) };
        in_turn(step.before, changes, |before, change| {
            let plan = Plan { after: &facts.state, before, based_on, reports: &self.reports };
            if let Change::SlotReplace { id, previous: Previous::Drop, cause, instance, .. } =
                change
            {
                return plan.check_drop(id, *cause, instance.revision);
            }
            if let Change::SlotRevert { id } = change {
                return plan.check_revert(id);
            }
            if let Change::SlotSettle { id } = change {
                return plan.check_settle(id, changes);
            }
            Ok(())
        })
    }
}

impl ServingDropped {
    fn note(&mut self, id: &InstanceId, step: &Committed<'_>) {
        let index = step.entry.index;
        let reports = self.reports.entry(id.clone()).or_default();
        reports.retain(|at, _| at.0 + REPORTS_KEPT > index.0);
        reports.insert(index, is_running(step.before, id));
    }
}

/// A plan, and what it can know.
struct Plan<'a> {
    after: &'a ClusterState,
    before: &'a ClusterState,
    based_on: StateIndex,
    reports: &'a BTreeMap<InstanceId, BTreeMap<StateIndex, bool>>,
}

impl Plan<'_> {
    /// Whether the instance ran by the state that the plan is based on.
    fn ran(&self, id: &InstanceId) -> bool {
        let later = self.reports.get(id).and_then(|reports| {
            reports.range(StateIndex(self.based_on.0 + 1)..).next().map(|(_, before)| *before)
        });
        later.unwrap_or_else(|| is_running(self.before, id))
    }

    /// Whether it runs, and did when the plan was made.
    fn serves(&self, id: &InstanceId) -> bool {
        self.ran(id) && is_running(self.before, id)
    }

    fn check_drop(&self, id: &ReplicaId, cause: ReplaceCause, next: Revision) -> Verdict {
        let Some(slot) = self.before.slots.get(id) else { return Ok(()) };
        let instance = slot.current_id();
        let other_serves = slot.retiring_id().is_some_and(|old| self.ran(&old));
        let serves = self.serves(&instance) && !other_serves;
        let is_fine = match cause {
            ReplaceCause::Failed => !serves,
            ReplaceCause::NodeLost => is_lost(self.after, slot.current.node),
            ReplaceCause::Enabled => !serves && slot.desired_state == DesiredState::Disabled,
            ReplaceCause::SpecChanged | ReplaceCause::Moved | ReplaceCause::ColocatedReplaced => {
                !serves || must_stop_first(self.after, slot, next)
            }
        };
        match is_fine {
            true => Ok(()),
            false => Err(InvariantViolation::ServingDropped { instance, cause }),
        }
    }

    fn check_settle(&self, id: &ReplicaId, changes: &[Change]) -> Verdict {
        let Some(slot) = self.before.slots.get(id) else { return Ok(()) };
        let (Some(old), Some(was)) = (slot.retiring_id(), &slot.retiring) else { return Ok(()) };
        let new = self.before.observed.get(&slot.current_id());
        let is_over = new.is_some_and(|seen| seen.state.is_over());
        let makes_room = changes.iter().any(|change| {
            let Change::SlotReplace { id: other, previous: Previous::Drop, instance, .. } = change
            else {
                return false;
            };
            other == id && must_stop_first(self.after, slot, instance.revision)
        });
        let is_taken_over = self.ran(&slot.current_id()) || is_over || makes_room;
        if self.serves(&old) && !is_lost(self.after, was.node) && !is_taken_over {
            return Err(InvariantViolation::HandoverEndedEarly { instance: old });
        }
        Ok(())
    }

    /// A successor that is given up may serve, but not alone.
    fn check_revert(&self, id: &ReplicaId) -> Verdict {
        let Some(slot) = self.before.slots.get(id) else { return Ok(()) };
        let old_serves = slot.retiring_id().is_some_and(|old| self.ran(&old));
        if self.serves(&slot.current_id()) && !old_serves {
            return Err(InvariantViolation::RevertedToFailed { slot: id.clone() });
        }
        Ok(())
    }
}
