//! Daemons that are killed again and again while clients write: what was acknowledged is there
//! afterwards, once, on every node, and all nodes have the same state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jaco_testkit::random::{self, Random};
use jaco_testkit::{
    Client, ClientError, Cluster, Engine, Node, eventually_within, fresh_request_id, v1,
};
use jaco_types::ErrorCode;
use tokio::sync::{Semaphore, watch};

use crate::scenario::digest;

const ROUNDS: usize = 200;
/// Clients on each node. Several, so that a group commit holds writes of different clients.
const CLIENTS_PER_NODE: usize = 2;
/// New writes that a round may begin: all that is written stays in the state.
const WRITES_PER_ROUND: usize = 30;
/// A round kills after up to so many acknowledgements, and a little more in time.
const ACKS_BEFORE_KILL: usize = 12;
const DELAY_BEFORE_KILL: Duration = Duration::from_millis(8);
/// Entries from one snapshot to the next: few, so that kills meet them.
const SNAPSHOT_ENTRIES: usize = 100;
/// What a node misses at the end: more than the others keep behind their snapshots.
const WRITES_WHILE_AWAY: usize = 4 * SNAPSHOT_ENTRIES;
/// Longer than a leader waits between attempts at a member that is down (1 s): it keeps the entries that it is about to send
/// until that attempt has failed.
const ATTEMPT_FAILED: Duration = Duration::from_secs(3);
/// A restart and an election take about a second; this many times that is a cluster that hangs.
const PATIENCE: Duration = Duration::from_secs(180);
/// Longer than a refused connection may wait to be audited: one is written every 5 s.
const STANDSTILL: Duration = Duration::from_secs(6);
/// Repeats a run whose choices are to be made again.
const SEED: &str = "JACO_CRASH_SEED";

/// Issue behaviour 3: under writes, 200 rounds of kill -9 of one, two or all nodes at random moments.
/// Each round goes on as soon as the cluster writes again, so that kills also meet nodes that are
/// still coming back. Every acknowledged write is on every node, none is there twice, no store
/// refuses to open, and the states are equal byte for byte. All of it across snapshots: each node takes
/// its own, and one that was away for longer than the log reaches back is sent one.
#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_kills_lose_no_acknowledged_write() {
    let seed = random::seed(SEED);
    show(&format!("{SEED}={seed}"));
    let mut random = Random::new(seed);
    let settings = format!("raft: {{snapshot_entries: {SNAPSHOT_ENTRIES}}}\n");
    let mut cluster = Cluster::start_with(3, Engine::Fake, &settings).await;
    let begun = Instant::now();
    let journal = Arc::new(Journal::default());
    let writers: Vec<_> = cluster
        .nodes
        .iter()
        .flat_map(|node| (0..CLIENTS_PER_NODE).map(|_| node.client()))
        .map(|client| tokio::spawn(write(client, Arc::clone(&journal))))
        .collect();
    let mut killed = 0;
    for round in 0..ROUNDS {
        journal.allow(WRITES_PER_ROUND);
        journal.acknowledges(random.below(ACKS_BEFORE_KILL), round).await;
        tokio::time::sleep(random.up_to(DELAY_BEFORE_KILL)).await;
        killed += kill_and_restart(&mut cluster, &victims(&mut random), round);
        journal.acknowledges(2, round).await;
    }
    show(&format!("{ROUNDS} rounds in {:.0} s", begun.elapsed().as_secs_f64()));
    one_misses_much(&mut cluster, &journal).await;
    journal.end();
    for writer in writers {
        writer.await.expect("a client does not panic");
    }
    let outcome = journal.outcome();
    show(&format!("{killed} kills, {outcome}: {:?}", outcome.unknown));
    assert!(outcome.acknowledged.len() >= 2 * ROUNDS, "too few to mean anything: {outcome}");
    let index = all_equally_far(&cluster).await;
    for node in &cluster.nodes {
        nothing_is_lost(node, &outcome).await;
        nothing_is_doubled(node).await;
        no_panic(node);
        assert!(logged(node, SNAPSHOT_TAKEN) > 0, "{} took no snapshot", node.name);
    }
    stop_where_they_are(&mut cluster);
    let digests: Vec<_> = cluster.nodes.iter().map(digest).collect();
    assert!(digests[0].starts_with(&format!("index {index} sha256 ")), "{digests:?} at {index}");
    assert_eq!(digests, vec![digests[0].clone(); 3], "the states differ");
}

