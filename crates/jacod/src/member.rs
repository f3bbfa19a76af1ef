//! Wires a member: consensus, connections, the controller, the agent and the background loops. The
//! only module that knows all of them.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use jaco_agent::engine::{ContainerEngine, Owner};
use jaco_agent::fake::FakeEngine;
use jaco_agent::images::BlobStore;
use jaco_agent::measure::Sampler;
use jaco_agent::{
    AgentService, FileDirs, LeaderContact, NetworkGate, TimedEngine, Unseal, service,
};
use jaco_controller::{
    AgreedPlan, Controller, JobLoop, Options as ControllerOptions, RebalanceLoop, RebalanceState,
    SignalBook,
};
use jaco_docker::{DockerEngine, DockerOptions};
use jaco_pki::sealed::Purpose;
use jaco_pki::{
    CertificateStore, Connections, Credentials, HandshakeFailure, KekRing, TlsListener, listener,
};
use jaco_raft::{Options as RaftOptions, Raft, Timing};
use jaco_server::archive::AuditArchive;
use jaco_server::metrics::{Metrics, ReadNode, Tallies};
use jaco_server::refusals::Refusals;
use jaco_server::transport::PeerTransport;
use jaco_server::{
    ClusterKey, ClusterMachine, EdgeProbe, Feeds, Gate, GateOptions, ImageStore, Lifecycle, Member,
    Past, Peers, RaftStore, Recovery, RouterProbe, SignInLinks, UnreadLimits, refusals, serve,
    uses,
};
use jaco_state::command::NetworkBegin;
use jaco_state::edge::SealedKey;
use jaco_state::network::NetworkPool;
use jaco_state::registries::RegistryLogin;
use jaco_state::{Command, Outcome};
use jaco_store::{Clock, ClusterClock, Proposal, Store};
use jaco_types::route::RouteDomain;
use jaco_types::{
    CertificateName, ClusterId, ContentId, ErrorCode, Identity, Millis, NodeId, RegistryName,
    Rejection,
};
use rustix::time::{ClockId, clock_gettime};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tracing::info;

use crate::acme::OrderLoop;
use crate::backup::BackupLoop;
use crate::config::{EngineKind, Network, SamplerSettings};
use crate::context::NodeContext;
use crate::edge::{self, EdgeHandle, EdgeLoop, EdgeView, Keys};
use crate::heartbeat::{self, Heard, NodeDescription, Sources};
use crate::images::ImageKeeper;
use crate::kek_rotation::KekLoop;
use crate::notify::NotifyLoop;
use crate::pressure::Measured;
use crate::process::{Process, Starter};
use crate::readings::NodeReader;
use crate::renewal::Renewer;
use crate::rotation::RotationLoop;
use crate::router::{self, RouterHandle, RouterLoop, RouterView};
use crate::trace::Traces;
use crate::{audit_chain, key_check, limits, membership, pressure, renewal, unreached};

/// Handshake failures that may wait to be audited; the listener counts those that do not fit.
const HANDSHAKE_FAILURES_MAX: usize = 64;

/// Time limit of a proposal: several elections. An operator who waits longer should learn that
/// there is no quorum.
const PROPOSAL_DEADLINE: Duration = Duration::from_secs(3);

/// What a node needs to run as a member.
pub(crate) struct MemberParts {
    /// Private key, certificate and trusted authorities.
    pub(crate) credentials: Credentials,
    /// The keys that open sealed values of the state.
    pub(crate) keks: KekRing,
    /// The first commands, if this node creates the cluster.
    pub(crate) founding: Option<Founding>,
}

/// The first commands of a cluster.
pub(crate) struct Founding {
    /// Identity of the operator.
    pub(crate) by: Identity,
    /// The command that creates the cluster.
    pub(crate) command: Command,
    /// The pool of its networks, if they are the cluster's from the start.
    pub(crate) pool: Option<NetworkPool>,
    /// The process of the router, if it was started to try it.
    pub(crate) router: Option<Process>,
}

