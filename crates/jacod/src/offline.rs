//! The data of this node while its daemon is stopped, for commands that read or repair it.

use anyhow::{Context, bail};
use jaco_pki::{IdentityDir, NodeName};
use jaco_raft::{Offline, Options};
use jaco_server::ClusterMachine;
use jaco_store::{Clock, SystemClock};

use crate::config::Config;
use crate::data_lock::DataLock;

/// A stopped member.
pub(crate) struct Stopped {
    /// Who it is.
    pub(crate) name: NodeName,
    /// Its log and its state.
    pub(crate) raft: Offline<ClusterMachine>,
}

/// Keeps a daemon from starting meanwhile.
///
/// # Errors
/// When a daemon is running, or there is no data.
pub(crate) fn lock(config: &Config) -> anyhow::Result<DataLock> {
    let folder = &config.data_dir;
    if !folder.join("raft").is_dir() {
        bail!("no data of a cluster in {}", folder.display());
    }
    Ok(DataLock::take(folder)?)
}

/// Opens the data in the data directory, which is locked.
///
/// # Errors
/// When the node belongs to no cluster, or when the data is damaged.
pub(crate) async fn open(config: &Config) -> anyhow::Result<Stopped> {
    let identity = IdentityDir::open(config.data_dir.join("node"))?;
    let (expected_log, expected_starts) = (identity.raft_log_id()?, identity.raft_log_starts()?);
    let loaded = identity.load(SystemClock.now())?;
    let name = loaded.context("this node belongs to no cluster")?.certificate().name().clone();
    let raft_dir = config.data_dir.join("raft");
    let mut options = Options::new(name.node.0, name.cluster.as_str(), raft_dir);
    options.expected_log = expected_log;
    options.expected_starts = expected_starts;
    let raft = Offline::open(options, ClusterMachine::default()).await;
    Ok(Stopped { name, raft: raft.context("cannot open raft's data")? })
}
