//! The replicated state as it was at an index, made again of what this node's snapshots and log keep (ADR 0153).
//!
//! `apply` is pure: the entries up to an index give the state that there was. Must never let this take from consensus: one state
//! is made at a time, piece by piece, each in a turn of those that compute at low priority, and for a bounded time.

use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use jaco_proto::{storage, v1};
use jaco_raft::{PastBase, PastEntry, Raft};
use jaco_state::{ClusterState, apply};
use jaco_types::{ErrorCode, Hostname, Rejection, StateIndex, Timestamp};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::gate::Gate;
use crate::raft::ClusterMachine;
use crate::view;

/// How long a request works on a state. What is made by then is kept: the next one goes on from there.
const TIME_MAX: Duration = Duration::from_secs(4);

/// How long a request waits for the one before it.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long the last state is kept for a request about the same index, or a later one. It may be as large as the state of
/// now.
const KEPT: Duration = Duration::from_secs(60);

/// What states are made of, and by whom.
#[derive(Debug, Clone, Copy)]
pub struct Source<'m> {
    /// Has the snapshots and the log.
    pub raft: &'m Raft<ClusterMachine>,
    /// Gives turns to those that compute.
    pub gate: &'m Gate,
    /// The node, for refusals.
    pub hostname: &'m Hostname,
}

/// Makes states of before, one at a time.
#[derive(Debug)]
pub struct Past {
    time_max: Duration,
    last: Arc<Mutex<Last>>,
}

impl Default for Past {
    fn default() -> Self {
        Self::within(TIME_MAX)
    }
}

/// The state that was made last, and the number of requests so far.
#[derive(Debug, Default)]
struct Last {
    rebuilt: Option<Rebuilt>,
    requests: u64,
}

/// The cluster as it was.
#[derive(Debug)]
pub struct Then {
    /// The state. Without what is not replicated.
    pub state: ClusterState,
    /// When the newest command was proposed that it has, by the clock of its node; none if that is not known.
    pub at: Option<Timestamp>,
    /// The indices that this node can show.
    pub kept: RangeInclusive<u64>,
}

impl Then {
    /// Of when it is, as answers say it.
    pub(crate) fn info(&self) -> v1::PastInfo {
        v1::PastInfo {
            at_ms: self.at.map_or(0, view::millis),
            kept_from: *self.kept.start(),
            kept_to: *self.kept.end(),
        }
    }
}

impl Past {
    /// Works on a state for so long in a request, or for one piece of it.
    #[must_use]
    pub fn within(time_max: Duration) -> Self {
        Self { time_max, last: Arc::default() }
    }

    /// The state at an index.
    ///
    /// # Errors
    /// `index_not_kept` if this node cannot make it again, `overloaded` if others are made, or if it takes longer than one
    /// request may: what was done until then is kept, and a repeated request goes on from there.
    pub async fn at(&self, source: Source<'_>, index: u64) -> Result<Then, Rejection> {
        let waiting = tokio::time::timeout(PATIENCE, Arc::clone(&self.last).lock_owned()).await;
        let mut last = waiting.map_err(|_| {
            let message = "this node makes another state of before again, one at a time: ask again in a moment, or another node";
            Rejection::new(ErrorCode::Overloaded, message)
        })?;
        last.requests += 1;
        let begun = Instant::now();
        let kept = kept(source, index)?;
        let mut rebuilt = begin(source, index, last.rebuilt.take()).await?;
        while rebuilt.next <= index {
            let entries = source.raft.past_entries(rebuilt.next, index).await;
            let entries = entries.map_err(|error| refusal(source, index, &error))?;
            let turn = source.gate.turn().await?;
            rebuilt = turn.run(move || rebuilt.replay(entries)).await??;
            if rebuilt.next <= index && begun.elapsed() >= self.time_max {
                let message = format!(
                    "the state at index {index} is made again before index {} so far: ask again, it goes on from there",
                    rebuilt.next
                );
                last.rebuilt = Some(rebuilt);
                self.forget_later(last.requests);
                return Err(Rejection::new(ErrorCode::Overloaded, message));
            }
        }
        let then = Then { state: rebuilt.state.clone(), at: rebuilt.at, kept };
        last.rebuilt = Some(rebuilt);
        self.forget_later(last.requests);
        Ok(then)
    }

