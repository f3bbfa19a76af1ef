//! The chain of audit events: each carries the hash of the one before, and the state that of the
//! last. Whoever changes, adds or takes out an event leaves a place where the two do not agree.
//!
//! It must never depend on how events are stored: what is hashed is defined here, byte by byte.

use std::collections::BTreeMap;
use std::fmt;

use jaco_types::{RequestId, Timestamp};
use sha2::{Digest as _, Sha256};

use crate::audit::{AuditEvent, AuditKey, AuditKind, AuditLog};

/// What every hash begins with. A different way to hash gets a different name.
const VERSION: &[u8] = b"jaco audit chain 1";

/// SHA-256 of an event and of all before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// What the first event of a chain follows.
    #[must_use]
    pub fn start() -> Self {
        Self(Sha256::digest(VERSION).into())
    }

    /// The hash of an event at its place.
    #[must_use]
    pub fn of(key: AuditKey, event: &AuditEvent) -> Self {
        let origin = event.origin.map(|origin| origin.to_string());
        let told = Told {
            key,
            kind: event.kind,
            at: event.at,
            by: &event.by.to_string(),
            origin: origin.as_deref(),
            request: event.request.as_ref().map(RequestId::as_str),
            payload: &event.payload,
            previous: event.previous,
        };
        told.digest()
    }
}

/// An event as it is told to people: what is hashed of it. Whoever has the words can check the hash.
#[derive(Debug, Clone, Copy)]
pub struct Told<'a> {
    /// Its place.
    pub key: AuditKey,
    /// What kind of thing.
    pub kind: AuditKind,
    /// When.
    pub at: Timestamp,
    /// Who asked for it.
    pub by: &'a str,
    /// From where.
    pub origin: Option<&'a str>,
    /// The request it belongs to.
    pub request: Option<&'a str>,
    /// The facts, by name.
    pub payload: &'a BTreeMap<String, String>,
    /// The hash of the event before.
    pub previous: Option<Digest>,
}

impl Told<'_> {
    /// The hash. Lengths come before what they measure, so that no two events have the same bytes.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let mut hash = Sha256::new();
        hash.update(VERSION);
        match self.previous {
            Some(previous) => hash.update(previous.0),
            None => hash.update([0; 32]),
        }
        hash.update(self.key.index.0.to_be_bytes());
        hash.update(self.key.number.to_be_bytes());
        hash.update(self.kind.number().to_be_bytes());
        hash.update(self.at.0.to_be_bytes());
        add(&mut hash, self.by);
        // An absent request is told from any that is there by its tag.
        match self.request {
            Some(request) => {
                hash.update([1]);
                add(&mut hash, request);
            }
            None => hash.update([0]),
        }
        hash.update(length(self.payload.len()));
        for (name, fact) in self.payload {
            add(&mut hash, name);
            add(&mut hash, fact);
        }
        // Last, and nothing at all where it is absent: events of older versions keep their hashes.
        if let Some(origin) = self.origin {
            add(&mut hash, origin);
        }
        Digest(hash.finalize().into())
    }
}

fn add(hash: &mut Sha256, text: &str) {
    hash.update(length(text.len()));
    hash.update(text);
}

fn length(length: usize) -> [u8; 8] {
    u64::try_from(length).unwrap_or(u64::MAX).to_be_bytes()
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        // At once: formatting each byte is 64 calls for each archived event.
        let mut text = [0; 64];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        f.write_str(str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

/// What is known of a chain that holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    /// How many events were looked at.
    pub events: usize,
    /// The oldest and the newest; absent where there is none.
    pub span: Option<(AuditKey, AuditKey)>,
    /// What the oldest follows: [`Digest::start`], unless older ones were let go of.
    pub follows: Digest,
    /// The hash of the newest, and so of all.
    pub head: Digest,
}

/// Why a chain does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// No chain was begun.
    NotBegun,
    /// This event is not the one that was written there: it was changed, or one after it was taken
    /// out or put in. All after it are as they were written; of those before it nothing can be said.
    Altered {
        /// The event.
        key: AuditKey,
    },
}

impl AuditLog {
    /// Begins the chain, unless it was begun: the oldest event that is kept is its first.
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

    /// Checks the chain from its newest event back: the head vouches for the newest, and each event
    /// that is vouched for vouches for the one before.
    ///
    /// # Errors
    /// The first event, on the way back, that is not what it should be.
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
