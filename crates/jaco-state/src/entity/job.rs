//! Runs of jobs: which due times were dealt with, what runs, what ran and what was missed (R-JOB-2).

use jaco_types::{Completion, Identity, NodeId, Revision, StateIndex, Timestamp};

/// What is known of a job that has a schedule, or was run by a user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobRecord {
    /// Due times up to this one were dealt with. Never goes back but by `JobRewind`, or with another schedule.
    pub seen: Timestamp,
    /// The number of the newest run.
    pub runs: u64,
    /// The run that goes on.
    pub open: Option<JobRun>,
    /// The runs that ended, oldest first; as many as the schedule keeps.
    pub ended: Vec<EndedRun>,
    /// What was missed, oldest first; as many records as the schedule keeps runs.
    pub missed: Vec<MissedRuns>,
    /// The last entry that changed it.
    pub modified: StateIndex,
}

/// One run of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRun {
    /// Its number, counted from 1.
    pub number: u64,
    /// When it was due; none for one that a user asked for.
    pub due: Option<Timestamp>,
    /// Who began it.
    pub by: Identity,
    /// The revision that it began with.
    pub revision: Revision,
    /// When it began.
    pub begun_at: Timestamp,
    /// The entry that began it.
    pub begun: StateIndex,
}

/// A run that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedRun {
    /// The run.
    pub run: JobRun,
    /// When it ended.
    pub at: Timestamp,
    /// How.
    pub end: RunEnd,
    /// What the container exited with that decided about that, where it did.
    pub exit_code: Option<i64>,
    /// The node that it ran on.
    pub node: Option<NodeId>,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunEnd {
    /// All replicas exited with 0.
    Succeeded,
    /// One failed, with all its retries.
    Failed,
    /// The next one took its place.
    Replaced,
    /// A user disabled the job.
    Disabled,
    /// No replica of it is wanted any more.
    Removed,
}

/// Due times at which no run began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissedRuns {
    /// The first of them.
    pub first: Timestamp,
    /// The last of them.
    pub last: Timestamp,
    /// How many.
    pub count: u64,
    /// When that was recorded.
    pub at: Timestamp,
    /// Why.
    pub reason: MissedReason,
}

/// Why no run began at a due time. A closed set: the names are part of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MissedReason {
    /// No leader began it before the next one was due.
    NoLeader,
    /// It could have begun only after the deadline.
    Deadline,
    /// Another run went on.
    StillRunning,
    /// The service was disabled.
    Disabled,
    /// The service has no replicas.
    NoReplicas,
    /// A leader's clock had been ahead: what was dealt with too early counts anew.
    ClockSetBack,
}

impl RunEnd {
    /// Every one of them.
    pub const ALL: &[Self] =
        &[Self::Succeeded, Self::Failed, Self::Replaced, Self::Disabled, Self::Removed];

    /// As users see it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Replaced => "replaced",
            Self::Disabled => "disabled",
            Self::Removed => "removed",
        }
    }
}

impl From<Completion> for RunEnd {
    fn from(completion: Completion) -> Self {
        match completion {
            Completion::Succeeded => Self::Succeeded,
            Completion::Failed => Self::Failed,
        }
    }
}

impl MissedReason {
    /// Every one of them.
    pub const ALL: &[Self] = &[
        Self::NoLeader,
        Self::Deadline,
        Self::StillRunning,
        Self::Disabled,
        Self::NoReplicas,
        Self::ClockSetBack,
    ];

    /// As users see it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoLeader => "no_leader",
            Self::Deadline => "deadline",
            Self::StillRunning => "still_running",
            Self::Disabled => "disabled",
            Self::NoReplicas => "no_replicas",
            Self::ClockSetBack => "clock_set_back",
        }
    }
}
