//! Handle to a node: open, write, read, change the membership, stop.
//!
//! Must never expose a type of openraft or sled, and must never report a write as failed that may
//! have happened.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use openraft::async_runtime::WatchReceiver as _;
use openraft::errors::{
    ClientWriteError, ForwardReason, ForwardToLeader, LinearizableReadError, RaftError,
};
use openraft::{ChangeMembers, ReadPolicy};
use tokio::sync::{Mutex, MutexGuard, Semaphore, watch};
use tokio::task::JoinSet;

use crate::disk::{Directory, Disk};
use crate::engine::LogEngine;
use crate::engine::queue::Driver;
use crate::engine::sled::SledEngine;
use crate::error::{HandleError, Member, MembershipError, OpenError, ProposeError, ReadError};
use crate::identity::DataDir;
use crate::log_store::{LogStore, run_blocking};
use crate::machine::{MachineStore, Shared, StateMachine};
use crate::network::{AddressBook, Network, Transport};
use crate::pipe::Pipe;
use crate::server::Server;
use crate::snapshot::{SnapshotFile, SnapshotStore};
use crate::status::{self, Contact, Status};
use crate::ticker::{self, LeaderActivity};
use crate::timing::{self, LeaderRestore, ProposalLimits, SnapshotLimits, Timing};
use crate::types::{Payload, Peer, Runtime, TypeConfig};
use crate::wire::{self, History, ReplyBody, RequestBody, RpcKind};

/// How long the consensus core may take to report its state after the start.
const START_DEADLINE: Duration = Duration::from_secs(10);

/// Options of a node.
#[derive(Debug, Clone)]
pub struct Options {
    /// Never reused within a cluster: the log index of the command that admitted the node.
    pub node_id: u64,
    /// Id of the cluster; a data directory of another cluster is refused.
    pub cluster: String,
    /// Data directory for log and snapshots. Local disk only.
    pub dir: PathBuf,
    pub timing: Timing,
    pub snapshots: SnapshotLimits,
    pub proposals: ProposalLimits,
    /// Id of the log that this node opened before ([`Raft::log_id`]); stored outside of `dir`.
    /// Without that log the node is not opened. `None` for a new node.
    pub expected_log: Option<String>,
    /// Seed of the election jitter; `None` draws one from the system.
    pub seed: Option<u64>,
}