    /// Drops the last state after a while, unless there was a request in between.
    fn forget_later(&self, requests: u64) {
        let last = Arc::downgrade(&self.last);
        tokio::spawn(async move {
            tokio::time::sleep(KEPT).await;
            let Some(last) = last.upgrade() else { return };
            let mut last = last.lock().await;
            if last.requests == requests {
                last.rebuilt = None;
            }
        });
    }
}

/// A state on its way.
#[derive(Debug, Default)]
struct Rebuilt {
    state: ClusterState,
    /// The entry that it needs next.
    next: u64,
    at: Option<Timestamp>,
}

impl Rebuilt {
    /// The state of a snapshot, or the empty one.
    fn of(base: &PastBase) -> io::Result<Self> {
        let read = base.restore(|bytes| storage::read_snapshot(bytes).map_err(io::Error::other))?;
        let state = read.unwrap_or_default();
        // A snapshot does not say when its last entry was proposed; the event that is not older than any other is close to it.
        let at = state.audit.events.values().next_back().map(|event| event.at);
        Ok(Self { state, next: base.next(), at })
    }

    fn replay(mut self, entries: Vec<PastEntry>) -> Result<Self, Rejection> {
        for PastEntry { index, command } in entries {
            match command {
                None => self.state.index = StateIndex(index),
                Some(command) => {
                    let payload = storage::decode_payload(&command).map_err(|error| {
                        let message = format!("entry {index} cannot be read again: {error}");
                        Rejection::new(ErrorCode::Internal, message)
                    })?;
                    self.at = Some(payload.at);
                    apply(&mut self.state, &payload.into_entry(StateIndex(index)));
                }
            }
            self.next = index + 1;
        }
        Ok(self)
    }
}

/// The state to go on from: the last one, or a snapshot that is nearer.
async fn begin(
    source: Source<'_>,
    index: u64,
    last: Option<Rebuilt>,
) -> Result<Rebuilt, Rejection> {
    let base = source.raft.past_base(index);
    let base = base.map_err(|error| refusal(source, index, &error))?;
    let base = base.ok_or_else(|| not_kept(source, index))?;
    let usable = last.filter(|last| last.next <= index + 1 && base.next() <= last.next);
    if let Some(last) = usable {
        return Ok(last);
    }
    let read = source.gate.turn().await?.run(move || Rebuilt::of(&base)).await?;
    read.map_err(|error| refusal(source, index, &error))
}

/// What this node can show, if the index is part of that.
fn kept(source: Source<'_>, index: u64) -> Result<RangeInclusive<u64>, Rejection> {
    let kept = source.raft.past();
    let kept = kept.map_err(|error| unreadable(source, index, &error))?;
    if kept.contains(&index) {
        return Ok(kept);
    }
    Err(outside(source, index, &kept))
}

/// The refusal of a state that could not be read. A snapshot may have come in between.
fn refusal(source: Source<'_>, index: u64, error: &io::Error) -> Rejection {
    if error.kind() == io::ErrorKind::NotFound {
        return not_kept(source, index);
    }
    unreadable(source, index, error)
}

fn not_kept(source: Source<'_>, index: u64) -> Rejection {
    match source.raft.past() {
        Ok(kept) => outside(source, index, &kept),
        Err(error) => unreadable(source, index, &error),
    }
}

fn outside(source: Source<'_>, index: u64, kept: &RangeInclusive<u64>) -> Rejection {
    // Nothing is asked for by index 0.
    let (from, to) = (*kept.start().max(&1), kept.end());
    let node = source.hostname;
    let message = format!(
        "{node} cannot show the state at index {index}: it has what is needed from index {from} to {to}; name one of these, or ask \
         another node, whose snapshots differ"
    );
    Rejection::new(ErrorCode::IndexNotKept, message)
        .with("kept_from", from.to_string())
        .with("kept_to", to.to_string())
}

fn unreadable(source: Source<'_>, index: u64, error: &io::Error) -> Rejection {
    let message = format!(
        "{} cannot read its snapshots and log for the state at index {index}: {error}; see its log, and jaco doctor",
        source.hostname
    );
    Rejection::new(ErrorCode::Internal, message)
}
