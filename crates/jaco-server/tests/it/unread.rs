//! Readers that do not read, and what they cost others.

use std::pin::Pin;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use jaco_proto::v1;
use jaco_proto::v1::deploy_client::DeployClient;
use jaco_proto::v1::query_client::QueryClient;
use jaco_server::UnreadLimits;
use prost::Message;
use tokio::net::TcpSocket;
use tonic::transport::{Channel, Endpoint};

use crate::served::{Served, over_tls_with};

const LIMITS: UnreadLimits = UnreadLimits { bytes: 8_000, patience: Duration::from_millis(500) };

async fn connected(served: &Served, window: Option<u32>) -> QueryClient<Channel> {
    let endpoint = Endpoint::from_static("http://node.internal").initial_stream_window_size(window);
    QueryClient::new(over_tls_with(served.peer.clone(), &served.address, endpoint).await)
}

async fn served(limits: UnreadLimits) -> Served {
    let served = Served::start_with(limits).await;
    served.node.store.raft().initialize("127.0.0.1:1".to_owned()).await.unwrap();
    // So that an answer is long enough to be counted.
    for number in 0..30 {
        apply(&served, &format!("filler-{number}"), 1).await;
    }
    apply(&served, "shop", 1).await;
    served
}

/// The parts of a status.
async fn read(query: &mut QueryClient<Channel>) -> Vec<v1::StatusResponse> {
    let mut answer = query.overview(in_parts()).await.unwrap().into_inner();
    let mut parts = Vec::new();
    while let Some(part) = answer.message().await.unwrap() {
        parts.push(part);
    }
    parts
}

fn in_parts() -> v1::StatusRequest {
    v1::StatusRequest { in_parts: true, ..v1::StatusRequest::default() }
}

/// The revision that a status shows of `shop`.
fn revision(status: &v1::StatusResponse) -> u64 {
    let mut shown = status.deployments.iter();
    shown.find(|deployment| deployment.name == "shop").unwrap().revision
}