/// Starts all parts of a member; the daemon's stage is set before the first request is answered.
pub(crate) async fn start(
    node: &NodeContext,
    parts: MemberParts,
    lifecycle: Arc<dyn Lifecycle>,
) -> anyhow::Result<()> {
    let certificates = CertificateStore::new(parts.credentials)?;
    let name = certificates.name();
    let (cluster, id) = (name.cluster, name.node);
    let address = node.config.listen_address()?;
    let disks = node.config.disks()?;
    let (rebalance, sampler) = (node.config.rebalance()?, node.config.sampler()?);
    let authority = node.config.acme()?;
    // Bound first: a port in use must fail before a cluster is created.
    let tcp = listener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
    let peers = Peers::new(Arc::clone(&certificates));
    let raft = open_raft(node, &cluster, id, &peers).await?;
    let clock = Arc::new(ClusterClock::new(Arc::clone(&node.clock), boot_time));
    let store = RaftStore::new(id, raft, peers.clone(), Arc::clone(&clock) as Arc<dyn Clock>);
    node.tasks.spawn(Arc::clone(&store).follow(node.shutdown.clone()));
    let mut router_process = None;
    if let Some(mut founding) = parts.founding {
        router_process = founding.router.take();
        store.raft().initialize(node.advertised.clone()).await?;
        found(&*store, founding).await?;
        info!(%cluster, "cluster created");
    }
    let owner = Owner { cluster: cluster.clone(), node: id };
    let engine = open_engine(node, &owner)?;
    let traces = Traces::start(node, &cluster, &store)?;
    let engine = TimedEngine::new(engine, node.tallies.engine.clone());
    let engine = engine.observed_by(traces.as_ref().map(Traces::observer));
    let engine = Arc::new(engine) as Arc<dyn ContainerEngine>;
    let keys = Arc::new(Opener { keks: parts.keks.clone(), cluster: cluster.clone() });
    let file_dirs = FileDirs {
        files: node.config.data_dir.join("contents"),
        secrets: node.secrets_dir(&cluster, id),
        removed: node.config.data_dir.join("removed"),
        unseal: Arc::clone(&keys) as Arc<dyn Unseal>,
    };
    let mut agent = service::Options::new(
        owner,
        Arc::clone(&store) as Arc<dyn Store>,
        Arc::clone(&engine),
        Arc::new(ClusterClock::new(Arc::clone(&node.clock), boot_time)),
        file_dirs,
    );
    let images = open_images(node, id, &store, &peers)?;
    agent.cluster_time = Arc::clone(&clock) as Arc<dyn Clock>;
    agent.images = Some(images.for_agent());
    let router = router(node, router_process);
    let contact = LeaderContact::new(boot_time);
    agent.contact = contact.clone();
    agent.removal = certificates.removal().clone();
    let gate = router.as_ref().map(|(_, handle)| Arc::new(handle.clone()) as Arc<dyn NetworkGate>);
    agent.gate = gate;
    let probe = router.as_ref().map(|(_, handle)| Arc::new(handle.clone()) as Arc<dyn RouterProbe>);
    let edge = router.as_ref().map(|_| EdgeHandle::new(node.config.net.edge_dir()));
    let started = node.clock.now();
    let router_handle = router.as_ref().map(|(_, handle)| handle.clone());
    let reader = NodeReader::new(
        Arc::clone(&certificates),
        disks.clone(),
        started,
        router_handle,
        edge.clone(),
    );
    let (agent, agent_handle) = AgentService::new(agent);
    let (refusals, refusal_writer) = refusals::channel();
    let (uses, use_writer) = uses::channel();
    let member = Arc::new(Member {
        id,
        hostname: node.hostname.clone(),
        store: Arc::clone(&store),
        peers,
        connections: Connections::new(&certificates),
        signals: Arc::new(SignalBook::default()),
        rebalance: Arc::new(RebalanceState::new(rebalance)),
        engine,
        router: probe,
        edge: edge.clone().map(|edge| Arc::new(edge) as Arc<dyn EdgeProbe>),
        agent: agent_handle,
        images,
        cluster_key: ClusterKey::new(parts.keks, node.hostname.clone()),
        clock: Arc::clone(&clock) as Arc<dyn Clock>,
        refusals,
        uses,
        recovery: Recovery::begin(),
        gate: Gate::new(GateOptions::default()),
        feeds: Feeds::default(),
        sign_in_links: SignInLinks::default(),
        past: Past::default(),
        metrics: Metrics::new(Arc::clone(&node.tallies), Arc::clone(&reader) as Arc<dyn ReadNode>),
        tracer: traces.as_ref().map(Traces::tracer),
        log: node.log.clone(),
        stopping: node.shutdown.clone(),
    });
    listen(node, tcp, &certificates, &member, lifecycle)?;
    let shutdown = node.shutdown.clone();
    node.run_until_shutdown(use_writer.run(
        Arc::clone(&store) as Arc<dyn Store>,
        id,
        shutdown.clone(),
    ));
    node.run_until_shutdown(refusal_writer.run(store, shutdown.clone()));
    node.agent.spawn(agent.run(shutdown.clone().cancelled_owned()));
    spawn_rebalancing(node, &member);
    spawn_jobs(node, &member);
    let orders = OrderLoop::new(Arc::clone(&member), cluster.clone(), authority);
    node.run_until_shutdown(orders.run());
    let notifications = NotifyLoop::new(Arc::clone(&member), cluster.clone());
    node.run_until_shutdown(notifications.run());
    let backups = BackupLoop::new(Arc::clone(&member), node.config.data_dir.clone());
    node.run_until_shutdown(backups.run());
    let router = router.map(|(router, handle)| {
        node.run_until_shutdown(router.run(Arc::clone(&member)));
        handle.view()
    });
    let edge = edge.zip(router.clone());
    let edge = edge.map(|(edge, router)| spawn_edge(node, &member, keys, edge, router));
    let edge = edge.transpose()?;
    let measured = spawn_sampler(node, &member, sampler);
    reader.follow(&member, measured.clone());
    let sources = Sources { disks, measured, router, edge };
    let agreed = traces.map(|traces| traces.follow(node, &member));
    spawn_controller(node, &member, agreed);
    let heard = Heard { contact, clock };
    spawn_loops(node, &member, certificates, heard, sources);
    info!(%cluster, node_id = %id, address = %node.advertised, "member started");
    Ok(())
}

