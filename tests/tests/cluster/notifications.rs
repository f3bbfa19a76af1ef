//! R-OPS-1: events are told to others: signed, in order, again until they are accepted, and under the same id whoever leads.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use jaco_testkit::{Cluster, Engine, eventually, eventually_within, said, stays, succeeded, v1};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// What signs, and what is secret of an address.
const SECRET: &str = "correct-horse-battery-staple";
const PATH: &str = "/services/T0/hunter2";

/// What a receiver does with what it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Status(u16),
    /// Nothing, until the sender hangs up.
    Never,
}

#[derive(Debug, Clone)]
struct Received {
    headers: BTreeMap<String, String>,
    body: String,
}

impl Received {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{}", self.body))
    }

    fn id(&self) -> String {
        self.json()["id"].as_str().expect("it has an id").to_owned()
    }
}

/// A receiver on loopback.
struct Receiver {
    address: SocketAddr,
    answer: Arc<Mutex<Answer>>,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Receiver {
    fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        Self::on(listener, answer)
    }

    fn on(listener: TcpListener, answer: Answer) -> Self {
        let address = listener.local_addr().expect("it is bound");
        let answer = Arc::new(Mutex::new(answer));
        let received = Arc::new(Mutex::new(Vec::new()));
        let (how, all) = (Arc::clone(&answer), Arc::clone(&received));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (how, all) = (Arc::clone(&how), Arc::clone(&all));
                thread::spawn(move || serve(stream.expect("a connection"), &how, &all));
            }
        });
        Self { address, answer, received }
    }

    fn url(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    fn answers(&self, answer: Answer) {
        *self.answer.lock().expect("no test panics with it") = answer;
    }

    fn received(&self) -> Vec<Received> {
        self.received.lock().expect("no test panics with it").clone()
    }

    /// Waits for so many, and returns all that there are then.
    async fn gets(&self, count: usize) -> Vec<Received> {
        eventually_within(Duration::from_secs(60), &format!("{count} notifications"), || async {
            let received = self.received();
            if received.len() >= count { Ok(received) } else { Err(received.len()) }
        })
        .await
    }
}

fn serve(mut stream: TcpStream, answer: &Mutex<Answer>, received: &Mutex<Vec<Received>>) {
    let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        match line.trim_end() {
            "" => break,
            text => lines.push(text.to_owned()),
        }
    }
    assert_eq!(lines[0], format!("POST {PATH} HTTP/1.1"));
    let header = |line: &String| {
        let (name, value) = line.split_once(": ").expect("a header");
        (name.to_ascii_lowercase(), value.to_owned())
    };
    let headers: BTreeMap<_, _> = lines[1..].iter().map(header).collect();
    let length: usize = headers["content-length"].parse().expect("a length");
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("the body");
    let body = String::from_utf8(body).expect("text");
    let answer = *answer.lock().expect("no test panics with it");
    received.lock().expect("no test panics with it").push(Received { headers, body });
    match answer {
        Answer::Status(status) => {
            // As frameworks do: the answer repeats the address.
            let text = format!("cannot {status} {PATH}");
            let length = text.len();
            let head =
                format!("HTTP/1.1 {status} x\r\ncontent-length: {length}\r\nconnection: close");
            // Who is killed reads no answer.
            stream.write_all(format!("{head}\r\n\r\n{text}").as_bytes()).ok();
        }
        Answer::Never => drop(reader.read(&mut [0])),
    }
}

