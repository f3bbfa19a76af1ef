//! Wires a member: consensus, connections, the planner's loop, the agent, and the small loops that
//! keep them in step. The only place that knows all of them.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use jaco_agent::engine::{ContainerEngine, Owner};
use jaco_agent::fake::FakeEngine;
use jaco_agent::measure::Sampler;
use jaco_agent::{AgentService, Contact, Places, Unseal, service};
use jaco_controller::{
    Controller, Options as ControllerOptions, RebalanceDesk, RebalanceLoop, SignalBook,
};
use jaco_docker::{DockerEngine, DockerOptions};
use jaco_pki::sealed::Purpose;
use jaco_pki::{
    CertificateStore, Connections, Credentials, HandshakeFailure, KeyEncryptionKey, TlsListener,
    listener, sealed,
};
use jaco_raft::{Options as RaftOptions, Raft, Timing};
use jaco_server::archive::AuditArchive;
use jaco_server::refusals::Refusals;
use jaco_server::transport::PeerTransport;
use jaco_server::{ClusterMachine, Lifecycle, Member, Peers, RaftStore, refusals, serve};
use jaco_state::Command;
use jaco_state::registries::RegistryLogin;
use jaco_store::Store;
use jaco_types::{
    ClusterId, ContentId, ErrorCode, Identity, Millis, NodeId, RegistryName, Rejection,
};
use rustix::time::{ClockId, clock_gettime};
use tokio::net::TcpListener;
use tokio::sync::{OnceCell, mpsc, watch};
use tracing::{error, info};

use crate::config::{EngineKind, Network};
use crate::daemon::{Births, Daemon, found};
use crate::heartbeat::{self, SelfDescription, Watched};
use crate::pressure::Measured;
use crate::rebalancing::SamplerSettings;
use crate::{audit_chain, membership, pressure, renewal};

/// Handshake failures that may wait to be noted; the listener counts what finds no place.
const FAILURES_WAITING: usize = 64;

/// How long an entry may take to be agreed on: several elections. A person who waits longer wants to
/// be told that the cluster does not agree.
const PROPOSAL_DEADLINE: Duration = Duration::from_secs(3);

/// What makes a node a member.
pub(crate) struct MemberParts {
    /// Its key, its certificate and whom it trusts.
    pub(crate) credentials: Credentials,
    /// Opens the sealed values of the state.
    pub(crate) kek: KeyEncryptionKey,
    /// The first command, if this node creates the cluster.
    pub(crate) founding: Option<Founding>,
}

/// The first command of a cluster.
pub(crate) struct Founding {
    /// Who asked for it.
    pub(crate) by: Identity,
    /// Creates the cluster.
    pub(crate) command: Command,
}

/// Starts everything that a member runs; from its first answer on, the daemon's stage says so.
pub(crate) async fn start(daemon: &Arc<Daemon>, parts: MemberParts) -> anyhow::Result<()> {
    let certificates = CertificateStore::new(parts.credentials)?;
    let name = certificates.name();
    let (cluster, id) = (name.cluster, name.node);
    let address = daemon.config.listen_address()?;
    let disks = daemon.config.disks()?;
    let (rebalance, sampler) = (daemon.config.rebalance()?, daemon.config.sampler()?);
    // Bound first: a port that is taken must fail before anything is founded on it.
    let tcp =
        TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    let peers = Peers::new(Arc::clone(&certificates));
    let raft = open_raft(daemon, &cluster, id, &peers).await?;
    let store = RaftStore::new(id, raft, peers.clone(), Arc::clone(&daemon.clock));
    daemon.tasks.spawn(Arc::clone(&store).follow(daemon.shutdown.clone()));
    if let Some(founding) = parts.founding {
        store.raft().initialize(daemon.advertised.clone()).await?;
        found(&*store, founding).await?;
        info!(%cluster, "cluster was created");
    }
    let owner = Owner { cluster: cluster.clone(), node: id };
    let engine = open_engine(daemon, &owner)?;
    let places = Places {
        files: daemon.config.data_dir.join("contents"),
        // Several nodes may share a machine.
        secrets: daemon.config.secrets_dir.join(format!("{cluster}-{id}")),
        removed: daemon.config.data_dir.join("removed"),
        unseal: Arc::new(KeyRing { key: parts.kek.clone(), cluster: cluster.clone() }),
    };
    let mut agent = service::Options::new(
        owner,
        Arc::clone(&store) as Arc<dyn Store>,
        Arc::clone(&engine),
        Arc::clone(&daemon.clock),
        places,
    );
    let contact = Contact::new(boot_time);
    agent.contact = contact.clone();
    let (agent, agent_handle) = AgentService::new(agent);
    let (refusals, refusal_writer) = refusals::channel();
    let member = Arc::new(Member {
        id,
        hostname: daemon.hostname.clone(),
        store: Arc::clone(&store),
        peers,
        connections: Connections::new(),
        signals: Arc::new(SignalBook::default()),
        rebalance: Arc::new(RebalanceDesk::new(rebalance)),
        engine,
        agent: agent_handle,
        key_encryption_key: parts.kek,
        clock: Arc::clone(&daemon.clock),
        refusals,
        recovery: OnceCell::new(),
    });
    listen(daemon, tcp, &certificates, &member)?;
    let shutdown = daemon.shutdown.clone();
    daemon.run_until_shutdown(refusal_writer.run(store, shutdown.clone()));
    daemon.agent.spawn(agent.run(shutdown.clone().cancelled_owned()));
    spawn_rebalancing(daemon, &member);
    let watched = Watched { disks, measured: spawn_sampler(daemon, &member, sampler) };
    spawn_loops(daemon, &member, certificates, contact, watched);
    info!(%cluster, node_id = %id, address = %daemon.advertised, "member");
    Ok(())
}

