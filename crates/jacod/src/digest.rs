//! `jacod --digest`: prints one line that identifies this node's replicated state, byte for byte.
//!
//! For support, to compare nodes without copying their data, and for tests. It reads the state from
//! which a stopped daemon would restart: the newest snapshot and the log up to the last entry known
//! to be committed. Must never open a connection or take part in an election.

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

/// Timeouts long enough that raft neither ticks nor campaigns before the state is read: the only
/// voter of a cluster would elect itself at the first tick, which appends an entry to its log.
const INERT: Timing = Timing {
    heartbeat: Duration::from_secs(3600),
    election_min: Duration::from_secs(12 * 3600),
    election_max: Duration::from_secs(24 * 3600),
};

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
    let folder = &config.data_dir;
    let raft_dir = folder.join("raft");
    if !raft_dir.is_dir() {
        bail!("no data of a cluster in {}", folder.display());
    }
    let _held = DataLock::take(folder)?;
    let identity = IdentityDir::open(folder.join("node"))?.load(SystemClock.now())?;
    let identity = identity.context("this node belongs to no cluster")?;
    let name = identity.certificate().name();
    let mut options = Options::new(name.node.0, name.cluster.as_str(), raft_dir);
    options.timing = INERT;
    let raft = Raft::open(options, ClusterMachine::default(), Arc::new(NoTransport)).await;
    let raft = raft.context("cannot open raft's data")?;
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