/// HMAC-SHA256, as its definition has it: not what the product uses.
fn hmac(key: &[u8], message: &[u8]) -> String {
    let mut block = [0; 64];
    block[..key.len()].copy_from_slice(key);
    let padded = |byte: u8| block.map(|one| one ^ byte);
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(message).finalize();
    let outer = Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize();
    outer.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Checks what a receiver checks, and returns the body.
fn verified(received: &Received) -> Value {
    let signature = &received.headers["x-jaco-signature"];
    let (time, hex) = signature.split_once(",v1=").expect("two parts");
    let time = time.strip_prefix("t=").expect("a time");
    let signed = format!("{time}.{}", received.body);
    assert_eq!(hex, hmac(SECRET.as_bytes(), signed.as_bytes()), "{signature}");
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is after 1970");
    let age = now.as_secs().abs_diff(time.parse().expect("seconds"));
    assert!(age < 60, "signed {age} s ago");
    assert_eq!(received.headers["content-type"], "application/json");
    let agent = &received.headers["user-agent"];
    assert!(agent.starts_with("jaco/"), "{agent}");
    assert_eq!(received.headers["x-jaco-event-id"], received.id());
    received.json()
}

/// Adds a webhook for changes of labels, of which a test can make as many as it wants.
fn add(cluster: &Cluster, node: usize, name: &str, receiver: &Receiver) -> String {
    let secret = file(SECRET);
    let (url, secret) = (receiver.url(), secret.path().to_str().expect("text").to_owned());
    let line = ["notify", "add", name, "webhook", &url, "--secret-file", &secret];
    succeeded(&cluster.cli(node, &[&line[..], &["--type", "node_labels"]].concat()))
}

pub(crate) fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("temporary files can be made");
    writeln!(file, "{text}").expect("written");
    file
}

/// Makes an event, through a node that is not the dead one.
pub(crate) async fn label(cluster: &Cluster, node: usize, number: usize) {
    let request = v1::SetLabelsRequest {
        hostname: cluster.nodes[0].name.clone(),
        set: [("number".to_owned(), number.to_string())].into(),
        request_id: jaco_testkit::fresh_request_id(),
        ..v1::SetLabelsRequest::default()
    };
    cluster.nodes[node].client().set_labels(request).await.expect("labelled");
}

/// The number of the label that a notification tells of.
fn number(told: &Value) -> usize {
    let labels = told["event"]["payload"]["labels"].as_str().unwrap_or_default();
    let number = labels.split_whitespace().find_map(|word| word.strip_prefix("number="));
    number.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{told:#}"))
}

pub(crate) async fn target(
    cluster: &Cluster,
    node: usize,
    name: &str,
) -> Result<v1::NotifyTargetInfo, String> {
    let client = cluster.nodes[node].client();
    let listed = client.list_notify_targets(v1::ListNotifyTargetsRequest {}).await;
    let listed = listed.map_err(|error| error.to_string())?;
    listed.targets.into_iter().find(|one| one.name == name).ok_or_else(|| "not there".to_owned())
}

/// Waits until a node knows that all was delivered.
pub(crate) async fn is_done(cluster: &Cluster, node: usize, name: &str) -> v1::NotifyTargetInfo {
    eventually(&format!("{name} is done"), || async {
        let now = target(cluster, node, name).await?;
        let is_done = now.behind == 0 && now.delivered_at_ms > 0 && now.failing_since_ms == 0;
        if is_done { Ok(now) } else { Err(format!("{now:?}")) }
    })
    .await
}

pub(crate) async fn events(cluster: &Cluster, kinds: &[&str]) -> Vec<v1::AuditEvent> {
    let kinds = kinds.iter().map(|kind| (*kind).to_owned()).collect();
    let mut events = cluster.client().events(v1::AuditRequest { kinds, ..Default::default() });
    let mut found = Vec::new();
    while let Some(event) = events.next().await.expect("events") {
        found.push(event);
    }
    found
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return all };
    for entry in entries {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => all.extend(files(&path)),
            false => all.push(path),
        }
    }
    all
}

/// Fails where what is secret is in a file of a node, its log among them, in an event, or in what a command prints.
pub(crate) async fn nothing_is_told(cluster: &Cluster, node: usize) {
    let secrets = [SECRET, "hunter2"];
    for node in &cluster.nodes {
        for file in files(node.folder()) {
            let bytes = fs::read(&file).unwrap_or_default();
            for secret in secrets {
                let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
                assert!(!found, "{secret} is in {}", file.display());
            }
        }
    }
    let mut told = format!("{:?}", events(cluster, &[]).await);
    for line in [
        &["notify", "ls"][..],
        &["notify", "ls", "-o", "json"],
        &["notify", "failed", "-o", "json"],
        &["doctor", "-o", "json"],
        &["audit", "-o", "json"],
    ] {
        told += &said(&cluster.cli(node, line));
    }
    for secret in secrets {
        assert!(!told.contains(secret), "{secret}");
    }
}