impl Options {
    /// The recommended settings for one data centre.
    pub fn new(node_id: u64, cluster: impl Into<String>, dir: impl Into<PathBuf>) -> Self {
        Self {
            node_id,
            cluster: cluster.into(),
            dir: dir.into(),
            timing: Timing::default(),
            snapshots: SnapshotLimits::default(),
            proposals: ProposalLimits::default(),
            expected_log: None,
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

/// Storage of a node.
pub(crate) struct Storage {
    pub(crate) engine: Box<dyn LogEngine>,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) driver: Driver,
    pub(crate) restore: LeaderRestore,
    pub(crate) history: History,
    /// See [`Raft::log_id`].
    pub(crate) log_id: String,
    /// Lock of the data directory, held until the node is dropped.
    pub(crate) dir: Option<DataDir>,
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
    /// See [`SnapshotLimits::bytes`].
    log_bytes: usize,
    transport: Arc<dyn Transport>,
    status: watch::Receiver<Status>,
    limits: ProposalLimits,
    in_flight: Semaphore,
    /// One membership change at a time.
    membership_lock: Mutex<()>,
    timing: Timing,
    leader_activity: LeaderActivity,
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
    /// Opens and verifies the data directory and starts the node.
    ///
    /// `machine` is the empty state; the newest snapshot and the log bring it up to date. A new
    /// node belongs to no cluster yet: call [`Raft::initialize`] on the first one, and
    /// [`Raft::add_learner`] on the leader for every other.
    ///
    /// # Errors
    /// See [`OpenError`]. A damaged or foreign directory is refused, never repaired by truncation.
    pub async fn open(
        options: Options,
        machine: M,
        transport: Arc<dyn Transport>,
    ) -> Result<Self, OpenError> {
        let (path, id, cluster) = (options.dir.clone(), options.node_id, options.cluster.clone());
        let expected_log = options.expected_log.clone();
        let opening = tokio::task::spawn_blocking(move || {
            let dir = DataDir::open(&path, id, &cluster)?;
            dir.check_log(expected_log.as_deref())?;
            let disk = Directory::open(&dir.snapshots())?;
            let engine = SledEngine::open(&dir.log()).map_err(refuse_damage)?;
            let log_id = dir.log_id()?;
            Ok::<_, OpenError>(Storage {
                engine: Box::new(engine),
                disk: Arc::new(disk),
                driver: Driver::Thread,
                restore: LeaderRestore::Never,
                history: History::Compared,
                log_id,
                dir: Some(dir),
            })
        });
        let storage = opening.await.map_err(|e| OpenError::Start { what: e.to_string() })??;
        Self::start(options, machine, transport, storage).await
    }

    pub(crate) async fn start(
        options: Options,
        machine: M,
        transport: Arc<dyn Transport>,
        storage: Storage,
    ) -> Result<Self, OpenError> {
        let Storage { engine, disk, driver, restore, history, log_id, dir } = storage;
        let id = options.node_id;
        let config = timing::config(&options.cluster, options.timing, options.snapshots, restore)?;
        let snapshots = SnapshotStore::new(disk, &options.cluster);
        let (log, newest) = {
            let snapshots = snapshots.clone();
            let newest = run_blocking(driver, move || snapshots.recover()).await?;
            (LogStore::open(engine, driver).map_err(refuse_damage)?, newest)
        };
        let covered = newest.as_ref().and_then(SnapshotFile::last);
        if log.purged() > covered {
            return Err(OpenError::Corrupt {
                what: "the log starts after the newest readable snapshot ends".to_owned(),
            });
        }
        if let (Some(file), Some(last)) = (&newest, covered) {
            log.reconcile_with(last, file.header.chain).await?;
        }
        let shared = Shared::new(machine);
        let machine_store = {
            let (shared, snapshots, log) = (shared.clone(), snapshots.clone(), log.clone());
            run_blocking(driver, move || MachineStore::open(shared, snapshots, newest, log, driver))
                .await?
        };
        let network = Network::new(
            id,
            Arc::clone(&transport),
            log.clone(),
            snapshots.clone(),
            driver,
            options.timing.election_min,
        );
        let (addresses, reconnects) = (network.addresses.clone(), network.reconnects.clone());
        let seed = options.seed.unwrap_or_else(system_seed);
        let starting =
            openraft::Raft::new(id, Arc::new(config), network, log.clone(), machine_store);
        let raft = Box::pin(Runtime::scope(seed, starting))
            .await
            .map_err(|fatal| OpenError::Start { what: fatal.to_string() })?;
        // Until the core has reported once its metrics are those of an empty node.
        let recovered = log.last().map(|id| id.index);
        raft.wait(Some(START_DEADLINE))
            .metrics(|metrics| metrics.last_log_index >= recovered, "first report")
            .await
            .map_err(|error| OpenError::Start { what: error.to_string() })?;
        let status = follow_status(&raft, addresses, options.timing.election_max);
        let leader_activity = LeaderActivity::new();
        let mut ticker_task = JoinSet::new();
        ticker_task.spawn(ticker::run(raft.clone(), leader_activity.clone(), options.timing));
        let server = Server {
            own_id: id,
            raft: raft.clone(),
            log: log.clone(),
            snapshots,
            driver,
            history,
            receiving: Arc::default(),
            leader_activity: leader_activity.clone(),
            reconnects,
        };
        Ok(Self {
            inner: Arc::new(Inner {
                id,
                raft,
                server,
                machine: shared,
                log,
                log_bytes: options.snapshots.bytes,
                log_id,
                transport,
                status,
                limits: options.proposals,
                in_flight: Semaphore::new(options.proposals.in_flight),
                membership_lock: Mutex::new(()),
                timing: options.timing,
                leader_activity,
                _ticker: ticker_task,
                dir: std::sync::Mutex::new(dir),
            }),
        })
    }

    /// Permanent id of this node's log. Store it outside of the data directory and pass it as
    /// [`Options::expected_log`] from then on.
    pub fn log_id(&self) -> &str {
        &self.inner.log_id
    }

    /// Creates a cluster whose only voter is this node, with this address. Returns once it leads.
    ///
    /// # Errors
    /// `Refused` if the node already belongs to a cluster.
    pub async fn initialize(&self, address: impl Into<String>) -> Result<(), MembershipError> {
        let members = BTreeMap::from([(self.inner.id, Peer { address: address.into() })]);
        self.inner.raft.initialize(members).await.map_err(|error| match error {
            RaftError::Fatal(fatal) => MembershipError::Stopped { reason: fatal.to_string() },
            RaftError::APIError(refusal) => {
                MembershipError::Refused { reason: refusal.to_string() }
            }
        })?;
        // A leader refuses membership changes until the first entry of its term is committed.
        let leads = |status: &Status| status.is_leader() && status.applied == status.last_log;
        self.wait_for(leads, Duration::from_secs(10))
            .await
            .map_err(|_| MembershipError::Unknown)?;
        Ok(())
    }

    /// Proposes a command; returns once it is committed and applied on this node.
    ///
    /// # Errors
    /// See [`ProposeError`]: after `Unknown` alone the write may or may not happen.
    pub async fn propose(&self, payload: Bytes) -> Result<Applied, ProposeError> {
        let limits = self.inner.limits;
        if payload.len() > limits.bytes {
            return Err(ProposeError::TooLarge { size: payload.len(), limit: limits.bytes });
        }
        let _permit = self.inner.in_flight.try_acquire().map_err(|_| ProposeError::Overloaded)?;
        if let Some(reason) = self.failure() {
            return Err(ProposeError::Stopped { reason });
        }
        let write = self.inner.raft.client_write(Payload(payload));
        let Ok(written) = tokio::time::timeout(limits.deadline, write).await else {
            return Err(ProposeError::Unknown);
        };
        match written {
            Ok(response) => Ok(Applied { index: response.log_id.index, outcome: response.data }),
            Err(RaftError::APIError(error)) => Err(refused_write(error)),
            // It may have been replicated before the core stopped.
            Err(RaftError::Fatal(_)) => Err(ProposeError::Unknown),
        }
    }

    /// Waits after a start until the local state has caught up with the commit index of the
    /// cluster. Before that, serve no requests and run no controller.
    ///
    /// # Errors
    /// `Timeout` if it did not in time, for example without a quorum.
    pub async fn wait_recovered(&self, within: Duration) -> Result<(), ReadError> {
        let recovered = self.inner.raft.wait_for_recovery(Some(within)).await;
        recovered.map(|_| ()).map_err(|_| match self.failure() {
            Some(reason) => ReadError::Stopped { reason },
            None => ReadError::Timeout,
        })
    }

    /// Whether the local state has caught up by now, as [`Raft::wait_recovered`] would find. Once true, it
    /// stays so in effect: later it is false only while entries are in flight.
    pub fn has_recovered(&self) -> bool {
        status::has_recovered(&self.inner.raft.metrics().borrow_watched())
    }

    /// Waits until a read of the local state is linearizable: it sees every write acknowledged
    /// before this call. Leader only.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn linearizable(&self) -> Result<u64, ReadError> {
        let confirm = self.inner.raft.ensure_linearizable(ReadPolicy::ReadIndex);
        match tokio::time::timeout(self.inner.limits.deadline, confirm).await {
            Err(_) => Err(ReadError::Timeout),
            Ok(Ok(read)) => Ok(read.index()),
            Ok(Err(RaftError::Fatal(fatal))) => {
                Err(ReadError::Stopped { reason: self.failure().unwrap_or(fatal.to_string()) })
            }
            Ok(Err(RaftError::APIError(LinearizableReadError::QuorumNotEnough(_)))) => {
                Err(ReadError::QuorumLost)
            }
            Ok(Err(RaftError::APIError(LinearizableReadError::ForwardToLeader(forward)))) => {
                Err(match forward.reason {
                    ForwardReason::LeaseExpired => ReadError::QuorumLost,
                    ForwardReason::NotLeader | ForwardReason::LeadershipTransfer => {
                        ReadError::NotLeader { leader: member_of(forward) }
                    }
                })
            }
        }
    }

    /// As [`Raft::linearizable`], but on any node: asks the leader for the read index.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn linearizable_here(&self) -> Result<u64, ReadError> {
        let leader = match self.linearizable().await {
            Err(ReadError::NotLeader { leader: Some(leader) }) if leader.id != self.inner.id => {
                leader
            }
            answer => return answer,
        };
        let deadline = self.inner.limits.deadline;
        let ask = RequestBody::ReadIndex(0);
        let body = wire::encode_request(self.inner.id, leader.id, ask);
        let (id, address) = (leader.id, leader.address.clone());
        let call = self.inner.transport.call(id, &address, RpcKind::ReadIndex, body, deadline);
        let reply = call.await.ok().and_then(|bytes| wire::decode_reply(bytes).ok());
        let Some(ReplyBody::ReadIndex(index)) = reply else {
            return Err(ReadError::NotLeader { leader: Some(leader) });
        };
        let mut applied = self.inner.machine.watch_applied();
        let reached = applied.wait_for(|applied| *applied >= index);
        match tokio::time::timeout(deadline, reached).await {
            Ok(Ok(_)) => Ok(index),
            Ok(Err(_)) | Err(_) => Err(ReadError::Timeout),
        }
    }

