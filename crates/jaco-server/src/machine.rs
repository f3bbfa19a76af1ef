//! The replicated state as raft drives it: bytes in, bytes out, [`jaco_state::apply`] in between.

use std::error::Error;
use std::io::{self, Read, Write};
use std::sync::Arc;

use bytes::Bytes;
use jaco_proto::storage;
use jaco_raft::{SnapshotSource, StateMachine};
use jaco_state::audit::LetGo;
use jaco_state::{ClusterState, apply_letting_go};
use jaco_types::StateIndex;

use crate::archive::AuditArchive;
use crate::archive_writer::{ArchiveWriter, Archived, Work};

/// The state of one node.
#[derive(Debug, Default)]
pub struct ClusterMachine {
    state: ClusterState,
    archive: Option<ArchiveWriter>,
}

impl ClusterMachine {
    /// A machine that puts the audit events that its state lets go of into this archive.
    ///
    /// # Errors
    /// If the system gives no thread to write with.
    pub fn archiving(mut archive: AuditArchive) -> io::Result<Self> {
        let writer = ArchiveWriter::start(move |work| match work {
            Work::Write(gone) => archive.keep(gone),
            Work::Sync => archive.sync(),
        })?;
        Ok(Self { state: ClusterState::default(), archive: Some(writer) })
    }

    fn keep(&self, gone: LetGo) {
        if let Some(archive) = self.archive.as_ref().filter(|_| !gone.is_empty()) {
            archive.keep(gone);
        }
    }

    /// Waits for the files of this node's archive, if it has one.
    #[must_use]
    pub fn archived(&self) -> Option<Archived> {
        self.archive.as_ref().map(ArchiveWriter::archived)
    }

    /// The state as it is now; a cheap copy.
    #[must_use]
    pub fn state(&self) -> &ClusterState {
        &self.state
    }
}

impl StateMachine for ClusterMachine {
    fn apply(&mut self, index: u64, payload: &[u8]) -> Result<Bytes, Box<dyn Error + Send + Sync>> {
        let entry = storage::decode_payload(payload)?.into_entry(StateIndex(index));
        let mut gone = LetGo::new();
        let outcome = apply_letting_go(&mut self.state, &entry, &mut gone);
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
        // A snapshot of another node takes this one past events that it still has.
        let old = self.state.audit.events.iter();
        let gone = old.filter(|(key, _)| !state.audit.events.contains(key));
        let gone: LetGo = gone.map(|(key, event)| (*key, Arc::new(event.clone()))).collect();
        self.keep(gone);
        // No log makes them again once the snapshot stands.
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
    /// The log is cut after this: what it made the state let go of has to be in the files first.
    fn write(self: Box<Self>, out: &mut dyn Write) -> io::Result<()> {
        if let Some(archived) = &self.archived {
            archived.wait();
        }
        storage::write_snapshot(&self.state, out).map_err(io::Error::other)
    }
}
