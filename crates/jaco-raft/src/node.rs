//! The handle on one node: open it, write, read, change the membership, stop it.
//!
//! Must never show a type of openraft or sled, and must never report a write as failed that may
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
use crate::pace::{self, Heard};
use crate::pipe::Pipe;
use crate::server::Server;
use crate::snapshot::{SnapshotFile, SnapshotStore};
use crate::status::{self, Status};
use crate::timing::{self, LeaderRestore, ProposalLimits, SnapshotLimits, Timing};
use crate::types::{Payload, Peer, Runtime, TypeConfig};
use crate::wire::{self, History, ReplyBody, RequestBody, RpcKind};

/// How long the consensus core may take to say for the first time where it is.
const START_DEADLINE: Duration = Duration::from_secs(10);

/// How a node is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// Never reused within a cluster: the log index of the command that admitted the node.
    pub node_id: u64,
    /// Names the cluster for good; a data directory of another cluster is refused.
    pub cluster: String,
    /// Where log and snapshots lie. Local disk only.
    pub dir: PathBuf,
    pub timing: Timing,
    pub snapshots: SnapshotLimits,
    pub proposals: ProposalLimits,
    /// Seeds the election jitter. `None` draws a seed from the system.
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
            seed: None,
        }
    }
}

/// A write that is committed and applied here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// Index of the log entry that carries the write.
    pub index: u64,
    /// What the state machine returned for it.
    pub outcome: Bytes,
}

