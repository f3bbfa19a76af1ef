//! The hash chain of audit events (ST-13): each carries the hash of the one before, and the state that
//! of the last, so that a change, an insertion and a removal can be detected.
//!
//! It must never depend on how events are stored: what is hashed is defined here, byte by byte.

use std::collections::BTreeMap;

use jaco_types::{RequestId, Timestamp};
use sha2::{Digest as _, Sha256};

use super::digest::Digest;
use super::event::{AuditEvent, AuditKey};
use super::kind::AuditKind;

/// The prefix of all hashed bytes. Another way to hash needs another prefix.
const VERSION: &[u8] = b"jaco audit chain 1";

impl Digest {
    /// The digest that the first event of a chain refers to.
    #[must_use]
    pub fn start() -> Self {
        Self(Sha256::digest(VERSION).into())
    }

    /// The hash of an event at its place.
    #[must_use]
    pub fn of(key: AuditKey, event: &AuditEvent) -> Self {
        let origin = event.origin.map(|origin| origin.to_string());
        let event = HashedEvent {
            key,
            kind: event.kind,
            at: event.at,
            by: &event.by.to_string(),
            origin: origin.as_deref(),
            request: event.request.as_ref().map(RequestId::as_str),
            payload: &event.payload,
            previous: event.previous,
        };
        event.digest()
    }
}

/// What is hashed of an event, in the form in which users see it, so that they can check the hash.
#[derive(Debug, Clone, Copy)]
pub struct HashedEvent<'a> {
    /// Its place.
    pub key: AuditKey,
    /// Its kind.
    pub kind: AuditKind,
    /// When, by the leader's clock.
    pub at: Timestamp,
    /// The author.
    pub by: &'a str,
    /// Where the request came from.
    pub origin: Option<&'a str>,
    /// The id of the request.
    pub request: Option<&'a str>,
    /// The facts, by name.
    pub payload: &'a BTreeMap<String, String>,
    /// The hash of the event before.
    pub previous: Option<Digest>,
}

impl HashedEvent<'_> {
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
        // The tag distinguishes an absent request from an empty one.
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
