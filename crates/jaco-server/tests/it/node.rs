//! A member with a real store and consensus, a fake engine and an agent that does not run.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jaco_agent::engine::{ContainerEngine, Owner};
use jaco_agent::fake::{FakeEngine, FakeHost};
use jaco_agent::images::{BlobStore, StoreLimits};
use jaco_agent::{AgentService, FileDirs, Unseal, service};
use jaco_controller::{RebalanceOptions, RebalanceState, SignalBook};
use jaco_pki::{
    CertificateAuthority, CertificateStore, Connections, Credentials, IdentityDir, KekRing,
    KeyEncryptionKey, NodeCsr, TrustBundle, ca,
};
use jaco_raft::{Options, Raft};
use jaco_server::metrics::{Metrics, ReadNode, Readings};
use jaco_server::transport::PeerTransport;
use jaco_server::{
    ClusterKey, ClusterMachine, Feeds, Gate, GateOptions, ImageStore, LogTail, Member, Past, Peers,
    RaftStore, Recovery, SignInLinks, refusals, uses,
};
use jaco_state::registries::RegistryLogin;
use jaco_store::{Clock, Store, SystemClock};
use jaco_types::{ClusterId, ContentId, Hostname, NodeId, RegistryName};

pub(crate) fn cluster() -> ClusterId {
    ClusterId::new(&"c1".repeat(16)).unwrap()
}

/// The key that seals what the cluster keeps sealed.
pub(crate) fn cluster_key() -> KeyEncryptionKey {
    KeyEncryptionKey::from_bytes([7; 32])
}

/// How much the member of these tests computes at a time.
pub(crate) const GATE: GateOptions = GateOptions {
    computing: 2,
    long: 0,
    long_after: Duration::from_secs(60),
    queue: 2,
    patience: Duration::from_secs(60),
};

/// The agent of these tests runs no containers.
struct NothingSealed;

impl Unseal for NothingSealed {
    fn unseal(&self, id: &ContentId, _sealed: &[u8]) -> Result<Vec<u8>, String> {
        Err(format!("{id:?} is not sealed"))
    }

    fn unseal_password(&self, of: &RegistryName, _: &RegistryLogin) -> Result<String, String> {
        Err(format!("{of:?} has no password"))
    }
}

/// These tests are not about the machine.
struct NothingRead;

#[async_trait::async_trait]
impl ReadNode for NothingRead {
    async fn read(&self) -> Readings {
        Readings::default()
    }
}

/// The only member of a cluster, with its data in `folder`.
pub(crate) async fn open(folder: &Path) -> Member {
    open_with(folder, CertificateStore::new(credentials(folder)).unwrap()).await
}

/// The same, with these certificates.
pub(crate) async fn open_with(folder: &Path, certificates: Arc<CertificateStore>) -> Member {
    let id = NodeId::FIRST;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let connections = Connections::new(&certificates);
    let peers = Peers::new(certificates);
    let options = Options::new(id.0, cluster().as_str(), folder.join("raft"));
    let transport = Arc::new(PeerTransport::new(peers.clone()));
    let raft = Raft::open(options, ClusterMachine::default(), transport).await.unwrap();
    let store = RaftStore::new(id, raft, peers.clone(), Arc::clone(&clock));
    let owner = Owner { cluster: cluster(), node: id };
    let engine: Arc<dyn ContainerEngine> = Arc::new(FakeEngine::new(FakeHost::new(owner.clone())));
    let as_store = Arc::clone(&store) as Arc<dyn Store>;
    let (files, secrets) = (folder.join("contents"), folder.join("secrets"));
    let (removed, unseal) = (folder.join("removed"), Arc::new(NothingSealed));
    let file_dirs = FileDirs { files, secrets, removed, unseal };
    let (for_agent, time) = (Arc::clone(&engine), Arc::clone(&clock));
    let agent = service::Options::new(owner, as_store, for_agent, time, file_dirs);
    let (_agent, agent) = AgentService::new(agent);
    let limits = StoreLimits { bytes_max: 1 << 20 };
    let blobs = BlobStore::open(folder.join("images"), limits).unwrap();
    let named = (id, Hostname::new("n1").unwrap());
    let images = ImageStore::new(named, blobs, Arc::clone(&store), peers.clone());
    let (refusals, _writer) = refusals::channel();
    let (uses, use_writer) = uses::channel();
    let as_store = Arc::clone(&store) as Arc<dyn Store>;
    let stopping = tokio_util::sync::CancellationToken::new();
    tokio::spawn(use_writer.run(as_store, id, stopping.clone()));
    Member {
        id,
        hostname: Hostname::new("n1").unwrap(),
        store,
        peers,
        connections,
        signals: Arc::new(SignalBook::default()),
        rebalance: Arc::new(RebalanceState::new(RebalanceOptions::default())),
        engine,
        router: None,
        edge: None,
        agent,
        images,
        cluster_key: ClusterKey::new(keys(folder), Hostname::new("n1").unwrap()),
        clock,
        refusals,
        uses,
        recovery: Recovery::begin(),
        gate: Gate::new(GATE),
        feeds: Feeds::default(),
        sign_in_links: SignInLinks::default(),
        past: Past::default(),
        metrics: Metrics::new(Arc::default(), Arc::new(NothingRead)),
        tracer: None,
        log: LogTail::default(),
        stopping,
    }
}

fn keys(folder: &Path) -> KekRing {
    let dir = IdentityDir::open(folder.join("node")).unwrap();
    dir.store_kek(&cluster_key()).unwrap();
    KekRing::load(dir).unwrap().unwrap()
}

pub(crate) fn credentials(folder: &Path) -> Credentials {
    let now = SystemClock.now();
    let authority = CertificateAuthority::create(&cluster(), now).unwrap();
    let key = IdentityDir::open(folder.join("node")).unwrap().next_key().unwrap();
    let csr = NodeCsr::from_der(&key.request()).unwrap();
    let certificate = authority.sign(&csr, NodeId::FIRST, ca::NODE_LIFE, now).unwrap();
    let trust = TrustBundle::new(vec![authority.certificate().clone()]).unwrap();
    Credentials::new(key, certificate, trust, now).unwrap()
}
