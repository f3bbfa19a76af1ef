//! What the loop counts of its passes, for metrics. Nothing is decided by it.

use std::collections::BTreeMap;

use jaco_scheduler::Plan;
use jaco_state::command::ReplaceCause;
use jaco_state::{Change, ClusterState};
use jaco_types::{RolloutState, ServiceKey};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

/// Upper bounds of the buckets of the time of a pass, in seconds.
const PASS_SECONDS: [f64; 9] = [0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.1, 0.5, 2.0];

/// Counts since the start of this process. Clones are the same.
#[derive(Debug, Clone)]
pub struct PlannerTally {
    /// How long it took to plan, without the agreement on the plan, in seconds.
    pub pass_seconds: Histogram,
    /// Passes that found nothing to change.
    pub idle: Counter,
    /// Passes whose changes were agreed on.
    pub changed: Counter,
    /// Passes whose changes, or some of them, were not.
    pub refused: Counter,
    /// Passes that wanted a change that is too large.
    pub too_large: Counter,
    /// Changes that were agreed on.
    pub changes: Counter,
    /// New instances in existing slots, by cause.
    replaced: [Counter; CAUSES.len()],
    /// Rollouts by the state that they came to.
    rollouts: [Counter; ROLLOUT_STATES.len()],
}

/// Every cause of a new instance.
const CAUSES: [ReplaceCause; 6] = ReplaceCause::ALL;

/// Every state of a rollout.
const ROLLOUT_STATES: [RolloutState; 5] = [
    RolloutState::InProgress,
    RolloutState::Completed,
    RolloutState::Aborted,
    RolloutState::Paused,
    RolloutState::RollbackPaused,
];

/// The states of rollouts that a plan may change, as they were before it.
pub(crate) type Rollouts = BTreeMap<ServiceKey, Option<RolloutState>>;

impl Default for PlannerTally {
    fn default() -> Self {
        Self {
            pass_seconds: Histogram::new(PASS_SECONDS),
            idle: Counter::default(),
            changed: Counter::default(),
            refused: Counter::default(),
            too_large: Counter::default(),
            changes: Counter::default(),
            replaced: Default::default(),
            rollouts: Default::default(),
        }
    }
}

impl PlannerTally {
    /// New instances in existing slots, by cause.
    pub fn replaced(&self) -> impl Iterator<Item = (ReplaceCause, u64)> {
        CAUSES.into_iter().zip(self.replaced.each_ref().map(Counter::get))
    }

    /// Rollouts by the state that they came to; those in progress are those that began or went on.
    pub fn rollouts(&self) -> impl Iterator<Item = (RolloutState, u64)> {
        ROLLOUT_STATES.into_iter().zip(self.rollouts.each_ref().map(Counter::get))
    }

    /// These changes were agreed on.
    pub(crate) fn agreed(&self, changes: &[Change], before: &Rollouts) {
        self.changes.inc_by(u64::try_from(changes.len()).unwrap_or(u64::MAX));
        for change in changes {
            if let Change::SlotReplace { cause, .. } = change {
                count(CAUSES.iter().zip(&self.replaced), cause);
            }
            if let Change::SchedulingSet { service, record } = change
                && let Some(now) = record.rollout.as_ref().map(|rollout| rollout.state)
                && before.get(service).is_none_or(|before| *before != Some(now))
            {
                count(ROLLOUT_STATES.iter().zip(&self.rollouts), &now);
            }
        }
    }
}

/// Counts one of these.
fn count<'a, T: PartialEq + 'a>(mut counters: impl Iterator<Item = (&'a T, &'a Counter)>, one: &T) {
    if let Some((_, counter)) = counters.find(|(known, _)| *known == one) {
        counter.inc();
    }
}

/// The states of the rollouts that a plan is about.
pub(crate) fn rollouts_before(state: &ClusterState, plan: &Plan) -> Rollouts {
    let services = plan.changes.iter().filter_map(|change| match change {
        Change::SchedulingSet { service, .. } => Some(service),
        Change::SlotCreate { .. }
        | Change::SlotReplace { .. }
        | Change::SlotSettle { .. }
        | Change::SlotRevert { .. }
        | Change::SlotSetRestarts { .. }
        | Change::SlotDisable { .. }
        | Change::SlotFinish { .. }
        | Change::SlotRemove { .. }
        | Change::TerminatingRemove { .. }
        | Change::ConsumerExpire { .. }
        | Change::NodeStatusSet { .. }
        | Change::ImageResolve { .. }
        | Change::DrainTimeout { .. } => None,
    });
    let state_of =
        |service: &ServiceKey| Some(state.scheduling.get(service)?.rollout.as_ref()?.state);
    services.map(|service| (service.clone(), state_of(service))).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use jaco_types::{DeploymentName, Revision, Rollout, Scheduling, ServiceName, Timestamp};

    use super::*;

    fn set(service: &ServiceKey, state: RolloutState) -> Change {
        let rollout = Rollout {
            target_revision: Revision(2),
            previous_revision: Revision(1),
            total_steps: 3,
            current_step: 0,
            state,
            failure_reason: String::new(),
            started_at: Timestamp(0),
            last_step_at: Timestamp(0),
            prepull: None,
            rollback_progress: None,
            in_flight: BTreeSet::new(),
        };
        let record = Scheduling { rollout: Some(rollout), ..Scheduling::default() };
        Change::SchedulingSet { service: service.clone(), record: Box::new(record) }
    }

    /// R-OPS-1: a rollout is counted when it comes to a state, not with each step on the way.
    #[test]
    fn rollouts_are_counted_once_for_each_state_that_they_come_to() {
        let service = ServiceKey {
            deployment: DeploymentName::new("shop").unwrap(),
            service: ServiceName::new("web").unwrap(),
        };
        let tally = PlannerTally::default();
        let agreed = |before, now| {
            let before = Rollouts::from([(service.clone(), before)]);
            tally.agreed(&[set(&service, now)], &before);
        };
        agreed(None, RolloutState::InProgress);
        agreed(Some(RolloutState::InProgress), RolloutState::InProgress);
        agreed(Some(RolloutState::InProgress), RolloutState::Completed);
        agreed(Some(RolloutState::Completed), RolloutState::InProgress);
        agreed(Some(RolloutState::InProgress), RolloutState::Aborted);
        let counted: BTreeMap<_, _> = tally.rollouts().filter(|(_, count)| *count > 0).collect();
        let expected = [
            (RolloutState::InProgress, 2),
            (RolloutState::Completed, 1),
            (RolloutState::Aborted, 1),
        ];
        assert_eq!(counted, BTreeMap::from(expected));
        assert_eq!(tally.changes.get(), 5);
    }
}
