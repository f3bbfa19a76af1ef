//! The planner of this process: while another node leads its counts stand still.

use std::fmt;

use jaco_controller::PlannerTally;

use super::exposition::Exposition;
use super::family::Family;

static PASS: Family = Family::durations(
    "jaco_planner_pass_duration",
    "How long a pass of the planner computed, without the agreement on its plan",
);
static PASSES: Family = Family::counter(
    "jaco_planner_passes",
    "Passes by what came of them: idle, changed, refused, too_large",
)
.labels(&["result"]);
static CHANGES: Family =
    Family::counter("jaco_planner_changes", "Changes of the planner that were agreed on");
static REPLACEMENTS: Family = Family::counter(
    "jaco_replica_replacements",
    "New instances of existing replicas by cause; restarts are those with the cause failed",
)
.labels(&["cause"]);
static ROLLOUTS: Family = Family::counter(
    "jaco_rollouts",
    "Rollouts by the state that they came to; in_progress counts those that began",
)
.labels(&["state"]);

pub(super) const FAMILIES: &[&Family] = &[&PASS, &PASSES, &CHANGES, &REPLACEMENTS, &ROLLOUTS];

pub(super) fn write(out: &mut Exposition<'_>, tally: &PlannerTally) -> fmt::Result {
    out.histograms(&PASS, [([""; 0], &tally.pass_seconds)])?;
    let passes = [
        ("idle", &tally.idle),
        ("changed", &tally.changed),
        ("refused", &tally.refused),
        ("too_large", &tally.too_large),
    ];
    out.counters(&PASSES, passes.map(|(result, count)| ([result], count.get())))?;
    out.counter(&CHANGES, tally.changes.get())?;
    let replaced = tally.replaced();
    out.counters(&REPLACEMENTS, replaced.map(|(cause, count)| ([cause.as_str()], count)))?;
    out.counters(&ROLLOUTS, tally.rollouts().map(|(state, count)| ([state.as_str()], count)))
}