/// Opens sealed secrets and passwords for the agent, which does not hold keys.
struct Opener {
    keks: KekRing,
    cluster: ClusterId,
}

impl Unseal for Opener {
    fn unseal(&self, id: &ContentId, sealed: &[u8]) -> Result<Vec<u8>, String> {
        let opened = self.keks.open_named(&self.cluster, &id.0, sealed);
        opened.map(|content| content.to_vec()).map_err(|error| error.to_string())
    }

    fn unseal_password(
        &self,
        registry: &RegistryName,
        login: &RegistryLogin,
    ) -> Result<String, String> {
        let (name, username) = (registry.as_str(), login.username.as_str());
        let purpose = Purpose::Registry { name, username };
        let opened = self.keks.open(&self.cluster, purpose, &login.password.0);
        let opened = opened.map_err(|error| error.to_string())?;
        String::from_utf8(opened.to_vec()).map_err(|_| "the password is not UTF-8".to_owned())
    }
}

impl Keys for Opener {
    fn open(&self, name: &CertificateName, key: &SealedKey) -> Result<Vec<u8>, String> {
        let purpose = Purpose::ServedKey { name: name.as_str() };
        let opened = self.keks.open(&self.cluster, purpose, &key.0);
        opened.map(|key| key.to_vec()).map_err(|error| error.to_string())
    }

    fn open_issued(&self, domain: &RouteDomain, key: &SealedKey) -> Result<Vec<u8>, String> {
        let purpose = Purpose::IssuedKey { domain: domain.as_str() };
        let opened = self.keks.open(&self.cluster, purpose, &key.0);
        opened.map(|key| key.to_vec()).map_err(|error| error.to_string())
    }
}

/// Proposes the first commands of a new cluster.
async fn found(store: &dyn Store, founding: Founding) -> anyhow::Result<()> {
    let Founding { by, command, pool, router: _ } = founding;
    let applied = store.propose(Proposal { by: by.clone(), request: None, command }).await?;
    anyhow::ensure!(
        applied.outcome == Outcome::NodeAdmitted { id: NodeId::FIRST },
        "the first command of the cluster was rejected: {:?}",
        applied.outcome
    );
    let Some(pool) = pool else { return Ok(()) };
    let command = NetworkBegin::new(pool.prefix, pool.mtu).into();
    let applied = store.propose(Proposal { by, request: None, command }).await?;
    anyhow::ensure!(
        applied.outcome == Outcome::Done,
        "the pool of the cluster's networks was rejected: {:?}",
        applied.outcome
    );
    Ok(())
}

async fn open_raft(
    node: &NodeContext,
    cluster: &ClusterId,
    id: NodeId,
    peers: &Peers,
) -> anyhow::Result<Raft<ClusterMachine>> {
    let timing = match node.config.network {
        Network::Lan => Timing::lan(),
        Network::Wan => Timing::wan(),
    };
    let mut options = RaftOptions::new(id.0, cluster.as_str(), node.raft_dir());
    options.address.clone_from(&node.advertised);
    options.timing = timing;
    options.snapshots = node.config.snapshots()?;
    options.proposals.deadline = PROPOSAL_DEADLINE;
    options.expected_log = node.identity.raft_log_id()?;
    options.expected_starts = node.identity.raft_log_starts()?;
    let is_new = options.expected_log.is_none();
    let transport = Arc::new(PeerTransport::new(peers.clone()));
    let raft = node.raft.spawn(Raft::open(options, machine(node)?, transport)).await?;
    let raft = raft.context("cannot open raft's data")?;
    if is_new {
        node.identity.store_raft_log_id(raft.log_id())?;
    }
    node.identity.store_raft_log_starts(raft.starts())?;
    Ok(raft)
}

