//! `jacod --digest`: one line that says what this node's replicated state is, byte for byte.
//!
//! For support, to compare nodes without moving their data, and for tests. It reads what a stopped
//! daemon would come back with: the newest snapshot and the log up to what this node had noted as
//! committed. Must never talk to anybody, and must never take part in an election.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use async_trait::async_trait;
use bytes::Bytes;
use jaco_pki::IdentityDir;
use jaco_raft::{Options, Pipe, Raft, RpcKind, StateMachine, Timing, Transport, TransportError};
use jaco_server::ClusterMachine;
use jaco_store::{Clock, SystemClock};
use jaco_types::StateIndex;
use ring::digest::{Context as Sha256, SHA256};

use crate::config::Config;
use crate::data_lock::DataLock;

/// So long that raft neither ticks nor campaigns before the state has been read: a node that is the
/// only voter would elect itself at its first tick, and that is an entry in its log.
const ASLEEP: Timing = Timing {
    heartbeat: Duration::from_secs(3600),
    election_min: Duration::from_secs(12 * 3600),
    election_max: Duration::from_secs(24 * 3600),
};

/// The state of a node, in short. Two nodes that are equally far have the same one.
#[derive(Debug, PartialEq, Eq)]
struct StateDigest {
    /// The last entry that is part of it.
    index: StateIndex,
    /// Of the stream that a snapshot of the state is.
    sha256: [u8; 32],
}

impl std::fmt::Display for StateDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "index {} sha256 {}", self.index.0, hex::encode(self.sha256))
    }
}

/// Prints the digest of the state in the data folder.
///
/// # Errors
/// When a daemon runs on the folder, when it belongs to no cluster, or when it is damaged.
pub(crate) async fn print(config: &Config) -> anyhow::Result<()> {
    let digest = read(config).await?;
    writeln!(io::stdout(), "{digest}").context("the digest cannot be written")
}

async fn read(config: &Config) -> anyhow::Result<StateDigest> {
    let folder = &config.data_dir;
    let raft_dir = folder.join("raft");
    if !raft_dir.is_dir() {
        bail!("there is no cluster's data in {}", folder.display());
    }
    let _held = DataLock::take(folder)?;
    let identity = IdentityDir::open(folder.join("node"))?.load(SystemClock.now())?;
    let identity = identity.context("this node belongs to no cluster")?;
    let name = identity.certificate().name();
    let mut options = Options::new(name.node.0, name.cluster.as_str(), raft_dir);
    options.timing = ASLEEP;
    let raft = Raft::open(options, ClusterMachine::default(), Arc::new(Nobody)).await;
    let raft = raft.context("raft's data cannot be used")?;
    let digest = raft.with_state(digest_of)?;
    raft.shutdown().await?;
    Ok(digest)
}

fn digest_of(machine: &ClusterMachine) -> io::Result<StateDigest> {
    let mut hash = Hashing(Sha256::new(&SHA256));
    machine.snapshot().write(&mut hash)?;
    let sha256 = hash.0.finish().as_ref().try_into().expect("SHA-256 has 32 bytes");
    Ok(StateDigest { index: machine.state().index, sha256 })
}

/// Keeps nothing of what is written but its hash.
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

/// No network.
struct Nobody;

#[async_trait]
impl Transport for Nobody {
    async fn call(
        &self,
        _target: u64,
        _address: &str,
        _kind: RpcKind,
        _body: Bytes,
        _deadline: Duration,
    ) -> Result<Bytes, TransportError> {
        Err(TransportError::Unreachable("this process only reads".to_owned()))
    }

    async fn pipe(&self, _target: u64, _address: &str) -> Result<Box<dyn Pipe>, TransportError> {
        Err(TransportError::Unreachable("this process only reads".to_owned()))
    }
}
