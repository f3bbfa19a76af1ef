//! openraft's log storage over a `LogEngine`: an index of stored entries, a cache of recent ones,
//! and a running hash over all of them.
//!
//! An entry can be read as soon as it is appended, and is acknowledged only when it is durable. Must
//! never evict an entry that is not durable, and never return a record whose hash does not match.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds, RangeInclusive};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures::Stream;
use futures::stream;
use openraft::OptionalSend;
use openraft::storage::{IOFlushed, LogState, RaftLogReader, RaftLogStorage};
use prometheus_client::metrics::histogram::Histogram;

use crate::codec::{self, GENESIS, UNKNOWN};
use crate::engine::queue::{Driver, LogQueue};
use crate::engine::{LogEngine, LogReader, Op, Recovered};
use crate::types::{Entry, EntryPayload, LogId, TypeConfig, Vote};

/// Bytes of cached entries, from which followers that are slightly behind are served.
const CACHE_BYTES: usize = 16 << 20;
/// Bytes per read: an append message of this size fits any reasonable message limit, unless it is
/// one large entry.
const READ_BYTES: usize = 1 << 20;
/// Bytes an entry costs besides its payload.
const ENTRY_OVERHEAD: usize = 64;

/// One stored entry.
struct Slot {
    log_id: LogId,
    /// The running hash up to and including this entry.
    chain: u64,
    bytes: usize,
    /// `None` once evicted; the engine still has it.
    entry: Option<Entry>,
}

/// In-memory index.
#[derive(Default)]
struct Index {
    vote: Option<Vote>,
    committed: Option<LogId>,
    /// Last purged entry and the running hash up to it.
    purged: (Option<LogId>, u64),
    /// Every entry after `purged`, without holes.
    slots: VecDeque<Slot>,
    /// Slots before this position have been evicted.
    evicted: usize,
    cached_bytes: usize,
    /// Of all entries, cached or not.
    bytes: usize,
    /// Highest index known to be durable; entries above it must stay cached.
    durable: Option<u64>,
    /// Last entry of the newest snapshot and the running hash up to it.
    announced: Option<(LogId, u64)>,
}

impl Index {
    fn first(&self) -> u64 {
        self.slots.front().map_or_else(
            || self.purged.0.as_ref().map_or(0, |id| id.index + 1),
            |slot| slot.log_id.index,
        )
    }

    fn end(&self) -> u64 {
        self.first() + self.slots.len() as u64
    }

    fn slot(&self, index: u64) -> Option<&Slot> {
        let at = index.checked_sub(self.first())?;
        self.slots.get(usize::try_from(at).ok()?)
    }

    fn last(&self) -> Option<LogId> {
        self.slots.back().map(|slot| slot.log_id).or(self.purged.0)
    }

    fn last_chain(&self) -> u64 {
        self.slots.back().map_or(self.purged.1, |slot| slot.chain)
    }

    fn push(&mut self, entry: Entry, chain: u64) {
        let bytes = ENTRY_OVERHEAD
            + match &entry.payload {
                EntryPayload::Normal(payload) => payload.0.len(),
                EntryPayload::Blank | EntryPayload::Membership(_) => 0,
            };
        self.cached_bytes += bytes;
        self.bytes += bytes;
        self.slots.push_back(Slot { log_id: entry.log_id, chain, bytes, entry: Some(entry) });
    }

    fn evict(&mut self) {
        while self.cached_bytes > CACHE_BYTES {
            let durable = self.durable;
            let Some(slot) = self.slots.get_mut(self.evicted) else { return };
            if durable.is_none_or(|durable| slot.log_id.index > durable) {
                return;
            }
            slot.entry = None;
            self.cached_bytes -= slot.bytes;
            self.evicted += 1;
        }
    }

    fn truncate_from(&mut self, from: u64) {
        while self.slots.back().is_some_and(|slot| slot.log_id.index >= from) {
            let slot = self.slots.pop_back().expect("the loop condition saw it");
            self.bytes -= slot.bytes;
            if slot.entry.is_some() {
                self.cached_bytes -= slot.bytes;
            }
        }
        self.evicted = self.evicted.min(self.slots.len());
        self.durable = self.durable.filter(|_| from > 0).map(|durable| durable.min(from - 1));
    }

