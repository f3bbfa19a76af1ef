//! SIM-3: an instance is started at most once, as far as its node can know. A container that was
//! removed by another program, before its node could report that it ever ran, and whose daemon died
//! since, has left no trace; it may be made again.

use std::collections::BTreeMap;

use jaco_agent::engine::ContainerId;
use jaco_types::{InstanceId, ReplicaState};

use super::{Facts, Invariant, InvariantViolation, Process, Started, Verdict};

#[derive(Debug, Default)]
pub(super) struct StartedOnce {
    /// The container that each instance got, and from whom.
    first: BTreeMap<InstanceId, (ContainerId, Process)>,
}

impl Invariant for StartedOnce {
    fn started(&mut self, facts: &Facts, started: &Started<'_>) -> Verdict {
        let Started { instance, container, by, state } = started;
        let first = self.first.insert((*instance).clone(), ((*container).clone(), *by));
        let Some((first, first_by)) = first.filter(|(first, _)| first != *container) else {
            return Ok(());
        };
        let is_there = facts.on(by.machine).any(|seen| seen.container == first);
        let is_known = state.observed.get(instance).is_some_and(|seen| match seen.state {
            ReplicaState::Pending | ReplicaState::Pulling => false,
            ReplicaState::Starting
            | ReplicaState::Running
            | ReplicaState::Degraded
            | ReplicaState::Failed
            | ReplicaState::Stopped
            | ReplicaState::Completed => true,
        });
        if is_there || is_known || first_by == *by {
            let (instance, second) = ((*instance).clone(), (*container).clone());
            return Err(InvariantViolation::StartedTwice { instance, first, second });
        }
        Ok(())
    }
}
