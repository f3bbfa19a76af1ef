//! A member whose services listen, and one way to call them for each kind of caller.

use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use hyper_util::rt::TokioIo;
use jaco_pki::listener::{Options, Wiring};
use jaco_pki::sealed::{Purpose, seal};
use jaco_pki::{CertificateStore, Dialer, IdentityDir, TlsListener};
use jaco_proto::v1;
use jaco_server::{Lifecycle, Member, Stage, UnreadLimits, serve};
use jaco_state::ClusterMeta;
use jaco_state::command::{ClusterInit, NewNode};
use jaco_state::token::OperatorToken;
use jaco_types::{Author, ErrorCode, Identity, NodeFacts, NodeId, Rejection, Timestamp, TokenId};
use tempfile::TempDir;
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};

use crate::node::{cluster, cluster_key, credentials, open_with};

/// Must not be reached: these tests have no unfinished node.
struct AlreadyMember;

#[async_trait::async_trait]
impl Lifecycle for AlreadyMember {
    async fn init(&self, _: v1::InitRequest, _: Identity) -> Result<v1::InitResponse, Rejection> {
        Err(Rejection::new(ErrorCode::ClusterAlreadyInitialized, "it is a member"))
    }

    async fn join(&self, _: &str, _: &str) -> Result<v1::JoinClusterResponse, Rejection> {
        Err(Rejection::new(ErrorCode::ClusterAlreadyInitialized, "it is a member"))
    }
}

/// A served member that has no leader at first, and one way to call it for each kind of caller.
pub(crate) struct Served {
    _folder: TempDir,
    pub(crate) node: Arc<Member>,
    /// The fingerprint of its key.
    key: [u8; 32],
    /// Of the TLS port.
    pub(crate) address: String,
    /// With a member's certificate.
    pub(crate) peer: Dialer,
    /// Over TLS, without a certificate and without a token.
    pub(crate) stranger: Channel,
    /// Over TLS, with a member's certificate.
    pub(crate) member: Channel,
    /// Over the unix socket.
    pub(crate) local: Channel,
}

impl Served {
    pub(crate) async fn start() -> Self {
        Self::start_with(UnreadLimits::default()).await
    }

    pub(crate) async fn start_with(unread: UnreadLimits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let credentials = credentials(folder.path());
        let trust = credentials.trust().clone();
        let key = IdentityDir::open(folder.path().join("node")).unwrap().next_key().unwrap();
        let store = CertificateStore::new(credentials).unwrap();
        let member = Arc::new(open_with(folder.path(), Arc::clone(&store)).await);
        let stage: Stage = Arc::new(ArcSwapOption::from(Some(Arc::clone(&member))));
        let shutdown = CancellationToken::new();
        tokio::spawn(Arc::clone(&member.store).follow(shutdown.clone()));

        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (failures, _) = mpsc::channel(1);
        let connections = member.connections.clone();
        let wiring = Wiring { store: Arc::clone(&store), connections, failures };
        let tls = TlsListener::start(tcp, wiring, Options::default()).unwrap();
        let address = tls.local_addr().to_string();
        let socket = folder.path().join("jaco.sock");
        let unix = UnixListener::bind(&socket).unwrap();
        let lifecycle = || Arc::new(AlreadyMember) as Arc<dyn Lifecycle>;
        let serving = serve::serve_tls(
            tls,
            Arc::clone(&stage),
            lifecycle(),
            unread,
            Arc::default(),
            shutdown.clone(),
        );
        tokio::spawn(serving);
        tokio::spawn(serve::serve_unix(unix, stage, lifecycle(), Arc::default(), shutdown));

        let stranger = Dialer::operator(trust).unwrap();
        let peer = Dialer::peer(store, NodeId::FIRST);
        Self {
            _folder: folder,
            node: member,
            key: *key.fingerprint().as_bytes(),
            stranger: over_tls(stranger, &address).await,
            member: over_tls(peer.clone(), &address).await,
            local: over_socket(&socket).await,
            address,
            peer,
        }
    }

    /// Makes it the leader of a cluster of its own.
    pub(crate) async fn found(&self) {
        self.node.store.raft().initialize("127.0.0.1:1".to_owned()).await.unwrap();
        let meta = ClusterMeta {
            id: cluster(),
            name: "test".to_owned(),
            ca_certificate: String::new(),
            sealed_ca_key: seal(&cluster_key(), &cluster(), Purpose::CaKey, b"key"),
            created_at: Timestamp(0),
        };
        let facts =
            NodeFacts { version: env!("CARGO_PKG_VERSION").to_owned(), ..NodeFacts::default() };
        let (hostname, address) = (self.node.hostname.clone(), "127.0.0.1:1".to_owned());
        let node = NewNode { hostname, address, key_fingerprint: self.key, facts };
        let by = Identity::Local { uid: 0 };
        let token = OperatorToken {
            id: TokenId::new("bootstrap").unwrap(),
            proof: jaco_state::token::Proof::Secret([0; 32]),
            issued_at: Timestamp(0),
            issued_by: by.clone(),
            revoked_at: None,
            expires_at: None,
            rights: None,
            last_used_at: None,
        };
        let command = ClusterInit::new(meta, node, token).into();
        self.node.commit(Author { by, origin: None }, "", command).await.unwrap();
    }
}

async fn over_tls(dialer: Dialer, address: &str) -> Channel {
    over_tls_with(dialer, address, Endpoint::from_static("http://node.internal")).await
}

pub(crate) async fn over_tls_with(dialer: Dialer, address: &str, endpoint: Endpoint) -> Channel {
    let address = address.to_owned();
    let connector = tower::service_fn(move |_| {
        let (dialer, address) = (dialer.clone(), address.clone());
        async move { dialer.connect(address).await.map(TokioIo::new) }
    });
    endpoint.connect_with_connector(connector).await.unwrap()
}

async fn over_socket(path: &Path) -> Channel {
    let path = path.to_owned();
    let connector = tower::service_fn(move |_| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    });
    Endpoint::from_static("http://node.internal").connect_with_connector(connector).await.unwrap()
}
