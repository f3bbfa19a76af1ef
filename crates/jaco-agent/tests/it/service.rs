//! The loop, on a store in memory and a fake engine in real time.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jaco_agent::engine::{ContainerEngine, Follow, LogQuery};
use jaco_agent::fake::{FakeEngine, FakeHost, Reachability};
use jaco_agent::service::EngineStatus;
use jaco_agent::{
    AgentHandle, AgentService, CONTACT_LAPSE, FileDirs, Gate, LeaderContact, NetworkGate, Options,
    RegistryCredentials,
};
use jaco_state::command::{
    Batch, ClusterInit, ConsumerAttach, DeploymentApply, NetworkBegin, NetworkCreate, NewInstance,
    NewNode, Previous, RegistryStore, ReplaceCause,
};
use jaco_state::registries::SealedPassword;
use jaco_state::token::OperatorToken;
use jaco_state::{Change, ClusterMeta, ClusterState, Command, Outcome};
use jaco_store::{Clock, Leadership, MemStore, Proposal, RaftRole, Store, SystemClock};
use jaco_types::spec::{Attachment, DeploymentSpec, NetworkRef, RestartPolicy};
use jaco_types::{
    ConsumerName, ContentId, Hostname, Identity, InstanceId, Millis, NetworkId, NetworkName,
    NodeFacts, NodeId, NodeStatus, Ordinal, ReasonCode, RegistryName, RegistryUsername, ReplicaId,
    ReplicaState, ServiceSpec, StateIndex, Timestamp, TokenId,
};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::files::{SECRET, contents, file_dirs, put, shipping};
use crate::names::{owner, spec, web};

const DEADLINE: Duration = Duration::from_secs(10);
const NODE: NodeId = NodeId(1);

/// A cluster of one node, with its agent running.
struct World {
    store: Arc<MemStore>,
    engine: FakeEngine,
    file_dirs: FileDirs,
    /// Removed with the world.
    folder: tempfile::TempDir,
    agent: Option<Agent>,
    gate: Gate,
    /// Of the agent, unless it makes its own.
    contact: Option<LeaderContact>,
    /// By how much the cluster's time is ahead of the agent's clock.
    cluster_ahead: Millis,
}

/// The machine's clock, but ahead.
struct Ahead(Millis);

impl Clock for Ahead {
    fn now(&self) -> Timestamp {
        SystemClock.now().after(self.0)
    }
}

struct Agent {
    handle: AgentHandle,
    stop: oneshot::Sender<()>,
    removal: CancellationToken,
    task: JoinHandle<()>,
}

impl World {
    async fn new() -> Self {
        let engine = FakeEngine::new(FakeHost::new(owner(NODE.0)));
        Self::with_engine(engine).await
    }

    async fn with_engine(engine: FakeEngine) -> Self {
        Self::with_gate(engine, None).await
    }

    async fn with_gate(engine: FakeEngine, gate: Gate) -> Self {
        let store = Arc::new(MemStore::new(NODE));
        let folder = tempfile::tempdir().unwrap();
        let file_dirs = file_dirs(folder.path());
        let (agent, contact, cluster_ahead) = (None, None, Millis(0));
        let mut world =
            Self { store, engine, file_dirs, folder, agent, gate, contact, cluster_ahead };
        world.init().await;
        world.start_agent();
        world
    }

    async fn init(&self) {
        let by = Identity::Local { uid: 0 };
        let meta = ClusterMeta {
            id: owner(1).cluster,
            name: "test".to_owned(),
            ca_certificate: String::new(),
            sealed_ca_key: vec![],
            created_at: Timestamp(0),
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
            issued_at: Timestamp(0),
            issued_by: by.clone(),
            revoked_at: None,
            expires_at: None,
            rights: None,
            last_used_at: None,
        };
        let outcome = self.propose(ClusterInit::new(meta, node, token).into()).await;
        assert_eq!(outcome, Outcome::NodeAdmitted { id: NODE });
    }