/// R-OPS-1: what a target is for is delivered in order with a signature that a receiver can verify, and reported in a few
/// entries; an idle cluster writes none. What is secret is nowhere in clear text.
#[tokio::test(flavor = "multi_thread")]
async fn events_are_delivered_signed_and_in_order() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    let leader = cluster.leader().await;
    let follower = (leader + 1) % 3;
    let receiver = Receiver::start(Answer::Status(204));
    label(&cluster, follower, 0).await;
    let added = add(&cluster, follower, "ops", &receiver);
    let address = format!("http://{}", receiver.address);
    assert_eq!(added, format!("notification target ops added: {address} (node_labels)"));
    let again = cluster.cli(follower, &["notify", "add", "ops", "webhook", &receiver.url()]);
    assert!(
        said(&again).contains("there is a notification target ops already"),
        "{}",
        said(&again)
    );

    let tested = succeeded(&cluster.cli(follower, &["notify", "test", "ops"]));
    let by = &cluster.nodes[leader].name;
    assert!(
        tested.starts_with(&format!("ops ({address}) accepted the test: 204 after ")),
        "{tested}"
    );
    assert!(tested.trim_end().ends_with(&format!("sent by {by}")), "{tested}");
    assert_eq!(verified(&receiver.gets(1).await[0])["kind"], "test");

    let before = cluster.idle_index(follower).await;
    for number in 1..=60 {
        label(&cluster, follower, number).await;
    }
    let received = receiver.gets(61).await.split_off(1);
    let told: Vec<Value> = received.iter().map(verified).collect();
    assert_eq!(told.iter().map(number).collect::<Vec<_>>(), (1..=60).collect::<Vec<_>>());
    let first = &told[0];
    let parts = [&first["kind"], &first["severity"], &first["node"], &first["target"]];
    assert_eq!(parts, ["node_labels", "info", cluster.nodes[0].name.as_str(), "ops"]);
    let (index, number) = (&first["event"]["index"], &first["event"]["number"]);
    let cluster_id = first["cluster"]["id"].as_str().expect("an id");
    assert_eq!(first["id"], format!("{cluster_id}/{index}/{number}"));
    let text = first["text"].as_str().expect("text");
    assert!(text.starts_with("node_labels labels=number=1 node="), "{text}");
    let done = is_done(&cluster, follower, "ops").await;
    assert_eq!(
        done.delivered,
        format!("{}/{}", told[59]["event"]["index"], told[59]["event"]["number"])
    );
    let after = cluster.idle_index(follower).await;
    let reports = after - before - 60;
    assert!((1..=20).contains(&reports), "{reports} entries report 60 deliveries");
    stays(Duration::from_secs(5), "an idle cluster writes nothing", &after, || async {
        Ok(cluster.overview(follower).await?.raft_index)
    })
    .await;
    assert_eq!(receiver.received().len(), 61, "each was delivered once");

    nothing_is_told(&cluster, follower).await;
    let removed = succeeded(&cluster.cli(follower, &["notify", "rm", "ops"]));
    assert_eq!(removed, "notification target ops removed");
    let stored = events(&cluster, &["notify_stored", "notify_removed"]).await;
    assert_eq!(stored.len(), 2);
    assert_eq!(stored[0].payload["address"], address);
    label(&cluster, follower, 61).await;
    cluster.idle_index(follower).await;
    assert_eq!(receiver.received().len(), 61, "it is removed");
}