async fn apply(served: &Served, name: &str, version: u32) {
    let service = format!(r#"{{"image":"web:{version}"}}"#);
    let model = format!(r#"{{"name":"{name}","services":{{"web":{service}}}}}"#);
    apply_model(served, model).await;
}

async fn apply_model(served: &Served, compose_json: String) {
    let request = v1::ApplyRequest { compose_json, ..v1::ApplyRequest::default() };
    DeployClient::new(served.local.clone()).apply(request).await.unwrap();
}

/// R-FAULT-3: answers that stalled readers leave unread fill no more memory than their limit: then the connection
/// whose reader took nothing for longest is closed, and others are answered.
#[tokio::test(flavor = "multi_thread")]
async fn stalled_readers_are_closed_when_others_need_their_memory() {
    let served = served(LIMITS).await;
    // Of each answer only 16 bytes are taken.
    let mut stalled = connected(&served, Some(16)).await;
    let mut watches = Vec::new();
    for _ in 0..64 {
        watches.push(stalled.watch(v1::StatusRequest::default()).await.unwrap().into_inner());
    }
    let mut honest = connected(&served, None).await;
    let asked = Instant::now();
    for _ in 0..20 {
        let answer = tokio::time::timeout(Duration::from_secs(5), read(&mut honest)).await;
        answer.expect("it does not wait for readers that stall");
    }
    assert!(
        asked.elapsed() >= LIMITS.patience / 2,
        "the stalled readers filled nothing: the test shows nothing"
    );
    for mut watch in watches {
        let closed = async { while let Ok(Some(_)) = watch.message().await {} };
        let closed = tokio::time::timeout(Duration::from_secs(5), closed).await;
        closed.expect("the connection of the stalled readers is closed");
    }
}

/// Watches on a connection with room for all answers, whose socket is not read from now on.
async fn watches_on_an_unread_socket(served: &Served, watches: usize) -> UnreadSocket {
    const WINDOW: u32 = 1 << 30;
    let socket = TcpSocket::new_v4().unwrap();
    // The less the kernel keeps of what is not read, the more is left to the daemon.
    socket.set_recv_buffer_size(4096).unwrap();
    let socket = socket.connect(served.address.parse().unwrap()).await.unwrap();
    let stream = served.peer.over(socket).await.unwrap();
    let mut settings = h2::client::Builder::new();
    settings.initial_window_size(WINDOW).initial_connection_window_size(WINDOW);
    let (sender, connection) = settings.handshake::<_, Bytes>(stream).await.unwrap();
    let mut connection = Box::pin(connection);
    let open = async {
        let mut answers = Vec::new();
        for _ in 0..watches {
            let request = Request::post("https://member.internal/jaco.v1.Query/Watch")
                .header("content-type", "application/grpc")
                .header("te", "trailers");
            let mut sender = sender.clone().ready().await.unwrap();
            let (answer, mut body) = sender.send_request(request.body(()).unwrap(), false).unwrap();
            body.send_data(Bytes::from_static(&[0; 5]), true).unwrap();
            answers.push(answer);
        }
        answers
    };
    let answers = tokio::select! {
        answers = open => answers,
        ended = &mut connection => panic!("the connection ended: {ended:?}"),
    };
    // The last requests leave, and the first answers arrive.
    let ended = tokio::time::timeout(Duration::from_millis(500), &mut connection).await;
    assert!(ended.is_err(), "the connection ended: {ended:?}");
    UnreadSocket { connection, _answers: answers }
}

/// Its answers wait until `connection` is polled again.
struct UnreadSocket {
    connection: Pin<Box<dyn Future<Output = Result<(), h2::Error>>>>,
    _answers: Vec<h2::client::ResponseFuture>,
}

/// R-FAULT-3: what a client has allowed to be sent, but does not read from its socket, is counted as unread: its
/// connection is closed once others need the memory.
#[tokio::test(flavor = "multi_thread")]
async fn answers_to_unread_sockets_are_counted() {
    let served = served(LIMITS).await;
    // So that the answers do not fit into what the kernel keeps.
    let image = "x".repeat(200);
    let services: Vec<String> =
        (0..200).map(|number| format!(r#""web-{number}":{{"image":"{image}"}}"#)).collect();
    apply_model(&served, format!(r#"{{"name":"large","services":{{{}}}}}"#, services.join(",")))
        .await;
    let mut honest = connected(&served, None).await;
    let stalled = watches_on_an_unread_socket(&served, 250).await;
    let open = served.node.connections.open();
    // So that there are answers to all watches, which nobody reads: more of them than the kernel keeps, but of each watch
    // less than the HTTP library keeps by default.
    for version in 2..5 {
        apply(&served, "shop", version).await;
    }
    let begun = Instant::now();
    while served.node.connections.open() >= open {
        assert!(begun.elapsed() < Duration::from_secs(30), "unread answers are not counted");
        let answer = honest.overview(v1::StatusRequest::default());
        let answer = tokio::time::timeout(Duration::from_secs(5), answer).await;
        answer.expect("it does not wait for sockets that are not read").unwrap();
    }
    honest.overview(v1::StatusRequest::default()).await.expect("who reads is not closed");
    let ended = tokio::time::timeout(Duration::from_secs(5), stalled.connection).await;
    drop(ended.expect("the connection that is not read is closed"));
}

/// R-FAULT-3: who reads slowly and lets nobody wait is left alone, however long it takes.
#[tokio::test(flavor = "multi_thread")]
async fn slow_readers_are_left_alone_while_there_is_room() {
    let served = served(LIMITS).await;
    let mut slow = connected(&served, Some(16)).await;
    let mut watch = slow.watch(v1::StatusRequest::default()).await.unwrap().into_inner();
    tokio::time::sleep(LIMITS.patience * 3).await;
    let mut honest = connected(&served, None).await;
    read(&mut honest).await;
    let first = watch.message().await.unwrap().expect("it goes on");
    assert_eq!(revision(&first), 1);
}

/// R-CLI-10: a reader that fell behind gets the newest state next, not what lay between.
#[tokio::test(flavor = "multi_thread")]
async fn late_readers_get_the_newest_state() {
    let served = served(UnreadLimits::default()).await;
    let mut late = Vec::new();
    for _ in 0..8 {
        let mut query = connected(&served, Some(16)).await;
        late.push(query.watch(v1::StatusRequest::default()).await.unwrap().into_inner());
    }
    for version in 2..30 {
        apply(&served, "shop", version).await;
    }
    for mut watch in late {
        let mut seen = Vec::new();
        while seen.last() != Some(&29) {
            seen.push(revision(&watch.message().await.unwrap().unwrap()));
        }
        // The first was on its way, and the next may have been.
        assert!(seen.len() <= 3, "{seen:?}");
    }
}

/// R-CLI-10: an answer is never older than the call, though callers share it.
#[tokio::test(flavor = "multi_thread")]
async fn shared_answers_have_what_was_applied_before_the_call() {
    let served = served(UnreadLimits::default()).await;
    let mut query = QueryClient::new(served.local.clone());
    let _watched = query.watch(v1::StatusRequest::default()).await.unwrap();
    for version in 2..40 {
        apply(&served, "shop", version).await;
        assert_eq!(revision(&read(&mut query).await[0]), u64::from(version));
        let mut watch = query.watch(v1::StatusRequest::default()).await.unwrap().into_inner();
        let first = watch.message().await.unwrap().unwrap();
        assert_eq!(revision(&first), u64::from(version));
    }
}

/// R-FAULT-3: how many different things are watched is bounded, and what is no longer watched makes room.
#[tokio::test(flavor = "multi_thread")]
async fn unwatched_subjects_make_room() {
    let served = served(UnreadLimits::default()).await;
    let mut query = QueryClient::new(served.local.clone());
    let of = |name: String| v1::StatusRequest { deployment: name, ..v1::StatusRequest::default() };
    let mut open = Vec::new();
    let refused = loop {
        match query.watch(of(format!("d{}", open.len()))).await {
            Ok(watch) => open.push(watch),
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused.code(), tonic::Code::ResourceExhausted, "{refused}");
    assert_eq!(open.len(), 64);
    query.watch(of("d0".to_owned())).await.expect("what is watched is shared");
    drop(open);
    let again = async {
        while query.watch(of("other".to_owned())).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), again).await.expect("the places are free again");
}

/// R-CLI-10, R-FAULT-3: a status that is larger than a message may be is answered, and watched, in parts of which each is
/// small; together they are all. Who does not join parts gets one message, or a refusal.
#[tokio::test(flavor = "multi_thread")]
async fn a_status_of_any_size_is_answered_in_parts() {
    const DEPLOYMENTS: usize = 64;
    const SERVICES: usize = 500;
    let served = served(UnreadLimits::default()).await;
    let image = format!("registry.example/{}:1", "a".repeat(230));
    for number in 0..DEPLOYMENTS {
        let services = (0..SERVICES).map(|number| format!(r#""s{number}":{{"image":"{image}"}}"#));
        let services = services.collect::<Vec<_>>().join(",");
        let compose_json = format!(r#"{{"name":"large-{number}","services":{{{services}}}}}"#);
        let request = v1::ApplyRequest { compose_json, ..v1::ApplyRequest::default() };
        DeployClient::new(served.local.clone()).apply(request).await.unwrap();
    }
    let mut query = connected(&served, None).await;
    let parts = read(&mut query).await;
    let whole: usize = parts.iter().map(Message::encoded_len).sum();
    assert!(whole > 8 << 20, "{whole} bytes fit into one message: the test shows nothing");
    assert!(parts.iter().all(|part| part.encoded_len() < 1 << 20));
    let names = |parts: &[v1::StatusResponse]| -> Vec<(String, usize)> {
        let all = parts.iter().flat_map(|part| &part.deployments);
        all.map(|it| (it.name.clone(), it.services.len())).collect()
    };
    let large = names(&parts).into_iter().filter(|(name, _)| name.starts_with("large-"));
    assert!(large.clone().all(|(_, services)| services == SERVICES));
    assert_eq!(large.count(), DEPLOYMENTS);
    assert_eq!(parts.iter().filter(|part| part.raft_index > 0).count(), 1);

    let mut watch = query.watch(in_parts()).await.unwrap().into_inner();
    let mut watched = Vec::new();
    while watched.last().is_none_or(|part: &v1::StatusResponse| part.more) {
        watched.push(watch.message().await.unwrap().unwrap());
    }
    assert_eq!(names(&watched), names(&parts));

    let whole = v1::StatusRequest::default();
    let refused = query.overview(whole.clone()).await.unwrap().into_inner().message().await;
    assert_eq!(refused.unwrap_err().code(), tonic::Code::OutOfRange, "not a part of it as all");
    for number in 0..DEPLOYMENTS - 2 {
        let request =
            v1::DeleteRequest { deployment: format!("large-{number}"), ..Default::default() };
        DeployClient::new(served.local.clone()).delete(request).await.unwrap();
    }
    let mut answer = query.overview(whole).await.unwrap().into_inner();
    let all = answer.message().await.unwrap().unwrap();
    assert!(all.encoded_len() > 256 << 10, "it is in one part anyway: this shows nothing");
    assert_eq!(names(&[all]), names(&read(&mut query).await));
    assert_eq!(answer.message().await.unwrap(), None);
}
