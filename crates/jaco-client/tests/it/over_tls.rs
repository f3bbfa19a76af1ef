//! The network: the cluster's CA is pinned, the token is shown, and one node of several answers.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jaco_client::scripted::{Answer, Running, Script, serve};
use jaco_client::{Client, Target};
use jaco_pki::listener::{Options, Wiring};
use jaco_pki::{
    CertificateAuthority, CertificateStore, Connections, Credentials, NodeCsr, NodeKey,
    OperatorToken, TlsListener, TrustBundle,
};
use jaco_proto::v1;
use jaco_types::code::ExitCode;
use jaco_types::{ClusterId, ErrorCode, NodeId, Rejection, Timestamp};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// Lets in who shows this header.
struct Guarded(String);

impl Script for Guarded {
    fn status(
        &self,
        _: v1::ClusterStatusRequest,
        who: Option<&str>,
    ) -> Answer<v1::ClusterStatusResponse> {
        if who == Some(&self.0) {
            return Ok(v1::ClusterStatusResponse { initialized: true, ..Default::default() });
        }
        Err(Rejection::new(ErrorCode::TokenInvalid, "another token"))
    }
}

fn authority(digit: &str) -> CertificateAuthority {
    CertificateAuthority::create(&ClusterId::new(&digit.repeat(32)).unwrap(), now()).unwrap()
}

fn trust(authority: &CertificateAuthority) -> TrustBundle {
    TrustBundle::from(authority.certificate().clone())
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    Timestamp(u64::try_from(since.as_millis()).unwrap())
}

/// A node of the authority's cluster; its address and its life.
async fn node(authority: &CertificateAuthority, token: &OperatorToken) -> (String, Running) {
    let key = NodeKey::generate();
    let csr = NodeCsr::from_der(&key.request()).unwrap();
    let life = jaco_pki::ca::NODE_LIFE;
    let certificate = authority.sign(&csr, NodeId(1), life, now()).unwrap();
    let credentials = Credentials::new(key, certificate, trust(authority), now()).unwrap();
    let store = CertificateStore::new(credentials).unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (failures, _) = mpsc::channel(1);
    let connections = Connections::new(&store);
    let wiring = Wiring { store, connections, failures };
    let listener = TlsListener::start(tcp, wiring, Options::default()).unwrap();
    let address = listener.local_addr().to_string();
    let script = Guarded(format!("Bearer {}", *token.reveal()));
    (address, serve(listener, Arc::new(script)))
}

async fn ask(target: Target) -> Result<v1::ClusterStatusResponse, (ErrorCode, ExitCode)> {
    let client = Client::new(target);
    let asked = client.status(v1::ClusterStatusRequest {});
    let answer =
        tokio::time::timeout(Duration::from_secs(20), asked).await.expect("it has deadlines");
    answer.map_err(|error| (error.code(), error.exit_code()))
}

/// The first server is down, the second answers; the token is shown to it.
#[tokio::test]
async fn a_node_that_answers_is_found() {
    let (ours, token) = (authority("0"), OperatorToken::mint());
    let (address, _running) = node(&ours, &token).await;
    let down = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string();
    let target = Target::servers(&[down, address], trust(&ours), token).unwrap();
    assert!(ask(target).await.unwrap().initialized);
}

/// R-CLI-4: a server that is off, so that nothing refuses the connection, does not delay a command until the
/// connection times out.
#[tokio::test]
async fn a_server_that_is_off_does_not_delay_the_call() {
    let (ours, token) = (authority("0"), OperatorToken::mint());
    let (address, _running) = node(&ours, &token).await;
    // It takes connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let off = silent.local_addr().unwrap().to_string();
    let target = Target::servers(&[off, address], trust(&ours), token).unwrap();
    let begun = std::time::Instant::now();
    assert!(ask(target).await.unwrap().initialized);
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn another_token_is_refused() {
    let ours = authority("0");
    let (address, _running) = node(&ours, &OperatorToken::mint()).await;
    let target = Target::servers(&[address], trust(&ours), OperatorToken::mint()).unwrap();
    assert_eq!(ask(target).await.unwrap_err(), (ErrorCode::TokenInvalid, ExitCode::NotAuthorised));
}

/// A server of another cluster gets no token: the connection ends before anything is sent.
#[tokio::test]
async fn another_cluster_is_refused() {
    let (other, token) = (authority("f"), OperatorToken::mint());
    let (address, _running) = node(&other, &token).await;
    let target = Target::servers(&[address], trust(&authority("0")), token).unwrap();
    let expected = (ErrorCode::CertificateInvalid, ExitCode::NotAuthorised);
    assert_eq!(ask(target).await.unwrap_err(), expected);
}