    fn start_agent(&mut self) {
        let store = Arc::clone(&self.store) as Arc<dyn Store>;
        let engine = Arc::new(self.engine.clone()) as Arc<dyn ContainerEngine>;
        let mut options = Options::new(
            owner(NODE.0),
            store,
            engine,
            Arc::new(SystemClock),
            self.file_dirs.clone(),
        );
        options.gate = self.gate.clone();
        options.cluster_time = Arc::new(Ahead(self.cluster_ahead));
        if let Some(contact) = &self.contact {
            options.contact = contact.clone();
        }
        let removal = options.removal.clone();
        let (service, handle) = AgentService::new(options);
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(service.run(async {
            // A dropped sender stops it as well.
            drop(stopped.await);
        }));
        self.agent = Some(Agent { handle, stop, removal, task });
    }

    async fn stop_agent(&mut self) {
        let agent = self.agent.take().unwrap();
        agent.stop.send(()).unwrap();
        agent.task.await.unwrap();
    }

    async fn propose(&self, command: Command) -> Outcome {
        let by = Identity::Local { uid: 0 };
        self.store.propose(Proposal { by, request: None, command }).await.unwrap().outcome
    }

    /// The desired spec, with so many replicas of it placed here by the planner.
    async fn place(&self, spec: &Arc<ServiceSpec>, replicas: u64) -> Vec<InstanceId> {
        self.place_with(spec, replicas, BTreeSet::new()).await
    }

    async fn place_with(
        &self,
        spec: &Arc<ServiceSpec>,
        replicas: u64,
        contents: BTreeSet<ContentId>,
    ) -> Vec<InstanceId> {
        let name = web().deployment;
        let services = [(spec.name.clone(), Arc::clone(spec))].into_iter().collect();
        let deployment = DeploymentSpec { services, contents, ..DeploymentSpec::default() };
        self.propose(DeploymentApply::new(name, deployment).into()).await;
        let changes = (0..replicas).map(|index| Change::SlotCreate {
            id: ReplicaId::new(&web(), &Ordinal::Index(index)),
            service: web(),
            ordinal: Ordinal::Index(index),
            instance: self.instance(spec),
            desired_state: jaco_types::DesiredState::Active,
        });
        self.plan(changes.collect()).await
    }

    fn instance(&self, spec: &ServiceSpec) -> NewInstance {
        let revision = self.state().deployments.values().next().unwrap().revision;
        NewInstance { node: NODE, revision, spec_hash: spec.hash, gpus: Vec::new() }
    }

    async fn plan(&self, changes: Vec<Change>) -> Vec<InstanceId> {
        let based_on = self.state().index;
        let outcome = self.propose(Batch::new(based_on, changes).into()).await;
        assert_eq!(outcome, Outcome::Done);
        self.state().slots.values().map(jaco_types::Slot::current_id).collect()
    }

    fn state(&self) -> ClusterState {
        self.store.snapshot()
    }

    async fn wait_for(&self, what: &str, mut holds: impl FnMut(&ClusterState) -> bool) {
        let mut index = self.store.watch_index();
        let wait = async {
            while !holds(&self.state()) {
                index.changed().await.unwrap();
            }
        };
        let waited = tokio::time::timeout(DEADLINE, wait).await;
        assert!(waited.is_ok(), "not {what}: {:?}", self.state().observed);
    }

    async fn wait_for_state(&self, id: &InstanceId, wanted: ReplicaState) {
        let state = |state: &ClusterState| state.observed.get(id).map(|seen| seen.state);
        self.wait_for(wanted.as_str(), |now| state(now) == Some(wanted)).await;
    }
}

