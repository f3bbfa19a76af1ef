//! SIM-17: what serves is ended by its agent only once it is out of the endpoints that all have
//! agreed on.

use super::{AgentEffect, Facts, Invariant, InvariantViolation, Verdict};

#[derive(Debug, Default)]
pub(super) struct RoutedEnded;

impl Invariant for RoutedEnded {
    fn effect(&mut self, facts: &Facts, effect: &AgentEffect<'_>) -> Verdict {
        let Some((instance, container)) = effect.ends() else { return Ok(()) };
        // Its node may be behind: what all have agreed on decides.
        let gets_traffic = jaco_state::view::in_routing(&facts.state, instance)
            || facts.state.terminating.contains(instance);
        if gets_traffic && facts.is_serving(container) && !effect.has_to_stop(instance) {
            return Err(InvariantViolation::RoutedEnded { instance: instance.clone() });
        }
        Ok(())
    }
}
