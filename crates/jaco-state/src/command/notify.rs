//! Commands about notifications.

use std::collections::BTreeSet;
use std::sync::Arc;

use jaco_types::{NotifyTargetName, StateIndex};

use crate::audit::AuditKey;
use crate::notify::{Delivered, Failing, NotifyFilter, NotifyForm, SealedEndpoint};

/// What becomes of a target that has the name already.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Existing {
    /// It stays, and the new one is refused.
    #[default]
    Refuse,
    /// It is replaced, and the new one goes on where it was.
    Replace,
}

/// Whether a target that is stored is sent anything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Beginning {
    /// It is; one that replaces a paused target stays paused.
    #[default]
    Now,
    /// Not before a user resumes it.
    Paused,
}

/// Adds a target of notifications, which gets events from the next one on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotifyStore {
    /// Its name.
    pub name: NotifyTargetName,
    /// What it is sent.
    pub form: NotifyForm,
    /// What is shown of its address.
    pub shown: Arc<str>,
    /// Its address and what signs, sealed for this name.
    pub endpoint: SealedEndpoint,
    /// Which events it gets.
    pub filter: NotifyFilter,
    /// What if there is one of this name.
    pub existing: Existing,
    /// Whether it is sent anything.
    pub beginning: Beginning,
}

impl NotifyStore {
    /// Creates the command.
    #[must_use]
    pub fn new(
        name: NotifyTargetName,
        form: NotifyForm,
        shown: Arc<str>,
        endpoint: SealedEndpoint,
    ) -> Self {
        let (filter, existing) = (NotifyFilter::default(), Existing::default());
        let beginning = Beginning::default();
        Self { name, form, shown, endpoint, filter, existing, beginning }
    }

    /// This becomes of one of its name.
    #[must_use]
    pub fn existing(self, existing: Existing) -> Self {
        Self { existing, ..self }
    }

    /// It begins like this.
    #[must_use]
    pub fn beginning(self, beginning: Beginning) -> Self {
        Self { beginning, ..self }
    }

    /// It gets these events.
    #[must_use]
    pub fn filter(self, filter: NotifyFilter) -> Self {
        Self { filter, ..self }
    }
}

/// Removes a target, with what it was not delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotifyRemove {
    /// Its name.
    pub name: NotifyTargetName,
}

impl NotifyRemove {
    /// Creates the command.
    #[must_use]
    pub fn new(name: NotifyTargetName) -> Self {
        Self { name }
    }
}

/// What becomes of the notifications of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PauseChange {
    /// Nothing is sent until the target is resumed.
    Pause,
    /// What happens from now on is sent.
    Resume,
    /// What happened in the pause is sent as well.
    CatchUp,
}

/// Pauses a target, or resumes it. One that is as it should be stays so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotifyPause {
    /// Its name.
    pub name: NotifyTargetName,
    /// What becomes of its notifications.
    pub change: PauseChange,
}

impl NotifyPause {
    /// Creates the command.
    #[must_use]
    pub fn new(name: NotifyTargetName, change: PauseChange) -> Self {
        Self { name, change }
    }
}

/// The leader says how far deliveries are: of many notifications and of several targets at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotifyProgress {
    /// By target.
    pub targets: Vec<TargetProgress>,
}

/// How far a target is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetProgress {
    /// Its name.
    pub name: NotifyTargetName,
    /// The entry that stored it.
    pub id: StateIndex,
    /// The last event that is settled.
    pub cursor: AuditKey,
    /// The last delivery, if there was one since the last report.
    pub delivered: Option<Delivered>,
    /// Absent where the last attempt succeeded.
    pub failing: Option<Failing>,
    /// What was given up since the last report.
    pub given_up: Vec<GivenUp>,
    /// What became of attempts that users asked for.
    pub retried: Vec<Retried>,
}

/// A notification that was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenUp {
    /// Its event.
    pub event: AuditKey,
    /// How often it was sent.
    pub attempts: u32,
    /// Why the last attempt failed.
    pub reason: String,
}

/// An attempt that a user asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retried {
    /// The event of the notification.
    pub event: AuditKey,
    /// The entry by which it was asked for.
    pub asked: StateIndex,
    /// What became of it.
    pub end: RetryEnd,
}

/// What became of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetryEnd {
    /// The target accepted it.
    Delivered,
    /// It did not.
    Failed {
        /// Why.
        reason: String,
    },
}

impl NotifyProgress {
    /// Creates the command.
    #[must_use]
    pub fn new(targets: Vec<TargetProgress>) -> Self {
        Self { targets }
    }
}

/// What becomes of undelivered notifications.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UndeliveredChange {
    /// They are sent once more.
    Retry,
    /// They are forgotten.
    Clear,
}

impl UndeliveredChange {
    /// The change as the audit log has it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Clear => "clear",
        }
    }
}

/// Has undelivered notifications sent once more, or forgets them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndeliveredSettle {
    /// Their target.
    pub target: NotifyTargetName,
    /// Their events; none for all of them.
    pub events: BTreeSet<AuditKey>,
    /// What becomes of them.
    pub change: UndeliveredChange,
}

impl UndeliveredSettle {
    /// Creates the command, for all of the target.
    #[must_use]
    pub fn new(target: NotifyTargetName, change: UndeliveredChange) -> Self {
        Self { target, events: BTreeSet::new(), change }
    }

    /// For these only.
    #[must_use]
    pub fn of(self, events: BTreeSet<AuditKey>) -> Self {
        Self { events, ..self }
    }
}