/// R-JOB-1: a node that was cut off and catches up meets states that have long been replaced. The first that has a job for
/// it starts none, although nothing there depended on contact before; once the node has caught up, it does.
#[tokio::test]
async fn t102_node_that_catches_up_starts_no_job() {
    static NOW: AtomicU64 = AtomicU64::new(0);
    let mut world = World::new().await;
    world.stop_agent().await;
    let contact = LeaderContact::new(|| Millis(NOW.load(Ordering::Relaxed)));
    world.contact = Some(contact.clone());
    world.start_agent();
    NOW.store(CONTACT_LAPSE.0, Ordering::Relaxed);
    contact.record(contact.now());
    let once = ServiceSpec { restart: RestartPolicy::Never, ..spec("app:1", "").as_ref().clone() };
    let id = world.place(&Arc::new(once), 1).await.remove(0);
    let runs = world.wait_for_state(&id, ReplicaState::Running);
    assert!(tokio::time::timeout(Duration::from_secs(1), runs).await.is_err(), "it was started");
    contact.caught_up(contact.now());
    world.wait_for_state(&id, ReplicaState::Running).await;
}

/// R-ROLL-3: since when a replica is what it is, which its monitor time is counted from, is said in the cluster's time: by the
/// clock of a node that is behind, that time would have passed at once.
#[tokio::test]
async fn reports_carry_the_clusters_time() {
    let mut world = World::new().await;
    world.stop_agent().await;
    world.cluster_ahead = Millis(120_000);
    world.start_agent();
    let begun = SystemClock.now();
    let id = world.place(&spec("app:1", ""), 1).await.remove(0);
    world.wait_for_state(&id, ReplicaState::Running).await;
    let ahead = world.state().observed.get(&id).unwrap().since.0 - begun.0;
    assert!((120_000..120_000 + DEADLINE.as_millis()).contains(&ahead.into()), "{ahead} ms");
}

#[tokio::test]
async fn replicas_run_and_are_replaced() {
    let world = World::new().await;
    let app = spec("app:1", "");
    let ids = world.place(&app, 10).await;
    for id in &ids {
        world.wait_for_state(id, ReplicaState::Running).await;
    }
    // R-HEAL-1: the planner answers a failure with a new instance; the old one leaves.
    world.engine.edit(|host, now| {
        host.kill(&ids[0], jaco_types::Exit { code: 9, out_of_memory: false }, now);
    });
    world.wait_for_state(&ids[0], ReplicaState::Failed).await;
    let replace = Change::SlotReplace {
        id: ids[0].replica.clone(),
        instance: world.instance(&app),
        previous: Previous::Drop,
        cause: ReplaceCause::Failed,
        consecutive_failures: 1,
    };
    let now = world.plan(vec![replace]).await;
    assert_ne!(now[0], ids[0]);
    world.wait_for_state(&now[0], ReplicaState::Running).await;
    world.wait_for("forgotten", |state| !state.observed.contains(&ids[0])).await;
}

/// R-ROLL-3: a terminating instance is stopped as soon as it may, also where nothing else changes in the
/// state at that moment or later.
#[tokio::test]
async fn t90_released_instance_is_stopped_immediately() {
    let world = World::new().await;
    let ready =
        Change::NodeStatusSet { node: NODE, status: NodeStatus::Ready, reason: String::new() };
    world.plan(vec![ready]).await;
    let ids = world.place(&spec("app:1", ""), 1).await;
    world.wait_for_state(&ids[0], ReplicaState::Running).await;
    let name = ConsumerName::new("proxy").unwrap();
    let attach = ConsumerAttach::new(name, NODE, Millis(5000)).into();
    world.propose(attach).await;
    world.plan(vec![Change::SlotRemove { id: ids[0].replica.clone() }]).await;
    assert!(world.state().terminating.contains(&ids[0]), "it waits for the consumer");
    // Long enough for the agent to have looked at that, and for nothing of it to be left to see.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(world.state().observed.contains(&ids[0]), "it runs on meanwhile");
    world.plan(vec![Change::TerminatingRemove { id: ids[0].clone() }]).await;
    world.wait_for("stopped", |state| !state.observed.contains(&ids[0])).await;
}