    /// Runs `read` on the local state. Blocks `apply`: keep it short, clone what you need.
    pub fn with_state<T>(&self, read: impl FnOnce(&M) -> T) -> T {
        self.inner.machine.read(read)
    }

    /// The last applied index, as it grows.
    pub fn watch_applied(&self) -> watch::Receiver<u64> {
        self.inner.machine.watch_applied()
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

    /// Adds a learner; idempotent. Its id must never have been used by another node.
    ///
    /// # Errors
    /// See [`MembershipError`].
    pub async fn add_learner(&self, id: u64, address: String) -> Result<(), MembershipError> {
        let known = self.status().members.get(&id).cloned();
        if let Some(known) = known.filter(|known| *known != address) {
            let reason = format!("node {id} is already a member, at {known}");
            return Err(MembershipError::Refused { reason });
        }
        let nodes = BTreeMap::from([(id, Peer { address })]);
        self.change(ChangeMembers::AddNodes(nodes)).await
    }

    /// Makes exactly these members voters; the others become learners.
    ///
    /// # Errors
    /// See [`MembershipError`]. An interrupted change is completed by [`Raft::finish_joint`].
    pub async fn set_voters(&self, voters: BTreeSet<u64>) -> Result<(), MembershipError> {
        if voters.is_empty() {
            let reason = "a cluster needs a voter".to_owned();
            return Err(MembershipError::Refused { reason });
        }
        self.change(ChangeMembers::ReplaceAllVoters(voters)).await
    }

    /// Removes a learner.
    ///
    /// # Errors
    /// `Refused` if it is a voter.
    pub async fn remove(&self, id: u64) -> Result<(), MembershipError> {
        if self.status().voters.contains(&id) {
            let reason = format!("node {id} still has a vote");
            return Err(MembershipError::Refused { reason });
        }
        self.change(ChangeMembers::RemoveNodes(BTreeSet::from([id]))).await
    }

    /// Changes a member's address. The transport must verify who answers there.
    ///
    /// # Errors
    /// See [`MembershipError`].
    pub async fn update_address(&self, id: u64, address: String) -> Result<(), MembershipError> {
        if !self.status().members.contains_key(&id) {
            let reason = format!("node {id} is not a member");
            return Err(MembershipError::Refused { reason });
        }
        let nodes = BTreeMap::from([(id, Peer { address })]);
        self.change(ChangeMembers::SetNodes(nodes)).await
    }

    /// Completes a joint membership change that was abandoned.
    ///
    /// # Errors
    /// See [`MembershipError`].
    pub async fn finish_joint(&self) -> Result<(), MembershipError> {
        // Adding no learner turns a joint membership into its newer half.
        self.change(ChangeMembers::AddVoterIds(BTreeSet::new())).await
    }

    async fn change(&self, change: ChangeMembers<u64, Peer>) -> Result<(), MembershipError> {
        let _one = self.inner.membership_lock.try_lock().map_err(|_| MembershipError::Busy)?;
        let membership_lock = Box::pin(self.inner.raft.change_membership(change, true));
        match tokio::time::timeout(self.inner.limits.deadline, membership_lock).await {
            Err(_) => Err(MembershipError::Unknown),
            Ok(Ok(_)) => Ok(()),
            Ok(Err(RaftError::Fatal(fatal))) => {
                Err(MembershipError::Stopped { reason: fatal.to_string() })
            }
            Ok(Err(RaftError::APIError(error))) => Err(match error {
                ClientWriteError::ForwardToLeader(forward) => {
                    MembershipError::NotLeader { leader: member_of(forward) }
                }
                ClientWriteError::LogEntryDiscarded(_) => MembershipError::Unknown,
                ClientWriteError::ChangeMembershipError(refusal) => {
                    MembershipError::Refused { reason: refusal.to_string() }
                }
                ClientWriteError::PreconditionFailed(refusal) => {
                    MembershipError::Refused { reason: refusal.to_string() }
                }
            }),
        }
    }

    /// Transfers leadership to the most up-to-date voter, for a planned stop. Returns once another
    /// node leads; immediately if this one does not. Waits for a membership change in progress: the
    /// leader has to make both of its steps.
    ///
    /// # Errors
    /// `Refused` if there is no other voter, `Busy` if membership changes continue, `Unknown` if no
    /// other node became leader in time.
    pub async fn transfer_leader(&self) -> Result<(), MembershipError> {
        let _unchanged = self.lock_membership().await?;
        let status = self.status();
        if !status.is_leader() {
            return Ok(());
        }
        let best = status
            .voters
            .iter()
            .filter(|id| **id != status.id)
            .filter_map(|id| status.lag.get(id).copied().flatten().map(|lag| (lag, *id)))
            .min();
        match best {
            Some((_, id)) => self.transfer_locked(id).await,
            None => {
                Err(MembershipError::Refused { reason: "no other voter is reachable".to_owned() })
            }
        }
    }

    /// Transfers leadership to this voter. Returns once another node leads.
    ///
    /// # Errors
    /// `Busy` if membership changes continue, `Unknown` if no other node became leader; each within
    /// two election timeouts.
    pub async fn transfer_leader_to(&self, id: u64) -> Result<(), MembershipError> {
        let _unchanged = self.lock_membership().await?;
        self.transfer_locked(id).await
    }

    /// Waits until no membership change is in progress. None begins while the guard is held.
    async fn lock_membership(&self) -> Result<MutexGuard<'_, ()>, MembershipError> {
        let patience = 2 * self.inner.timing.election_max;
        let lock_membership =
            tokio::time::timeout(patience, self.inner.membership_lock.lock()).await;
        lock_membership.map_err(|_| MembershipError::Busy)
    }

