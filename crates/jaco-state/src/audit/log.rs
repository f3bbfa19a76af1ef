//! The events that are kept: the most recent ones, bounded in number and age (ST-10).

use std::sync::Arc;

use jaco_types::{Identity, Millis, Timestamp};

use super::clock::AuditClock;
use super::digest::Digest;
use super::event::{AuditEvent, AuditKey};
use super::refusals::{self, Refusal, RefusalCount, Summary};
use crate::table::Table;

/// How many events the replicated state keeps. At about 300 bytes each this is 3 MB, and at one
/// change a minute a week.
pub const KEPT_EVENTS: usize = 10_000;

/// How many events are evicted at once when there are too many: each node writes them to its
/// archive, with one `fsync` for all of them.
pub const CUT_EVENTS: usize = 500;

/// The default of [`Retention::age`].
pub const DEFAULT_AGE: Millis = Millis::from_secs(90 * 24 * 3600);

/// The lower bound of [`Retention::age`]: an hour, so that a typing error does not empty the log of
/// the day.
pub const AGE_MIN: Millis = CUT_STEP;

/// The upper bound of [`Retention::age`]: ten years.
pub const AGE_MAX: Millis = Millis::from_secs(3650 * 24 * 3600);

/// Age is counted in whole steps of this, so that events are not evicted one by one.
const CUT_STEP: Millis = Millis::from_secs(3600);

/// The most recent events, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditLog {
    /// The events by their place; bounded by [`KEPT_EVENTS`] and by [`Retention::age`].
    pub events: Table<AuditKey, AuditEvent>,
    /// The hash of the newest event; absent until the chain is started.
    pub head: Option<Digest>,
    /// How long events are kept; absent until the leader has written it.
    pub retention: Option<Retention>,
    /// Recent refusals by identity; empty until `retention` is set.
    pub refusals: Table<Identity, RefusalCount>,
}

/// How long events are kept, and which were evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// An event that is older is evicted with the next entry.
    pub age: Millis,
    /// The newest event that was evicted; all after it are kept. Absent if none was.
    pub cut: Option<AuditKey>,
    /// The time that events are aged by; absent in a cluster of earlier versions, which age them by that of the entry.
    pub clock: Option<AuditClock>,
}

/// Events that an entry evicted, oldest first. An archive must have them before anything is made of
/// the state after that entry.
pub type Evicted = Vec<(AuditKey, Arc<AuditEvent>)>;

impl AuditLog {
    /// Whether steps of rollouts are recorded: not as long as there may be members of an older
    /// version, which know neither the events nor the fields that they are made from.
    #[must_use]
    pub fn records_steps(&self) -> bool {
        self.retention.is_some()
    }

    /// Adds an event, to the chain if there is one, and evicts the oldest if there are too many.
    pub(crate) fn push(&mut self, key: AuditKey, event: AuditEvent, evicted: &mut Evicted) {
        let event = AuditEvent { previous: self.head, ..event };
        self.head = self.head.map(|_| Digest::of(key, &event));
        self.events.insert(key, event);
        if self.events.len() > KEPT_EVENTS {
            // Members of older versions, which there may be before the retention is set, evict one
            // by one.
            let room = if self.retention.is_some() { CUT_EVENTS } else { 0 };
            while self.events.len() > KEPT_EVENTS - room {
                self.evict_oldest(evicted);
            }
        }
    }

    /// Evicts what is too old at the time of an entry, in whole steps.
    pub(crate) fn expire(&mut self, now: Timestamp, evicted: &mut Evicted) {
        let Some(Retention { age, clock, .. }) = &mut self.retention else { return };
        let (age, now) = (*age, clock.as_mut().map_or(now, |clock| clock.entry(now)));
        let oldest = now.0.saturating_sub(age.0) / CUT_STEP.0 * CUT_STEP.0;
        while self.events.values().next().is_some_and(|event| event.at.0 < oldest) {
            self.evict_oldest(evicted);
        }
    }

    fn evict_oldest(&mut self, evicted: &mut Evicted) {
        let Some((key, event)) = self.events.pop_first() else { return };
        if let Some(retention) = &mut self.retention {
            retention.cut = Some(key);
        }
        evicted.push((key, event));
    }

    /// Sets how long events are kept, and returns the age that was set before, if any.
    ///
    /// Events before the oldest that is kept may have been evicted before evictions were recorded.
    pub(crate) fn set_age(&mut self, age: Millis) -> Option<Millis> {
        let before = self.retention;
        let cut = match before {
            Some(retention) => retention.cut,
            None if self.events.len() < KEPT_EVENTS => None,
            None => self.events.keys().next().map(AuditKey::before),
        };
        let clock = before.and_then(|retention| retention.clock);
        self.retention = Some(Retention { age, cut, clock });
        before.map(|retention| retention.age)
    }

    /// From now on events are aged by a clock that doubts jumps. It starts at the newest event, so that a jump that is
    /// there already is one.
    pub(crate) fn start_clock(&mut self, now: Timestamp) {
        let newest = self.events.values().next_back().map_or(now, |event| event.at);
        if let Some(retention) = &mut self.retention {
            retention.clock.get_or_insert(AuditClock::at(newest.min(now)));
        }
    }

    /// Counts a refusal. None is counted before the retention is set: members of older versions do
    /// not count.
    pub(crate) fn count_refusal(&mut self, by: &Identity, now: Timestamp) -> Refusal {
        match self.retention {
            Some(_) => refusals::count(&mut self.refusals, by, now),
            None => Refusal::Written,
        }
    }

    /// Removes the counts that have ended at this moment, and returns the events about them.
    pub(crate) fn ended_counts(&mut self, now: Timestamp) -> Vec<Summary> {
        refusals::ended(&mut self.refusals, now)
    }
}