/// R-OPS-1: a leader that dies while an event is on its way takes nothing along: the next one delivers it, under the same id.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_dies_takes_nothing_along() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    let leader = cluster.leader().await;
    let other = (leader + 1) % 3;
    let receiver = Receiver::start(Answer::Never);
    add(&cluster, other, "ops", &receiver);
    label(&cluster, other, 1).await;
    let unanswered = receiver.gets(1).await[0].id();
    cluster.nodes[leader].kill();
    receiver.answers(Answer::Status(200));
    let received = receiver.gets(2).await;
    assert!(received.iter().all(|one| one.id() == unanswered), "{received:#?}");
    assert!(received.iter().all(|one| number(&verified(one)) == 1));
    is_done(&cluster, other, "ops").await;

    // What was delivered and reported is not delivered again by the next one.
    cluster.nodes[leader].start();
    cluster.settled().await;
    let count = receiver.received().len();
    let second = cluster.leader().await;
    cluster.nodes[second].kill();
    let third = (second + 1) % 3;
    eventually("a leader", || async {
        let status = cluster.nodes[third].client().status(v1::ClusterStatusRequest {}).await;
        let leader = status.map_err(|error| error.to_string())?.leader;
        let is_new = !leader.is_empty() && leader != cluster.nodes[second].name;
        if is_new { Ok(()) } else { Err(leader) }
    })
    .await;
    label(&cluster, third, 2).await;
    let received = receiver.gets(count + 1).await;
    assert_eq!(received.len(), count + 1);
    assert_eq!(number(&verified(&received[count])), 2);
}

/// R-OPS-1: while a receiver is down its target says so, and once it is back it gets everything in order.
#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_was_down_gets_everything() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    let port = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = port.local_addr().expect("it is bound");
    let answer = Arc::new(Mutex::new(Answer::Never));
    let down = Receiver { address, answer, received: Arc::default() };
    drop(port);
    add(&cluster, 0, "ops", &down);
    for number in 1..=5 {
        label(&cluster, 0, number).await;
    }
    let failing = eventually("it fails", || async {
        let now = target(&cluster, 0, "ops").await?;
        if now.failing_since_ms > 0 { Ok(now) } else { Err(format!("{now:?}")) }
    })
    .await;
    assert!(failing.failing_reason.contains("Connection refused"), "{}", failing.failing_reason);
    assert_eq!((failing.behind, failing.undelivered), (5, 0));
    let tested = cluster.cli(0, &["notify", "test", "ops"]);
    let text = said(&tested);
    assert!(!tested.status.success() && text.contains("every node can reach it"), "{text}");
    let doctor = said(&cluster.cli(0, &["doctor"]));
    assert!(doctor.contains("warning[notify] ops: http://127.0.0.1:"), "{doctor}");
    let up = Receiver::on(TcpListener::bind(address).expect("the same port"), Answer::Status(200));
    let received = up.gets(5).await;
    let told: Vec<usize> = received.iter().map(|one| number(&verified(one))).collect();
    assert_eq!(told, [1, 2, 3, 4, 5]);
    is_done(&cluster, 0, "ops").await;
    let doctor = said(&cluster.cli(0, &["doctor"]));
    assert!(!doctor.contains("[notify]"), "{doctor}");
    nothing_is_told(&cluster, 0).await;
}

/// R-OPS-1: a receiver that never answers delays neither another target nor the cluster.
#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_hangs_delays_nobody() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    let leader = cluster.leader().await;
    let (slow, quick) = (Receiver::start(Answer::Never), Receiver::start(Answer::Status(200)));
    add(&cluster, 0, "a-slow", &slow);
    add(&cluster, 0, "quick", &quick);
    let began = Instant::now();
    for number in 1..=20 {
        label(&cluster, 0, number).await;
    }
    let received = quick.gets(20).await;
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let told: Vec<usize> = received.iter().map(|one| number(&verified(one))).collect();
    assert_eq!(told, (1..=20).collect::<Vec<_>>());
    // One notification is on its way, whatever waits behind it; each attempt ends in time.
    let failing = eventually("it fails", || async {
        let now = target(&cluster, 0, "a-slow").await?;
        if now.failing_since_ms > 0 { Ok(now) } else { Err(format!("{now:?}")) }
    })
    .await;
    assert_eq!(failing.failing_reason, "no answer within 10 s");
    let ids: BTreeSet<String> = slow.received().iter().map(Received::id).collect();
    assert_eq!(ids.len(), 1);
    assert_eq!(cluster.leader().await, leader, "the leader leads on");
    let changes = events(&cluster, &["node_status"]).await;
    assert!(changes.iter().all(|event| event.payload["to"] == "ready"), "{changes:?}");
}