    async fn transfer_locked(&self, id: u64) -> Result<(), MembershipError> {
        let stopped = |reason: String| MembershipError::Stopped { reason };
        let trigger = self.inner.raft.trigger();
        trigger.transfer_leader(id).await.map_err(|fatal| stopped(fatal.to_string()))?;
        let own = self.inner.id;
        let moved =
            move |status: &Status| status.leader.as_ref().is_some_and(|leader| leader.id != own);
        self.wait_for(moved, 2 * self.inner.timing.election_max)
            .await
            .map_err(|_| MembershipError::Unknown)?;
        Ok(())
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

    /// The current status.
    pub fn status(&self) -> Status {
        // The watch channel may lag; leadership decisions need the present.
        status::status_of(
            &self.inner.raft.metrics().borrow_watched(),
            self.inner.timing.election_max,
        )
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
        let closed = self.inner.log.close().await;
        drop(self.inner.dir.lock().unwrap_or_else(PoisonError::into_inner).take());
        stopped.map_err(std::io::Error::other)?;
        closed
    }

    /// Why this node stopped because of an error, if it did.
    pub fn failure(&self) -> Option<String> {
        self.inner.log.failure().or_else(|| self.status().failure)
    }
}

fn follow_status<M: StateMachine>(
    raft: &openraft::Raft<TypeConfig, MachineStore<M>>,
    addresses: AddressBook,
    lease: Duration,
) -> watch::Receiver<Status> {
    let metrics = raft.metrics();
    let (sender, receiver) = watch::channel(status::status_of(&metrics.borrow_watched(), lease));
    drop(tokio::spawn(status::follow(metrics, sender, addresses, lease)));
    receiver
}

fn refused_write(error: ClientWriteError<TypeConfig>) -> ProposeError {
    match error {
        ClientWriteError::ForwardToLeader(forward) => match forward.reason {
            ForwardReason::LeaseExpired => ProposeError::QuorumLost,
            ForwardReason::NotLeader | ForwardReason::LeadershipTransfer => {
                ProposeError::NotLeader { leader: member_of(forward) }
            }
        },
        // The entry was written by a deposed leader; it may survive under the next one.
        ClientWriteError::LogEntryDiscarded(_)
        | ClientWriteError::ChangeMembershipError(_)
        | ClientWriteError::PreconditionFailed(_) => ProposeError::Unknown,
    }
}

fn member_of(forward: ForwardToLeader<TypeConfig>) -> Option<Member> {
    let id = forward.leader_id?;
    Some(Member { id, address: forward.leader_node.map(|peer| peer.address).unwrap_or_default() })
}

fn refuse_damage(error: std::io::Error) -> OpenError {
    if error.kind() == std::io::ErrorKind::InvalidData {
        return OpenError::Corrupt { what: error.to_string() };
    }
    OpenError::Io(error)
}

/// The standard library seeds hash maps with system randomness; no crate is needed for it.
fn system_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}
