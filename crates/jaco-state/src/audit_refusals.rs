//! How many refusals of one person have events of their own: whoever is refused again and again must
//! not push what others did out of the log. The rest is counted, and the count becomes an event.
//!
//! Depends on the entries alone, like all that `apply` does: time is the entries' time.

use std::collections::BTreeMap;

use jaco_types::{Identity, Millis, Timestamp};

use crate::audit::{AuditKind, AuditLog};

/// The refusals of one identity that have events of their own, in one [`WINDOW`]. Enough to see what
/// somebody tries; with the count at the end they are some 500 events a day at the most.
pub const REFUSALS_WRITTEN: u32 = 20;

/// How long refusals are counted before the count is written.
pub const WINDOW: Millis = Millis::from_secs(3600);

/// How many identities are counted at a time; where there are more, the oldest count is written early.
pub const IDENTITIES_MAX: usize = 64;

/// The refusals of one identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusalCount {
    /// When the first one was.
    pub since: Timestamp,
    /// How many have events of their own.
    pub written: u32,
    /// How many have none.
    pub unreported: u64,
}

/// An event that says how many refusals had none.
pub(crate) struct Summary {
    pub(crate) by: Identity,
    pub(crate) kind: AuditKind,
    pub(crate) payload: BTreeMap<String, String>,
}

/// Whether a refusal gets an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    Written,
    Counted,
}

impl AuditLog {
    /// Counts a refusal. Nothing is counted as long as other versions may be about.
    pub(crate) fn count_refusal(&mut self, by: &Identity, now: Timestamp) -> Refusal {
        if self.retention.is_none() {
            return Refusal::Written;
        }
        let fresh = RefusalCount { since: now, written: 0, unreported: 0 };
        let mut count = self.refusals.get(by).copied().unwrap_or(fresh);
        let refusal = if count.written < REFUSALS_WRITTEN {
            count.written += 1;
            Refusal::Written
        } else {
            count.unreported += 1;
            Refusal::Counted
        };
        self.refusals.insert(by.clone(), count);
        refusal
    }

    /// Takes out the counts whose window is over, or for which there is no room, and says what is to be
    /// told of them.
    pub(crate) fn ended_counts(&mut self, now: Timestamp) -> Vec<Summary> {
        let is_over = |count: &RefusalCount| {
            // A clock that went back by more than a window began another one.
            now.since(count.since) >= WINDOW || count.since.since(now) >= WINDOW
        };
        let over = self.refusals.iter().filter(|(_, count)| is_over(count));
        let mut ended: Vec<Identity> = over.map(|(by, _)| by.clone()).collect();
        if ended.is_empty() && self.refusals.len() > IDENTITIES_MAX {
            let oldest = self.refusals.iter().min_by_key(|(by, count)| (count.since, *by));
            ended.extend(oldest.map(|(by, _)| by.clone()));
        }
        ended.into_iter().filter_map(|by| self.end(by)).collect()
    }

    fn end(&mut self, by: Identity) -> Option<Summary> {
        let count = self.refusals.remove(&by).filter(|count| count.unreported > 0)?;
        let kind = match by {
            Identity::Anonymous => AuditKind::AccessRefused,
            Identity::Local { .. }
            | Identity::Operator { .. }
            | Identity::Node { .. }
            | Identity::Scheduler => AuditKind::RequestRefused,
        };
        let message = format!(
            "{} more refusals since the first of {} that have events",
            count.unreported, count.written
        );
        let payload = [
            ("unreported", count.unreported.to_string()),
            ("since_ms", count.since.0.to_string()),
            ("message", message),
        ];
        let payload = payload.map(|(name, fact)| (name.to_owned(), fact)).into();
        Some(Summary { by, kind, payload })
    }
}
