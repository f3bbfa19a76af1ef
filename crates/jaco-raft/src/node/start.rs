//! The start of a node: opens and verifies the data directory, recovers the log and the newest snapshot, and runs
//! the consensus core over them. Must never repair a damaged log by truncation.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use openraft::async_runtime::WatchReceiver as _;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, Semaphore, watch};
use tokio::task::JoinSet;

use super::{Inner, Options, Raft};
use crate::addresses::AddressBook;
use crate::disk::{Directory, Disk};
use crate::engine::LogEngine;
use crate::engine::queue::Driver;
use crate::engine::sled::SledEngine;
use crate::error::OpenError;
use crate::identity::DataDir;
use crate::kept::Kept;
use crate::log_store::{LogStore, run_blocking};
use crate::machine::{MachineStore, Shared, StateMachine};
use crate::network::{Network, Transport};
use crate::progress::Movements;
use crate::reversion::OwnLog;
use crate::server::Server;
use crate::snapshot::{SnapshotFile, SnapshotStore};
use crate::status::{self, Metrics, Status};
use crate::takeover::Takeover;
use crate::ticker::{self, LeaderActivity};
use crate::timing::{self, LeaderRestore};
use crate::types::{Runtime, TypeConfig};
use crate::wire::History;

/// How long the consensus core may take to report its state after the start.
const START_DEADLINE: Duration = Duration::from_secs(10);

/// Storage of a node.
pub(crate) struct Storage {
    pub(crate) engine: Box<dyn LogEngine>,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) driver: Driver,
    pub(crate) restore: LeaderRestore,
    pub(crate) history: History,
    /// See [`Raft::log_id`].
    pub(crate) log_id: String,
    /// See [`Raft::starts`].
    pub(crate) starts: u64,
    /// Lock of the data directory, held until the node is dropped.
    pub(crate) dir: Option<DataDir>,
}

impl<M: StateMachine> Raft<M> {
    /// Opens and verifies the data directory and starts the node, whose tasks run on the current runtime. Heartbeats wait there for
    /// whatever else runs on it, so a daemon gives it one of its own.
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
        let storage = open_storage(&options).await?;
        Self::start(options, machine, transport, storage).await
    }

    pub(crate) async fn start(
        options: Options,
        machine: M,
        transport: Arc<dyn Transport>,
        storage: Storage,
    ) -> Result<Self, OpenError> {
        let Storage { engine, disk, driver, restore, history, log_id, starts, dir } = storage;
        let id = options.node_id;
        let config = timing::config(&options.cluster, options.timing, options.snapshots, restore)?;
        let snapshots = SnapshotStore::new(disk, &options.cluster);
        let (log, newest) = recover(engine, &snapshots, driver).await?;
        let shared = Shared::new(machine);
        let machine_store = open_machine(&shared, &snapshots, newest, &log, driver).await?;
        let network = Network::new(
            id,
            options.address,
            Arc::clone(&transport),
            log.clone(),
            snapshots.clone(),
            driver,
            options.timing.election_min,
        );
        let (addresses, reconnects) = (network.addresses.clone(), network.reconnects.clone());
        let (acknowledged, own_log) =
            (network.acknowledged.clone(), OwnLog::in_dir(dir.as_ref().map(DataDir::path)));
        let kept = network.kept.clone();
        let seed = options.seed.unwrap_or_else(system_seed);
        let recovered = log.last().map(|id| id.index);
        let starting =
            openraft::Raft::new(id, Arc::new(config), network, log.clone(), machine_store);
        let raft = Box::pin(Runtime::scope(seed, starting)).await.map_err(refuse_start)?;
        // Until the core has reported once its metrics are those of an empty node.
        raft.wait(Some(START_DEADLINE))
            .metrics(|metrics| metrics.last_log_index >= recovered, "first report")
            .await
            .map_err(refuse_start)?;
        let movements = Movements::default();
        let status = follow_status(
            &raft,
            addresses.clone(),
            kept.clone(),
            movements.clone(),
            options.timing.election_max,
        );
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
            addresses,
            reconnects,
            transport: Arc::clone(&transport),
            takeover: Takeover::default(),
            own_log,
            kept: kept.clone(),
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
                starts,
                transport,
                status,
                movements,
                acknowledged,
                limits: options.proposals,
                in_flight: Semaphore::new(options.proposals.in_flight),
                membership_lock: Mutex::new(()),
                timing: options.timing,
                leader_activity,
                runtime: Handle::current(),
                _ticker: ticker_task,
                dir: std::sync::Mutex::new(dir),
            }),
        })
    }
}

/// Locks and opens the data directory of a node.
pub(super) async fn open_storage(options: &Options) -> Result<Storage, OpenError> {
    let (path, id, cluster) = (options.dir.clone(), options.node_id, options.cluster.clone());
    let (expected_log, expected_starts) = (options.expected_log.clone(), options.expected_starts);
    let opening = tokio::task::spawn_blocking(move || {
        let dir = DataDir::open(&path, id, &cluster)?;
        dir.check_log(expected_log.as_deref())?;
        dir.check_starts(expected_starts)?;
        let disk = Directory::open(&dir.snapshots())?;
        let engine = SledEngine::open(&dir.log()).map_err(refuse_damage)?;
        let log_id = dir.log_id()?;
        let starts = dir.count_start()?;
        Ok::<_, OpenError>(Storage {
            engine: Box::new(engine),
            disk: Arc::new(disk),
            driver: Driver::Thread,
            restore: LeaderRestore::Never,
            history: History::Compared,
            log_id,
            starts,
            dir: Some(dir),
        })
    });
    opening.await.map_err(refuse_start)?
}

/// The log and the newest readable snapshot, which must meet.
pub(super) async fn recover(
    engine: Box<dyn LogEngine>,
    snapshots: &SnapshotStore,
    driver: Driver,
) -> Result<(LogStore, Option<SnapshotFile>), OpenError> {
    let store = snapshots.clone();
    let newest = run_blocking(driver, move || store.recover()).await?;
    let log = LogStore::open(engine, driver).map_err(refuse_damage)?;
    let covered = newest.as_ref().and_then(SnapshotFile::last);
    if log.purged() > covered {
        return Err(OpenError::Corrupt {
            what: "the log starts after the newest readable snapshot ends".to_owned(),
        });
    }
    if let (Some(file), Some(last)) = (&newest, covered) {
        log.reconcile_with(last, file.header.chain).await?;
    }
    Ok((log, newest))
}

async fn open_machine<M: StateMachine>(
    shared: &Shared<M>,
    snapshots: &SnapshotStore,
    newest: Option<SnapshotFile>,
    log: &LogStore,
    driver: Driver,
) -> Result<MachineStore<M>, OpenError> {
    let (shared, snapshots, log) = (shared.clone(), snapshots.clone(), log.clone());
    let open = move || MachineStore::open(shared, snapshots, newest, log, driver);
    Ok(run_blocking(driver, open).await?)
}

fn follow_status<M: StateMachine>(
    raft: &openraft::Raft<TypeConfig, MachineStore<M>>,
    addresses: AddressBook,
    kept: Kept,
    movements: Movements,
    lease: Duration,
) -> watch::Receiver<Status> {
    let metrics = Metrics { all: raft.metrics(), server: raft.server_metrics() };
    let status = status::status_of(&metrics.all.borrow_watched(), lease);
    let (sender, receiver) = watch::channel(status);
    drop(tokio::spawn(status::follow(metrics, sender, addresses, kept, movements, lease)));
    receiver
}

fn refuse_start(error: impl std::fmt::Display) -> OpenError {
    OpenError::Start { what: error.to_string() }
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
