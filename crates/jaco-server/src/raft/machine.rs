//! The replicated state as raft drives it: bytes in, bytes out, [`jaco_state::apply`] in between.

use std::error::Error;
use std::io::{self, Read, Write};
use std::sync::Arc;

use bytes::Bytes;
use jaco_proto::storage;
use jaco_raft::{SnapshotSource, StateMachine};
use jaco_state::audit::Evicted;
use jaco_state::{ClusterState, apply_evicting};
use jaco_types::StateIndex;

use crate::audit::archive::AuditArchive;
use crate::audit::writer::{ArchiveWriter, Archived, Work};

/// The state of one node.
#[derive(Debug, Default)]
pub struct ClusterMachine {
    state: ClusterState,
    archive: Option<ArchiveWriter>,
}

impl ClusterMachine {
    /// A state machine that archives the audit events that its state evicts.
    ///
    /// # Errors
    /// If the writer thread cannot be started.
    pub fn archiving(mut archive: AuditArchive) -> io::Result<Self> {
        let writer = ArchiveWriter::start(move |work| match work {
            Work::Write(gone) => archive.keep(gone),
            Work::Sync => archive.sync(),
        })?;
        Ok(Self { state: ClusterState::default(), archive: Some(writer) })
    }

    fn keep(&self, gone: Evicted) {
        if let Some(archive) = self.archive.as_ref().filter(|_| !gone.is_empty()) {
            archive.keep(gone);
        }
    }

    /// Waits for this node's archive, if it has one.
    #[must_use]
    pub fn archived(&self) -> Option<Archived> {
        self.archive.as_ref().map(ArchiveWriter::archived)
    }

    /// The current state.
    #[must_use]
    pub fn state(&self) -> &ClusterState {
        &self.state
    }
}

impl StateMachine for ClusterMachine {
    fn apply(&mut self, index: u64, payload: &[u8]) -> Result<Bytes, Box<dyn Error + Send + Sync>> {
        let entry = storage::decode_payload(payload)?.into_entry(StateIndex(index));
        let mut gone = Evicted::new();
        let outcome = apply_evicting(&mut self.state, &entry, &mut gone);
        self.keep(gone);
        Ok(storage::encode_outcome(&outcome))
    }

    fn advance(&mut self, index: u64) {
        self.state.index = StateIndex(index);
    }

    fn snapshot(&self) -> Box<dyn SnapshotSource> {
        Box::new(Snapshot { state: self.state.clone(), archived: self.archived() })
    }

    fn restore(&mut self, state: &mut dyn Read) -> io::Result<()> {
        let state = storage::read_snapshot(state).map_err(io::Error::other)?;
        // A snapshot of another node skips events that this one still has: archive them.
        let old = self.state.audit.events.iter();
        let gone = old.filter(|(key, _)| !state.audit.events.contains(key));
        let gone: Evicted = gone.map(|(key, event)| (*key, Arc::new(event.clone()))).collect();
        self.keep(gone);
        // Once the snapshot is installed the log cannot reproduce them.
        if let Some(archived) = self.archived() {
            archived.wait();
        }
        self.state = state;
        Ok(())
    }
}

struct Snapshot {
    state: ClusterState,
    archived: Option<Archived>,
}

impl SnapshotSource for Snapshot {
    /// The log is compacted after this, so evicted events must be in the archive first.
    fn write(self: Box<Self>, out: &mut dyn Write) -> io::Result<()> {
        if let Some(archived) = &self.archived {
            archived.wait();
        }
        storage::write_snapshot(&self.state, out).map_err(io::Error::other)
    }
}