/// R-OPS-1: what a receiver refuses is given up after some attempts, the next one is delivered, and what was given up can be
/// sent again, under its id.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_is_given_up_and_can_be_sent_again() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    let receiver = Receiver::start(Answer::Status(404));
    let watcher = Receiver::start(Answer::Status(200));
    add(&cluster, 0, "ops", &receiver);
    let line = ["notify", "add", "chat", "slack", &watcher.url(), "--type", "notify_undelivered"];
    succeeded(&cluster.cli(0, &line));
    label(&cluster, 0, 1).await;
    label(&cluster, 0, 2).await;
    let lost = eventually_within(Duration::from_secs(60), "it is given up", || async {
        let request = v1::ListUndeliveredRequest { target: "ops".to_owned() };
        let listed = cluster.client().list_undelivered(request).await;
        let listed = listed.map_err(|error| error.to_string())?.notifications;
        listed.into_iter().next().ok_or_else(|| "none".to_owned())
    })
    .await;
    assert_eq!((lost.attempts, lost.reason.as_str()), (5, "answered 404"));
    let ids: Vec<String> = receiver.gets(5).await.iter().take(5).map(Received::id).collect();
    assert!(ids.iter().all(|id| *id == ids[0] && id.ends_with(&lost.event)), "{ids:?}");
    let doctor = said(&cluster.cli(0, &["doctor"]));
    assert!(doctor.contains("1 notification to http://127.0.0.1:"), "{doctor}");

    // Others can be told, in a line that is for people and has no signature.
    let told = &watcher.gets(1).await[0];
    let text = told.json()["text"].as_str().expect("text").to_owned();
    let expected = "notify_undelivered reason=\"answered 404\" target=ops";
    assert!(text.starts_with("[critical] ") && text.contains(expected), "{text}");
    assert!(!told.headers.contains_key("x-jaco-signature"));

    let before = receiver.received().len();
    receiver.answers(Answer::Status(200));
    let retried = succeeded(&cluster.cli(0, &["notify", "retry", "ops", &lost.event]));
    assert_eq!(retried, "1 notification to ops sent again");
    eventually("it is delivered", || async {
        let now = target(&cluster, 0, "ops").await?;
        let is_done = now.undelivered == 0 && now.behind == 0;
        if is_done { Ok(()) } else { Err(format!("{now:?}")) }
    })
    .await;
    let accepted: Vec<Value> = receiver.received()[before..].iter().map(verified).collect();
    let mut numbers: Vec<usize> = accepted.iter().map(number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers, [1, 2]);
    let again = accepted.iter().find(|told| number(told) == 1).expect("it was sent again");
    assert_eq!(again["id"], ids[0]);
    let settled = events(&cluster, &["notify_undelivered", "notify_settled"]).await;
    let kinds: Vec<&str> = settled.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds, ["notify_undelivered", "notify_settled"]);
    nothing_is_told(&cluster, 0).await;
}