/// The state machine, with an archive for evicted audit events.
fn machine(node: &NodeContext) -> anyhow::Result<ClusterMachine> {
    let Some(limits) = node.config.archive()? else { return Ok(ClusterMachine::default()) };
    let folder = node.archive_dir();
    let archive = AuditArchive::open(&folder, limits);
    let archive = archive.with_context(|| format!("cannot open {}", folder.display()))?;
    ClusterMachine::archiving(archive).context("cannot write the audit archive")
}

pub(crate) fn open_engine(
    node: &NodeContext,
    owner: &Owner,
) -> anyhow::Result<Arc<dyn ContainerEngine>> {
    Ok(match node.config.engine {
        EngineKind::Docker => {
            let socket = node.config.docker_socket()?;
            let volumes = node.config.volume_folders()?;
            let owner = owner.clone();
            Arc::new(DockerEngine::new(DockerOptions { owner, socket, volumes }))
        }
        EngineKind::Fake => {
            let file = node.config.data_dir.join("fake-engine.json");
            Arc::new(FakeEngine::kept_in(owner.clone(), file)?)
        }
    })
}

/// The store of pushed images.
fn open_images(
    node: &NodeContext,
    id: NodeId,
    store: &Arc<RaftStore>,
    peers: &Peers,
) -> anyhow::Result<ImageStore> {
    let folder = node.config.data_dir.join("images");
    let blobs = BlobStore::open(folder.clone(), node.config.images()?);
    let blobs = blobs.with_context(|| format!("cannot open {}", folder.display()))?;
    let named = (id, node.hostname.clone());
    Ok(ImageStore::new(named, blobs, Arc::clone(store), peers.clone()))
}

/// The loop that makes plans for the router; none where containers are pretended.
fn router(node: &NodeContext, started: Option<Process>) -> Option<(RouterLoop, RouterHandle)> {
    match node.config.engine {
        EngineKind::Docker => {
            let process = started.unwrap_or_else(|| router_process(node));
            Some(RouterLoop::new(node.config.net.runtime_dir.clone(), process))
        }
        EngineKind::Fake => None,
    }
}

/// The process of this node's router, which is not started by this.
pub(crate) fn router_process(node: &NodeContext) -> Process {
    Process::new(Starter::of_this_process(), router::program(&node.config.file))
}

/// Starts the loop that makes plans for the edge.
fn spawn_edge(
    node: &NodeContext,
    member: &Arc<Member>,
    keys: Arc<Opener>,
    handle: EdgeHandle,
    router: watch::Receiver<RouterView>,
) -> anyhow::Result<watch::Receiver<EdgeView>> {
    let config = &node.config;
    let dir = config.net.edge_dir();
    let program = edge::program(config);
    let process = Process::new(Starter::of_this_process(), program);
    let (edge, view) =
        EdgeLoop::new(dir, process, keys, config.access_log()?, member.tracer.clone(), router);
    node.run_until_shutdown(edge.run(Arc::clone(member)));
    node.run_until_shutdown(handle.follow(Arc::clone(member)));
    Ok(view)
}

/// Starts to accept connections of peers and operators.
fn listen(
    node: &NodeContext,
    tcp: TcpListener,
    certificates: &Arc<CertificateStore>,
    member: &Arc<Member>,
    lifecycle: Arc<dyn Lifecycle>,
) -> anyhow::Result<()> {
    let (failures, failed) = mpsc::channel(HANDSHAKE_FAILURES_MAX);
    let connections = member.connections.clone();
    let wiring = listener::Wiring { store: Arc::clone(certificates), connections, failures };
    let descriptors_max = limits::connection_descriptors();
    let options = listener::Options { descriptors_max, ..listener::Options::default() };
    let listener = TlsListener::start(tcp, wiring, options)?;
    // Before the first request: a peer that connects at once must not see a node without a cluster.
    node.stage.store(Some(Arc::clone(member)));
    let (stage, shutdown) = (Arc::clone(&node.stage), node.shutdown.clone());
    let (unread, tallies) = (UnreadLimits::default(), Arc::clone(&node.tallies));
    let serving = serve::serve_tls(listener, stage, lifecycle, unread, tallies, shutdown);
    node.tasks.spawn(serving);
    let tallies = Arc::clone(&node.tallies);
    node.tasks.spawn(audit_handshake_failures(failed, member.refusals.clone(), tallies));
    Ok(())
}

