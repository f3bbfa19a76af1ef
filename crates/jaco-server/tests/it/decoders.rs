//! Whatever a caller sends in a request is answered or refused: no handler panics on the way from messages to domain
//! types, nor keeps the caller waiting. The tests iterate over the descriptor, so a new rpc is covered without a line here.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use jaco_mutate::{Dice, mutate};
use jaco_proto::rpc::{self, Rpc};
use jaco_proto::v1::{self, Access};
use prost::Message as _;
use tonic::Request;
use tonic::client::Grpc;
use tonic::transport::Channel;

use crate::raw::Raw;
use crate::served::Served;

/// Requests of each rpc.
const ROUNDS: u64 = 40;

/// Texts that are names, sizes, addresses, documents or none of these.
const TEXTS: [&str; 24] = [
    "",
    "shop",
    "web",
    "n1",
    "shop/web",
    "shop/web/0",
    "10.0.0.0/8",
    "255.255.255.255/0",
    "127.0.0.1:1",
    "zone == a",
    "-1",
    "18446744073709551615",
    "99999999999999999999999999999h",
    "2026-13-45T99:99:99Z",
    "secret",
    "example.com",
    "ghcr.io",
    "{}",
    "[[]]",
    r#"{"name":"shop","services":{"web":{"image":"web:1","deploy":{"replicas":2}}}}"#,
    r#"{"name":"shop","services":{"web":{"image":"web:1","ports":[{"target":80,"published":"1-65535"}]}}}"#,
    "deployment: shop\n",
    "a\u{0}b",
    "ääää\u{202e}",
];

/// A message that some rpc may understand: fields of small numbers, with values of all kinds.
fn message(dice: &mut Dice, depth: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..dice.roll(6) {
        let field = 1 + u32::try_from(dice.roll(12)).unwrap();
        match dice.roll(3) {
            0 => {
                let numbers = [0, 1, 2, 7, 60_000, 1 << 31, u64::from(u32::MAX), 1 << 63, u64::MAX];
                prost::encoding::uint64::encode(
                    field,
                    &numbers[dice.roll(numbers.len())],
                    &mut bytes,
                );
            }
            1 if depth > 0 => {
                prost::encoding::bytes::encode(field, &message(dice, depth - 1), &mut bytes);
            }
            _ => {
                prost::encoding::string::encode(field, &dice.of(&TEXTS).to_owned(), &mut bytes);
            }
        }
    }
    bytes
}

/// Requests that are understood, for mutations to start from.
fn requests() -> Vec<Vec<u8>> {
    let apply = v1::ApplyRequest {
        compose_json: TEXTS[19].to_owned(),
        overlay_yaml: "services:\n  web:\n    replicas: 3\n".to_owned(),
        environment_toml: "[web]\nmemory = \"1G\"\n".to_owned(),
        deployment: "shop".to_owned(),
        dry_run: true,
        ..v1::ApplyRequest::default()
    };
    let forward = v1::ForwardRequest {
        method: "/jaco.v1.Deploy/Apply".to_owned(),
        body: apply.encode_to_vec().into(),
        ..v1::ForwardRequest::default()
    };
    vec![apply.encode_to_vec(), forward.encode_to_vec()]
}

/// Calls an rpc and reads what it answers, for a short while: some answer for ever.
async fn call(channel: &Channel, rpc: &Rpc, body: Bytes) {
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.unwrap();
    let path = rpc.method.parse().unwrap();
    let answered = async {
        if rpc.client_streaming {
            let bodies = Request::new(futures::stream::iter([body.clone(), body]));
            if let Ok(answers) = grpc.streaming(bodies, path, Raw).await {
                answers.into_inner().take(3).collect::<Vec<_>>().await;
            }
        } else if let Ok(answers) = grpc.server_streaming(Request::new(body), path, Raw).await {
            answers.into_inner().take(3).collect::<Vec<_>>().await;
        }
    };
    drop(tokio::time::timeout(Duration::from_secs(2), answered).await);
}

/// R-IN-3: requests of all rpcs with any content, from those who may call them: nothing panics, and the member answers
/// as before.
#[tokio::test(flavor = "multi_thread")]
async fn any_request_is_answered_or_refused() {
    let served = Served::start().await;
    served.found().await;
    let panics = Arc::new(Mutex::new(Vec::new()));
    let (seen, usual) = (Arc::clone(&panics), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |info| {
        // Handlers run there, tests do not.
        if std::thread::current().name().is_some_and(|name| name.starts_with("tokio")) {
            seen.lock().unwrap_or_else(PoisonError::into_inner).push(info.to_string());
        }
        usual(info);
    }));
    let seeds = requests();
    let calls = rpc::ALL.iter().filter(|rpc| rpc.access != Access::Forwarded).flat_map(|rpc| {
        let (seeds, served) = (&seeds, &served);
        (0..ROUNDS).map(move |round| {
            let mut dice = Dice::new(round);
            let mut body = match round % 3 {
                0 => seeds[dice.roll(seeds.len())].clone(),
                _ => message(&mut dice, 3),
            };
            if round % 2 == 0 {
                mutate(&mut body, seeds, &mut dice);
            }
            let is_peers = rpc.access == Access::Member;
            let channel = if is_peers { &served.member } else { &served.local };
            async move { call(channel, rpc, body.into()).await }
        })
    });
    futures::stream::iter(calls).buffer_unordered(16).collect::<()>().await;
    let panics = panics.lock().unwrap_or_else(PoisonError::into_inner).clone();
    assert!(panics.is_empty(), "{panics:#?}");
    let mut query = v1::query_client::QueryClient::new(served.local.clone());
    let mut answer = query.overview(v1::StatusRequest::default()).await.unwrap().into_inner();
    answer.message().await.unwrap().expect("an answer has a part");
}
