//! Handle to a node: its options, status, messages, log compaction and stop. Must never expose a type of openraft
//! or sled.

mod examine;
mod forget;
mod members;
mod offline;
mod past;
mod requests;
pub(crate) mod start;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use openraft::async_runtime::WatchReceiver as _;
use prometheus_client::metrics::histogram::Histogram;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, Semaphore, watch};
use tokio::task::JoinSet;

use crate::error::{HandleError, MembershipError};
use crate::identity::DataDir;
use crate::log_store::{LogStore, run_blocking};
use crate::machine::{MachineStore, Shared, StateMachine};
use crate::network::Transport;
use crate::pipe::Pipe;
use crate::progress::{self, Movements, Progress};
use crate::reversion::Acknowledged;
use crate::server::Server;
use crate::status::{self, Contact, Status};
use crate::ticker::LeaderActivity;
use crate::timing::{ProposalLimits, SnapshotLimits, Timing};
use crate::types::TypeConfig;

pub use self::examine::{Damage, Examined, Severity, examine};
pub use self::offline::{Offline, Position, PositionError};
pub use self::past::{PastBase, PastEntry};

/// Options of a node.
#[derive(Debug, Clone)]
pub struct Options {
    /// Never reused within a cluster: the log index of the command that admitted the node.
    pub node_id: u64,
    /// Id of the cluster; a data directory of another cluster is refused.
    pub cluster: String,
    /// Where the other members reach this node, `host:port`: they are told when it campaigns, so that they find a member
    /// that was given another address. Empty to say nothing.
    pub address: String,
    /// Data directory for log and snapshots. Local disk only.
    pub dir: PathBuf,
    pub timing: Timing,
    pub snapshots: SnapshotLimits,
    pub proposals: ProposalLimits,
    /// Id of the log that this node opened before ([`Raft::log_id`]); stored outside of `dir`.
    /// Without that log the node is not opened. `None` for a new node.
    pub expected_log: Option<String>,
    /// How often this node had started with its log ([`Raft::starts`]); stored outside of `dir`. A log that was started
    /// less often is an older copy, and is not opened. 0 if that is not known.
    pub expected_starts: u64,
    /// Seed of the election jitter; `None` draws one from the system.
    pub seed: Option<u64>,
}

impl Options {
    /// The recommended settings for one data centre.
    pub fn new(node_id: u64, cluster: impl Into<String>, dir: impl Into<PathBuf>) -> Self {
        Self {
            node_id,
            cluster: cluster.into(),
            address: String::new(),
            dir: dir.into(),
            timing: Timing::default(),
            snapshots: SnapshotLimits::default(),
            proposals: ProposalLimits::default(),
            expected_log: None,
            expected_starts: 0,
            seed: None,
        }
    }
}

/// A committed write that is applied on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// Index of the log entry that carries the write.
    pub index: u64,
    /// Result of the state machine.
    pub outcome: Bytes,
}

/// One node. Cheap to clone; all clones are the same node.
pub struct Raft<M: StateMachine> {
    inner: Arc<Inner<M>>,
}

struct Inner<M: StateMachine> {
    id: u64,
    raft: openraft::Raft<TypeConfig, MachineStore<M>>,
    server: Server<M>,
    machine: Shared<M>,
    log: LogStore,
    log_id: String,
    starts: u64,
    /// See [`SnapshotLimits::bytes`].
    log_bytes: usize,
    transport: Arc<dyn Transport>,
    status: watch::Receiver<Status>,
    movements: Movements,
    acknowledged: Acknowledged,
    limits: ProposalLimits,
    in_flight: Semaphore,
    /// One membership change at a time.
    membership_lock: Mutex<()>,
    timing: Timing,
    leader_activity: LeaderActivity,
    /// On which it was opened.
    runtime: Handle,
    /// Ends with the last handle, so that it keeps no node alive.
    _ticker: JoinSet<()>,
    /// Released by `shutdown`, so that the directory can be opened again.
    dir: std::sync::Mutex<Option<DataDir>>,
}

impl<M: StateMachine> Clone for Raft<M> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<M: StateMachine> fmt::Debug for Raft<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Raft").field("id", &self.inner.id).finish_non_exhaustive()
    }
}

impl<M: StateMachine> Raft<M> {
    /// Permanent id of this node's log. Store it outside of the data directory and pass it as
    /// [`Options::expected_log`] from then on.
    pub fn log_id(&self) -> &str {
        &self.inner.log_id
    }

    /// How often a process has started with this log, this one included. Store it outside of the data directory and pass
    /// it as [`Options::expected_starts`] from then on.
    pub fn starts(&self) -> u64 {
        self.inner.starts
    }

    /// Runs `read` on the local state. Blocks `apply`: keep it short, clone what you need.
    pub fn with_state<T>(&self, read: impl FnOnce(&M) -> T) -> T {
        self.inner.machine.read(read)
    }

    /// The last applied index, as it grows.
    pub fn watch_applied(&self) -> watch::Receiver<u64> {
        self.inner.machine.watch_applied()
    }

    /// The runtime that it was opened on, whose threads do its work.
    #[must_use]
    pub fn runtime(&self) -> &Handle {
        &self.inner.runtime
    }

    /// Handles a message from a peer.
    ///
    /// The caller has verified that [`wire::claimed_sender`] is the connected node, and a member.
    ///
    /// # Errors
    /// See [`HandleError`]; `Divergence` needs an operator.
    pub async fn handle(&self, body: Bytes) -> Result<Bytes, HandleError> {
        self.inner.server.handle(body).await
    }