/// R-OPS-1, R-IN-5: a target works on when the key that seals its address is replaced, and when it is replaced itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_key_opens_the_address() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    let receiver = Receiver::start(Answer::Status(200));
    add(&cluster, 0, "ops", &receiver);
    label(&cluster, 0, 1).await;
    receiver.gets(1).await;
    succeeded(&cluster.cli(0, &["cluster", "rotate-kek"]));
    eventually("the rotation is settled", || async {
        let answer = cluster.client().get_kek_rotation(v1::GetKekRotationRequest {}).await;
        let now = answer.map_err(|error| error.to_string())?.rotation.ok_or("none")?;
        let is_over = now.phase == "settled" && now.holders.is_empty();
        if is_over { Ok(()) } else { Err(format!("{now:?}")) }
    })
    .await;
    label(&cluster, 0, 2).await;
    assert_eq!(number(&verified(&receiver.gets(2).await[1])), 2);
    is_done(&cluster, 0, "ops").await;
    // And after a start from a snapshot or the log.
    for node in &mut cluster.nodes {
        node.stop();
    }
    for node in &mut cluster.nodes {
        node.start();
    }
    cluster.settled().await;
    label(&cluster, 0, 3).await;
    assert_eq!(number(&verified(&receiver.gets(3).await[2])), 3);
    is_done(&cluster, 0, "ops").await;
    let elsewhere = Receiver::start(Answer::Status(200));
    let secret = file(SECRET);
    let (url, secret) = (elsewhere.url(), secret.path().to_str().expect("text").to_owned());
    let line = ["notify", "add", "ops", "webhook", &url, "--secret-file", &secret, "--replace"];
    succeeded(&cluster.cli(0, &[&line[..], &["--type", "node_labels"]].concat()));
    label(&cluster, 0, 4).await;
    assert_eq!(number(&verified(&elsewhere.gets(1).await[0])), 4);
    assert_eq!(receiver.received().len(), 3);
}

/// R-OPS-1: a paused target is sent nothing but tests, whoever leads, and says so; resumed it gets what happens from then on,
/// or what it missed as well. Who did that is in the audit log.
#[tokio::test(flavor = "multi_thread")]
async fn a_paused_target_is_sent_nothing() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    let (receiver, other) =
        (Receiver::start(Answer::Status(200)), Receiver::start(Answer::Status(200)));
    add(&cluster, 0, "ops", &receiver);
    add(&cluster, 0, "witness", &other);
    label(&cluster, 0, 1).await;
    receiver.gets(1).await;
    is_done(&cluster, 0, "ops").await;
    let paused = succeeded(&cluster.cli(0, &["notify", "pause", "ops"]));
    assert_eq!(paused, "notification target ops paused");
    label(&cluster, 0, 2).await;
    other.gets(2).await;
    // Also for the next leader.
    let leader = cluster.leader().await;
    cluster.nodes[leader].kill();
    let next = (leader + 1) % 3;
    label(&cluster, next, 3).await;
    other.gets(3).await;
    let shown = succeeded(&cluster.cli(next, &["notify", "ls"]));
    assert!(shown.contains("ops: paused for "), "{shown}");
    let doctor = said(&cluster.cli(next, &["doctor"]));
    assert!(doctor.contains("jaco notify resume ops"), "{doctor}");
    assert_eq!(receiver.received().len(), 1);
    succeeded(&cluster.cli(next, &["notify", "test", "ops"]));
    assert_eq!(receiver.gets(2).await[1].json()["kind"], "test");

    let resumed = succeeded(&cluster.cli(next, &["notify", "resume", "ops", "--catch-up"]));
    assert_eq!(resumed, "notification target ops resumed");
    let told: Vec<usize> =
        receiver.gets(4).await[2..].iter().map(|one| number(&verified(one))).collect();
    assert_eq!(told, [2, 3]);
    cluster.nodes[leader].start();
    cluster.settled().await;
    is_done(&cluster, next, "ops").await;
    let count = receiver.received().len();
    succeeded(&cluster.cli(next, &["notify", "pause", "ops"]));
    label(&cluster, next, 4).await;
    let resumed = succeeded(&cluster.cli(next, &["notify", "resume", "ops"]));
    assert!(resumed.contains("1 event of the pause will not be sent"), "{resumed}");
    label(&cluster, next, 5).await;
    let received = receiver.gets(count + 1).await;
    assert_eq!(received[count..].iter().map(|one| number(&verified(one))).collect::<Vec<_>>(), [5]);
    let told = events(&cluster, &["notify_paused", "notify_resumed"]).await;
    let told: Vec<(&str, Option<&String>)> =
        told.iter().map(|event| (event.kind.as_str(), event.payload.get("skipped"))).collect();
    let (none, one) = ("0".to_owned(), "1".to_owned());
    let expected = [
        ("notify_paused", None),
        ("notify_resumed", Some(&none)),
        ("notify_paused", None),
        ("notify_resumed", Some(&one)),
    ];
    assert_eq!(told, expected);
}
