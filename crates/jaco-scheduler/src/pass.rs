//! One pass of the planner, as a table of contents.
//!
//! A pass judges every slot (`verdict/judge.rs`), carries the verdicts out phase by phase, creates what
//! is missing, takes the next steps of rollouts, and reports what has to wait. It edits a draft of the
//! slots; every edit is also a change that will be proposed.

use jaco_state::Change;
use jaco_types::{StateIndex, Timestamp};

use crate::attribute::ClusterDemands;
use crate::draft::{Draft, Pass, Phase};
use crate::input::PlanInput;
use crate::nodes::{NodeTable, Usage};
use crate::phases::{
    Services, carry_out, carry_out_in, create, expire_consumers, judge_nodes, release, report,
    reserve, write_records,
};
use crate::report::Report;
use crate::rollout::{self, Answered, dependency};

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

/// How many rounds a pass has at most. Two are enough unless services queue for each other's ports; the
/// bound only guards against a defect.
const ROUNDS_MAX: usize = 8;

/// Decides what should run where. Pure and total: the same input gives the same plan.
///
/// Reads the whole state. Who plans again and again asks a [`crate::Planner`], which gives the same
/// answer for less.
#[must_use]
pub fn plan(input: &PlanInput<'_>) -> Plan {
    let mut draft = read(*input);
    decide(&mut draft);
    into_plan(draft)
}

/// A draft of the whole state.
pub(crate) fn read(input: PlanInput<'_>) -> Draft<'_> {
    let nodes = input.state.nodes.values().map(|node| (node, Usage::default()));
    let demands = ClusterDemands::read(&input.state.constraints);
    let mut pass = Pass::begin(input, NodeTable::new(nodes, demands));
    judge_nodes(&mut pass);
    Draft::read(pass)
}

/// All phases of a pass. What frees room comes before what takes it, for all services; and rounds go on
/// until one edits nothing, so that the same pass planned again finds nothing to do (law PL-2).
pub(crate) fn decide(draft: &mut Draft<'_>) {
    expire_consumers(draft);
    release(draft);
    draft.remove_unwanted();
    draft.set_goals(rollout::set_goal);
    carry_out(draft, Phase::Disable);
    // Before anything is placed, because definitions with data keep their ports.
    carry_out(draft, Phase::Define);
    repair(draft);
    reserve(draft);
    for _ in 0..ROUNDS_MAX {
        let before = (draft.version(), dependency::waiting(draft));
        carry_out(draft, Phase::Repair);
        carry_out(draft, Phase::Move);
        carry_out(draft, Phase::Start);
        create(draft, Services::Independent);
        carry_out(draft, Phase::Remove);
        rollout::advance(draft);
        go_back_together(draft);
        create(draft, Services::Colocated);
        if (draft.version(), dependency::waiting(draft)) == before {
            break;
        }
        draft.search_again();
    }
    carry_out(draft, Phase::Define);
    rollout::pin_first(draft);
    report(draft);
    write_records(draft);
}

/// Puts replicas right where they are, and answers failed rollouts. Surplus goes first, so that nothing
/// is restarted to be removed.
pub(crate) fn repair(draft: &mut Draft<'_>) {
    for at in draft.order().iter() {
        let (service, pass) = draft.open(*at);
        carry_out_in(service, pass, Phase::Remove);
        carry_out_in(service, pass, Phase::Repair);
        if rollout::answer_failures(service, pass) == Answered::Aborted {
            restore(draft, *at);
        }
    }
    go_back_together(draft);
}

/// Gives up the rollouts of services whose deployment's revision was given up.
fn go_back_together(draft: &mut Draft<'_>) {
    for (at, reason) in rollout::left_behind(draft) {
        let (service, pass) = draft.open(at);
        rollout::abort(service, pass, reason);
        restore(draft, at);
    }
}

/// Begins the rollback of a service: the previous revision may want fewer, and what serves it may have
/// failed.
fn restore(draft: &mut Draft<'_>, at: usize) {
    let (service, pass) = draft.open(at);
    carry_out_in(service, pass, Phase::Remove);
    carry_out_in(service, pass, Phase::Repair);
    rollout::answer_failures(service, pass);
}

/// What was decided.
pub(crate) fn into_plan(draft: Draft<'_>) -> Plan {
    let Pass { input, changes, report, wake_at, .. } = draft.pass;
    Plan { based_on: input.state.index, changes, report, wake_at }
}
