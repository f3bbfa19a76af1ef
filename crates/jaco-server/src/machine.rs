//! The replicated state as raft drives it: bytes in, bytes out, [`jaco_state::apply`] in between.

use std::error::Error;
use std::io::{self, Read, Write};

use bytes::Bytes;
use jaco_proto::storage;
use jaco_raft::{SnapshotSource, StateMachine};
use jaco_state::{ClusterState, apply};
use jaco_types::StateIndex;

/// The state of one node.
#[derive(Debug, Default)]
pub struct ClusterMachine {
    state: ClusterState,
}

impl ClusterMachine {
    /// The state as it is now; a cheap copy.
    #[must_use]
    pub fn state(&self) -> &ClusterState {
        &self.state
    }
}

impl StateMachine for ClusterMachine {
    fn apply(&mut self, index: u64, payload: &[u8]) -> Result<Bytes, Box<dyn Error + Send + Sync>> {
        let entry = storage::decode_payload(payload)?.into_entry(StateIndex(index));
        let outcome = apply(&mut self.state, &entry);
        Ok(storage::encode_outcome(&outcome))
    }

    fn advance(&mut self, index: u64) {
        self.state.index = StateIndex(index);
    }

    fn snapshot(&self) -> Box<dyn SnapshotSource> {
        Box::new(Snapshot(self.state.clone()))
    }

    fn restore(&mut self, state: &mut dyn Read) -> io::Result<()> {
        self.state = storage::read_snapshot(state).map_err(io::Error::other)?;
        Ok(())
    }
}

struct Snapshot(ClusterState);

impl SnapshotSource for Snapshot {
    fn write(self: Box<Self>, out: &mut dyn Write) -> io::Result<()> {
        storage::write_snapshot(&self.0, out).map_err(io::Error::other)
    }
}
