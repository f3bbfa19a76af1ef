//! The leader's second loop: moves off hot nodes, and moves that the operator asks for.

use jaco_scheduler::rebalance::{Goal, arrange, arrangement};
use jaco_state::command::Rebalance;
use jaco_types::{Identity, Millis};

use super::{Happening, World};
use crate::consensus::{Origin, Proposal};
use crate::network::MachineIx;

/// From one cycle to the next, as the product's default.
pub(super) const REBALANCE_EVERY: Millis = Millis::from_secs(30);

impl World {
    /// Sets how much of a machine's processors is in use; absent where that is not measured.
    pub(crate) fn set_load(&mut self, ix: MachineIx, percent: Option<u64>) {
        self.machines[ix.0].load_percent = percent;
    }

    /// A cycle of the leader that was elected for this term.
    pub(super) fn rebalance(&mut self, ix: MachineIx, term: u64) {
        let machine = &mut self.machines[ix.0];
        let clock = machine.cluster_time(self.now);
        let Some(daemon) = &mut machine.daemon else { return };
        let Some(leading) = daemon.leading.as_mut().filter(|it| it.term == term) else { return };
        let commands = leading.rebalance(&daemon.state, clock);
        let (origin, by) = (Origin::Rebalancer { machine: ix }, Identity::Scheduler);
        for command in commands {
            self.propose(ix, Proposal { origin, by: by.clone(), request: None, command });
        }
        self.plan_in(REBALANCE_EVERY, Happening::Rebalance { machine: ix, term });
    }

    /// The moves that lead to the goal, `most` at most, as an operator's request.
    pub(crate) fn rearranging(&self, goal: Goal, most: usize) -> Rebalance {
        let state = self.checker.reference();
        let moves = arrange(state, goal, most);
        Rebalance::new(state.index, arrangement(state, goal, &moves))
    }
}
