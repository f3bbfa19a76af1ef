//! A cluster of one node that is ready, whose log is watched.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use jaco_controller::{Controller, Options, PassStatus, SignalBook};
use jaco_scheduler::input::EngineSignal;
use jaco_scheduler::{PlanInput, PlannerConfig};
use jaco_state::command::{
    self, ClusterInit, DeploymentApply, JoinTokenIssue, NewNode, NodeAdmit, Observe, Rebalance,
};
use jaco_state::token::{JoinToken, OperatorToken};
use jaco_state::{Change, ClusterMeta, ClusterState, Command};
use jaco_store::{Applied, Clock, Leadership, MemStore, Proposal, ProposeError, Store};
use jaco_types::spec::{
    DeploymentSpec, Healthcheck, Placement, PullPolicy, RestartPolicy, SchedulingPolicy,
    ServiceMode, Storage, UpdatePolicy,
};
use jaco_types::unit::Resources;
use jaco_types::{
    ClusterId, DeploymentName, Hostname, Identity, InstanceObserved, NodeFacts, NodeId, NodeStatus,
    ReplicaState, ServiceName, ServiceSpec, SpecHash, StateIndex, Timestamp, TokenId,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

const NODE: NodeId = NodeId(1);

/// The moment at which everything happens: what is planned must not depend on how long a test takes.
pub(crate) const NOW: Timestamp = Timestamp(1_000_000);

/// Time that stands still.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        NOW
    }
}

/// A plan's entry as it was agreed on.
#[derive(Debug, Clone)]
pub(crate) struct Batch {
    /// The state that it met.
    pub(crate) before: ClusterState,
    pub(crate) based_on: StateIndex,
    pub(crate) changes: Vec<Change>,
}

/// A store in memory that takes only so much in one entry, and keeps the plans that it took.
pub(crate) struct Log {
    pub(crate) store: MemStore,
    changes_max: AtomicUsize,
    batches: Mutex<Vec<Batch>>,
    /// How many replicas each entry of the second loop moves, and how many it says stay.
    rebalanced: Mutex<Vec<(usize, usize)>>,
    /// Comes between the first part of a plan and the second.
    between: Mutex<Option<Command>>,
}

impl Log {
    pub(crate) fn batches(&self) -> Vec<Batch> {
        self.batches.lock().unwrap().clone()
    }

    pub(crate) fn rebalanced(&self) -> Vec<(usize, usize)> {
        self.rebalanced.lock().unwrap().clone()
    }

    pub(crate) async fn write(&self, command: Command) {
        let proposal = Proposal { by: Identity::Local { uid: 0 }, request: None, command };
        self.store.propose(proposal).await.expect("the store leads");
    }

    /// An entry takes so many changes from now on.
    pub(crate) fn narrow(&self, changes_max: usize) {
        self.changes_max.store(changes_max, Ordering::Relaxed);
    }

    /// Forgets the plans so far; and after the first part of the next plan, this.
    pub(crate) fn forget(&self, between: Option<Command>) {
        self.batches.lock().unwrap().clear();
        *self.between.lock().unwrap() = between;
    }
}

#[async_trait]
impl Store for Log {
    async fn propose(&self, proposal: Proposal) -> Result<Applied, ProposeError> {
        if let Command::Rebalance(Rebalance { moves, kept, .. }) = &proposal.command {
            let entry = (moves.len(), kept.len());
            let applied = self.store.propose(proposal.clone()).await?;
            if matches!(applied.outcome, jaco_state::Outcome::Done) {
                self.rebalanced.lock().unwrap().push(entry);
            }
            return Ok(applied);
        }
        let Command::Batch(command::Batch { based_on, changes }) = proposal.command.clone() else {
            return self.store.propose(proposal).await;
        };
        let limit = self.changes_max.load(Ordering::Relaxed);
        if changes.len() > limit {
            return Err(ProposeError::TooLarge { size: changes.len(), limit });
        }
        let before = self.store.snapshot();
        let applied = self.store.propose(proposal).await?;
        if matches!(applied.outcome, jaco_state::Outcome::Done) {
            self.batches.lock().unwrap().push(Batch { before, based_on, changes });
        }
        let between = self.between.lock().unwrap().take();
        if let Some(command) = between {
            self.write(command).await;
        }
        Ok(applied)
    }

    async fn catch_up(&self) -> Result<StateIndex, ProposeError> {
        self.store.catch_up().await
    }

    fn snapshot(&self) -> ClusterState {
        self.store.snapshot()
    }

    fn watch_index(&self) -> watch::Receiver<StateIndex> {
        self.store.watch_index()
    }

    fn watch_leadership(&self) -> watch::Receiver<Leadership> {
        self.store.watch_leadership()
    }
}