/// A router that holds nothing, until it does.
#[derive(Default)]
struct Router {
    open: watch::Sender<bool>,
    asked: Mutex<Vec<(InstanceId, Vec<NetworkId>)>>,
}

#[async_trait::async_trait]
impl NetworkGate for Router {
    async fn ready(&self, instance: &InstanceId, networks: &[NetworkId]) -> Result<(), String> {
        self.asked.lock().unwrap().push((instance.clone(), networks.to_vec()));
        let mut open = self.open.subscribe();
        let opened = tokio::time::timeout(Duration::from_millis(100), open.wait_for(|open| *open));
        let opened = opened.await.is_ok();
        if opened { Ok(()) } else { Err("the router of this node does not run".to_owned()) }
    }
}

/// R-RUN-2: a replica that is attached to a network starts once the router holds its addresses, and says so before;
/// its resolver is the router of its first network. One without networks waits for nothing.
#[tokio::test]
async fn replicas_wait_for_the_router() {
    let router = Arc::new(Router::default());
    let engine = FakeEngine::new(FakeHost::new(owner(NODE.0)));
    let gate = Arc::clone(&router) as Arc<dyn NetworkGate>;
    let world = World::with_gate(engine, Some(gate)).await;
    let alone = world.place(&spec("app:1", ""), 1).await;
    world.wait_for_state(&alone[0], ReplicaState::Running).await;
    assert_eq!(router.asked.lock().unwrap().len(), 0);
    world.plan(vec![Change::SlotRemove { id: alone[0].replica.clone() }]).await;
    world.propose(NetworkBegin::new("10.64.0.0/12".parse().unwrap(), 1420).into()).await;
    let name = NetworkName::new("backbone").unwrap();
    world.propose(NetworkCreate::new(name.clone()).into()).await;
    let mut attached = ServiceSpec::clone(&spec("app:1", ""));
    attached.networks = vec![Attachment { network: NetworkRef::Shared(name), aliases: Vec::new() }];
    let ids = world.place(&Arc::new(attached), 1).await;
    let code = |state: &ClusterState| state.observed.get(&ids[0]).and_then(|seen| seen.code);
    world.wait_for("waiting", |state| code(state) == Some(ReasonCode::NetworkNotReady)).await;
    let state = world.state();
    let seen = state.observed.get(&ids[0]).unwrap();
    assert_eq!(seen.state, ReplicaState::Pending);
    assert_eq!(seen.details["reason"], "the router of this node does not run");
    assert_eq!(router.asked.lock().unwrap()[0], (ids[0].clone(), vec![NetworkId(1)]));
    assert_eq!(world.engine.edit(|host, now| host.addresses(now).len()), 0);
    router.open.send_replace(true);
    world.wait_for_state(&ids[0], ReplicaState::Running).await;
    let file = world.file_dirs.files.join(ids[0].to_string()).join("resolv.conf");
    assert_eq!(std::fs::read_to_string(file).unwrap(), "nameserver 10.65.0.2\n");
}

/// R-LOOP-4: ten starts are few entries, and an idle node writes none.
#[tokio::test]
async fn observations_are_batched_and_idle_writes_nothing() {
    let world = World::new().await;
    let before = world.state().index;
    let ids = world.place(&spec("app:1", ""), 10).await;
    let running = |state: &ClusterState| {
        ids.iter().all(|id| {
            state.observed.get(id).is_some_and(|seen| seen.state == ReplicaState::Running)
        })
    };
    world.wait_for("all running", running).await;
    let entries = world.state().index.0 - before.0;
    assert!(entries <= 8, "{entries} entries for ten replicas");
    let settled = world.state().index;
    // Two looks of the loop pass; what is waited for is that nothing happens.
    tokio::time::sleep(Duration::from_millis(4500)).await;
    assert_eq!(world.state().index, settled);
}

