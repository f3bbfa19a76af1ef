//! SIM-4: no agent touches a container that is not its own.

use super::{AgentEffect, Facts, Invariant, InvariantViolation, Verdict, is_foreign};

#[derive(Debug, Default)]
pub(super) struct ForeignContainers;

impl Invariant for ForeignContainers {
    fn effect(&mut self, _facts: &Facts, effect: &AgentEffect<'_>) -> Verdict {
        let Some((instance, container)) = effect.ends().filter(|(_, it)| is_foreign(it)) else {
            return Ok(());
        };
        let (instance, container) = (instance.clone(), container.clone());
        Err(InvariantViolation::ForeignEnded { container, instance })
    }
}