    fn purge(&mut self, upto: LogId, chain: u64) {
        while self.slots.front().is_some_and(|slot| slot.log_id.index <= upto.index) {
            let slot = self.slots.pop_front().expect("the loop condition saw it");
            self.bytes -= slot.bytes;
            if slot.entry.is_some() {
                self.cached_bytes -= slot.bytes;
            }
            self.evicted = self.evicted.saturating_sub(1);
        }
        self.purged = (Some(upto), chain);
    }
}

struct Shared {
    index: Mutex<Index>,
    /// `None` once closed: a reader keeps the engine's files open.
    reader: Mutex<Option<Arc<dyn LogReader>>>,
    queue: LogQueue,
    driver: Driver,
}

/// The store; clones are also its readers.
#[derive(Clone)]
pub(crate) struct LogStore {
    shared: Arc<Shared>,
}

impl LogStore {
    /// Reads and verifies every stored record, then starts the engine's owner.
    ///
    /// # Errors
    /// If a record is unreadable, is missing, or does not continue the running hash.
    pub(crate) fn open(engine: Box<dyn LogEngine>, driver: Driver) -> io::Result<Self> {
        let reader = engine.reader();
        let index = recover(&engine.recovered(), reader.as_ref())?;
        let queue = LogQueue::start(engine, driver)?;
        let reader = Mutex::new(Some(reader));
        let shared = Shared { index: Mutex::new(index), reader, queue, driver };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// See [`LogQueue::times`].
    pub(crate) fn commit_times(&self) -> Histogram {
        self.shared.queue.times()
    }

    /// The running hash up to `log_id`, if that very entry is stored or is the last purged one.
    pub(crate) fn chain_at(&self, log_id: &LogId) -> Option<u64> {
        let index = self.index();
        if index.purged.0.as_ref() == Some(log_id) {
            return Some(index.purged.1);
        }
        let stored = index.slot(log_id.index).filter(|slot| slot.log_id == *log_id);
        let announced = index.announced.filter(|(announced, _)| announced == log_id);
        stored.map(|slot| slot.chain).or(announced.map(|(_, chain)| chain))
    }

    /// Appends entries that continue the log, and returns once they are durable. For a node that is not
    /// running, where nobody waits for an acknowledgement.
    pub(crate) async fn append_offline(&self, entries: Vec<Entry>) -> io::Result<()> {
        let mut records = Vec::new();
        {
            let mut index = self.index();
            for entry in entries {
                let chain = codec::chain_after(index.last_chain(), &entry);
                records.push((entry.log_id.index, codec::encode_entry(&entry, chain)));
                index.push(entry, chain);
            }
        }
        self.shared.queue.commit(Op::Append(records)).await
    }

    /// Id of the entry stored at `at`.
    pub(crate) fn id_at(&self, at: u64) -> Option<LogId> {
        self.index().slot(at).map(|slot| slot.log_id)
    }

    pub(crate) fn last(&self) -> Option<LogId> {
        self.index().last()
    }

    /// The last entry that is on this node's disk, in the log or in the snapshot that took its place.
    pub(crate) fn durable(&self) -> Option<LogId> {
        let index = self.index();
        let durable = index.durable.and_then(|at| index.slot(at));
        durable.map(|slot| slot.log_id).max(index.purged.0)
    }

    /// The newest vote that was given.
    pub(crate) fn vote(&self) -> Option<Vote> {
        self.index().vote
    }

    /// Bytes of the entries that are stored.
    pub(crate) fn bytes(&self) -> usize {
        self.index().bytes
    }

    pub(crate) fn purged(&self) -> Option<LogId> {
        self.index().purged.0
    }

    /// The engine's first error, after which this node must stop.
    pub(crate) fn failure(&self) -> Option<String> {
        self.shared.queue.failure()
    }

    /// Makes everything durable and closes the engine.
    pub(crate) async fn close(&self) -> io::Result<()> {
        drop(self.shared.reader.lock().unwrap_or_else(PoisonError::into_inner).take());
        self.shared.queue.stop().await
    }

    /// Records the running hash of a snapshot, for the purge that follows its install: openraft
    /// purges by log id and does not know the hash.
    pub(crate) fn announce(&self, upto: LogId, chain: u64) {
        self.index().announced = Some((upto, chain));
    }

    /// Truncates entries that conflict with a snapshot installed just before a crash: those at its
    /// index and above belong to a deposed leader.
    pub(crate) async fn reconcile_with(&self, snapshot: LogId, chain: u64) -> io::Result<()> {
        self.announce(snapshot, chain);
        let conflict = self.id_at(snapshot.index).is_some_and(|stored| stored != snapshot);
        if !conflict {
            return Ok(());
        }
        tracing::warn!(index = snapshot.index, "log conflicts with the newest snapshot, truncated");
        self.index().truncate_from(snapshot.index);
        self.shared.queue.commit(Op::TruncateFrom(snapshot.index)).await
    }

    fn reader(&self) -> io::Result<Arc<dyn LogReader>> {
        let reader = self.shared.reader.lock().unwrap_or_else(PoisonError::into_inner).clone();
        reader.ok_or_else(|| io::Error::other("the log is closed"))
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        // A panic under this lock would have stopped raft; the data is updated last.
        self.shared.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads entries in order, from memory where possible, stopping after `max_bytes`.
    async fn read(&self, range: RangeInclusive<u64>, max_bytes: usize) -> io::Result<Vec<Entry>> {
        loop {
            let (cached, missing) = self.read_cached(range.clone(), max_bytes);
            let Some(missing) = missing else {
                return Ok(cached);
            };
            let reader = self.reader()?;
            let wanted = missing.clone();
            let records =
                self.blocking(move || reader.read(wanted, max_bytes)).await.and_then(decode_all)?;
            if self.verify(&missing, &records)? == Fresh::No {
                continue;
            }
            let mut entries = records.into_iter().map(|(entry, _)| entry).collect::<Vec<_>>();
            // The rest is cached, but continues the result only if the engine returned everything
            // requested.
            if entries.last().is_some_and(|entry| entry.log_id.index == *missing.end()) {
                entries.extend(cached);
            }
            return Ok(entries);
        }
    }

    /// The first entries of a range, as many as one read has.
    ///
    /// # Errors
    /// `NotFound` if the first one is not stored any more, or not yet.
    pub(crate) async fn first_of(&self, range: RangeInclusive<u64>) -> io::Result<Vec<Entry>> {
        let first = *range.start();
        let entries = self.read(range, READ_BYTES).await?;
        if entries.first().is_none_or(|entry| entry.log_id.index != first) {
            let message = format!("the log has no entry {first} any more");
            return Err(io::Error::new(io::ErrorKind::NotFound, message));
        }
        Ok(entries)
    }

    /// Splits a read into the evicted part, read from the engine, and the cached rest.
    fn read_cached(
        &self,
        range: RangeInclusive<u64>,
        max_bytes: usize,
    ) -> (Vec<Entry>, Option<RangeInclusive<u64>>) {
        let index = self.index();
        let from = (*range.start()).max(index.first());
        let to = index.end().min(range.end().saturating_add(1));
        let mut cached = Vec::new();
        let mut missing: Option<RangeInclusive<u64>> = None;
        let mut bytes = 0;
        for at in from..to {
            let slot = index.slot(at).expect("the range was cut to what is stored");
            match &slot.entry {
                Some(entry) => cached.push(entry.clone()),
                None => missing = Some(from..=at),
            }
            bytes += slot.bytes;
            if bytes >= max_bytes {
                break;
            }
        }
        (cached, missing)
    }

    /// Compares the engine's records with the index.
    fn verify(&self, asked: &RangeInclusive<u64>, records: &[(Entry, u64)]) -> io::Result<Fresh> {
        let index = self.index();
        if index.first() > *asked.start() {
            return Ok(Fresh::No);
        }
        if records.first().is_none_or(|(entry, _)| entry.log_id.index != *asked.start()) {
            return Err(codec::invalid(format!("record {} is missing", asked.start())));
        }
        for (entry, chain) in records {
            match index.slot(entry.log_id.index) {
                Some(slot) if slot.log_id == entry.log_id && slot.chain == *chain => {}
                Some(slot) if slot.entry.is_none() => {
                    return Err(codec::invalid(format!("record {} is not ours", slot.log_id)));
                }
                // Truncated, and possibly rewritten, during the read.
                Some(_) | None => return Ok(Fresh::No),
            }
        }
        Ok(Fresh::Yes)
    }

    async fn blocking<T, F>(&self, work: F) -> io::Result<T>
    where
        T: Send + 'static,
        F: FnOnce() -> io::Result<T> + Send + 'static,
    {
        run_blocking(self.shared.driver, work).await
    }
}

/// Whether the log is unchanged since a disk read began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fresh {
    Yes,
    No,
}

/// Runs disk I/O without blocking the runtime.
pub(crate) async fn run_blocking<T, F>(driver: Driver, work: F) -> io::Result<T>
where
    T: Send + 'static,
    F: FnOnce() -> io::Result<T> + Send + 'static,
{
    match driver {
        Driver::Thread => match tokio::task::spawn_blocking(work).await {
            Ok(result) => result,
            Err(error) => Err(io::Error::other(error)),
        },
        #[cfg(feature = "testing")]
        Driver::Task => work(),
    }
}

fn decode_all(records: Vec<(u64, Bytes)>) -> io::Result<Vec<(Entry, u64)>> {
    records.into_iter().map(|(_, record)| codec::decode_entry(record)).collect()
}

/// Reads the whole log once: every checksum, index and link of the running hash.
fn recover(recovered: &Recovered, reader: &dyn LogReader) -> io::Result<Index> {
    let purged = recovered.purged.clone().map(codec::decode_mark).transpose()?;
    let committed = recovered.committed.clone().map(codec::decode_mark).transpose()?;
    let mut index = Index {
        vote: recovered.vote.clone().map(codec::decode_vote).transpose()?,
        committed: committed.and_then(|(log_id, _)| log_id),
        purged: purged.unwrap_or((None, GENESIS)),
        ..Index::default()
    };
    let Some(stored) = recovered.indices.clone() else {
        return Ok(index);
    };
    let expected_first = index.purged.0.as_ref().map_or(0, |id| id.index + 1);
    if *stored.start() != expected_first {
        return Err(codec::invalid(format!(
            "log starts at {}, but was purged up to {expected_first}",
            stored.start()
        )));
    }
    let mut next = *stored.start();
    while next <= *stored.end() {
        let records = reader.read(next..=*stored.end(), READ_BYTES)?;
        if records.is_empty() {
            return Err(codec::invalid(format!("record {next} is missing")));
        }
        for (at, record) in records {
            let (entry, chain) = codec::decode_entry(record)?;
            if at != next || entry.log_id.index != next {
                return Err(codec::invalid(format!("record {next} is missing")));
            }
            if codec::chain_after(index.last_chain(), &entry) != chain {
                return Err(codec::invalid(format!("record {next} breaks the running hash")));
            }
            index.push(entry, chain);
            index.durable = Some(next);
            next += 1;
        }
        index.evict();
    }
    Ok(index)
}

impl RaftLogReader<TypeConfig> for LogStore {
    async fn try_get_log_entries<RB>(&mut self, range: RB) -> io::Result<Vec<Entry>>
    where
        RB: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        let Some(range) = inclusive(&range) else { return Ok(Vec::new()) };
        let mut entries = Vec::new();
        let mut next = *range.start();
        // Reads are bounded; larger ranges are read in parts.
        while next <= *range.end() {
            let more = self.read(next..=*range.end(), usize::MAX).await?;
            let Some(last) = more.last() else { break };
            next = last.log_id.index + 1;
            entries.extend(more);
        }
        Ok(entries)
    }

