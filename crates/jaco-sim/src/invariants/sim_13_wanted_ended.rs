//! SIM-13: no agent ends the container of an instance that it knows to be wanted, unless its node is
//! cut off and the service asks for that.

use super::{AgentEffect, Facts, Invariant, InvariantViolation, Verdict};

#[derive(Debug, Default)]
pub(super) struct WantedEnded;

impl Invariant for WantedEnded {
    fn effect(&mut self, _facts: &Facts, effect: &AgentEffect<'_>) -> Verdict {
        let Some((instance, _)) = effect.ends() else { return Ok(()) };
        let slot = effect.state.slots.get(&instance.replica);
        let is_wanted = slot.is_some_and(|slot| {
            slot.instances().any(|(id, live)| id == *instance && live.node == effect.node)
        });
        match is_wanted && !effect.has_to_stop(instance) {
            true => Err(InvariantViolation::WantedEnded { instance: instance.clone() }),
            false => Ok(()),
        }
    }
}
