//! States of before: which of them this node's snapshots and log can make again, and of what. Must never give an entry that is
//! not applied here, nor entries with one missing between them.

use std::io::{self, Read};
use std::ops::RangeInclusive;

use bytes::Bytes;

use super::Raft;
use crate::machine::StateMachine;
use crate::snapshot::{SnapshotStore, covered_by};
use crate::types::EntryPayload;

/// What a state of before is made of, beside the entries that follow: the newest snapshot that does not go beyond it, or the
/// empty state.
#[derive(Debug)]
pub struct PastBase {
    snapshots: SnapshotStore,
    /// None for the empty state.
    name: Option<String>,
    next: u64,
}

impl PastBase {
    /// The index of the first entry that it does not have.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Gives its state to `restore`, after it was verified; none for the empty state. Reads the file twice, on this thread.
    ///
    /// # Errors
    /// `NotFound` if a newer snapshot has taken its place meanwhile; those of the disk and of `restore`.
    pub fn restore<T>(
        &self,
        restore: impl FnOnce(&mut dyn Read) -> io::Result<T>,
    ) -> io::Result<Option<T>> {
        let Some(name) = &self.name else { return Ok(None) };
        self.snapshots.restore_named(name, restore).map(Some)
    }
}

/// An entry that is applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastEntry {
    /// Its index.
    pub index: u64,
    /// The command; none for an entry of consensus itself, which changes nothing but the index.
    pub command: Option<Bytes>,
}

impl<M: StateMachine> Raft<M> {
    /// The indices whose states can be made again, up to the newest that is applied. A snapshot shortens them from below: of
    /// what lies before the newest ones only their own entries are kept.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn past(&self) -> io::Result<RangeInclusive<u64>> {
        let newest = *self.watch_applied().borrow();
        let oldest = match self.inner.log.purged() {
            None => 0,
            Some(purged) => {
                let covered = self.inner.server.snapshots.covered()?.into_iter();
                covered.filter(|covered| *covered >= purged.index).min().unwrap_or(newest)
            }
        };
        Ok(oldest..=newest)
    }

    /// Where the state at `index` begins; none if it cannot be made again.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn past_base(&self, index: u64) -> io::Result<Option<PastBase>> {
        let snapshots = self.inner.server.snapshots.clone();
        let purged = self.inner.log.purged().map(|purged| purged.index);
        let follows_on = |covered: u64| covered <= index && purged.is_none_or(|it| it <= covered);
        let found = snapshots.names()?.into_iter().rev().find_map(|name| {
            let covered = covered_by(&name).filter(|covered| follows_on(*covered))?;
            Some((name, covered))
        });
        Ok(match (found, purged) {
            (Some((name, covered)), _) => {
                Some(PastBase { snapshots, name: Some(name), next: covered + 1 })
            }
            (None, None) => Some(PastBase { snapshots, name: None, next: 0 }),
            (None, Some(_)) => None,
        })
    }

    /// Applied entries from `from` to `to`, as many as one read of the log has: at least the first one.
    ///
    /// # Errors
    /// `NotFound` if the log does not have the first one any more, or it is not applied yet; those of the disk.
    pub async fn past_entries(&self, from: u64, to: u64) -> io::Result<Vec<PastEntry>> {
        let applied = *self.watch_applied().borrow();
        let entries = self.inner.log.first_of(from..=to.min(applied)).await?;
        let entries = entries.into_iter().map(|entry| PastEntry {
            index: entry.log_id.index,
            command: match entry.payload {
                EntryPayload::Normal(payload) => Some(payload.0),
                EntryPayload::Blank | EntryPayload::Membership(_) => None,
            },
        });
        Ok(entries.collect())
    }
}
