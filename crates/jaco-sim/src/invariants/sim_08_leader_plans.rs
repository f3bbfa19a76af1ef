//! SIM-8: only the leader of the term has its plans written.

use jaco_types::StateIndex;

use super::{Invariant, InvariantViolation, Verdict};
use crate::network::MachineIx;

#[derive(Debug, Default)]
pub(super) struct LeaderPlans;

impl Invariant for LeaderPlans {
    fn plan_written(&mut self, by: MachineIx, leader: MachineIx, at: StateIndex) -> Verdict {
        match by == leader {
            true => Ok(()),
            false => {
                let (by, leader) = (by.0, leader.0);
                Err(InvariantViolation::FollowerPlanned { by, leader, index: at })
            }
        }
    }
}