/// Which nodes are killed: mostly one, sometimes two, sometimes all.
fn victims(random: &mut Random) -> Vec<usize> {
    let first = random.below(3);
    let count = match random.below(10) {
        0..=6 => 1,
        7..=8 => 2,
        _ => 3,
    };
    (first..first + count).map(|node| node % 3).collect()
}

fn kill_and_restart(cluster: &mut Cluster, victims: &[usize], round: usize) -> usize {
    for node in &cluster.nodes {
        let stat =
            std::fs::read_to_string(format!("/proc/{}/stat", node.pid())).unwrap_or_default();
        // An ended child that nobody has waited for is a zombie.
        let ended = stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim().starts_with('Z'));
        assert!(!ended, "round {round}: {} ended by itself:\n{}", node.name, node.log_tail());
    }
    for victim in victims {
        cluster.nodes[*victim].kill();
    }
    for victim in victims {
        cluster.nodes[*victim].start();
    }
    victims.len()
}

/// What a daemon logs about snapshots.
const SNAPSHOT_TAKEN: &str = "snapshot created";
const SNAPSHOT_INSTALLED: &str = "snapshot installed";

/// Keeps a node away for longer than the others' logs reach back, also after the leader has given up sending it their entries,
/// and waits until it has been sent a snapshot.
async fn one_misses_much(cluster: &mut Cluster, journal: &Journal) {
    let away = 2;
    cluster.nodes[away].kill();
    let installed = logged(&cluster.nodes[away], SNAPSHOT_INSTALLED);
    for _ in 0..2 {
        journal.allow(WRITES_WHILE_AWAY);
        journal.acknowledges(WRITES_WHILE_AWAY, ROUNDS).await;
        tokio::time::sleep(ATTEMPT_FAILED).await;
    }
    cluster.nodes[away].start();
    let node = &cluster.nodes[away];
    eventually_within(PATIENCE, "a node that missed much is sent a snapshot", || async {
        if logged(node, SNAPSHOT_INSTALLED) > installed { Ok(()) } else { Err(node.log_tail()) }
    })
    .await;
}

/// How often a daemon has said this.
fn logged(node: &Node, what: &str) -> usize {
    let log = std::fs::read_to_string(node.log_path()).expect("the log can be read");
    log.matches(what).count()
}

/// Issues tokens with names of their own, and revokes every other one, until the journal says that it
/// is enough.
async fn write(client: Client, journal: Arc<Journal>) {
    while let Some(number) = journal.next().await {
        let name = format!("w-{number}");
        let issue = v1::IssueOperatorTokenRequest { name: name.clone(), ..Default::default() };
        let issued = match client.issue_operator_token(issue).await {
            // After an answer that was lost the client asks again, and is told that it has been done:
            // nobody else uses this name. The cluster is held to that word as well.
            Err(error) if error.code() != ErrorCode::TokenExists => Err(error),
            Ok(_) | Err(_) => Ok(()),
        };
        let revocable = issued.is_ok() && number % 2 == 0;
        journal.note(Write::Issued(name.clone()), issued);
        if revocable {
            // Under one id, however often the client has to send it.
            let request_id = fresh_request_id();
            let revoke = v1::RevokeTokenRequest { name: name.clone(), request_id };
            let revoked = client.revoke_token(revoke).await;
            journal.note(Write::Revoked(name), revoked.map(drop));
        }
    }
}

/// What a token's name is held to afterwards.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Write {
    Issued(String),
    Revoked(String),
}

/// What was asked of the cluster, and what it said.
#[derive(Debug)]
struct Journal {
    numbers: AtomicUsize,
    allowed: Semaphore,
    written: Mutex<Outcome>,
    acknowledged: watch::Sender<usize>,
}

/// What became of the writes.
#[derive(Debug, Default, Clone)]
struct Outcome {
    acknowledged: BTreeSet<Write>,
    /// No answer that says whether it happened.
    unknown: BTreeMap<Write, String>,
}

impl Outcome {
    /// Whether a client requested it; tokens of joins and of the bootstrap do not count.
    fn knows(&self, write: &Write) -> bool {
        let (Write::Issued(name) | Write::Revoked(name)) = write;
        !name.starts_with("w-")
            || self.acknowledged.contains(write)
            || self.unknown.contains_key(write)
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (acknowledged, unknown) = (self.acknowledged.len(), self.unknown.len());
        write!(f, "{acknowledged} writes acknowledged, {unknown} unknown")
    }
}

impl Default for Journal {
    fn default() -> Self {
        Self {
            numbers: AtomicUsize::new(0),
            allowed: Semaphore::new(0),
            written: Mutex::default(),
            acknowledged: watch::Sender::new(0),
        }
    }
}

