//! One pass of the planner, as a table of contents.
//!
//! The pass edits a draft of the slots; every edit is also the change that will be proposed. What
//! frees room comes before what takes it, for all services, so that the same pass planned again
//! finds nothing left to do (law PL-2).

use jaco_state::Change;
use jaco_types::{StateIndex, Timestamp};

use crate::draft::{Draft, Pass};
use crate::input::PlanInput;
use crate::population::Goes;
use crate::report::Report;
use crate::rollout::Freed;
use crate::{leaving, mend, population, record, resting, rollout, waiting};

/// What one pass wants changed, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// The state that it was made from; the batch is refused if what it touches moved since.
    pub based_on: StateIndex,
    /// What to propose, in order; empty when there is nothing to do.
    pub changes: Vec<Change>,
    /// Why here, and why not there.
    pub report: Report,
    /// The earliest moment at which the same state and signals would be decided differently.
    pub wake_at: Option<Timestamp>,
}

/// How often room that a rollout freed is offered to what waits for room. One round is enough
/// unless services queue behind each other's ports; the bound only guards against a defect.
const ROUNDS_MAX: usize = 8;

/// Decides what should run where. Pure and total: the same input gives the same plan.
///
/// Reads the whole state. Who plans again and again asks a [`crate::Planner`], which gives the same
/// answer for less.
#[must_use]
pub fn plan(input: &PlanInput<'_>) -> Plan {
    let mut draft = Draft::read(*input);
    decide(&mut draft);
    draft.into_plan()
}

/// All phases of a pass.
pub(crate) fn decide(draft: &mut Draft<'_>) {
    leaving::expire_consumers(draft);
    leaving::end(draft);
    draft.remove_unwanted();
    resting::disable(draft);
    mend::mend(draft);
    for _ in 0..ROUNDS_MAX {
        let moved = population::relocate(draft);
        let enabled = resting::enable(draft);
        let made = population::fill(draft, Goes::Alone);
        let superseded = mend::remove_superseded(draft);
        let rolled = rollout::advance(draft);
        // A step may have led away from a node what others would have been placed with there.
        let followed = population::fill(draft, Goes::WithOthers);
        if [moved, enabled, made, superseded, rolled, followed] == [Freed::Nothing; 6] {
            break;
        }
    }
    resting::renew(draft);
    waiting::note(draft);
    record::write_records(draft);
}

impl Draft<'_> {
    /// What was decided.
    pub(crate) fn into_plan(self) -> Plan {
        let Pass { input, changes, report, wake_at, .. } = self.pass;
        Plan { based_on: input.state.index, changes, report, wake_at }
    }
}
