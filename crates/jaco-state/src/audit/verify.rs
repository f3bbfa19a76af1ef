//! Starting the hash chain of an audit log, and verifying it (ST-13).

use super::digest::Digest;
use super::event::{AuditEvent, AuditKey};
use super::log::AuditLog;

/// A chain without a break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    /// How many events were checked.
    pub events: usize,
    /// The oldest and the newest; absent if there is none.
    pub span: Option<(AuditKey, AuditKey)>,
    /// The hash that the oldest refers to: [`Digest::start`], unless older ones were evicted.
    pub follows: Digest,
    /// The hash of the newest, and so of all.
    pub head: Digest,
}

/// Why a chain cannot be verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// The chain was not started.
    NotBegun,
    /// This event is not the one that was written there: it was changed, or one after it was removed
    /// or inserted. All after it are unchanged; of those before it nothing is known.
    Altered {
        /// The event.
        key: AuditKey,
    },
}

impl AuditLog {
    /// Starts the chain, unless it was started: the oldest event that is kept is its first.
    pub(crate) fn begin_chain(&mut self) {
        if self.head.is_some() {
            return;
        }
        let events: Vec<(AuditKey, AuditEvent)> =
            self.events.iter().map(|(key, event)| (*key, event.clone())).collect();
        let mut head = Digest::start();
        for (key, event) in events {
            let event = AuditEvent { previous: Some(head), ..event };
            head = Digest::of(key, &event);
            self.events.insert(key, event);
        }
        self.head = Some(head);
    }

    /// Checks the chain from its newest event back: the head is the hash of the newest, and each event
    /// has the hash of the one before.
    ///
    /// # Errors
    /// The newest event whose hash differs.
    pub fn verify(&self) -> Result<Verified, Broken> {
        let head = self.head.ok_or(Broken::NotBegun)?;
        let keys: Vec<AuditKey> = self.events.keys().copied().collect();
        let mut expected = head;
        for key in keys.iter().rev() {
            let event = self.events.get(key).filter(|event| Digest::of(*key, event) == expected);
            let previous = event.and_then(|event| event.previous);
            expected = previous.ok_or(Broken::Altered { key: *key })?;
        }
        let span = keys.first().copied().zip(keys.last().copied());
        Ok(Verified { events: keys.len(), span, follows: expected, head })
    }
}
