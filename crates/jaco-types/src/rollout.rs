//! The planner's record of a service: its rollout, and why some of its replicas are not placed.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::{NodeId, ReplicaId, Revision, StateIndex};
use crate::image::ImageDigest;
use crate::time::Timestamp;

/// The planner's record of one service; only the planner writes it. It outlives the service, so
/// that indices are never reused (R-PLACE-5).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scheduling {
    /// The index that the next slot gets.
    pub next_index: u64,
    /// The last revision that a plan covered: until it is the desired one, it is not known whether all
    /// replicas are placed.
    pub planned_revision: Revision,
    /// The rollout in progress, or the last one.
    pub rollout: Option<Rollout>,
    /// Replicas that cannot be placed now; empty if all are placed.
    pub unplaced: Vec<Unplaced>,
    /// Whether its first replicas are placed and have not all been up for their watch time yet.
    pub first_watch: FirstWatch,
    /// The last entry that changed it.
    pub modified: StateIndex,
}

/// Whether the first replicas of a service are watched (R-ROLL-8). Later ones are watched by their rollout.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FirstWatch {
    /// They were, or are of a release that did not.
    #[default]
    Over,
    /// They are.
    Open,
}

/// Replacing the replicas of a service one at a time (R-ROLL-1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rollout {
    /// The revision that it rolls out.
    pub target_revision: Revision,
    /// The revision that it replaces, and to which it rolls back when it is aborted. Zero if the replicas
    /// had none in common.
    pub previous_revision: Revision,
    /// How many replicas it replaces.
    pub total_steps: u32,
    /// How many of them are done.
    pub current_step: u32,
    /// Its state.
    pub state: RolloutState,
    /// Why it, or its rollback, was aborted or paused; empty otherwise.
    pub failure_reason: String,
    /// When it began.
    pub started_at: Timestamp,
    /// When the present step began.
    pub last_step_at: Timestamp,
    /// The pre-pull that its first step waits for; none once the nodes have the image.
    pub prepull: Option<Prepull>,
    /// The rollback of an aborted one; none once nothing is left to roll back.
    pub rollback_progress: Option<RollbackProgress>,
    /// The replicas whose steps have started and not finished, for the audit log; always empty as long as
    /// there may be members of an older version.
    pub in_flight: BTreeSet<ReplicaId>,
}

/// The progress of a rollback: replacing what a rollout replaced before it was aborted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RollbackProgress {
    /// How many replicas are replaced; those whose predecessor still served revert at once, and are not
    /// among them.
    pub total_steps: u32,
    /// How many of them are done.
    pub current_step: u32,
}

/// The nodes that fetch the image of a rollout before its first step (R-ROLL-5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepull {
    /// The deadline.
    pub due: Timestamp,
    /// Those that do not have the image yet, and why; never empty.
    pub nodes: BTreeMap<NodeId, String>,
}

/// Whether a node has an image that a rollout needs there, as the node reports to the leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageReadiness {
    /// It has.
    Ready {
        /// What it is; absent where the node has it from no registry, and where its daemon is of an
        /// older release.
        digest: Option<ImageDigest>,
    },
    /// Not yet.
    Waiting {
        /// What it is doing, or the last error.
        reason: String,
    },
    /// It tried, and failed.
    Failed {
        /// `<image>: <error>`, in the words of whoever failed.
        reason: String,
    },
}

/// The state of a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RolloutState {
    /// Steps remain.
    InProgress,
    /// All steps are done.
    Completed,
    /// It failed; the previous revision serves.
    Aborted,
    /// Too many of its replicas failed: nothing more is replaced until the next apply or rollback.
    Paused,
    /// It failed, and so did too many replicas of the rollback: nothing more is replaced until the next
    /// apply or rollback.
    RollbackPaused,
}

impl RolloutState {
    /// Whether it ended without completing: applying the same spec again is a new attempt.
    #[must_use]
    pub const fn has_failed(self) -> bool {
        match self {
            Self::Aborted | Self::Paused | Self::RollbackPaused => true,
            Self::InProgress | Self::Completed => false,
        }
    }

    /// The state as users see it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Aborted => "aborted",
            Self::Paused => "paused",
            Self::RollbackPaused => "rollback_paused",
        }
    }
}

/// The reason of replicas that wait for another service of their deployment: nothing is wrong.
pub const WAITING_FOR_DEPENDENCY: &str = "waiting_for_dependency";
/// The reason of a replica that a drain waits for, because its job runs. That, too, is progress.
pub const WAITING_FOR_JOB: &str = "waiting_for_job";

/// The reason of replicas that a network has no free address for (PL-24).
pub const NO_ADDRESS: &str = "no_address";

/// Replicas that are wanted and cannot be placed, and why.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unplaced {
    /// How many replicas this is about.
    pub count: u32,
    /// A stable name for the cause, for example `cannot_satisfy_host_placement`.
    pub reason: String,
    /// Facts that belong to it, for example `missing` with the absent hosts.
    pub details: BTreeMap<String, String>,
}
