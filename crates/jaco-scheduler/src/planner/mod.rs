//! The planner of a leader, which plans again and again and so remembers what it has settled.

mod memory;

use self::memory::Memory;
use crate::draft::Pass;
use crate::input::PlanInput;
use crate::pass::{Plan, decide, into_plan};
use crate::phases::judge_nodes;

/// Gives the plan that [`crate::plan`] gives, at the price of what changed since the last one.
///
/// Law PL-14: the answers are the same on every input, whatever was asked before. So what is
/// remembered is no state that anybody else has to know: a new leader begins with an empty planner.
///
/// Between passes it keeps the rows of the state that it saw last, which it shares with the state
/// itself as long as they do not change, and about 200 bytes for each replica.
#[derive(Default)]
pub struct Planner(Memory);

impl Planner {
    /// Decides what should run where.
    pub fn plan(&mut self, input: &PlanInput<'_>) -> Plan {
        let Self(memory) = self;
        memory.follow(input.state);
        let mut pass = Pass::begin(*input, memory.nodes(input.state));
        judge_nodes(&mut pass);
        let mut draft = memory.read(pass);
        decide(&mut draft);
        memory.note_settled(&draft);
        into_plan(draft)
    }
}

impl std::fmt::Debug for Planner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Planner").finish_non_exhaustive()
    }
}