    async fn entries_stream<RB>(
        &mut self,
        range: RB,
    ) -> impl Stream<Item = io::Result<Entry>> + OptionalSend
    where
        RB: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        // Replay after a restart may cover the whole log: hold one read at a time.
        let state = inclusive(&range).map(|range| (self.clone(), range));
        let chunks = stream::unfold(state, |state| async move {
            let (store, range) = state?;
            if range.is_empty() {
                return None;
            }
            match store.read(range.clone(), READ_BYTES).await {
                Ok(entries) => {
                    let last = entries.last()?.log_id.index;
                    let rest = (last + 1)..=*range.end();
                    let items = entries.into_iter().map(Ok).collect::<Vec<_>>();
                    Some((items, Some((store, rest))))
                }
                Err(error) => Some((vec![Err(error)], None)),
            }
        });
        Box::pin(futures::StreamExt::flat_map(chunks, stream::iter))
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        Ok(self.index().vote)
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> io::Result<Vec<Entry>> {
        match inclusive(&(start..end)) {
            Some(range) => self.read(range, READ_BYTES).await,
            None => Ok(Vec::new()),
        }
    }
}

impl RaftLogStorage<TypeConfig> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<TypeConfig>> {
        let index = self.index();
        Ok(LogState { last_purged_log_id: index.purged.0, last_log_id: index.last() })
    }

    async fn get_log_reader(&mut self) -> Self::LogReader {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        self.shared.queue.commit(Op::Vote(codec::encode_vote(vote))).await?;
        self.index().vote = Some(*vote);
        Ok(())
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> io::Result<()> {
        self.index().committed = committed;
        let mark = codec::encode_mark(committed.as_ref(), UNKNOWN);
        self.shared.queue.mark_committed(mark)
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogId>> {
        Ok(self.index().committed)
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<TypeConfig>) -> io::Result<()>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut records = Vec::new();
        {
            let mut index = self.index();
            for entry in entries {
                if entry.log_id.index != index.end() && index.last().is_some() {
                    return Err(codec::invalid(format!(
                        "entry {} was given where {} comes next",
                        entry.log_id.index,
                        index.end()
                    )));
                }
                let chain = codec::chain_after(index.last_chain(), &entry);
                records.push((entry.log_id.index, codec::encode_entry(&entry, chain)));
                index.push(entry, chain);
            }
        }
        let last = records.last().map(|(index, _)| *index);
        let store = self.clone();
        let done = Box::new(move |result: io::Result<()>| {
            if result.is_ok() {
                let mut index = store.index();
                index.durable = index.durable.max(last);
                index.evict();
            }
            callback.io_completed(result);
        });
        self.shared.queue.submit(Op::Append(records), done).await;
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        let from = last.map_or(0, |id| id.index + 1);
        self.index().truncate_from(from);
        self.shared.queue.commit(Op::TruncateFrom(from)).await
    }

    async fn purge(&mut self, upto: LogId) -> io::Result<()> {
        let chain = {
            let mut index = self.index();
            if index.purged.0.as_ref().is_some_and(|purged| *purged >= upto) {
                return Ok(());
            }
            let stored = index.slot(upto.index).filter(|slot| slot.log_id == upto);
            let announced = index.announced.filter(|(log_id, _)| *log_id == upto);
            let chain = stored
                .map(|slot| slot.chain)
                .or(announced.map(|(_, chain)| chain))
                .unwrap_or(UNKNOWN);
            index.purge(upto, chain);
            chain
        };
        let mark = codec::encode_mark(Some(&upto), chain);
        self.shared.queue.commit(Op::Purge { upto: upto.index, mark }).await
    }
}

/// `None` if the range is empty.
fn inclusive(range: &impl RangeBounds<u64>) -> Option<RangeInclusive<u64>> {
    let start = match range.start_bound() {
        Bound::Included(start) => *start,
        Bound::Excluded(start) => start.checked_add(1)?,
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(end) => *end,
        Bound::Excluded(end) => end.checked_sub(1)?,
        Bound::Unbounded => u64::MAX,
    };
    (start <= end).then_some(start..=end)
}
