//! What all parts of the daemon share on one node.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use arc_swap::ArcSwapOption;
use jaco_pki::IdentityDir;
use jaco_server::metrics::Tallies;
use jaco_server::{LogTail, Stage};
use jaco_store::{Clock, SystemClock};
use jaco_types::{ClusterId, Hostname, NodeFacts, NodeId};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::Config;
use crate::facts::facts;

/// Said before what is wrong with a file of the identity, with what names the remedy for each.
pub(crate) const IDENTITY_UNREADABLE: &str =
    "cannot load this node's identity: `jaco doctor --offline DATA_DIR` says what helps";

/// Configuration, identity and running tasks of this node.
pub(crate) struct NodeContext {
    pub(crate) config: Config,
    pub(crate) hostname: Hostname,
    pub(crate) advertised: String,
    /// Facts about this node, without the engine's version.
    pub(crate) facts: NodeFacts,
    pub(crate) clock: Arc<dyn Clock>,
    /// The member, once the node belongs to a cluster.
    pub(crate) stage: Stage,
    pub(crate) shutdown: CancellationToken,
    /// Cancelled once this node was removed and nothing of the cluster is left on its engine.
    pub(crate) left: CancellationToken,
    pub(crate) tasks: TaskTracker,
    /// Tracks the agent alone: it gets more time to finish.
    pub(crate) agent: TaskTracker,
    pub(crate) identity: IdentityDir,
    /// What is counted for metrics.
    pub(crate) tallies: Arc<Tallies>,
    /// The end of the log.
    pub(crate) log: LogTail,
    /// The threads of raft alone: requests never delay its heartbeats.
    pub(crate) raft: Handle,
}

impl NodeContext {
    /// Reads the node's facts and opens its identity.
    pub(crate) fn new(config: Config, log: LogTail, raft: Handle) -> anyhow::Result<Self> {
        Ok(Self {
            hostname: config.hostname()?,
            advertised: config.advertised()?,
            facts: facts(&config)?,
            clock: Arc::new(SystemClock),
            stage: Arc::new(ArcSwapOption::empty()),
            shutdown: CancellationToken::new(),
            left: CancellationToken::new(),
            tasks: TaskTracker::new(),
            agent: TaskTracker::new(),
            identity: IdentityDir::open(config.data_dir.join("node"))?,
            tallies: Arc::default(),
            log,
            raft,
            config,
        })
    }

    /// Spawns one of the member's loops, dropped at shutdown: it may be waiting for a quorum that
    /// is lost.
    pub(crate) fn run_until_shutdown(&self, service: impl Future<Output = ()> + Send + 'static) {
        let shutdown = self.shutdown.clone();
        self.tasks.spawn(async move { shutdown.run_until_cancelled_owned(service).await });
    }

    pub(crate) fn raft_dir(&self) -> PathBuf {
        self.config.data_dir.join("raft")
    }

    /// Secrets that are mounted into containers. Several nodes may share a machine.
    pub(crate) fn secrets_dir(&self, cluster: &ClusterId, id: NodeId) -> PathBuf {
        self.config.secrets_dir.join(format!("{cluster}-{id}"))
    }

    /// Archive of evicted audit events.
    pub(crate) fn archive_dir(&self) -> PathBuf {
        self.config.data_dir.join("audit")
    }

    /// Deletes what makes this node the member that it was, so that it can join as a new one. The
    /// identity goes first: a log without it is that of nobody.
    pub(crate) fn delete_membership(&self) -> anyhow::Result<()> {
        self.identity.delete()?;
        self.delete_log()
    }

    /// Deletes the log and the archive of a membership whose identity is gone, or going: what ended in between may have left
    /// what this node knows of its log, which the next identity must not look for.
    pub(crate) fn delete_log(&self) -> anyhow::Result<()> {
        self.identity.forget_raft_log()?;
        for folder in [self.raft_dir(), self.archive_dir()] {
            match std::fs::remove_dir_all(&folder) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(error)
                        .with_context(|| format!("cannot delete {}", folder.display()));
                }
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }
}
