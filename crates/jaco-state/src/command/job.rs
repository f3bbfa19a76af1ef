//! Commands about runs of jobs.

use jaco_types::{ServiceKey, StateIndex, Timestamp};

/// A run of a scheduled job is due. Whether it begins or is missed follows from the state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobDue {
    /// The job.
    pub service: ServiceKey,
    /// The state that the due times were computed from: refused if the schedule may be another one since.
    pub based_on: StateIndex,
    /// The newest due time that has come.
    pub due: Timestamp,
    /// Those before it that nobody has dealt with.
    pub earlier: Option<EarlierDues>,
}

/// Due times that were overtaken by a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EarlierDues {
    /// The first.
    pub first: Timestamp,
    /// The last.
    pub last: Timestamp,
    /// How many.
    pub count: u64,
}

impl JobDue {
    /// Creates the command. No due time was overtaken.
    #[must_use]
    pub fn new(service: ServiceKey, based_on: StateIndex, due: Timestamp) -> Self {
        Self { service, based_on, due, earlier: None }
    }

    /// Sets [`Self::earlier`].
    #[must_use]
    pub fn earlier(mut self, earlier: Option<EarlierDues>) -> Self {
        self.earlier = earlier;
        self
    }
}

/// The clock of an earlier leader was ahead by more than a day: due times after this moment count anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRewind {
    /// The job.
    pub service: ServiceKey,
    /// What the leader's clock says now.
    pub to: Timestamp,
}

impl JobRewind {
    /// Creates the command.
    #[must_use]
    pub fn new(service: ServiceKey, to: Timestamp) -> Self {
        Self { service, to }
    }
}

/// Runs a job now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobStart {
    /// The job.
    pub service: ServiceKey,
}

impl JobStart {
    /// Creates the command.
    #[must_use]
    pub fn new(service: ServiceKey) -> Self {
        Self { service }
    }
}
