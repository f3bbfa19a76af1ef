//! What is said to the edge so that it and an nginx behind it might read different requests: they never do.

pub(crate) mod client;
mod corpus;
mod law;
pub(crate) mod nginx;
mod streams;

use std::net::SocketAddr;
use std::path::PathBuf;

use jaco_testkit::engines::PATIENCE;
use jaco_testkit::eventually_within;
use jaco_testkit::namespace::enter;

use crate::edged;
use client::{Heard, Then};
use corpus::Becomes;
use law::{faults, is_whole};
use nginx::Log;

const EDGE: SocketAddr = SocketAddr::new(edged::EDGE, 80);

/// A sequence that was said.
struct Said {
    name: String,
    /// Stands in the paths of its requests.
    word: String,
    becomes: Becomes,
    heard: Heard,
    /// What another client was answered right after it, whose id is the word.
    innocent: Heard,
}

/// What another client asks, but for its id.
const INNOCENT: &str = "GET /innocent HTTP/1.1\r\nHost: shop.example.com\r\nConnection: close\r\n";

/// R-IN-3, R-EDGE-2: of each sequence of the corpus, nginx has seen exactly the requests that the edge has answered with nginx's
/// answers: none that was smuggled, none that nginx calls malformed, and none of a client that was refused. A client
/// that asks right after it, over the same connection to nginx, gets its own answer.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_smuggled_to_nginx() {
    let machines = nginx::behind_an_edge().await;
    let namespace = PathBuf::from(format!("/proc/{}/ns/net", machines.switch()));
    let said =
        tokio::task::spawn_blocking(move || std::thread::spawn(move || say_all(namespace)).join());
    let said = said.await.expect("it is not cancelled").expect("all is said");
    let container =
        machines.cluster.overview(0).await.expect("it answers").replicas[0].container_id.clone();
    let last = said.last().expect("there are many").word.clone();
    let log = eventually_within(PATIENCE, "the last request is in the log", || async {
        let log = Log::read(&mut machines.engines[0].command(&["logs", &container]));
        if log.seen.iter().any(|seen| seen.id == last) { Ok(log) } else { Err(log.seen.len()) }
    })
    .await;
    let faults: Vec<String> = said.iter().flat_map(|said| faults(said, &log)).collect();
    assert_eq!(faults, Vec::<String>::new(), "{:#?}", log.complaints);
    assert_eq!(log.complaints, Vec::<String>::new(), "nginx calls nothing malformed");
    println!("{}", is_whole(&said, &log));
}

/// Says each sequence, and lets another client ask after each.
fn say_all(namespace: PathBuf) -> Vec<Said> {
    enter(&namespace);
    let mut said = Vec::new();
    let mut note = |name: String, becomes, heard: &dyn Fn(&str) -> Heard| {
        let word = format!("case{:03}", said.len());
        let heard = heard(&word);
        let innocent = format!("{INNOCENT}X-Id: {word}\r\n\r\n");
        let innocent = client::say(EDGE, innocent.as_bytes(), Then::Listen);
        said.push(Said { name, word, becomes, heard, innocent });
    };
    for case in corpus::corpus() {
        note(case.name, case.becomes, &|word| {
            let is_unfinished = case.becomes == Becomes::Unfinished;
            let fence = if is_unfinished { b"" } else { corpus::fence() };
            let says = with_word(&[&case.says, fence].concat(), word);
            client::say(EDGE, &says, if is_unfinished { Then::GoAway } else { Then::Listen })
        });
    }
    for case in streams::CORPUS {
        note(format!("HTTP/2: {}", case.name), case.becomes, &|word| case.say(EDGE, word));
    }
    said
}

fn with_word(bytes: &[u8], word: &str) -> Vec<u8> {
    let text = String::from_utf8(bytes.to_vec()).expect("the corpus is text");
    text.replace("CASE", word).into_bytes()
}