/// A container that is removed by hand is missed at once: by an event, not by the next look.
#[tokio::test]
async fn manually_removed_container_is_reported_immediately() {
    let world = World::new().await;
    let ids = world.place(&spec("app:1", ""), 1).await;
    world.wait_for_state(&ids[0], ReplicaState::Running).await;
    let before = std::time::Instant::now();
    world.engine.edit(|host, _| host.remove_by_hand(&ids[0]));
    world.wait_for_state(&ids[0], ReplicaState::Failed).await;
    assert!(before.elapsed() < Duration::from_secs(1), "{:?}", before.elapsed());
    let code = world.state().observed.get(&ids[0]).unwrap().code;
    assert_eq!(code, Some(ReasonCode::ContainerMissing));
}

/// Without a leader nothing is lost: what was seen is written when there is one again.
#[tokio::test]
async fn observations_wait_for_a_leader() {
    let world = World::new().await;
    let ids = world.place(&spec("app:1", ""), 1).await;
    world.wait_for_state(&ids[0], ReplicaState::Running).await;
    let leading = Leadership { leader: Some(NODE), term: 1, role: RaftRole::Leader };
    world.store.set_leadership(Leadership { leader: None, term: 2, role: RaftRole::Follower });
    world.engine.edit(|host, now| {
        host.kill(&ids[0], jaco_types::Exit { code: 9, out_of_memory: false }, now);
    });
    let agent = world.agent.as_ref().unwrap();
    let mut status = agent.handle.status();
    tokio::time::timeout(DEADLINE, status.wait_for(|status| status.containers.len() == 1))
        .await
        .unwrap()
        .unwrap();
    world.store.set_leadership(leading);
    world.wait_for_state(&ids[0], ReplicaState::Failed).await;
}

