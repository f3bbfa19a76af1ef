//! SIM-1: two nodes that executed the same entries hold equal states.

use std::collections::BTreeMap;

use jaco_state::ClusterState;
use jaco_types::{Hostname, StateIndex};

use super::{Committed, Facts, Invariant, InvariantViolation, Verdict};

/// States are kept for comparison at every so many entries: a node that diverged stays diverged, so
/// that a little later is soon enough.
const CHECKPOINT_EVERY: u64 = 8;

#[derive(Debug, Default)]
pub(super) struct EqualStates {
    checkpoints: BTreeMap<StateIndex, ClusterState>,
}

impl Invariant for EqualStates {
    fn committed(&mut self, facts: &Facts, step: &Committed<'_>) -> Verdict {
        if step.entry.index.0.is_multiple_of(CHECKPOINT_EVERY) {
            self.checkpoints.insert(step.entry.index, facts.state.clone());
        }
        Ok(())
    }

    fn applied(&mut self, host: &Hostname, state: &mut ClusterState) -> Verdict {
        let Some(known) = self.checkpoints.get(&state.index) else { return Ok(()) };
        if known != state {
            return Err(InvariantViolation::StatesDiffer {
                host: host.clone(),
                index: state.index,
            });
        }
        // From here on both share their rows: the next comparison costs only what has changed since.
        state.clone_from(known);
        Ok(())
    }
}