/// Opens secrets and passwords for the agent, which knows nothing of keys.
struct KeyRing {
    key: KeyEncryptionKey,
    cluster: ClusterId,
}

impl Unseal for KeyRing {
    fn unseal(&self, id: &ContentId, sealed: &[u8]) -> Result<Vec<u8>, String> {
        let opened = sealed::open_named(&self.key, &self.cluster, &id.0, sealed);
        opened.map(|content| content.to_vec()).map_err(|error| error.to_string())
    }

    fn unseal_password(
        &self,
        registry: &RegistryName,
        login: &RegistryLogin,
    ) -> Result<String, String> {
        let (name, username) = (registry.as_str(), login.username.as_str());
        let purpose = Purpose::Registry { name, username };
        let opened = sealed::open(&self.key, &self.cluster, purpose, &login.password.0)
            .map_err(|error| error.to_string())?;
        String::from_utf8(opened.to_vec()).map_err(|_| "the password is no text".to_owned())
    }
}

async fn open_raft(
    daemon: &Daemon,
    cluster: &ClusterId,
    id: NodeId,
    peers: &Peers,
) -> anyhow::Result<Raft<ClusterMachine>> {
    let timing = match daemon.config.network {
        Network::Lan => Timing::lan(),
        Network::Wan => Timing::wan(),
    };
    let mut options = RaftOptions::new(id.0, cluster.as_str(), daemon.raft_dir());
    options.timing = timing;
    options.snapshots = daemon.config.snapshots()?;
    options.proposals.deadline = PROPOSAL_DEADLINE;
    let transport = Arc::new(PeerTransport::new(peers.clone()));
    let raft = Raft::open(options, machine(daemon)?, transport).await;
    raft.context("raft's data cannot be used")
}

/// The state, with a place for the audit events that it lets go of.
fn machine(daemon: &Daemon) -> anyhow::Result<ClusterMachine> {
    let Some(limits) = daemon.config.archive()? else { return Ok(ClusterMachine::default()) };
    let folder = daemon.config.data_dir.join("audit");
    let archive = AuditArchive::open(&folder, limits);
    let archive = archive.with_context(|| format!("{} cannot be used", folder.display()))?;
    ClusterMachine::archiving(archive).context("the audit archive cannot be written")
}

fn open_engine(daemon: &Daemon, owner: &Owner) -> anyhow::Result<Arc<dyn ContainerEngine>> {
    Ok(match daemon.config.engine {
        EngineKind::Docker => {
            let socket = daemon.config.docker_socket()?;
            Arc::new(DockerEngine::new(DockerOptions { owner: owner.clone(), socket })?)
        }
        EngineKind::Fake => {
            let file = daemon.config.data_dir.join("fake-engine.json");
            Arc::new(FakeEngine::kept_in(owner.clone(), file)?)
        }
    })
}

