//! What the planner keeps about a service: its rollout, and why some of it is not placed.

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
    /// The last revision that a plan covered: until it is the wanted one, nothing can be said about
    /// whether all that is wanted is placed.
    pub planned_revision: Revision,
    /// The rollout under way, or the last one.
    pub rollout: Option<Rollout>,
    /// What is wanted and cannot be placed now; empty when all is placed.
    pub unplaced: Vec<Unplaced>,
    /// The last entry that changed it.
    pub modified: StateIndex,
}

/// Replacing the replicas of a service one at a time (R-ROLL-1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rollout {
    /// The revision it leads to.
    pub target_revision: Revision,
    /// The revision that it leads away from, and goes back to when it is aborted. Zero where the
    /// replicas had none in common.
    pub previous_revision: Revision,
    /// How many replicas it replaces.
    pub total_steps: u32,
    /// How many of them are done.
    pub current_step: u32,
    /// Where it stands.
    pub state: RolloutState,
    /// Why it was aborted or paused, and why its way back was; empty otherwise.
    pub failure_reason: String,
    /// When it began.
    pub started_at: Timestamp,
    /// When the present step began.
    pub last_step_at: Timestamp,
    /// What its first step waits for; none once the nodes are ready.
    pub preparing: Option<Preparing>,
    /// How far an aborted one is on its way back; none where nothing is left of that.
    pub going_back: Option<GoingBack>,
    /// The replicas whose steps have begun and are not over, for the audit to tell; always empty as
    /// long as members of an older version may be about.
    pub under_way: BTreeSet<ReplicaId>,
}

/// Replacing what a rollout replaced before it was aborted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GoingBack {
    /// How many replicas go back; those whose predecessor still served are back at once, and are
    /// not among them.
    pub total_steps: u32,
    /// How many of them are done.
    pub current_step: u32,
}

/// The nodes that fetch the image of a rollout before its first step (R-ROLL-5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preparing {
    /// When they are waited for no longer.
    pub due: Timestamp,
    /// Those that are not ready, and what keeps them; never none.
    pub nodes: BTreeMap<NodeId, String>,
}

/// Whether a node has an image that a rollout needs there, as the node tells its leader.
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
        /// What it does about it, or what went wrong last.
        reason: String,
    },
    /// It tried, and gave up.
    Failed {
        /// `<image>: <error>`, in the words of whoever failed.
        reason: String,
    },
}

/// Where a rollout stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RolloutState {
    /// Steps remain.
    InProgress,
    /// All steps are done.
    Completed,
    /// It was given up; the previous revision serves.
    Aborted,
    /// Too much of it failed: nothing more is replaced until the next apply or rollback.
    Paused,
    /// It was given up, and too much failed on the way back: nothing more is replaced until the next
    /// apply or rollback.
    RollbackPaused,
}

impl RolloutState {
    /// Whether it ended without getting there: the same again is a new attempt.
    #[must_use]
    pub const fn is_given_up(self) -> bool {
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

/// The reason of what waits for another service of its deployment: nothing is wrong, it is not its
/// turn yet.
pub const WAITING_FOR_DEPENDENCY: &str = "waiting_for_dependency";

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