/// Counts failed handshakes, and audits those that this node refused together with other refused access.
async fn audit_handshake_failures(
    mut failed: mpsc::Receiver<HandshakeFailure>,
    refusals: Refusals,
    tallies: Arc<Tallies>,
) {
    while let Some(failure) = failed.recv().await {
        tallies.handshakes_failed(failure.reason.code(), failure.unreported + 1);
        if !failure.reason.is_refusal() {
            continue;
        }
        let message = format!("handshake failed: {}", failure.reason);
        let rejection = Rejection::new(ErrorCode::CertificateInvalid, message)
            .with("unreported", failure.unreported.to_string());
        refusals.note(&failure.source.ip().to_string(), &Identity::Anonymous, &rejection);
    }
}

/// Time since the machine booted, including suspend: a suspended machine had no contact.
fn boot_time() -> Millis {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    let millis = u64::try_from(now.tv_nsec / 1_000_000).unwrap_or_default();
    Millis(seconds.saturating_mul(1000).saturating_add(millis))
}

/// The loop that moves replicas off hot nodes, active on the leader.
fn spawn_rebalancing(node: &NodeContext, member: &Arc<Member>) {
    let rebalancing = RebalanceLoop::new(
        Arc::clone(&member.store) as Arc<dyn Store>,
        Arc::clone(&member.rebalance),
        Arc::clone(&member.clock),
    );
    node.run_until_shutdown(rebalancing.run(node.shutdown.clone()));
}

/// The loop that begins runs of jobs when they are due, active on the leader.
fn spawn_jobs(node: &NodeContext, member: &Arc<Member>) {
    let store = Arc::clone(&member.store) as Arc<dyn Store>;
    let jobs = JobLoop::new(store, Arc::clone(&member.clock));
    node.run_until_shutdown(jobs.run(node.shutdown.clone()));
}

/// Starts to sample this node's resource usage.
fn spawn_sampler(node: &NodeContext, member: &Arc<Member>, settings: SamplerSettings) -> Measured {
    let (measured, latest) = watch::channel(None);
    let SamplerSettings { root, scope, interval } = settings;
    let sampler = Sampler::new(root, scope, node.facts.capacity);
    let shutdown = node.shutdown.clone();
    let measuring = pressure::run(Arc::clone(member), sampler, interval, measured, shutdown);
    node.run_until_shutdown(measuring);
    latest
}

/// Starts the loop that plans, active on the leader. `agreed` is told of its plans.
fn spawn_controller(
    node: &NodeContext,
    member: &Arc<Member>,
    agreed: Option<mpsc::Sender<AgreedPlan>>,
) {
    let options = ControllerOptions {
        tally: node.tallies.planner.clone(),
        agreed,
        ..ControllerOptions::default()
    };
    let controller = Controller::new(
        Arc::clone(&member.store) as Arc<dyn Store>,
        Arc::clone(&member.signals),
        Arc::clone(&member.clock),
        options,
    );
    node.run_until_shutdown(controller.run(node.shutdown.clone()));
}

fn spawn_loops(
    node: &NodeContext,
    member: &Arc<Member>,
    certificates: Arc<CertificateStore>,
    heard: Heard,
    sources: Sources,
) {
    let shutdown = &node.shutdown;
    let description =
        NodeDescription { address: node.advertised.clone(), facts: node.facts.clone() };
    let identity = node.identity.clone();
    let heartbeats =
        heartbeat::run(Arc::clone(member), description, heard, sources, shutdown.clone());
    node.run_until_shutdown(heartbeats);
    let signals = membership::Signals {
        removal: certificates.removal().clone(),
        left: node.left.clone(),
        shutdown: shutdown.clone(),
        identity: identity.clone(),
    };
    node.run_until_shutdown(membership::run(Arc::clone(member), signals));
    node.run_until_shutdown(audit_chain::run(Arc::clone(member), shutdown.clone()));
    node.run_until_shutdown(key_check::run(Arc::clone(member)));
    node.run_until_shutdown(unreached::run(Arc::clone(member)));
    let renewer = Renewer::new(Arc::clone(member), Arc::clone(&certificates), identity);
    node.run_until_shutdown(renewal::run(renewer.clone(), shutdown.clone()));
    let rotation = RotationLoop::new(Arc::clone(member), certificates, renewer);
    node.run_until_shutdown(rotation.run());
    node.run_until_shutdown(KekLoop::new(Arc::clone(member)).run());
    node.run_until_shutdown(ImageKeeper::new(Arc::clone(member)).run());
}