/// Begins to take connections of peers and operators.
fn listen(
    daemon: &Arc<Daemon>,
    tcp: TcpListener,
    certificates: &Arc<CertificateStore>,
    member: &Arc<Member>,
) -> anyhow::Result<()> {
    let (failures, failed) = mpsc::channel(FAILURES_WAITING);
    let connections = member.connections.clone();
    let wiring = listener::Wiring { store: Arc::clone(certificates), connections, failures };
    let listener = TlsListener::start(tcp, wiring, listener::Options::default())?;
    // Before the first answer: a peer that comes at once must not be told that there is no cluster.
    daemon.stage.store(Some(Arc::clone(member)));
    let lifecycle: Arc<dyn Lifecycle> = Arc::new(Births(Arc::clone(daemon)));
    let (stage, shutdown) = (Arc::clone(&daemon.stage), daemon.shutdown.clone());
    daemon.tasks.spawn(async move {
        if let Err(error) = serve::serve_tls(listener, stage, lifecycle, shutdown).await {
            error!(%error, "the listener for peers has failed");
        }
    });
    daemon.tasks.spawn(note_failures(failed, member.refusals.clone()));
    Ok(())
}

/// Puts failed handshakes where refused access is noted.
async fn note_failures(mut failed: mpsc::Receiver<HandshakeFailure>, refusals: Refusals) {
    while let Some(failure) = failed.recv().await {
        let message = format!("handshake failed: {}", failure.reason);
        let rejection = Rejection::new(ErrorCode::CertificateInvalid, message)
            .with("unreported", failure.unreported.to_string());
        refusals.note(&failure.source.ip().to_string(), &rejection);
    }
}

/// The time since the machine started, its sleep included: a machine that slept was cut off.
fn boot_time() -> Millis {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    let millis = u64::try_from(now.tv_nsec / 1_000_000).unwrap_or_default();
    Millis(seconds.saturating_mul(1000).saturating_add(millis))
}

/// The leader's loop that relieves hot nodes.
fn spawn_rebalancing(daemon: &Daemon, member: &Arc<Member>) {
    let rebalancing = RebalanceLoop::new(
        Arc::clone(&member.store) as Arc<dyn Store>,
        Arc::clone(&member.rebalance),
        Arc::clone(&daemon.clock),
    );
    daemon.run_until_shutdown(rebalancing.run(daemon.shutdown.clone()));
}

/// Begins to measure this node.
fn spawn_sampler(daemon: &Daemon, member: &Arc<Member>, settings: SamplerSettings) -> Measured {
    let (measured, latest) = watch::channel(None);
    let SamplerSettings { root, scope, interval } = settings;
    let sampler = Sampler::new(root, scope, daemon.facts.capacity);
    let shutdown = daemon.shutdown.clone();
    let measuring = pressure::run(Arc::clone(member), sampler, interval, measured, shutdown);
    daemon.run_until_shutdown(measuring);
    latest
}

fn spawn_loops(
    daemon: &Daemon,
    member: &Arc<Member>,
    certificates: Arc<CertificateStore>,
    contact: Contact,
    watched: Watched,
) {
    let shutdown = &daemon.shutdown;
    let controller = Controller::new(
        Arc::clone(&member.store) as Arc<dyn Store>,
        Arc::clone(&member.signals),
        Arc::clone(&daemon.clock),
        ControllerOptions::of_version(env!("CARGO_PKG_VERSION")),
    );
    let description =
        SelfDescription { address: daemon.advertised.clone(), facts: daemon.facts.clone() };
    let identity = daemon.identity().clone();
    daemon.run_until_shutdown(controller.run(shutdown.clone()));
    let beating =
        heartbeat::run(Arc::clone(member), description, contact, watched, shutdown.clone());
    daemon.run_until_shutdown(beating);
    daemon.run_until_shutdown(membership::run(Arc::clone(member), shutdown.clone()));
    daemon.run_until_shutdown(audit_chain::run(Arc::clone(member), shutdown.clone()));
    let renewing = renewal::run(Arc::clone(member), certificates, identity, shutdown.clone());
    daemon.run_until_shutdown(renewing);
}
