//! NET-12: once all faults are over, the router of each working node holds what the state asks for.

use jaco_dataplane::{Topology, diff, plan};

use super::facts::is_lost;
use super::{Facts, Invariant, InvariantViolation, Verdict};

#[derive(Debug, Default)]
pub(super) struct Held;

impl Invariant for Held {
    fn converged(&mut self, facts: &Facts) -> Verdict {
        if facts.state.networks.pool.is_none() {
            return Ok(());
        }
        let topology = Topology::of(&facts.state);
        let working = facts.routers.iter().filter(|(_, holds)| !is_lost(&facts.state, holds.node));
        for (machine, holds) in working {
            if let Some(step) = diff(&plan(&topology, holds.node), &holds.seen).first() {
                let (machine, missing) = (machine.0, format!("{step:?}"));
                return Err(InvariantViolation::PlanNotHeld { machine, missing });
            }
        }
        Ok(())
    }
}
