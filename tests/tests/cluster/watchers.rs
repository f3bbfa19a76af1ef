//! Operators' connections that ask for much and read nothing: what they cost a node is bounded.

use std::fs;
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use http::{Method, Request};
use jaco_pki::{Dialer, OperatorToken, TrustBundle};
use jaco_testkit::{Client, Cluster, Engine, Node, Target, v1};

use crate::scenario::{apply_request, deploy};
use crate::strangers::resident;

const CONNECTIONS: usize = 4;
const STREAMS: usize = 125;
/// So that an answer has some hundred kilobytes.
const REPLICAS: u32 = 1_000;

/// Calls a method with an empty message and reads nothing of the answer.
async fn stall(sender: &SendRequest<Bytes>, method: &str, token: &str) -> ResponseFuture {
    let mut sender = sender.clone().ready().await.expect("a stream is free");
    let request = Request::builder()
        .method(Method::POST)
        .uri(format!("https://member.internal{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("authorization", format!("Bearer {token}"))
        .body(())
        .expect("a valid request");
    let (answer, mut body) = sender.send_request(request, false).expect("it is sent");
    body.send_data(Bytes::from_static(&[0; 5]), true).expect("it is sent");
    answer
}

fn term(status: &v1::ClusterStatusResponse) -> u64 {
    status.term
}

async fn operator(node: &Node) -> (TrustBundle, OperatorToken) {
    let trust = fs::read_to_string(node.folder().join("data/node/ca.crt")).expect("it has one");
    let request = v1::IssueOperatorTokenRequest { name: "mine".to_owned(), ..Default::default() };
    let issued = node.client().issue_operator_token(request).await.expect("a token is issued");
    let trust = TrustBundle::from_pem(&trust).expect("it is a certificate");
    (trust, issued.token.parse().expect("a token"))
}

/// R-FAULT-3: 500 watches of a large status and as many of the audit log, none of which is read, neither fill the
/// leader's memory nor cost it its leadership, and another operator's commands go on.
#[tokio::test(flavor = "multi_thread")]
async fn t104_stalled_watchers_do_not_unseat_the_leader() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", REPLICAS).await;
    let leader = cluster.leader().await;
    let node = &cluster.nodes[leader];
    let (trust, token) = operator(node).await;
    let servers = std::slice::from_ref(&node.address);
    let honest = Target::servers(servers, trust.clone(), token.clone()).expect("a target");
    let honest = Client::new(honest);
    let before = honest.status(v1::ClusterStatusRequest {}).await.map(|it| term(&it)).unwrap();
    let rest = resident(node);

    let (mut connections, mut stalled) = (Vec::new(), Vec::new());
    for _ in 0..CONNECTIONS {
        let dialer = Dialer::operator(trust.clone()).expect("it can be dialled");
        let stream = dialer.connect(node.address.clone()).await.expect("it is accepted");
        let (sender, connection) = h2::client::handshake(stream).await.expect("http/2 is spoken");
        connections.push(tokio::spawn(async move { drop(connection.await) }));
        for _ in 0..STREAMS {
            for method in ["/jaco.v1.Query/Watch", "/jaco.v1.Query/Audit"] {
                stalled.push(stall(&sender, method, &token.reveal()).await);
            }
        }
    }

    let (mut highest, mut slowest) = (0, Duration::ZERO);
    for version in 0..20 {
        let asked = Instant::now();
        let changed = honest.apply(apply_request("other", &format!("web:{version}"), 1)).await;
        changed.expect("an apply of another operator is admitted");
        let request = v1::StatusRequest { linearizable: true, ..v1::StatusRequest::default() };
        let seen = honest.read_status(request).await.expect("another operator is answered");
        assert!(seen.replicas.len() >= REPLICAS as usize);
        slowest = slowest.max(asked.elapsed());
        highest = highest.max(resident(node));
    }
    let after = honest.status(v1::ClusterStatusRequest {}).await.map(|it| term(&it)).unwrap();
    assert_eq!(after, before, "the leader leads on");
    let grown = highest.saturating_sub(rest);
    println!("{} MiB more than at rest, slowest command {slowest:?}", grown >> 20);
    assert!(grown < 100 << 20, "{} MiB more than at rest", grown >> 20);
    assert!(slowest < Duration::from_secs(15), "a command took {slowest:?}");
    drop(stalled);
    connections.iter().for_each(tokio::task::JoinHandle::abort);
}
