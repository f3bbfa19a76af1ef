//! Deployments, replicas and nodes, as of one state.

use std::time::Duration;

use jaco_proto::v1;
use jaco_state::ClusterState;
use jaco_store::Store;
use jaco_types::{ErrorCode, NodeId, Rejection};
use tonic::Status;

use crate::member::Member;
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

/// The status as of this node's newest state, without the progress of pulls; with the state.
pub(super) async fn render(
    member: &Member,
    request: &v1::StatusRequest,
) -> (ClusterState, v1::StatusResponse) {
    // Before the state: what is committed in between is in it.
    let freshness = member.freshness();
    let raft = member.store.raft().status();
    let suffrage = suffrage(&raft);
    // Copied under the lock and read outside it: a large response must not block `apply`.
    let state = member.store.snapshot();
    let request = request.clone();
    // With many replicas it takes long, and consensus runs on the async threads.
    let rendered = tokio::task::spawn_blocking(move || {
        let answer = view::status(&state, &request, &suffrage);
        (state, answer)
    });
    let (state, mut answer) = rendered.await.expect("views of a state do not panic");
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
    answer.answered_by = member.hostname.to_string();
    (state, answer)
}