/// The loop, running.
pub(crate) struct World {
    pub(crate) log: Arc<Log>,
    signals: Arc<SignalBook>,
    status: watch::Receiver<PassStatus>,
    stop: CancellationToken,
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl World {
    /// Ready, with nothing to run; an entry takes any plan.
    pub(crate) async fn ready() -> Self {
        let store = MemStore::new(NODE);
        store.set_now(NOW);
        let (batches, between, rebalanced) = Default::default();
        let changes_max = AtomicUsize::new(usize::MAX);
        let log = Arc::new(Log { store, changes_max, batches, rebalanced, between });
        log.write(init()).await;
        let signals = Arc::new(SignalBook::default());
        let store = Arc::clone(&log) as Arc<dyn Store>;
        let controller =
            Controller::new(store, Arc::clone(&signals), Arc::new(Still), Options::default());
        let (status, stop) = (controller.status(), CancellationToken::new());
        tokio::spawn(controller.run(stop.clone()));
        let world = Self { log, signals, status, stop };
        world.status_is("it leads", |status| matches!(status, PassStatus::Idle { .. })).await;
        world.signals.record(NODE, EngineSignal::Up, NOW);
        world
            .state_is("the node is ready", |state| {
                state.nodes.get(&NODE).is_some_and(|node| node.status == NodeStatus::Ready)
            })
            .await;
        world
    }

    /// Every instance runs.
    pub(crate) async fn runs_all(&self) {
        let state = self.log.snapshot();
        let observed = state.slots.values().map(|slot| InstanceObserved {
            id: slot.current_id(),
            service: slot.service.clone(),
            node: slot.current.node,
            state: ReplicaState::Running,
            code: None,
            details: [].into(),
            container_id: String::new(),
            ports: [].into(),
            started_at: None,
            since: NOW,
            exit: None,
        });
        let (node, observed, gone) = (NODE, observed.collect(), vec![]);
        self.log.write(Observe::new(node).observed(observed).gone(gone).into()).await;
    }

    /// What the planner wants in this state, with what the loop has heard.
    pub(crate) fn plan(&self, state: &ClusterState) -> Vec<Change> {
        let (signals, config) = (self.signals.snapshot(), PlannerConfig::default());
        let input = PlanInput { state, signals: &signals, now: NOW, config: &config };
        jaco_scheduler::plan(&input).changes
    }

    /// Waits for a state of the cluster.
    pub(crate) async fn state_is(&self, what: &str, mut holds: impl FnMut(&ClusterState) -> bool) {
        let mut index = self.log.watch_index();
        let reached = index.wait_for(|_| holds(&self.log.snapshot()));
        within(what, reached).await;
    }

    /// Waits until the loop is at this.
    pub(crate) async fn status_is(&self, what: &str, holds: impl FnMut(&PassStatus) -> bool) {
        let mut status = self.status.clone();
        within(what, status.wait_for(holds)).await;
    }

    /// Waits until the loop has nothing more to do in this state.
    pub(crate) async fn at_rest(&self) {
        let log = &self.log;
        self.status_is("nothing is left to do", |status| {
            *status == PassStatus::Idle { at: log.snapshot().index }
        })
        .await;
    }
}

async fn within<T>(what: &str, reached: impl Future<Output = T>) {
    let reached = tokio::time::timeout(Duration::from_secs(120), reached).await;
    assert!(reached.is_ok(), "not in time: {what}");
}

pub(crate) fn init() -> Command {
    let by = Identity::Local { uid: 0 };
    let meta = ClusterMeta {
        id: ClusterId::new(&"c1".repeat(16)).unwrap(),
        name: "test".to_owned(),
        ca_certificate: String::new(),
        sealed_ca_key: vec![],
        created_at: NOW,
    };
    let node = NewNode {
        hostname: Hostname::new("n1").unwrap(),
        address: "127.0.0.1:1".to_owned(),
        key_fingerprint: [0; 32],
        facts: NodeFacts::default(),
    };
    let token = OperatorToken {
        id: TokenId::new("t").unwrap(),
        proof: jaco_state::token::Proof::Secret([0; 32]),
        issued_at: NOW,
        issued_by: by,
        revoked_at: None,
        expires_at: None,
        rights: None,
        last_used_at: None,
    };
    ClusterInit::new(meta, node, token).into()
}

/// A second node, ready.
pub(crate) async fn admit_second(world: &World) -> NodeId {
    let (key, id) = ([0; 32], TokenId::new("j").unwrap());
    let token = JoinToken {
        id: id.clone(),
        secret_hash: key,
        issued_at: NOW,
        issued_by: Identity::Local { uid: 0 },
        expires_at: Timestamp(u64::MAX),
        uses_left: 1,
        revoked_at: None,
    };
    world.log.write(JoinTokenIssue::new(token).into()).await;
    let node = NewNode {
        hostname: Hostname::new("n2").unwrap(),
        address: "127.0.0.1:2".to_owned(),
        key_fingerprint: [1; 32],
        facts: NodeFacts::default(),
    };
    world.log.write(NodeAdmit::new(node, id).into()).await;
    let second = world.log.snapshot().nodes.values().map(|node| node.id).max().unwrap();
    world.signals.record(second, EngineSignal::Up, NOW);
    world
        .state_is("the second node is ready", |state| {
            state.nodes.get(&second).is_some_and(|node| node.status == NodeStatus::Ready)
        })
        .await;
    second
}

/// A deployment of one service, of this version.
pub(crate) fn deploy(replicas: u32, version: u8) -> Command {
    let name = ServiceName::new("web").unwrap();
    let spec = ServiceSpec {
        name: name.clone(),
        image: format!("web:{version}").into(),
        pull: PullPolicy::Missing,
        placement: Placement::Spread,
        replicas,
        host_ports: vec![],
        ingress_ports: std::collections::BTreeSet::new(),
        resolvers: Vec::new(),
        restart: RestartPolicy::Always,
        mode: ServiceMode::Service,
        schedule: None,
        depends_on: vec![],
        reservation: Resources::default(),
        limit: Resources::default(),
        gpus: None,
        volumes: Vec::new(),
        storage: Storage::Stateless,
        healthcheck: Healthcheck::None,
        scheduling: SchedulingPolicy::default(),
        on_node_loss: jaco_types::spec::OnNodeLoss::default(),
        update: UpdatePolicy::default(),
        networks: Vec::new(),
        drain: None,
        container: format!(r#"{{"service":{{"image":"web:{version}"}}}}"#).into(),
        hash: SpecHash([version; 32]),
    };
    let services = [(name, Arc::new(spec))].into_iter().collect();
    let spec = DeploymentSpec { services, ..DeploymentSpec::default() };
    DeploymentApply::new(DeploymentName::new("shop").unwrap(), spec).into()
}
