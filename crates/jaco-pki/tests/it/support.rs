//! A cluster with as many nodes as a test asks for, and servers that echo.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jaco_pki::listener::{Options, Wiring};
use jaco_pki::{
    CertificateAuthority, CertificateStore, Connections, Credentials, DialedConnection,
    HandshakeFailure, HandshakeReason, NodeCsr, NodeKey, PeerIdentity, TlsListener, TrustBundle,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use jaco_types::{ClusterId, NodeId, Timestamp};

pub(crate) const OURS: &str = "0123456789abcdef0123456789abcdef";
pub(crate) const OTHER: &str = "ffffffffffffffffffffffffffffffff";

/// Nothing here takes longer unless it is broken.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

pub(crate) fn cluster(text: &str) -> ClusterId {
    ClusterId::new(text).unwrap()
}

pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    Timestamp(u64::try_from(since.as_millis()).unwrap())
}

pub(crate) fn days_ago(days: u64) -> Timestamp {
    Timestamp(now().0 - days * 24 * 3600 * 1000)
}

/// A CA that has existed for a year, so that it can have signed what has expired since.
pub(crate) fn authority(text: &str) -> CertificateAuthority {
    CertificateAuthority::create(&cluster(text), days_ago(365)).unwrap()
}

pub(crate) fn trust(authority: &CertificateAuthority) -> TrustBundle {
    TrustBundle::from(authority.certificate().clone())
}

/// Credentials as they were issued and checked at `at`.
pub(crate) fn issue(
    authority: &CertificateAuthority,
    node: u64,
    trust: &TrustBundle,
    at: Timestamp,
) -> Credentials {
    let key = NodeKey::generate();
    let csr = NodeCsr::from_der(&key.request()).unwrap();
    let der = authority.sign(&csr, NodeId(node), jaco_pki::ca::NODE_LIFE, at).unwrap();
    Credentials::new(key, der, trust.clone(), at).unwrap()
}

pub(crate) fn store_at(
    authority: &CertificateAuthority,
    node: u64,
    at: Timestamp,
) -> Arc<CertificateStore> {
    CertificateStore::new(issue(authority, node, &trust(authority), at)).unwrap()
}

pub(crate) fn store(authority: &CertificateAuthority, node: u64) -> Arc<CertificateStore> {
    store_at(authority, node, now())
}

/// A server that answers each connection with what it read, and tells who was there.
pub(crate) struct EchoServer {
    pub(crate) address: std::net::SocketAddr,
    pub(crate) connections: Connections,
    pub(crate) failures: mpsc::Receiver<HandshakeFailure>,
    pub(crate) peers: mpsc::UnboundedReceiver<PeerIdentity>,
    task: tokio::task::JoinHandle<()>,
}

impl EchoServer {
    pub(crate) async fn start(store: Arc<CertificateStore>) -> Self {
        Self::with_options(store, Options::default()).await
    }

    pub(crate) async fn with_options(store: Arc<CertificateStore>, options: Options) -> Self {
        Self::with_room_for(64, store, options).await
    }

    pub(crate) async fn with_room_for(
        failures: usize,
        store: Arc<CertificateStore>,
        options: Options,
    ) -> Self {
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connections = Connections::new(&store);
        let (sender, failures) = mpsc::channel(failures);
        let wiring = Wiring { store, connections: connections.clone(), failures: sender };
        let mut listener = TlsListener::start(tcp, wiring, options).unwrap();
        let address = listener.local_addr();
        let (seen, peers) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            while let Some(mut connection) = listener.accept().await {
                seen.send(connection.peer().clone()).ok();
                tokio::spawn(async move {
                    let mut buffer = [0; 256];
                    while let Ok(length @ 1..) = connection.read(&mut buffer).await {
                        connection.write_all(&buffer[..length]).await?;
                        connection.flush().await?;
                    }
                    connection.shutdown().await
                });
            }
        });
        Self { address, connections, failures, peers, task }
    }

    pub(crate) async fn next_peer(&mut self) -> PeerIdentity {
        within(self.peers.recv()).await.unwrap()
    }

    pub(crate) async fn next_failure(&mut self) -> HandshakeReason {
        within(self.failures.recv()).await.unwrap().reason
    }
}

impl Drop for EchoServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Fails the test instead of hanging it.
pub(crate) async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, work).await.expect("the deadline for a state passed")
}

/// Whether the connection still carries bytes both ways.
pub(crate) async fn echoes(connection: &mut DialedConnection) -> bool {
    let exchange = async {
        connection.write_all(b"ping").await?;
        let mut answer = [0; 4];
        connection.read_exact(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    within(exchange).await.is_ok_and(|answer| &answer == b"ping")
}

/// Waits for the peer's orderly end of the connection; any other end fails.
pub(crate) async fn closes_cleanly(connection: &mut DialedConnection) {
    let end = within(connection.read(&mut [0; 1])).await;
    assert_eq!(end.expect("the close is announced, not a reset"), 0);
}