/// A daemon that was killed finds its containers again: in the file of the fake as in Docker.
#[tokio::test]
async fn containers_survive_the_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("containers.json");
    let engine = FakeEngine::kept_in(owner(NODE.0), file.clone()).unwrap();
    let mut world = World::with_engine(engine).await;
    let ids = world.place(&spec("app:1", r#""healthcheck":{"test":["CMD","ok"]}"#), 3).await;
    for id in &ids {
        world.wait_for_state(id, ReplicaState::Running).await;
    }
    let before = world.engine.list_owned().await.unwrap();
    world.stop_agent().await;
    world.engine = FakeEngine::kept_in(owner(NODE.0), file).unwrap();
    assert_eq!(world.engine.list_owned().await.unwrap(), before);
    let settled = world.state().index;
    world.start_agent();
    let mut status = world.agent.as_ref().unwrap().handle.status();
    let adopted = status.wait_for(|status| status.containers.len() == 3);
    tokio::time::timeout(DEADLINE, adopted).await.unwrap().unwrap();
    assert_eq!(world.engine.list_owned().await.unwrap(), before);
    assert_eq!(world.state().index, settled, "adoption is no news");
}

/// R-NODE-1: an agent whose node was removed stops everything, whatever its state says: that may not
/// have heard of the removal, and never will.
#[tokio::test]
async fn removed_node_stops_what_its_state_still_desires() {
    let world = World::new().await;
    let ids = world.place(&spec("app:1", ""), 2).await;
    for id in &ids {
        world.wait_for_state(id, ReplicaState::Running).await;
    }
    let agent = world.agent.as_ref().unwrap();
    agent.removal.cancel();
    let mut status = agent.handle.status();
    let drained = status.wait_for(|status| status.is_drained);
    tokio::time::timeout(DEADLINE, drained).await.unwrap().unwrap();
    assert_eq!(world.engine.list_owned().await.unwrap(), []);
    assert_eq!(world.state().slots.len(), 2, "they are assigned to it for ever");
}

/// R-NODE-2: whether anything is left of what once ran is known, networks included, and an agent that is
/// stopped finishes what it has begun to remove.
#[tokio::test]
async fn shutdown_completes_removals() {
    let mut world = World::new().await;
    let handle = world.agent.as_ref().unwrap().handle.clone();
    let mut status = handle.status();
    let clear = status.wait_for(|status| status.is_drained);
    tokio::time::timeout(DEADLINE, clear).await.unwrap().unwrap();
    let ids = world.place(&spec("app:1", ""), 1).await;
    world.wait_for_state(&ids[0], ReplicaState::Running).await;
    assert!(!handle.status().borrow().is_drained);
    let networks = |world: &World| world.engine.edit(|host, _| host.networks().clone());
    assert_eq!(networks(&world).len(), 1);
    world.plan(vec![Change::SlotRemove { id: ids[0].replica.clone() }]).await;
    world.wait_for("forgotten", |state| !state.observed.contains(&ids[0])).await;
    // The network is removed after the container, and nobody is told of it.
    world.stop_agent().await;
    assert_eq!(networks(&world).len(), 0);
    assert!(status.borrow().containers.is_empty());
}

#[tokio::test]
async fn engine_outage_shows_in_the_status() {
    let world = World::new().await;
    let mut status = world.agent.as_ref().unwrap().handle.status();
    let up = |status: &jaco_agent::AgentStatus| status.engine == EngineStatus::Up;
    tokio::time::timeout(DEADLINE, status.wait_for(up)).await.unwrap().unwrap();
    world.engine.edit(|host, _| host.set_reachability(Reachability::Down));
    let down =
        |status: &jaco_agent::AgentStatus| matches!(status.engine, EngineStatus::Down { .. });
    tokio::time::timeout(DEADLINE, status.wait_for(down)).await.unwrap().unwrap();
    world.engine.edit(|host, _| host.set_reachability(Reachability::Up));
    tokio::time::timeout(DEADLINE, status.wait_for(up)).await.unwrap().unwrap();
}

#[tokio::test]
async fn logs_are_read_through_the_handle() {
    let world = World::new().await;
    let ids = world.place(&spec("app:1", ""), 1).await;
    world.wait_for_state(&ids[0], ReplicaState::Running).await;
    let handle = &world.agent.as_ref().unwrap().handle;
    let query = LogQuery { follow: Follow::No, tail: None, since: None };
    assert!(handle.logs(&ids[0], query).await.unwrap().is_some());
    let nobody = InstanceId { raft_index: StateIndex(9999), ..ids[0].clone() };
    assert!(handle.logs(&nobody, query).await.unwrap().is_none());
}

/// R-SEL-3: the last container of a service that goes leaves what it wrote; one that another follows, or
/// that is disabled, leaves nothing.
#[tokio::test]
async fn removed_allocation_keeps_its_logs() {
    let world = World::new().await;
    let app = spec("app:1", "");
    let first = world.place(&app, 2).await;
    for id in &first {
        world.wait_for_state(id, ReplicaState::Running).await;
    }
    let handle = world.agent.as_ref().unwrap().handle.clone();
    let left = || handle.removed_allocations().list().unwrap();
    let replace = Change::SlotReplace {
        id: first[0].replica.clone(),
        instance: world.instance(&app),
        previous: Previous::Drop,
        cause: ReplaceCause::Moved,
        consecutive_failures: 0,
    };
    let remove = |id: &InstanceId| Change::SlotRemove { id: id.replica.clone() };
    let now = world.plan(vec![replace, remove(&first[1])]).await;
    world.wait_for_state(&now[0], ReplicaState::Running).await;
    let is_gone = |state: &ClusterState| first.iter().all(|id| !state.observed.contains(id));
    world.wait_for("forgotten", is_gone).await;
    assert_eq!(left(), [], "another one of the service is here");
    let rest = Change::SlotDisable { id: now[0].replica.clone(), instance: world.instance(&app) };
    world.plan(vec![rest]).await;
    world.wait_for("forgotten", |state| !state.observed.contains(&now[0])).await;
    assert_eq!(left(), [], "it is disabled");
    let again = Change::SlotReplace {
        id: now[0].replica.clone(),
        instance: world.instance(&app),
        previous: Previous::Drop,
        cause: ReplaceCause::Enabled,
        consecutive_failures: 0,
    };
    let again = world.plan(vec![again]).await;
    world.wait_for_state(&again[0], ReplicaState::Running).await;
    world.plan(vec![remove(&again[0])]).await;
    world.wait_for("forgotten", |state| state.observed.is_empty()).await;
    let found = left();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].service, web());
    let log = world.folder.path().join("removed/shop/web").join(format!("{}.log", again[0]));
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("out app:1 started") && log.contains("exited with 0"), "{log}");
}

