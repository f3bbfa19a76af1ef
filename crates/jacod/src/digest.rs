//! `jacod --digest`: prints one line that identifies this node's replicated state, byte for byte.
//!
//! For support, to compare nodes without copying their data, and for tests. It reads the state from
//! which a stopped daemon would restart: the newest snapshot and the log up to the last entry known
//! to be committed. Must never open a connection or take part in an election.

use std::io::{self, Write};

use anyhow::Context;
use jaco_raft::StateMachine;
use jaco_server::ClusterMachine;
use jaco_types::StateIndex;
use ring::digest::{Context as Sha256, SHA256};

use crate::config::Config;
use crate::offline;

/// Identifies the state of a node. Nodes at the same index have the same digest.
#[derive(Debug, PartialEq, Eq)]
struct StateDigest {
    /// Index of the last applied entry.
    index: StateIndex,
    /// SHA-256 of the state's snapshot stream.
    sha256: [u8; 32],
}

impl std::fmt::Display for StateDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "index {} sha256 {}", self.index.0, hex::encode(self.sha256))
    }
}

/// Prints the digest of the state in the data directory.
///
/// # Errors
/// When a daemon is running, when the node belongs to no cluster, or when the data is damaged.
pub(crate) async fn print(config: &Config) -> anyhow::Result<()> {
    let digest = read(config).await?;
    writeln!(io::stdout(), "{digest}").context("cannot write the digest")
}

async fn read(config: &Config) -> anyhow::Result<StateDigest> {
    let _held = offline::lock(&config.data_dir)?;
    let stopped = offline::open(&config.data_dir).await?;
    let digest = stopped.raft.with_state(digest_of)?;
    stopped.raft.close().await?;
    Ok(digest)
}

fn digest_of(machine: &ClusterMachine) -> io::Result<StateDigest> {
    let mut hash = Hashing(Sha256::new(&SHA256));
    machine.snapshot().write(&mut hash)?;
    let sha256 = hash.0.finish().as_ref().try_into().expect("SHA-256 has 32 bytes");
    Ok(StateDigest { index: machine.state().index, sha256 })
}

/// Discards what is written and keeps its hash.
struct Hashing(Sha256);

impl Write for Hashing {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.0.update(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
