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

/// The state of one node.
#[derive(Debug, Default)]
pub struct ClusterMachine {
    state: ClusterState,
    archive: Option<AuditArchive>,
}

impl ClusterMachine {
    /// A machine that puts the audit events that its state lets go of into this archive.
    #[must_use]
    pub fn archiving(archive: AuditArchive) -> Self {
        Self { state: ClusterState::default(), archive: Some(archive) }
    }

    /// Before anybody sees the state after: what was let go of is in the archive by then.
    fn keep(&mut self, gone: &LetGo) {
        if let Some(archive) = self.archive.as_mut().filter(|_| !gone.is_empty()) {
            archive.keep(gone);
        }
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
        self.keep(&gone);
        Ok(storage::encode_outcome(&outcome))
    }

    fn advance(&mut self, index: u64) {
        self.state.index = StateIndex(index);
    }

    fn snapshot(&self) -> Box<dyn SnapshotSource> {
        Box::new(Snapshot(self.state.clone()))
    }

    fn restore(&mut self, state: &mut dyn Read) -> io::Result<()> {
        let state = storage::read_snapshot(state).map_err(io::Error::other)?;
        // A snapshot of another node takes this one past events that it still has.
        let old = self.state.audit.events.iter();
        let gone = old.filter(|(key, _)| !state.audit.events.contains(key));
        let gone: LetGo = gone.map(|(key, event)| (*key, Arc::new(event.clone()))).collect();
        self.keep(&gone);
        self.state = state;
        Ok(())
    }
}

struct Snapshot(ClusterState);

impl SnapshotSource for Snapshot {
    fn write(self: Box<Self>, out: &mut dyn Write) -> io::Result<()> {
        storage::write_snapshot(&self.0, out).map_err(io::Error::other)
    }
}
