//! The status as it was at an index. Nobody shares it, and nothing of the present is in it.

use bytes::Bytes;
use jaco_proto::v1;
use jaco_state::ClusterState;
use jaco_types::Rejection;
use prost::Message as _;

use super::parts::Parts;
use crate::member::Member;
use crate::status::invalid;
use crate::view::{self, Shown, Suffrage};

/// What is said of the votes of nodes: who votes is in the log, but not in the state.
const VOTES_UNKNOWN: &str = "unknown";

/// The parts of the status at the index of a request.
///
/// # Errors
/// Those of [`Member::state_at`].
pub(super) async fn read(
    member: &Member,
    request: v1::StatusRequest,
) -> Result<Vec<Bytes>, Rejection> {
    let then = member.state_at(request.at_index).await?;
    let past = then.info();
    let answered_by = member.hostname.to_string();
    let turn = member.gate.turn().await?;
    turn.run(move || encode(&then.state, &request, past, answered_by)).await
}

/// Refuses a watch of a state that does not change.
///
/// # Errors
/// `invalid_request`.
pub(super) fn refuse_watch(request: &v1::StatusRequest) -> Result<(), Rejection> {
    match request.at_index {
        0 => Ok(()),
        _ => Err(invalid("a state of before does not change: ask for it once, without a watch")),
    }
}

fn encode(
    state: &ClusterState,
    request: &v1::StatusRequest,
    past: v1::PastInfo,
    answered_by: String,
) -> Vec<Bytes> {
    let mut nodes = view::node_infos(state, &Suffrage::new());
    for node in &mut nodes {
        node.suffrage = VOTES_UNKNOWN.to_owned();
    }
    let first = v1::StatusResponse {
        raft_index: state.index.0,
        answered_by,
        nodes,
        past: Some(past),
        ..v1::StatusResponse::default()
    };
    let shown = Shown::of(state, request);
    let mut parts = Parts::default();
    shown.deployments().for_each(|deployment| parts.deployment(deployment));
    shown.replicas().for_each(|replica| parts.replica(replica));
    let mut parts = parts.end();
    // Encoded messages that are joined are one message with the fields of all.
    parts[0] = [&first.encode_to_vec()[..], &parts[0]].concat().into();
    parts
}
