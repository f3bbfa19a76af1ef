//! Deployments, replicas and nodes, at one state or after each change.

use std::sync::Arc;
use std::time::Duration;

use jaco_proto::v1;
use jaco_store::Store;
use jaco_types::{ErrorCode, NodeId, Rejection};
use tokio::sync::mpsc;
use tonic::Status;

use crate::freshness::Freshness;
use crate::member::Member;
use crate::pulls;
use crate::service::cluster::status::suffrage;
use crate::status::to_status;
use crate::view;

/// How long a request waits for this node to reach the index that the client has seen elsewhere.
const CATCH_UP_PATIENCE: Duration = Duration::from_secs(5);

/// Waits until this node has the state that the client has seen on another node, so that it reads its own
/// writes.
pub(super) async fn wait_for_index(member: &Member, index: u64) -> Result<(), Status> {
    member.caught_up().await.map_err(|rejection| to_status(&rejection))?;
    if index == 0 {
        return Ok(());
    }
    let mut applied = member.store.watch_index();
    let waited = applied.wait_for(|applied| applied.0 >= index);
    let waited = tokio::time::timeout(CATCH_UP_PATIENCE, waited).await;
    if matches!(waited, Ok(Ok(_))) {
        return Ok(());
    }
    let message = format!(
        "this node did not reach index {index} within 5 s: it may be cut off from the leader; \
                          try again, or ask another node"
    );
    Err(to_status(&Rejection::new(ErrorCode::QuorumLost, message)))
}

/// The status as of this node's newest state.
pub(super) async fn answer(member: &Member, request: &v1::StatusRequest) -> v1::StatusResponse {
    // Before the state: what is committed in between is in it.
    let freshness = member.freshness();
    let raft = member.store.raft().status();
    let suffrage = suffrage(&raft);
    // Copied under the lock and read outside it: a large response must not block `apply`.
    let state = member.store.snapshot();
    let mut answer = view::status(&state, request, &suffrage);
    match freshness.message(member.hostname.as_str()) {
        None => {
            let leader = raft.leader.map(|leader| view::hostname(&state, NodeId(leader.id)));
            answer.leader = leader.unwrap_or_default();
        }
        staleness @ Some(_) => {
            view::unknown(&mut answer.nodes);
            answer.staleness = staleness;
        }
    }
    pulls::add_to(&mut answer, &state, member).await;
    answer.answered_by = member.hostname.to_string();
    answer
}

/// How often a watch looks whether its answers are still current.
const FRESHNESS_INTERVAL: Duration = Duration::from_secs(1);

/// How often a watch looks at the progress of pulls: nodes tell it once a second.
const PULLS_INTERVAL: Duration = Duration::from_secs(1);

/// Sends the status whenever it has changed or is no longer current, until the reader disconnects. Changes
/// between two reads are merged.
pub(super) async fn watch(
    member: Arc<Member>,
    request: v1::StatusRequest,
    sender: mpsc::Sender<Result<v1::StatusResponse, Status>>,
) {
    let mut index = member.store.watch_index();
    let mut last: Option<v1::StatusResponse> = None;
    loop {
        index.borrow_and_update();
        let message = answer(&member, &request).await;
        let now = without_age(message.clone());
        let was_current = now.staleness.is_none();
        let has_pulls = pulls::are_in(&now);
        if last.as_ref() != Some(&now) {
            last = Some(now);
            if sender.send(Ok(message)).await.is_err() {
                return;
            }
        }
        let changed = tokio::select! {
            changed = index.changed() => changed.is_ok(),
            () = freshness_change(&member, was_current) => true,
            // The progress of pulls is no change of the state.
            () = tokio::time::sleep(PULLS_INTERVAL), if has_pulls => true,
            () = sender.closed() => false,
        };
        if !changed {
            return;
        }
    }
}

/// A status without what changes while nothing happens.
fn without_age(status: v1::StatusResponse) -> v1::StatusResponse {
    let staleness = status.staleness.map(|staleness| v1::Staleness { age_ms: 0, ..staleness });
    v1::StatusResponse { raft_index: 0, staleness, ..status }
}

/// Waits until the answers of this node are current, or no longer are.
async fn freshness_change(member: &Member, was_current: bool) {
    while (member.freshness() == Freshness::Current) == was_current {
        tokio::time::sleep(FRESHNESS_INTERVAL).await;
    }
}
