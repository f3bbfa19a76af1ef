//! Clients of the cluster's own state: on each machine one that adds operator tokens, and one that lists them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jaco_testkit::engines::{Machines, PATIENCE};
use jaco_testkit::{Client, ClientError, eventually_within, v1};
use jaco_types::ErrorCode;
use tokio::task::JoinSet;

use crate::growing_set::GrowingSet;

/// Between two requests of a client: all tokens stay, and each is in every list.
const PAUSE: Duration = Duration::from_millis(500);

/// Tokens of other names are the cluster's own.
const PREFIX: &str = "history-";

/// Additions and reads that have to come after a fault before all is well again.
const FURTHER: usize = 3;

/// Clients that go on until they are ended.
pub(crate) struct History {
    stop: Arc<AtomicBool>,
    set: Arc<Mutex<GrowingSet>>,
    clients: JoinSet<Result<(), String>>,
}

impl History {
    pub(crate) fn start(machines: &Machines) -> Self {
        let mut history =
            Self { stop: Arc::default(), set: Arc::default(), clients: JoinSet::new() };
        for node in &machines.cluster.nodes {
            let (stop, set) = (Arc::clone(&history.stop), Arc::clone(&history.set));
            history.clients.spawn(add(node.client(), stop, set));
            let (stop, set) = (Arc::clone(&history.stop), Arc::clone(&history.set));
            let (node_client, name) = (node.client(), node.name.clone());
            history.clients.spawn(async move {
                let begun = Instant::now();
                let listed = list(&node_client, &stop, &set).await;
                listed.map_err(|law| format!("{name}, after {:?}: {law}", begun.elapsed()))
            });
        }
        history
    }

    /// Acknowledged additions and reads so far.
    pub(crate) fn done(&self) -> (usize, usize) {
        self.set.lock().expect("nobody panics").done()
    }

    /// Waits until more was added and read.
    pub(crate) async fn goes_on(&self) {
        let before = self.done();
        eventually_within(PATIENCE, "the cluster takes writes and reads", || async {
            let now = self.done();
            let more = now.0 >= before.0 + FURTHER && now.1 >= before.1 + FURTHER;
            if more { Ok(()) } else { Err(format!("{before:?} -> {now:?}")) }
        })
        .await;
    }

    /// # Panics
    /// When the history is not linearizable.
    pub(crate) async fn end(mut self) -> (usize, usize) {
        self.stop.store(true, Ordering::SeqCst);
        while let Some(ended) = self.clients.join_next().await {
            ended.expect("clients do not panic").unwrap_or_else(|law| panic!("{law}"));
        }
        self.done()
    }
}

async fn add(
    client: Client,
    stop: Arc<AtomicBool>,
    set: Arc<Mutex<GrowingSet>>,
) -> Result<(), String> {
    while !stop.load(Ordering::SeqCst) {
        let number = set.lock().expect("nobody panics").begin();
        let name = format!("{PREFIX}{number}");
        let issue = v1::IssueOperatorTokenRequest { name, ..Default::default() };
        // A client whose answer was lost asks again, and is told that it has been done: nobody else uses this name.
        let done = match client.issue_operator_token(issue).await {
            Ok(_) => true,
            Err(error) => error.code() == ErrorCode::TokenExists,
        };
        if done {
            set.lock().expect("nobody panics").acknowledge(number, Instant::now());
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// All tokens that there were when it was asked: what a node lists is its own state, which may be behind, until it has
/// waited for all that is committed.
async fn listed(client: &Client) -> Result<v1::ListTokensResponse, ClientError> {
    let scope = v1::StatusScope::Nodes.into();
    let all = v1::StatusRequest { linearizable: true, scope, ..v1::StatusRequest::default() };
    client.read_status(all).await?;
    client.list_tokens(v1::ListTokensRequest {}).await
}

async fn list(client: &Client, stop: &AtomicBool, set: &Mutex<GrowingSet>) -> Result<(), String> {
    while !stop.load(Ordering::SeqCst) {
        let from = Instant::now();
        if let Ok(listed) = listed(client).await {
            let until = Instant::now();
            let ours = listed.tokens.iter().filter_map(|token| token.id.strip_prefix(PREFIX));
            let seen: BTreeSet<u64> = ours.map(|number| number.parse().expect("ours")).collect();
            set.lock()
                .expect("nobody panics")
                .read((from, until), &seen)
                .map_err(|law| format!("{law}; it took {:?} and saw {seen:?}", until - from))?;
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}
