//! Strangers: callers without a credential, who must not cost a node anything that they can multiply.

use std::fs;

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use jaco_pki::{Dialer, TrustBundle};
use jaco_testkit::{Cluster, Engine, Node, memory, v1};
use tokio::task::JoinSet;
use tokio::time::{Duration, timeout};

const CONNECTIONS: usize = 4;
const STREAMS: usize = 200;
/// What each stream tries to have buffered: a message of 8 MiB is announced, and never ended.
const SENT_BYTES: usize = 2 << 20;
/// What announces a message.
const BEGUN_BYTES: usize = 5;

/// Bytes of memory that a daemon has.
pub(crate) fn resident(node: &Node) -> usize {
    usize::try_from(memory::resident(node.pid())).expect("it is in memory")
}

/// Calls a method on one stream and sends so much of a message, or as much as is taken. Returns the `grpc-status` of
/// the answer, if there is one.
async fn flood(
    sender: h2::client::SendRequest<Bytes>,
    method: &str,
    sent: usize,
) -> Option<String> {
    let mut sender = sender.ready().await.ok()?;
    let request = Request::builder()
        .method(Method::POST)
        .uri(format!("https://member.internal{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .expect("a valid request");
    let (answer, mut body) = sender.send_request(request, false).ok()?;
    let mut message = vec![0_u8; sent];
    message[1..5].copy_from_slice(&(8_u32 << 20).to_be_bytes());
    body.reserve_capacity(sent);
    // An error says that the stream was ended by the other side.
    drop(body.send_data(message.into(), false));
    let answer = timeout(Duration::from_secs(20), answer).await.ok()?.ok()?;
    let status = |headers: &HeaderMap| Some(headers.get("grpc-status")?.to_str().ok()?.to_owned());
    status(answer.headers())
}

/// Opens connections without a credential and floods a method on all their streams. Returns the answers.
async fn attack(
    address: &str,
    trust: &TrustBundle,
    method: &'static str,
    sent: usize,
) -> Vec<Option<String>> {
    let mut streams = JoinSet::new();
    let mut connections = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let dialer = Dialer::operator(trust.clone()).expect("it can be dialled");
        let stream = dialer.connect(address.to_owned()).await.expect("strangers may connect");
        let (sender, connection) = h2::client::handshake(stream).await.expect("http/2 is spoken");
        connections.spawn(async move { drop(connection.await) });
        for _ in 0..STREAMS {
            streams.spawn(flood(sender.clone(), method, sent));
        }
    }
    streams.join_all().await
}

/// R-IN-3: who has no credential is refused by the headers of a request. A message of such a caller is not
/// read, so it cannot fill the daemon's memory; members and operators notice nothing.
#[tokio::test(flavor = "multi_thread")]
async fn t90_messages_of_strangers_are_not_buffered() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    let leader = cluster.leader().await;
    let node = &cluster.nodes[leader];
    let trust = fs::read_to_string(node.folder().join("data/node/ca.crt")).unwrap();
    let trust = TrustBundle::from_pem(&trust).unwrap();
    let term = |status: v1::ClusterStatusResponse| status.term;
    let before = node.client().status(v1::ClusterStatusRequest {}).await.map(term).unwrap();
    let rest = resident(node);

    for method in ["/jaco.v1.Deploy/Apply", "/jaco.v1.Peer/Heartbeat", "/jaco.v1.No/Such"] {
        // 16 is UNAUTHENTICATED.
        let answers = attack(&node.address, &trust, method, BEGUN_BYTES).await;
        let refused = answers.iter().filter(|status| status.as_deref() == Some("16")).count();
        assert_eq!(refused, CONNECTIONS * STREAMS, "{method}: {:?}", answers.first());
        let answers = attack(&node.address, &trust, method, SENT_BYTES).await;
        // Who sends that much is read slowly and then cut off: the last have no answer.
        let told: Vec<&String> = answers.iter().flatten().collect();
        assert!(told.len() >= CONNECTIONS, "{method}: {} answers", told.len());
        assert!(told.iter().all(|status| *status == "16"), "{method}: {told:?}");
    }
    // The token of a join request is in its message, which is bounded instead, as is their number.
    let answers = attack(&node.address, &trust, "/jaco.v1.Cluster/AdmitNode", SENT_BYTES).await;
    assert!(answers.iter().all(|status| status.as_deref() != Some("0")), "nobody is let in");

    let grown = resident(node).saturating_sub(rest);
    assert!(grown < 100 << 20, "{} MiB more than at rest", grown >> 20);
    let after = node.client().status(v1::ClusterStatusRequest {}).await.map(term).unwrap();
    assert_eq!(after, before, "the leader leads on");
    let request = v1::IssueOperatorTokenRequest { name: "mine".to_owned(), ..Default::default() };
    node.client().issue_operator_token(request).await.expect("writes go on");
}