/// Where a node keeps its data.
pub(crate) struct Storage {
    pub(crate) engine: Box<dyn LogEngine>,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) driver: Driver,
    pub(crate) restore: LeaderRestore,
    pub(crate) history: History,
    /// Held until the node is gone.
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
    /// See [`SnapshotLimits::bytes`].
    log_bytes: usize,
    transport: Arc<dyn Transport>,
    status: watch::Receiver<Status>,
    limits: ProposalLimits,
    in_flight: Semaphore,
    /// One membership change at a time.
    changing: Mutex<()>,
    timing: Timing,
    /// Ends with the last handle, so that it keeps no node alive.
    _pacing: JoinSet<()>,
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
    /// Opens the data directory, verifies all of it, and starts taking part.
    ///
    /// `machine` is the empty state; the newest snapshot and the log bring it up to date. A new
    /// node knows no cluster yet: call [`Raft::initialize`] on the first, and have the leader call
    /// [`Raft::add_learner`] for every other.
    ///
    /// # Errors
    /// See [`OpenError`]. A damaged or foreign directory is refused, never repaired by cutting.
    pub async fn open(
        options: Options,
        machine: M,
        transport: Arc<dyn Transport>,
    ) -> Result<Self, OpenError> {
        let (path, id, cluster) = (options.dir.clone(), options.node_id, options.cluster.clone());
        let opening = tokio::task::spawn_blocking(move || {
            let dir = DataDir::open(&path, id, &cluster)?;
            let disk = Directory::open(&dir.snapshots())?;
            let engine = SledEngine::open(&dir.log()).map_err(refuse_damage)?;
            Ok::<_, OpenError>(Storage {
                engine: Box::new(engine),
                disk: Arc::new(disk),
                driver: Driver::Thread,
                restore: LeaderRestore::Never,
                history: History::Compared,
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
        let Storage { engine, disk, driver, restore, history, dir } = storage;
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
        let addresses = network.addresses.clone();
        let seed = options.seed.unwrap_or_else(system_seed);
        let starting =
            openraft::Raft::new(id, Arc::new(config), network, log.clone(), machine_store);
        let raft = Box::pin(Runtime::scope(seed, starting))
            .await
            .map_err(|fatal| OpenError::Start { what: fatal.to_string() })?;
        // Until the core has reported once, its metrics are those of an empty node.
        let recovered = log.last().map(|id| id.index);
        raft.wait(Some(START_DEADLINE))
            .metrics(|metrics| metrics.last_log_index >= recovered, "first report")
            .await
            .map_err(|error| OpenError::Start { what: error.to_string() })?;
        let status = follow_status(&raft, addresses, options.timing.election_max);
        let heard = Heard::new();
        let mut pacing = JoinSet::new();
        pacing.spawn(pace::run(raft.clone(), heard.clone(), options.timing));
        let server = Server {
            own_id: id,
            raft: raft.clone(),
            log: log.clone(),
            snapshots,
            driver,
            history,
            receiving: Arc::default(),
            heard,
        };
        Ok(Self {
            inner: Arc::new(Inner {
                id,
                raft,
                server,
                machine: shared,
                log,
                log_bytes: options.snapshots.bytes,
                transport,
                status,
                limits: options.proposals,
                in_flight: Semaphore::new(options.proposals.in_flight),
                changing: Mutex::new(()),
                timing: options.timing,
                _pacing: pacing,
                dir: std::sync::Mutex::new(dir),
            }),
        })
    }

    /// Founds a cluster whose only voter is this node, reached at `address`. Returns once it leads.
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
        // Until the first entry of its term is committed a leader refuses membership changes.
        let leads = |status: &Status| status.is_leader() && status.applied == status.last_log;
        self.wait_for(leads, Duration::from_secs(10))
            .await
            .map_err(|_| MembershipError::Unknown)?;
        Ok(())
    }

    /// Writes a command through consensus; returns once it is committed and applied here.
    ///
    /// # Errors
    /// See [`ProposeError`]: only `Unknown` leaves open whether the write happens.
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

    /// Waits, after a start, until the local state has caught up with what the cluster has committed.
    /// Nothing should be served, and no loop that decides should run, before.
    ///
    /// # Errors
    /// `Timeout` if that did not happen in time, for want of a quorum perhaps.
    pub async fn wait_recovered(&self, within: Duration) -> Result<(), ReadError> {
        let recovered = self.inner.raft.wait_for_recovery(Some(within)).await;
        recovered.map(|_| ()).map_err(|_| match self.failure() {
            Some(reason) => ReadError::Stopped { reason },
            None => ReadError::Timeout,
        })
    }

    /// Waits until a read of the local state is linearizable: it will see every write that was
    /// acknowledged anywhere before this call. Leader only.
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

    /// As [`Raft::linearizable`], but on any node: asks the leader how far to wait.
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

    /// Runs `read` on the local state as it is. Holds up `apply`: be short, clone what you need.
    pub fn with_state<T>(&self, read: impl FnOnce(&M) -> T) -> T {
        self.inner.machine.read(read)
    }

    /// The index up to which the local state is applied, as it grows.
    pub fn watch_applied(&self) -> watch::Receiver<u64> {
        self.inner.machine.watch_applied()
    }

    /// Answers a message from a peer.
    ///
    /// The caller has checked that [`wire::claimed_sender`] is who is connected, and a member.
    ///
    /// # Errors
    /// See [`HandleError`]; `Divergence` is for the person on call.
    pub async fn handle(&self, body: Bytes) -> Result<Bytes, HandleError> {
        self.inner.server.handle(body).await
    }

    /// Answers what a peer sends over a line that its [`Transport::pipe`] opened, until either side
    /// hangs up. `admit` is asked with each frame's claimed sender: whether that is who is connected,
    /// and still a member.
    ///
    /// # Errors
    /// See [`HandleError`]; the line is closed then.
    pub async fn serve(
        &self,
        pipe: Box<dyn Pipe>,
        admit: impl Fn(u64) -> Result<(), String>,
    ) -> Result<(), HandleError> {
        self.inner.server.serve(pipe, admit).await
    }

    /// Adds a member without a vote; adding it again changes nothing. Its id must never have been
    /// used before by another node.
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

    /// Makes exactly these members voters; the others keep receiving the log.
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

    /// Removes a member that has no vote.
    ///
    /// # Errors
    /// `Refused` if it still has one: take it away first.
    pub async fn remove(&self, id: u64) -> Result<(), MembershipError> {
        if self.status().voters.contains(&id) {
            let reason = format!("node {id} still has a vote");
            return Err(MembershipError::Refused { reason });
        }
        self.change(ChangeMembers::RemoveNodes(BTreeSet::from([id]))).await
    }

    /// Records that a member is reached elsewhere. The transport must verify who answers there.
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

    /// Completes a membership change that was left between its two steps.
    ///
    /// # Errors
    /// See [`MembershipError`].
    pub async fn finish_joint(&self) -> Result<(), MembershipError> {
        // Adding nobody flattens a joint membership to its newer half.
        self.change(ChangeMembers::AddVoterIds(BTreeSet::new())).await
    }

    async fn change(&self, change: ChangeMembers<u64, Peer>) -> Result<(), MembershipError> {
        let _one = self.inner.changing.try_lock().map_err(|_| MembershipError::Busy)?;
        let changing = Box::pin(self.inner.raft.change_membership(change, true));
        match tokio::time::timeout(self.inner.limits.deadline, changing).await {
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

    /// Hands leadership to the voter that has most of the log, for a planned stop. Returns once
    /// another node leads; at once if this one does not. A membership change that is under way is let
    /// come to its end first: who leads has to make both of its steps.
    ///
    /// # Errors
    /// `Refused` if there is no other voter, `Busy` if the members go on changing, `Unknown` if nobody
    /// took over in time.
    pub async fn transfer_leader(&self) -> Result<(), MembershipError> {
        let _unchanged = self.unchanged().await?;
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
            Some((_, id)) => self.transfer_unchanged(id).await,
            None => Err(MembershipError::Refused { reason: "no other voter answers".to_owned() }),
        }
    }

    /// Hands leadership to this voter. Returns once another node leads.
    ///
    /// # Errors
    /// `Busy` if the members go on changing, `Unknown` if nobody took over; each within two election
    /// timeouts.
    pub async fn transfer_leader_to(&self, id: u64) -> Result<(), MembershipError> {
        let _unchanged = self.unchanged().await?;
        self.transfer_unchanged(id).await
    }

    /// Waits until no membership change is under way. None begins as long as the answer is kept.
    async fn unchanged(&self) -> Result<MutexGuard<'_, ()>, MembershipError> {
        let patience = 2 * self.inner.timing.election_max;
        let unchanged = tokio::time::timeout(patience, self.inner.changing.lock()).await;
        unchanged.map_err(|_| MembershipError::Busy)
    }

    async fn transfer_unchanged(&self, id: u64) -> Result<(), MembershipError> {
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

    /// Takes a snapshot now, whatever the policy says. Returns before it is finished; see
    /// [`Status::snapshot`].
    ///
    /// # Errors
    /// `Stopped`.
    pub async fn trigger_snapshot(&self) -> Result<(), MembershipError> {
        let triggered = self.inner.raft.trigger().snapshot().await;
        triggered.map_err(|fatal| MembershipError::Stopped { reason: fatal.to_string() })
    }

    /// Keeps the log within its bytes: takes a snapshot of a log that is over them, and drops what is kept
    /// behind one that exists. Call it about once a second; openraft itself counts entries only.
    ///
    /// # Errors
    /// `Stopped`.
    pub async fn bound_log(&self) -> Result<(), MembershipError> {
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

    /// What this node knows now.
    pub fn status(&self) -> Status {
        // The watch may be a moment behind; leadership decisions need the present.
        status::status_of(
            &self.inner.raft.metrics().borrow_watched(),
            self.inner.timing.election_max,
        )
    }

    /// What this node knows, as it changes.
    pub fn watch_status(&self) -> watch::Receiver<Status> {
        self.inner.status.clone()
    }

    /// Waits until the status satisfies `wanted`.
    ///
    /// # Errors
    /// The last status seen, if that did not happen in time.
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

    /// Stops taking part, makes everything durable, and releases the data directory.
    ///
    /// # Errors
    /// The disk error that keeps the log from being closed; acknowledged writes are safe anyway.
    pub async fn shutdown(&self) -> std::io::Result<()> {
        let stopped = self.inner.raft.shutdown().await;
        let closed = self.inner.log.close().await;
        drop(self.inner.dir.lock().unwrap_or_else(PoisonError::into_inner).take());
        stopped.map_err(std::io::Error::other)?;
        closed
    }

    /// Why this node has stopped by itself, if it has.
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
        // The entry was written by a leader that lost; it may survive under the next one.
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

/// The standard library's hash seeds are the system's randomness without a crate for it.
fn system_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}
