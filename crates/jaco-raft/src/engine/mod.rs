//! What holds the log: ordered byte records and three marks, on stable storage.
//!
//! Knows nothing of raft. An engine is owned by one thread; everything it is told arrives in order
//! and is either durable when `commit` returns or the engine is never used again.

use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;
#[cfg(feature = "testing")]
use std::time::Duration;

use bytes::Bytes;

mod journal;
pub(crate) mod queue;
pub(crate) mod sled;

/// One change to the stored log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Op {
    /// Writes records at consecutive indices.
    Append(Vec<(u64, Bytes)>),
    /// Forgets the records at this index and above.
    TruncateFrom(u64),
    /// Remembers `mark` and forgets the records up to and including `upto`. They may be deleted
    /// later, by [`LogEngine::reclaim`]; a reader must not see them again after a restart.
    Purge { upto: u64, mark: Bytes },
    /// Replaces the vote.
    Vote(Bytes),
    /// Replaces the committed mark. The only op that need not be durable: a stale mark is harmless.
    Committed(Bytes),
}

/// What an engine found when it was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Recovered {
    pub(crate) vote: Option<Bytes>,
    pub(crate) committed: Option<Bytes>,
    /// The mark of the last purge.
    pub(crate) purged: Option<Bytes>,
    /// The indices that are stored and not purged; they have no holes.
    pub(crate) indices: Option<RangeInclusive<u64>>,
}

/// Whether deleting purged records is finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reclaim {
    Done,
    More,
}

/// Stores the log. See the module for what it must hold.
pub(crate) trait LogEngine: Send + 'static {
    /// Reads and writes back nothing twice: what was stored when the engine was opened.
    fn recovered(&self) -> Recovered;

    /// Carries out `ops` in order; returns when all but `Committed` are on stable storage.
    ///
    /// # Errors
    /// After any error the engine must not be used again: a failed write or fsync leaves unknown
    /// what is on the disk, and trying again can succeed without the data being there.
    fn commit(&mut self, ops: &[Op]) -> io::Result<()>;

    /// A handle that reads committed records, also while the owner is committing.
    fn reader(&self) -> Arc<dyn LogReader>;

    /// Deletes some purged records; called when there is nothing better to do.
    ///
    /// # Errors
    /// As for `commit`.
    fn reclaim(&mut self) -> io::Result<Reclaim> {
        Ok(Reclaim::Done)
    }

    /// For simulated disks: told of the ops before `commit`, returns how long the disk will take.
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
