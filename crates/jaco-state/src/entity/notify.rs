//! Whom notifications of audit events go to (R-OPS-1). An address may hold a secret, as those of chat services do: it is
//! here in sealed form only, and so is what signs; what opens them is not replicated.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use jaco_types::{DeploymentName, Identity, NotifyTargetName, StateIndex, Timestamp};

use crate::audit::{AuditEvent, AuditKey, AuditKind, EventGroup, Severity};
use crate::table::Table;

/// The most targets: each of them has its undelivered notifications in each snapshot.
pub const TARGETS_MAX: usize = 16;

/// The most undelivered notifications of a target. With one more the oldest is discarded, and counted.
pub const UNDELIVERED_MAX: usize = 64;

/// The most bytes of an address and its secret together.
pub const ENDPOINT_BYTES_MAX: usize = 4 << 10;

/// The most bytes of the reason for a failure.
pub const REASON_BYTES_MAX: usize = 512;

/// The most kinds and deployments of a filter, each.
pub const FILTER_MAX: usize = 64;

/// The most bytes of what is shown of an address.
pub const SHOWN_BYTES_MAX: usize = 300;

/// What sealing may add.
const SEAL_BYTES_MAX: usize = 256;

/// Whom notifications go to, and what could not be delivered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notifications {
    /// The targets.
    pub targets: Table<NotifyTargetName, NotifyTarget>,
    /// Notifications that were given up, by their target and in the order of their events.
    pub undelivered: Table<UndeliveredKey, Undelivered>,
}

/// A target, and how far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotifyTarget {
    /// The entry that stored it: what a leader reports of an earlier one of this name is not about it.
    pub id: StateIndex,
    /// What it is sent.
    pub form: NotifyForm,
    /// What is shown of its address: no more than scheme, host and port, and whom mail goes to.
    pub shown: Arc<str>,
    /// Its address, and what signs.
    pub endpoint: SealedEndpoint,
    /// Which events it gets.
    pub filter: NotifyFilter,
    /// When it was stored.
    pub stored_at: Timestamp,
    /// Who stored it.
    pub by: Identity,
    /// The last event that is settled: it was delivered, given up, or is none of this target's.
    pub cursor: AuditKey,
    /// The last delivery; absent before the first.
    pub delivered: Option<Delivered>,
    /// Absent where the last attempt succeeded.
    pub failing: Option<Failing>,
    /// How many of its events were evicted from the log before they were delivered or given up.
    pub pruned: u64,
    /// How many undelivered notifications were discarded because there were too many.
    pub discarded: u64,
    /// Since when nothing is sent to it, if it is paused.
    pub paused_at: Option<Timestamp>,
}

/// What a target is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotifyForm {
    /// The event as JSON, signed.
    Webhook,
    /// A line of text, as incoming webhooks of Slack and what is compatible with them take it.
    Slack,
    /// A mail.
    Email,
}

/// Which events a target gets: those of any of the groups or kinds, or all if there is neither; of these, those that are
/// about one of the deployments, if there are any, and at least as severe.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NotifyFilter {
    /// Groups of kinds.
    pub groups: BTreeSet<EventGroup>,
    /// Kinds beside those of the groups.
    pub kinds: BTreeSet<AuditKind>,
    /// Deployments; empty for events of all, and of none.
    pub deployments: BTreeSet<DeploymentName>,
    /// The least severity.
    pub least: Severity,
}

/// A delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivered {
    /// The event.
    pub event: AuditKey,
    /// When the target accepted it.
    pub at: Timestamp,
}

/// That a target does not accept what it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failing {
    /// When the first attempt failed since the last that succeeded.
    pub since: Timestamp,
    /// Why the last one failed, without the address.
    pub reason: String,
}

/// The place of an undelivered notification.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct UndeliveredKey {
    /// Its target.
    pub target: NotifyTargetName,
    /// Its event.
    pub event: AuditKey,
}

/// A notification that was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undelivered {
    /// The event: the log may not have it any more.
    pub event: AuditEvent,
    /// How often it was sent.
    pub attempts: u32,
    /// Why the last attempt failed.
    pub reason: String,
    /// When it was given up.
    pub given_up_at: Timestamp,
    /// The entry by which a user asked for another attempt; absent where none is due.
    pub retry: Option<StateIndex>,
}

/// An address and what signs, sealed under the cluster's key for one target: cheap to copy, and not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedEndpoint(pub Arc<[u8]>);

impl SealedEndpoint {
    /// Whether an address of the allowed size can be in it.
    #[must_use]
    pub fn fits(&self) -> bool {
        (1..=ENDPOINT_BYTES_MAX + SEAL_BYTES_MAX).contains(&self.0.len())
    }
}

impl fmt::Debug for SealedEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} sealed bytes", self.0.len())
    }
}

impl NotifyForm {
    /// All forms.
    pub const ALL: [Self; 3] = [Self::Webhook, Self::Slack, Self::Email];

    /// The form as users see it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Webhook => "webhook",
            Self::Slack => "slack",
            Self::Email => "email",
        }
    }

    /// The form with this text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == text)
    }
}

impl NotifyFilter {
    /// Whether it is within bounds.
    #[must_use]
    pub fn fits(&self) -> bool {
        self.kinds.len() <= FILTER_MAX && self.deployments.len() <= FILTER_MAX
    }
}

impl fmt::Display for NotifyFilter {
    /// As the audit log has it: `group=wake deployment=shop severity=warning`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups = self.groups.iter().map(|group| format!("group={}", group.as_str()));
        let kinds = self.kinds.iter().map(|kind| format!("type={}", kind.as_str()));
        let deployments = self.deployments.iter().map(|name| format!("deployment={name}"));
        let least =
            (self.least > Severity::Info).then(|| format!("severity={}", self.least.as_str()));
        let words: Vec<String> = groups.chain(kinds).chain(deployments).chain(least).collect();
        match words.is_empty() {
            true => f.write_str("all"),
            false => f.write_str(&words.join(" ")),
        }
    }
}
