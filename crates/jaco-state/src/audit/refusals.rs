//! How many refusals of one identity have events of their own: a client that is refused again and again
//! must not evict the actions of others. The rest is counted, and the count becomes an event.
//!
//! Depends on the entries alone, like all that `apply` does: time is the entries' time.

use std::collections::BTreeMap;

use jaco_types::{Identity, Millis, Timestamp};

use super::kind::AuditKind;
use crate::table::Table;

/// The refusals of one identity that have events of their own in one [`REFUSAL_WINDOW`]. Enough to see
/// what was tried; with the count at the end they are some 500 events a day at most.
pub const REFUSALS_WRITTEN: u32 = 20;

/// How long refusals are counted before the count is written.
pub const REFUSAL_WINDOW: Millis = Millis::from_secs(3600);

/// How many identities are counted at a time; if there are more, the oldest count is written early.
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

/// Whether a refusal gets an event of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    Written,
    Counted,
}

type Counts = Table<Identity, RefusalCount>;

pub(super) fn count(counts: &mut Counts, by: &Identity, now: Timestamp) -> Refusal {
    let fresh = RefusalCount { since: now, written: 0, unreported: 0 };
    let mut count = counts.get(by).copied().unwrap_or(fresh);
    let refusal = if count.written < REFUSALS_WRITTEN {
        count.written += 1;
        Refusal::Written
    } else {
        count.unreported += 1;
        Refusal::Counted
    };
    counts.insert(by.clone(), count);
    refusal
}

/// Removes the counts whose window is over, or one for which there is no room, and returns the events
/// about them.
pub(super) fn ended(counts: &mut Counts, now: Timestamp) -> Vec<Summary> {
    let is_over = |count: &RefusalCount| {
        // A clock that was set back by more than a window started another one.
        now.since(count.since) >= REFUSAL_WINDOW || count.since.since(now) >= REFUSAL_WINDOW
    };
    let over = counts.iter().filter(|(_, count)| is_over(count));
    let mut ended: Vec<Identity> = over.map(|(by, _)| by.clone()).collect();
    if ended.is_empty() && counts.len() > IDENTITIES_MAX {
        let oldest = counts.iter().min_by_key(|(by, count)| (count.since, *by));
        ended.extend(oldest.map(|(by, _)| by.clone()));
    }
    ended.into_iter().filter_map(|by| summary(&*counts.remove(&by)?, by)).collect()
}

fn summary(count: &RefusalCount, by: Identity) -> Option<Summary> {
    if count.unreported == 0 {
        return None;
    }
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