    /// Serves a raft stream that a peer's [`Transport::pipe`] opened, until either side closes it.
    /// `admit` checks each frame's claimed sender: whether it is the connected node and still a
    /// member.
    ///
    /// # Errors
    /// See [`HandleError`]; the stream is closed then.
    pub async fn serve(
        &self,
        pipe: Box<dyn Pipe>,
        admit: impl Fn(u64) -> Result<(), String>,
    ) -> Result<(), HandleError> {
        self.inner.server.serve(pipe, admit).await
    }

    /// Creates a snapshot now. Returns before it is finished; see [`Status::snapshot`].
    ///
    /// # Errors
    /// `Stopped`.
    pub async fn trigger_snapshot(&self) -> Result<(), MembershipError> {
        let triggered = self.inner.raft.trigger().snapshot().await;
        triggered.map_err(|fatal| MembershipError::Stopped { reason: fatal.to_string() })
    }

    /// Log compaction by size: creates a snapshot if the log is over its byte limit, and purges the
    /// entries kept behind an existing one. Call it about once a second; openraft itself counts
    /// entries only.
    ///
    /// # Errors
    /// `Stopped`.
    pub async fn compact_log(&self) -> Result<(), MembershipError> {
        if self.inner.log.bytes() <= self.inner.log_bytes {
            return Ok(());
        }
        let status = self.status();
        let kept_behind = status.snapshot.filter(|snapshot| Some(*snapshot) > status.purged);
        if let Some(snapshot) = kept_behind {
            let purged = self.inner.raft.trigger().purge_log(snapshot).await;
            return purged.map_err(|fatal| MembershipError::Stopped { reason: fatal.to_string() });
        }
        if status.snapshot < status.applied {
            self.trigger_snapshot().await?;
        }
        Ok(())
    }

    /// How long this node took to make records of its log durable, in seconds; as they are counted.
    pub fn commit_times(&self) -> Histogram {
        self.inner.log.commit_times()
    }

    /// The bytes of the entries in the log.
    pub fn log_bytes(&self) -> usize {
        self.inner.log.bytes()
    }

    /// The current status.
    pub fn status(&self) -> Status {
        // The watch channel may lag; leadership decisions need the present.
        status::status_of(
            &self.inner.raft.metrics().borrow_watched(),
            self.inner.timing.election_max,
        )
    }

    /// How far the other members are, where this node leads; empty where it does not.
    pub fn progress(&self) -> BTreeMap<u64, Progress> {
        let metrics = self.inner.raft.metrics();
        let (mut progress, term) = {
            let metrics = metrics.borrow_watched();
            (progress::progress_of(&metrics, &self.inner.movements), metrics.current_term)
        };
        for (id, peer) in &mut progress {
            let refusal = self.inner.acknowledged.refusal(*id, term);
            peer.refused = refusal.map(|reverted| reverted.to_string());
        }
        progress
    }

    /// The leader that this node knows of, itself included: [`Status::leader`] for those who ask with each request and
    /// need nothing else of the status.
    pub fn leader_id(&self) -> Option<u64> {
        self.inner.raft.metrics().borrow_watched().current_leader
    }

    /// Contact with a quorum. It is lost after two leases without a sign of one: an election takes about as
    /// long.
    pub fn contact(&self) -> Contact {
        let silence = self.inner.leader_activity.age();
        let limit = 2 * self.inner.timing.election_max;
        status::contact_of(&self.inner.raft.metrics().borrow_watched(), silence, limit)
    }

    /// The status, as it changes.
    pub fn watch_status(&self) -> watch::Receiver<Status> {
        self.inner.status.clone()
    }

    /// Waits until the status satisfies `wanted`.
    ///
    /// # Errors
    /// The last status, if it did not in time.
    pub async fn wait_for(
        &self,
        mut wanted: impl FnMut(&Status) -> bool,
        within: Duration,
    ) -> Result<Status, Status> {
        let mut watch = self.inner.status.clone();
        let waited = tokio::time::timeout(within, watch.wait_for(|status| wanted(status))).await;
        match waited {
            Ok(Ok(status)) => Ok(status.clone()),
            Ok(Err(_)) | Err(_) => Err(self.status()),
        }
    }

    pub fn id(&self) -> u64 {
        self.inner.id
    }

    /// Stops the node, makes everything durable, and releases the data directory.
    ///
    /// # Errors
    /// The I/O error on closing the log; acknowledged writes are safe.
    pub async fn shutdown(&self) -> std::io::Result<()> {
        let stopped = self.inner.raft.shutdown().await;
        let (driver, snapshots) = (self.inner.server.driver, self.inner.server.snapshots.clone());
        let close = move || {
            snapshots.close();
            Ok(())
        };
        let closed = run_blocking(driver, close).await.and(self.inner.log.close().await);
        drop(self.inner.dir.lock().unwrap_or_else(PoisonError::into_inner).take());
        stopped.map_err(std::io::Error::other)?;
        closed
    }

    /// Why this node stopped because of an error, if it did.
    pub fn failure(&self) -> Option<String> {
        let failed = || status::failure_of(&self.inner.raft.metrics().borrow_watched());
        let reverted = || self.inner.server.own_log.failure();
        self.inner.log.failure().or_else(reverted).or_else(failed)
    }
}
