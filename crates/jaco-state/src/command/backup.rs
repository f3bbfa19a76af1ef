//! Commands about schedules of backups.

use std::collections::BTreeSet;

use jaco_types::{BackupScheduleName, StateIndex, Timestamp};

use super::notify::Existing;
use crate::backup::{BackupKeep, BackupTaken, BackupTarget, BackupTimes, SealedCredentials};

/// Adds a schedule of backups. The first one is due after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupScheduleStore {
    /// Its name.
    pub name: BackupScheduleName,
    /// When backups are due.
    pub times: BackupTimes,
    /// Where they go.
    pub target: BackupTarget,
    /// The key at an object store, sealed for this name.
    pub credentials: Option<SealedCredentials>,
    /// Which ones stay.
    pub keep: BackupKeep,
    /// Whom they are encrypted for.
    pub recipients: BTreeSet<String>,
    /// What if there is one of this name.
    pub existing: Existing,
}

impl BackupScheduleStore {
    /// Creates the command, for backups in clear text that all stay.
    #[must_use]
    pub fn new(name: BackupScheduleName, times: BackupTimes, target: BackupTarget) -> Self {
        let (keep, existing) = (BackupKeep::default(), Existing::default());
        Self { name, times, target, credentials: None, keep, recipients: BTreeSet::new(), existing }
    }

    /// This opens the object store.
    #[must_use]
    pub fn credentials(self, credentials: Option<SealedCredentials>) -> Self {
        Self { credentials, ..self }
    }

    /// These stay.
    #[must_use]
    pub fn keep(self, keep: BackupKeep) -> Self {
        Self { keep, ..self }
    }

    /// They are encrypted for these.
    #[must_use]
    pub fn recipients(self, recipients: BTreeSet<String>) -> Self {
        Self { recipients, ..self }
    }

    /// This becomes of one of its name.
    #[must_use]
    pub fn existing(self, existing: Existing) -> Self {
        Self { existing, ..self }
    }
}

/// Removes a schedule. The backups stay where they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupScheduleRemove {
    /// Its name.
    pub name: BackupScheduleName,
}

impl BackupScheduleRemove {
    /// Creates the command.
    #[must_use]
    pub fn new(name: BackupScheduleName) -> Self {
        Self { name }
    }
}

/// Begins a run of a schedule: for a due time, or because a user asks. A due time is dealt with once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupBegin {
    /// The schedule.
    pub name: BackupScheduleName,
    /// The entry that stored it.
    pub id: StateIndex,
    /// The due time; absent for a user, whose attempt also does not wait for the pause after a failed one.
    pub due: Option<Timestamp>,
}

impl BackupBegin {
    /// Creates the command.
    #[must_use]
    pub fn new(name: BackupScheduleName, id: StateIndex, due: Option<Timestamp>) -> Self {
        Self { name, id, due }
    }
}

/// The leader says what came of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupReport {
    /// The schedule.
    pub name: BackupScheduleName,
    /// The entry that stored it.
    pub id: StateIndex,
    /// The run, by the entry that began it.
    pub run: StateIndex,
    /// What came of it.
    pub end: AttemptEnd,
}

/// What came of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptEnd {
    /// There is a backup, which ends the run.
    Taken(BackupTaken),
    /// There is none, or older ones could not be removed. It is tried again.
    Failed {
        /// Why, without anything secret.
        reason: String,
    },
}

impl BackupReport {
    /// Creates the command.
    #[must_use]
    pub fn new(name: BackupScheduleName, id: StateIndex, run: StateIndex, end: AttemptEnd) -> Self {
        Self { name, id, run, end }
    }
}
