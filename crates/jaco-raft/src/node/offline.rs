//! The data of a stopped node: to be looked at, and to make a survivor the only member of its cluster again, once the
//! other voters are lost for good. Must never open a connection or take part in an election.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::num::ParseIntError;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use openraft::storage::{RaftLogReader as _, RaftLogStorage as _};

use super::start::{Storage, open_storage, recover};
use super::{Options, Raft};
use crate::codec::LogIdRecord;
use crate::error::{OpenError, TransportError};
use crate::machine::StateMachine;
use crate::network::Transport;
use crate::pipe::Pipe;
use crate::snapshot::{SnapshotFile, SnapshotStore};
use crate::status::Status;
use crate::timing::Timing;
use crate::types::{Entry, EntryPayload, LogId, Membership, Payload, Peer, Vote, log_id};
use crate::wire::RpcKind;

/// Timeouts long enough that raft neither ticks nor campaigns before the state is read: the only
/// voter of a cluster would elect itself at the first tick, which appends an entry to its log.
const INERT: Timing = Timing {
    heartbeat: Duration::from_secs(3600),
    election_min: Duration::from_secs(12 * 3600),
    election_max: Duration::from_secs(24 * 3600),
};

/// By how much a recovery raises the term. The lost voters may have held elections that the survivor never heard of;
/// one election every 200 ms reaches this after two days.
const TERMS_SKIPPED: u64 = 1 << 20;

/// How far a log goes. The greater one has everything of the smaller one that was ever committed: raft's own comparison
/// of candidates (section 5.4.1 of Ongaro and Ousterhout, In Search of an Understandable Consensus Algorithm, 2014).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The term in which the last entry was proposed.
    pub term: u64,
    /// The index of the last entry; 0 if there is none.
    pub index: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.term, self.index)
    }
}

/// A text that is no position: two numbers with a point between them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a position is TERM.INDEX, two whole numbers")]
pub struct PositionError;

impl From<ParseIntError> for PositionError {
    fn from(_: ParseIntError) -> Self {
        Self
    }
}

impl FromStr for Position {
    type Err = PositionError;

    fn from_str(text: &str) -> Result<Self, PositionError> {
        let (term, index) = text.split_once('.').ok_or(PositionError)?;
        Ok(Self { term: term.parse()?, index: index.parse()? })
    }
}

/// The opened data of a stopped node.
#[derive(Debug)]
pub struct Offline<M: StateMachine> {
    raft: Raft<M>,
    options: Options,
}

impl<M: StateMachine> Offline<M> {
    /// Opens and verifies the data directory, and brings `machine`, the empty state, up to the last entry that the node
    /// knew to be committed. A node that was killed may not have recorded that of its last few entries.
    ///
    /// # Errors
    /// As [`Raft::open`]; also while a daemon has the directory.
    pub async fn open(mut options: Options, machine: M) -> Result<Self, OpenError> {
        options.timing = INERT;
        let raft = Raft::open(options.clone(), machine, Arc::new(NoTransport)).await?;
        Ok(Self { raft, options })
    }

    /// Runs `read` on the state.
    pub fn with_state<T>(&self, read: impl FnOnce(&M) -> T) -> T {
        self.raft.with_state(read)
    }

    /// Term, membership and indices.
    pub fn status(&self) -> Status {
        self.raft.status()
    }

    /// How far the log goes, entries that are not known to be committed included.
    pub fn position(&self) -> Position {
        position(self.raft.inner.log.last().as_ref())
    }

    /// The commands after the state, by index: a majority may have committed them.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub async fn unconfirmed(&self) -> io::Result<BTreeMap<u64, Bytes>> {
        self.commands_after(self.status().applied.unwrap_or(0)).await
    }

    /// The commands after an index that the log still has, by index.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub async fn commands_after(&self, index: u64) -> io::Result<BTreeMap<u64, Bytes>> {
        let from = index + 1;
        let entries = self.raft.inner.log.clone().try_get_log_entries(from..).await?;
        let command = |entry: Entry| match entry.payload {
            EntryPayload::Normal(payload) => Some((entry.log_id.index, payload.0)),
            EntryPayload::Blank | EntryPayload::Membership(_) => None,
        };
        Ok(entries.into_iter().filter_map(command).collect())
    }

    /// Closes the data.
    ///
    /// # Errors
    /// When the log cannot be closed.
    pub async fn close(self) -> io::Result<()> {
        self.raft.shutdown().await
    }

    /// Makes this node, at `address`, the only member: every entry of its log counts as committed at the next start,
    /// and so do `commands`, which follow. What only the others have is lost. The commands have to make the machine
    /// refuse them as members: together they may still be a majority of the membership before.
    ///
    /// # Errors
    /// When the data cannot be written. The membership is as before then, also after a crash in between: the recovery
    /// can be run again.
    pub async fn recover(self, address: &str, commands: Vec<Bytes>) -> Result<Position, OpenError> {
        let Self { raft, options } = self;
        raft.shutdown().await?;
        drop(raft);
        let Storage { engine, disk, driver, dir, .. } = open_storage(&options).await?;
        let snapshots = SnapshotStore::new(disk, &options.cluster);
        let (log, newest) = recover(engine, &snapshots, driver).await?;
        let mut log_end = log.last();
        // A snapshot that was installed just before the end may cover more than the log.
        if let Some(covered) = newest.as_ref().and_then(SnapshotFile::last)
            && log_end < Some(covered)
        {
            let mut log = log.clone();
            log.purge(covered).await?;
            log_end = Some(covered);
        }
        let voted = log.clone().read_vote().await?;
        let term = voted.map_or(0, |vote| vote.leader_id.term).max(position(log_end.as_ref()).term);
        let term = term + TERMS_SKIPPED;
        let id = options.node_id;
        // Before the entries: no entry may be newer than the vote.
        log.clone().save_vote(&Vote::new(term, id)).await?;
        let peer = Peer { address: address.to_owned() };
        let alone = Membership::new(vec![BTreeSet::from([id])], BTreeMap::from([(id, peer)]));
        let alone = alone.map_err(|error| OpenError::Start { what: error.to_string() })?;
        let commands = commands.into_iter().map(|command| EntryPayload::Normal(Payload(command)));
        // Last, so that the new membership is never there without what the commands refuse.
        let payloads = commands.chain([EntryPayload::Membership(alone)]);
        let first = log_end.map_or(0, |last| last.index + 1);
        let entries: Vec<Entry> = (first..)
            .zip(payloads)
            .map(|(index, payload)| Entry { log_id: log_id(term, id, index), payload })
            .collect();
        let end = entries.last().map(|entry| entry.log_id);
        log.append_offline(entries).await?;
        log.close().await?;
        drop(dir);
        Ok(position(end.as_ref()))
    }
}

fn position(last: Option<&LogId>) -> Position {
    let record = last.map(LogIdRecord::from).unwrap_or_default();
    Position { term: record.term, index: record.index }
}

/// A transport without connections.
struct NoTransport;

#[async_trait]
impl Transport for NoTransport {
    async fn call(
        &self,
        _target: u64,
        _address: &str,
        _kind: RpcKind,
        _body: Bytes,
        _deadline: Duration,
    ) -> Result<Bytes, TransportError> {
        Err(TransportError::Unreachable("offline process".to_owned()))
    }

    async fn pipe(&self, _target: u64, _address: &str) -> Result<Box<dyn Pipe>, TransportError> {
        Err(TransportError::Unreachable("offline process".to_owned()))
    }
}
