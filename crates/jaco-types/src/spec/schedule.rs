//! When a job is run again and again (R-JOB-2).

use std::fmt;
use std::sync::Arc;

use super::cron::Cron;
use crate::id::InvalidName;
use crate::time::Millis;

/// The schedule of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// When its runs are due, by the clocks of `time_zone`.
    pub cron: Cron,
    /// The name of a time zone.
    pub time_zone: ZoneName,
    /// What becomes of a run that is due while another one goes on.
    pub concurrency: Concurrency,
    /// How late a run may still begin; however late without one.
    pub deadline: Option<Millis>,
    /// How many runs are kept, and how many records of missed ones.
    pub history: HistoryLimit,
}

/// What becomes of a run that is due while another one goes on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Concurrency {
    /// It is missed.
    #[default]
    Forbid,
    /// It begins once the other one was stopped.
    Replace,
}

impl Concurrency {
    /// As it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Forbid => "forbid",
            Self::Replace => "replace",
        }
    }
}

/// The name of a time zone in the database of time zones. Whether that has it is checked where the database is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZoneName(Arc<str>);

impl ZoneName {
    /// Takes a name such as `UTC` or `Europe/Berlin`.
    ///
    /// # Errors
    /// If it could not be one.
    pub fn new(text: &str) -> Result<Self, InvalidName> {
        let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"/_+-".contains(&byte);
        let is_allowed = (1..=64).contains(&text.len()) && text.bytes().all(is_known);
        is_allowed.then(|| Self(text.into())).ok_or_else(|| InvalidName {
            kind: "time zone",
            text: text.chars().take(64).collect(),
            rule: "use a name such as UTC or Europe/Berlin",
        })
    }

    /// As it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ZoneName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// How many runs of a job are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HistoryLimit(u32);

impl HistoryLimit {
    /// What is kept where nothing was said, and of jobs without a schedule.
    pub const DEFAULT: Self = Self(10);

    /// Takes 1 to 100.
    ///
    /// # Errors
    /// If it is less or more.
    pub fn new(count: u32) -> Result<Self, InvalidName> {
        (1..=100).contains(&count).then_some(Self(count)).ok_or_else(|| InvalidName {
            kind: "number of kept runs",
            text: count.to_string(),
            rule: "use 1 to 100",
        })
    }

    /// The number.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.0
    }
}
