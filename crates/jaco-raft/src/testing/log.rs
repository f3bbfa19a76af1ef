//! A log on a simulated disk: commits take time, and a crash loses unfinished ones.

use std::collections::BTreeMap;
use std::io;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::random::Random;
use crate::codec;
use crate::engine::{LogEngine, LogReader, Op, Recovered};

/// Whether syncs are honoured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syncing {
    /// A commit is durable when it returns.
    Honest,
    /// A commit returns immediately and is durable half a second later, like a missing fsync.
    Removed,
}

/// How long an unsynced write stays in memory.
const WRITE_BACK: Duration = Duration::from_millis(500);

/// What is stored.
#[derive(Debug, Clone, Default)]
pub(super) struct Image {
    pub(super) vote: Option<Bytes>,
    pub(super) committed: Option<Bytes>,
    pub(super) purged: Option<Bytes>,
    pub(super) records: BTreeMap<u64, Bytes>,
}

impl Image {
    pub(super) fn apply(&mut self, op: &Op) {
        match op {
            Op::Append(records) => self.records.extend(records.iter().cloned()),
            Op::TruncateFrom(from) => drop(self.records.split_off(from)),
            Op::Purge { upto, mark } => {
                self.records = self.records.split_off(&(upto + 1));
                self.purged = Some(mark.clone());
            }
            Op::Vote(vote) => self.vote = Some(vote.clone()),
            Op::Committed(mark) => self.committed = Some(mark.clone()),
        }
    }
}

#[derive(Debug)]
struct State {
    durable: Image,
    /// Visible to the running node.
    visible: Image,
    /// The group being committed.
    staged: Vec<Op>,
    /// Without syncs: committed, not yet durable.
    unsynced: Vec<(Instant, Op)>,
    random: Random,
    syncing: Syncing,
    stalled: bool,
    failing: bool,
}

/// The log of one simulated node. Clones are the same disk.
#[derive(Debug, Clone)]
pub struct SimLog {
    state: Arc<Mutex<State>>,
}

impl SimLog {
    pub fn new(seed: u64, syncing: Syncing) -> Self {
        let state = State {
            durable: Image::default(),
            visible: Image::default(),
            staged: Vec::new(),
            unsynced: Vec::new(),
            random: Random::new(seed),
            syncing,
            stalled: false,
            failing: false,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    pub(crate) fn syncing(&self) -> Syncing {
        self.lock().syncing
    }

    /// Commits hang from now on, until the node crashes.
    pub fn stall(&self) {
        self.lock().stalled = true;
    }

    /// Commits fail from now on.
    pub fn fail(&self) {
        self.lock().failing = true;
    }

    /// Loses what is not durable; of the group being committed a random prefix may survive, down to
    /// a part of one append.
    pub fn crash(&self) {
        let mut state = self.lock();
        let staged = std::mem::take(&mut state.staged);
        if state.syncing == Syncing::Honest && !state.stalled {
            let survive = state.random.below(staged.len() as u64 + 1);
            let survive = usize::try_from(survive).unwrap_or(0);
            for op in &staged[..survive] {
                state.durable.apply(op);
            }
            if let Some(Op::Append(records)) = staged.get(survive) {
                let part = usize::try_from(state.random.below(records.len() as u64 + 1));
                let part = records[..part.unwrap_or(0)].to_vec();
                state.durable.apply(&Op::Append(part));
            }
        }
        state.unsynced.clear();
        state.stalled = false;
        state.failing = false;
        state.visible = state.durable.clone();
    }

    /// Indices that would survive a crash.
    pub fn durable_indices(&self) -> Vec<u64> {
        self.lock().durable.records.keys().copied().collect()
    }

    pub(crate) fn engine(&self) -> SimEngine {
        let state = self.lock();
        let image = &state.visible;
        let recovered = Recovered {
            vote: image.vote.clone(),
            committed: image.committed.clone(),
            purged: image.purged.clone(),
            indices: match (image.records.first_key_value(), image.records.last_key_value()) {
                (Some((first, _)), Some((last, _))) => Some(*first..=*last),
                (None | Some(_), _) => None,
            },
        };
        drop(state);
        SimEngine { log: self.clone(), recovered }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A log engine on a `SimLog`.
#[derive(Debug)]
pub(crate) struct SimEngine {
    log: SimLog,
    recovered: Recovered,
}

impl LogEngine for SimEngine {
    fn recovered(&self) -> Recovered {
        self.recovered.clone()
    }

    fn stage(&mut self, ops: &[Op]) -> Duration {
        let mut state = self.log.lock();
        if state.stalled {
            state.staged = ops.to_vec();
            return Duration::from_secs(1 << 20);
        }
        match state.syncing {
            Syncing::Removed => Duration::ZERO,
            Syncing::Honest => {
                state.staged = ops.to_vec();
                let slow = state.random.chance(10);
                let bound = if slow { 200_000 } else { 4_000 };
                Duration::from_micros(100 + state.random.below(bound))
            }
        }
    }

    fn commit(&mut self, ops: &[Op]) -> io::Result<()> {
        let mut state = self.log.lock();
        if state.failing {
            return Err(io::Error::other("simulated disk failure"));
        }
        state.staged.clear();
        for op in ops {
            state.visible.apply(op);
        }
        match state.syncing {
            Syncing::Honest => {
                for op in ops {
                    state.durable.apply(op);
                }
            }
            Syncing::Removed => {
                let now = Instant::now();
                state.unsynced.extend(ops.iter().map(|op| (now, op.clone())));
                let written = state.unsynced.partition_point(|(at, _)| now - *at >= WRITE_BACK);
                for (_, op) in state.unsynced.drain(..written).collect::<Vec<_>>() {
                    state.durable.apply(&op);
                }
            }
        }
        Ok(())
    }

    fn reader(&self) -> Arc<dyn LogReader> {
        Arc::new(self.log.clone())
    }
}

impl LogReader for SimLog {
    fn read(&self, range: RangeInclusive<u64>, max_bytes: usize) -> io::Result<Vec<(u64, Bytes)>> {
        let state = self.lock();
        let mut records = Vec::new();
        let mut bytes = 0;
        for (next, (index, record)) in (*range.start()..).zip(state.visible.records.range(range)) {
            if *index != next {
                return Err(codec::invalid(format!("record {next} is missing")));
            }
            bytes += record.len();
            records.push((*index, record.clone()));
            if bytes >= max_bytes {
                break;
            }
        }
        Ok(records)
    }
}
