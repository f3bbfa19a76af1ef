//! How a change is rolled out, and rolled back.

use crate::time::Millis;

/// How a change of a service is rolled out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpdatePolicy {
    /// Replicas replaced at the same time; at least 1.
    pub parallelism: u32,
    /// Which of the two instances is stopped or started first.
    pub order: UpdateOrder,
    /// How long one step may take.
    pub step_timeout: Millis,
    /// How long a replica must have been up, and healthy where there is a healthcheck, before its
    /// step is over and its predecessor stops. None where nothing is said: then it is
    /// [`UpdatePolicy::DEFAULT_MONITOR`], and the next step may begin while the predecessor serves.
    pub monitor: Option<Millis>,
    /// How long to wait between steps.
    pub delay: Millis,
    /// What follows when more steps fail than may.
    pub failure_action: FailureAction,
    /// How many of a rollout's steps may fail, in thousandths of all.
    pub max_failure_permille: u32,
    /// How the previous revision is restored after too many failures.
    pub rollback: RollbackPolicy,
}

/// What follows when more steps of a rollout fail than may.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureAction {
    /// The previous revision comes back (R-ROLL-3).
    #[default]
    Rollback,
    /// Nothing more is replaced until the next apply or rollback.
    Pause,
    /// The replica stays as it is, its predecessor serving where it still can, and the rest goes on.
    Continue,
}

/// How an aborted rollout goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RollbackPolicy {
    /// Replicas replaced at the same time; at least 1.
    pub parallelism: u32,
    /// Which of the two instances is stopped or started first.
    pub order: UpdateOrder,
    /// How long to wait between steps.
    pub delay: Millis,
    /// How long a replica must have been up before its step is over; none is as the revision that
    /// comes back says.
    pub monitor: Option<Millis>,
    /// What follows when more steps fail than may.
    pub failure_action: RollbackFailureAction,
    /// How many of the steps may fail, in thousandths of all.
    pub max_failure_permille: u32,
}

/// What follows when more steps of the rollback fail than may.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RollbackFailureAction {
    /// The replica stays as it is, and the rest is rolled back.
    #[default]
    Continue,
    /// Nothing more is replaced until the next apply or rollback.
    Pause,
}

impl Default for RollbackPolicy {
    /// One at a time, start-first, without a pause, whatever fails.
    fn default() -> Self {
        Self {
            parallelism: 1,
            order: UpdateOrder::StartFirst,
            delay: Millis(0),
            monitor: None,
            failure_action: RollbackFailureAction::default(),
            max_failure_permille: 0,
        }
    }
}

impl UpdatePolicy {
    /// A parallelism that replaces all replicas at the same time.
    pub const ALL_AT_ONCE: u32 = u32::MAX;

    /// How long a replica is watched where `monitor` says nothing: as long as Swarm's
    /// `--update-monitor` without a value.
    pub const DEFAULT_MONITOR: Millis = Millis::from_secs(5);
}

impl Default for UpdatePolicy {
    /// One at a time, start-first, 60 s a step (R-ROLL-3).
    fn default() -> Self {
        Self {
            parallelism: 1,
            order: UpdateOrder::StartFirst,
            step_timeout: Millis::from_secs(60),
            monitor: None,
            delay: Millis(0),
            failure_action: FailureAction::default(),
            max_failure_permille: 0,
            rollback: RollbackPolicy::default(),
        }
    }
}

/// Which of the two instances moves first in a handover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UpdateOrder {
    /// The successor starts before the old instance stops.
    StartFirst,
    /// The old instance stops first: forced by a host port or an exclusive volume.
    StopFirst,
}
