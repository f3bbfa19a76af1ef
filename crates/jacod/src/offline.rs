//! The data of this node while its daemon is stopped, for commands that read or repair it.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, bail};
use jaco_pki::{IdentityDir, NodeName};
use jaco_raft::{Offline, Options};
use jaco_server::ClusterMachine;
use jaco_store::{Clock, SystemClock};
use nix::unistd::{Gid, Uid, geteuid, setgid, setgroups, setuid};

use crate::data_lock::DataLock;

/// A stopped member.
pub(crate) struct Stopped {
    /// Who it is.
    pub(crate) name: NodeName,
    /// Its log and its state.
    pub(crate) raft: Offline<ClusterMachine>,
}

/// Continues as the owner of the data, where root runs this: the daemon could not read what root writes there. Before
/// any thread is started.
///
/// # Errors
/// When the folder does not exist, or the owner's rights cannot be taken.
pub(crate) fn become_owner(folder: &Path) -> anyhow::Result<()> {
    let owner = folder.metadata();
    let owner = owner.with_context(|| format!("no data of a cluster in {}", folder.display()))?;
    if !geteuid().is_root() || owner.uid() == 0 {
        return Ok(());
    }
    setgroups(&[]).context("cannot leave the groups of root")?;
    setgid(Gid::from_raw(owner.gid())).context("cannot become the owner of the data")?;
    setuid(Uid::from_raw(owner.uid())).context("cannot become the owner of the data")
}

/// Keeps a daemon from starting meanwhile.
///
/// # Errors
/// When a daemon is running, or there is no data.
pub(crate) fn lock(folder: &Path) -> anyhow::Result<DataLock> {
    if !folder.join("raft").is_dir() {
        bail!("no data of a cluster in {}", folder.display());
    }
    Ok(DataLock::take(folder)?)
}

/// Opens the data in the data directory, which is locked.
///
/// # Errors
/// When the node belongs to no cluster, or when the data is damaged.
pub(crate) async fn open(folder: &Path) -> anyhow::Result<Stopped> {
    let identity = IdentityDir::open(folder.join("node"))?;
    let (expected_log, expected_starts) = (identity.raft_log_id()?, identity.raft_log_starts()?);
    let loaded = identity.load(SystemClock.now())?;
    let name = loaded.context("this node belongs to no cluster")?.certificate().name().clone();
    let raft_dir = folder.join("raft");
    let mut options = Options::new(name.node.0, name.cluster.as_str(), raft_dir);
    options.expected_log = expected_log;
    options.expected_starts = expected_starts;
    let raft = Offline::open(options, ClusterMachine::default()).await;
    Ok(Stopped { name, raft: raft.context("cannot open raft's data")? })
}