impl Journal {
    /// Lets clients begin up to so many more writes.
    fn allow(&self, writes: usize) {
        let unused = self.allowed.available_permits();
        self.allowed.add_permits(writes.saturating_sub(unused));
    }

    fn end(&self) {
        self.allowed.close();
    }

    /// The number of the next write, or `None` when it is enough.
    async fn next(&self) -> Option<usize> {
        self.allowed.acquire().await.ok()?.forget();
        Some(self.numbers.fetch_add(1, Ordering::Relaxed))
    }

    fn note(&self, write: Write, answer: Result<(), ClientError>) {
        let mut written = self.written.lock().expect("no client panics");
        match answer {
            Ok(()) => {
                written.acknowledged.insert(write);
            }
            Err(error) => {
                written.unknown.insert(write, format!("{}: {error}", error.code().as_str()));
            }
        }
        self.acknowledged.send_replace(written.acknowledged.len());
    }

    /// Waits until so many writes more than now are acknowledged.
    async fn acknowledges(&self, more: usize, round: usize) {
        let mut acknowledged = self.acknowledged.subscribe();
        let wanted = *acknowledged.borrow_and_update() + more;
        let reached = acknowledged.wait_for(|acknowledged| *acknowledged >= wanted);
        if tokio::time::timeout(PATIENCE, reached).await.is_err() {
            panic!("round {round}: no writes for {PATIENCE:?}; {:?}", self.outcome().unknown);
        }
    }

    fn outcome(&self) -> Outcome {
        self.written.lock().expect("no client panics").clone()
    }
}

/// Waits until all nodes are up, have applied the same entries, and no more come.
async fn all_equally_far(cluster: &Cluster) -> u64 {
    cluster.settled().await;
    eventually_within(PATIENCE, "all nodes stand at one index", || async {
        let before = indices(cluster).await?;
        tokio::time::sleep(STANDSTILL).await;
        let after = indices(cluster).await?;
        let equal = before == after && after == vec![after[0]; after.len()];
        if equal { Ok(after[0]) } else { Err(format!("{before:?} -> {after:?}")) }
    })
    .await
}

async fn indices(cluster: &Cluster) -> Result<Vec<u64>, String> {
    let mut indices = Vec::new();
    for node in 0..cluster.nodes.len() {
        indices.push(cluster.overview(node).await?.raft_index);
    }
    Ok(indices)
}

async fn nothing_is_lost(node: &Node, outcome: &Outcome) {
    let listed = node.client().list_tokens(v1::ListTokensRequest {}).await;
    let mut found = BTreeSet::new();
    for token in listed.expect("the node answers").tokens {
        if token.revoked_at_ms != 0 {
            found.insert(Write::Revoked(token.id.clone()));
        }
        assert!(found.insert(Write::Issued(token.id)), "{} lists a token twice", node.name);
    }
    let lost: Vec<_> = outcome.acknowledged.difference(&found).collect();
    assert!(lost.is_empty(), "{} lost acknowledged writes: {lost:?}", node.name);
    let strange: Vec<_> = found.iter().filter(|write| !outcome.knows(write)).collect();
    assert!(strange.is_empty(), "{} has writes nobody asked for: {strange:?}", node.name);
}

/// Each write left one line in the audit log, however often it was sent.
async fn nothing_is_doubled(node: &Node) {
    for kind in ["token_issue", "token_revoke"] {
        let request = v1::AuditRequest { kinds: vec![kind.to_owned()], ..Default::default() };
        let mut events = node.client().events(request);
        let mut seen = BTreeSet::new();
        while let Some(event) = events.next().await.expect("the stream ends in good order") {
            let token = event.payload["token"].clone();
            assert!(seen.insert(token.clone()), "{}: {kind} of {token} twice", node.name);
        }
        assert!(seen.len() >= ROUNDS / 2, "{}: only {} {kind} in the log", node.name, seen.len());
    }
}

fn no_panic(node: &Node) {
    let log = std::fs::read_to_string(node.log_path()).expect("the log can be read");
    let bad = log.lines().find(|line| line.contains("panicked at") || line.contains("damaged"));
    assert_eq!(bad, None, "{}", node.name);
}

/// Stops all nodes without another entry: while the others stand still, a node that stops cannot
/// hand leadership over, and one that wakes up cannot be elected.
fn stop_where_they_are(cluster: &mut Cluster) {
    for node in &cluster.nodes {
        node.pause();
    }
    for node in &mut cluster.nodes {
        node.resume();
        node.stop();
    }
}

/// Shown with the test's failure.
#[expect(clippy::print_stdout, reason = "the choices of a failed run must be known")]
fn show(text: &str) {
    println!("{text}");
}
