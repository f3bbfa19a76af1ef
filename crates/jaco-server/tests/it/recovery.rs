//! What a node answers from after a restart.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jaco_agent::engine::{ContainerEngine, Owner};
use jaco_agent::fake::{FakeEngine, FakeHost};
use jaco_agent::{AgentService, Places, Unseal, service};
use jaco_controller::{RebalanceDesk, RebalanceOptions, SignalBook};
use jaco_pki::{
    CertificateAuthority, CertificateStore, Connections, Credentials, IdentityDir,
    KeyEncryptionKey, NodeCsr, TrustBundle, ca,
};
use jaco_raft::{Options, Raft};
use jaco_server::transport::PeerTransport;
use jaco_server::{ClusterMachine, Member, Peers, RaftStore, refusals};
use jaco_state::Command;
use jaco_state::audit::AuditKind;
use jaco_state::registries::RegistryLogin;
use jaco_store::{Clock, Store, SystemClock};
use jaco_types::{Author, ClusterId, ContentId, Hostname, Identity, NodeId, RegistryName};
use tempfile::TempDir;
use tokio::sync::OnceCell;

/// Far more than the patience of a reader, so that a reader who waits again is told from a slow machine.
const LIMIT: Duration = Duration::from_secs(30);

fn cluster() -> ClusterId {
    ClusterId::new(&"c1".repeat(16)).unwrap()
}

/// The agent of these tests runs nothing.
struct NothingSealed;

impl Unseal for NothingSealed {
    fn unseal(&self, id: &ContentId, _sealed: &[u8]) -> Result<Vec<u8>, String> {
        Err(format!("{id:?} is not sealed"))
    }

    fn unseal_password(&self, of: &RegistryName, _: &RegistryLogin) -> Result<String, String> {
        Err(format!("{of:?} has no password"))
    }
}

/// The only node of a cluster, opened on what lies in `folder`.
async fn open(folder: &Path) -> Member {
    let id = NodeId::FIRST;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let peers = Peers::new(CertificateStore::new(credentials(folder)).unwrap());
    let options = Options::new(id.0, cluster().as_str(), folder.join("raft"));
    let transport = Arc::new(PeerTransport::new(peers.clone()));
    let raft = Raft::open(options, ClusterMachine::default(), transport).await.unwrap();
    let store = RaftStore::new(id, raft, peers.clone(), Arc::clone(&clock));
    let owner = Owner { cluster: cluster(), node: id };
    let engine: Arc<dyn ContainerEngine> = Arc::new(FakeEngine::new(FakeHost::new(owner.clone())));
    let as_store = Arc::clone(&store) as Arc<dyn Store>;
    let (files, secrets) = (folder.join("contents"), folder.join("secrets"));
    let (removed, unseal) = (folder.join("removed"), Arc::new(NothingSealed));
    let places = Places { files, secrets, removed, unseal };
    let (for_agent, time) = (Arc::clone(&engine), Arc::clone(&clock));
    let agent = service::Options::new(owner, as_store, for_agent, time, places);
    let (_agent, agent) = AgentService::new(agent);
    let (refusals, _writer) = refusals::channel();
    Member {
        id,
        hostname: Hostname::new("n1").unwrap(),
        store,
        peers,
        connections: Connections::new(),
        signals: Arc::new(SignalBook::default()),
        rebalance: Arc::new(RebalanceDesk::new(RebalanceOptions::new(""))),
        engine,
        agent,
        key_encryption_key: KeyEncryptionKey::generate(),
        clock,
        refusals,
        recovery: OnceCell::new(),
    }
}

fn credentials(folder: &Path) -> Credentials {
    let now = SystemClock.now();
    let authority = CertificateAuthority::create(&cluster(), now).unwrap();
    let key = IdentityDir::open(folder.join("node")).unwrap().next_key().unwrap();
    let csr = NodeCsr::from_der(&key.request()).unwrap();
    let certificate = authority.sign(&csr, NodeId::FIRST, ca::NODE_LIFE, now).unwrap();
    let trust = TrustBundle::new(vec![authority.certificate().clone()]).unwrap();
    Credentials::new(key, certificate, trust, now).unwrap()
}

/// What lies on the disk at this moment, as a power cut would leave it.
fn after_a_power_cut(folder: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    copy_folder(&folder.join("raft"), &copy.path().join("raft"));
    copy
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (entry, name) = (entry.as_ref().unwrap().path(), entry.as_ref().unwrap().file_name());
        if entry.is_dir() {
            copy_folder(&entry, &to.join(name));
        } else {
            std::fs::copy(&entry, to.join(name)).unwrap();
        }
    }
}

/// A reader after a power cut sees everything that was acknowledged before it. The node itself does not
/// know at first how much of its log was agreed on: only a stop in good order notes that.
#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_node_answers_from_all_that_was_agreed_on() {
    let folder = tempfile::tempdir().unwrap();
    let before = open(folder.path()).await;
    before.store.raft().initialize("127.0.0.1:1".to_owned()).await.unwrap();
    let mut acknowledged = 0;
    for _ in 0..20 {
        let payload = BTreeMap::default();
        let note = Command::AuditNote { kind: AuditKind::AccessRefused, payload };
        let nobody = Author { by: Identity::Anonymous, origin: None };
        acknowledged = before.commit(nobody, "", note).await.unwrap().index.0;
    }
    let copy = after_a_power_cut(folder.path());
    let member = open(copy.path()).await;
    member.recovered().await;
    let index = member.store.read(|state| state.index.0);
    assert!(index >= acknowledged, "{index} of {acknowledged}");
    for node in [before, member] {
        node.store.raft().shutdown().await.unwrap();
    }
}

/// Who cannot learn anything is not asked to wait again: the first readers wait together, later ones
/// not at all.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_quorum_readers_wait_once() {
    let folder = tempfile::tempdir().unwrap();
    // It is in no cluster yet, so nobody can tell it anything.
    let member = open(folder.path()).await;
    let begun = Instant::now();
    let readers = futures::future::join_all((0..20).map(|_| member.recovered()));
    tokio::time::timeout(LIMIT, readers).await.expect("twenty readers do not wait in turns");
    assert!(begun.elapsed() >= Duration::from_secs(1), "they did not wait: {:?}", begun.elapsed());
    assert!(member.recovery.initialized());
    let again = futures::future::join_all((0..1000).map(|_| member.recovered()));
    tokio::time::timeout(LIMIT, again).await.expect("later readers do not wait");
    member.store.raft().shutdown().await.unwrap();
}