/// R-IN-4, R-IN-5: files are there while their instance is, and go with it; what an earlier agent
/// left behind goes, too.
#[tokio::test]
async fn files_are_removed_with_their_instance() {
    let world = World::new().await;
    let leftover = world.folder.path().join("secrets/gone-web-0@3");
    std::fs::create_dir_all(&leftover).unwrap();
    let (pieces, container) = shipping();
    world.propose(put(&pieces)).await;
    let app = Arc::new(ServiceSpec { container: container.into(), ..(*spec("app:1", "")).clone() });
    let ids = world.place_with(&app, 1, contents(&pieces)).await;
    world.wait_for_state(&ids[0], ReplicaState::Running).await;
    let secret = world.file_dirs.secrets.join(ids[0].to_string()).join("secret-0");
    assert_eq!(std::fs::read(&secret).unwrap(), SECRET);
    assert!(world.file_dirs.files.join(ids[0].to_string()).join("bind-0/a.conf").is_file());
    world.plan(vec![Change::SlotRemove { id: ids[0].replica.clone() }]).await;
    let empty = |place: &std::path::Path| std::fs::read_dir(place).unwrap().next().is_none();
    let gone = async {
        while !empty(&world.file_dirs.files) || !empty(&world.file_dirs.secrets) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(DEADLINE, gone).await.unwrap();
    assert!(!leftover.exists());
}

fn registry() -> RegistryName {
    RegistryName::new("ghcr.io").unwrap()
}

/// Says by which password, turned round, the cluster is known at the registry.
async fn log_in(world: &World, sealed: &[u8]) {
    let username = RegistryUsername::new("robot").unwrap();
    let password = SealedPassword(sealed.into());
    world.propose(RegistryStore::new(registry(), username, password).into()).await;
}

/// R-CLI-6: a registry that wants credentials gets those that the cluster keeps for it, the newest, as
/// soon as they are there; without any, or with wrong ones, the reason is the registry's.
#[tokio::test]
async fn pulls_use_the_cluster_credentials() {
    let world = World::new().await;
    let username = RegistryUsername::new("robot").unwrap();
    let wanted = RegistryCredentials::new(registry(), username, "hunter2".to_owned());
    world.engine.edit(|host, _| host.require_credentials(wanted));
    let ids = world.place(&spec("ghcr.io/team/app:1", ""), 1).await;
    let refused = |state: &ClusterState, reason: &str| {
        let seen = state.observed.get(&ids[0]);
        seen.and_then(|seen| seen.details.get("reason")).is_some_and(|told| told.contains(reason))
    };
    world.wait_for("refused", |state| refused(state, "no basic auth")).await;
    log_in(&world, b"3retnuh").await;
    world.wait_for("refused again", |state| refused(state, "incorrect username")).await;
    log_in(&world, b"\xff").await;
    world.wait_for("not opened", |state| refused(state, "robot at ghcr.io cannot be")).await;
    // After three refusals the pause is 4 s: the change of the credentials ends it.
    let before = std::time::Instant::now();
    log_in(&world, b"2retnuh").await;
    world.wait_for_state(&ids[0], ReplicaState::Running).await;
    assert!(before.elapsed() < Duration::from_secs(2), "{:?}", before.elapsed());
    assert!(!format!("{:?}", world.state()).contains("hunter2"));
}
