//! Storage engines of the log: ordered byte records and three marks, on stable storage.
//!
//! Knows nothing of raft. An engine is owned by one thread; operations arrive in order and are
//! durable when `commit` returns, or the engine is never used again.

use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;
#[cfg(feature = "testing")]
use std::time::Duration;

use bytes::Bytes;

mod journal;
pub(crate) mod queue;
pub(crate) mod sled;

/// What a disk holds, with the right checksums; for mutations.
#[cfg(feature = "testing")]
pub(crate) fn read_stored(bytes: &[u8]) {
    journal::read_with_checksums(bytes);
    sled::read_with_checksums(bytes);
}

/// One change to the stored log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Op {
    /// Writes records at consecutive indices.
    Append(Vec<(u64, Bytes)>),
    /// Deletes the records at this index and above.
    TruncateFrom(u64),
    /// Stores `mark` and deletes the records up to and including `upto`. Deletion may happen later,
    /// by [`LogEngine::reclaim`]; they must not be readable after a restart.
    Purge { upto: u64, mark: Bytes },
    /// Replaces the vote.
    Vote(Bytes),
    /// Replaces the committed mark. The only operation that need not be durable: a stale mark is
    /// harmless.
    Committed(Bytes),
}

/// State found when the engine was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Recovered {
    pub(crate) vote: Option<Bytes>,
    pub(crate) committed: Option<Bytes>,
    /// The mark of the last purge.
    pub(crate) purged: Option<Bytes>,
    /// Indices that are stored and not purged, without holes.
    pub(crate) indices: Option<RangeInclusive<u64>>,
}

/// Whether all purged records are deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reclaim {
    Done,
    More,
}

/// A log engine. See the module for its guarantees.
pub(crate) trait LogEngine: Send + 'static {
    /// What was stored when the engine was opened.
    fn recovered(&self) -> Recovered;

    /// Performs `ops` in order; returns when all but `Committed` are on stable storage.
    ///
    /// # Errors
    /// After any error the engine must not be used again: after a failed write or fsync the content
    /// of the disk is unknown, and a retry can succeed without the data being there.
    fn commit(&mut self, ops: &[Op]) -> io::Result<()>;

    /// A handle that reads committed records, also concurrently with a commit.
    fn reader(&self) -> Arc<dyn LogReader>;

    /// Deletes some purged records; called when idle.
    ///
    /// # Errors
    /// As for `commit`.
    fn reclaim(&mut self) -> io::Result<Reclaim> {
        Ok(Reclaim::Done)
    }

    /// For simulated disks: gets the operations before `commit` and returns how long the disk
    /// takes.
    #[cfg(feature = "testing")]
    fn stage(&mut self, _ops: &[Op]) -> Duration {
        Duration::ZERO
    }
}

/// Reads stored records.
pub(crate) trait LogReader: Send + Sync + 'static {
    /// Returns the records of `range` in order, stopping early once `max_bytes` are exceeded, but
    /// never before the first.
    ///
    /// # Errors
    /// If a record fails its checksum or cannot be read.
    fn read(&self, range: RangeInclusive<u64>, max_bytes: usize) -> io::Result<Vec<(u64, Bytes)>>;
}
