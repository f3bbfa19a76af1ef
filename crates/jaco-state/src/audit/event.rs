//! An audit event and its place in the log.

use std::collections::BTreeMap;

use jaco_types::{Identity, Origin, RequestId, StateIndex, Timestamp};

use super::digest::Digest;
use super::kind::AuditKind;

/// The place of an event: its entry, and its number among that entry's events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AuditKey {
    /// The entry that caused it.
    pub index: StateIndex,
    /// Its number among the entry's events, from 0.
    pub number: u32,
}

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEvent {
    /// Its kind.
    pub kind: AuditKind,
    /// When, by the leader's clock.
    pub at: Timestamp,
    /// The author.
    pub by: Identity,
    /// Where the request came from; absent in events of older versions.
    pub origin: Option<Origin>,
    /// The id of the request, if its sender chose one.
    pub request: Option<RequestId>,
    /// The facts, by name.
    pub payload: BTreeMap<String, String>,
    /// The hash of the event before; absent until the chain is started.
    pub previous: Option<Digest>,
}

impl AuditKey {
    /// The last place before this one.
    pub(super) fn before(&self) -> Self {
        match self.number.checked_sub(1) {
            Some(number) => Self { index: self.index, number },
            None => Self { index: StateIndex(self.index.0.saturating_sub(1)), number: u32::MAX },
        }
    }
}
