//! Deployments, replicas and nodes, as of one state.

use std::sync::Arc;

use bytes::Bytes;
use jaco_proto::v1;
use jaco_state::ClusterState;
use jaco_store::Store;
use jaco_types::NodeId;
use prost::Message as _;

use super::parts::Parts;
use crate::member::Member;
use crate::pulls::{self, Pulls};
use crate::service::cluster::status::suffrage;
use crate::view::{self, Shown};

/// A status, encoded.
pub(super) struct Rendered {
    /// What the answer begins with: all but deployments and replicas.
    first: v1::StatusResponse,
    /// Deployments and replicas.
    lists: Vec<Bytes>,
    /// Whether it waits for pulls, whose progress is no change of the state.
    pub(super) has_pulls: bool,
}

/// What a status shows, without what changes while nothing happens.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sight {
    first: Vec<u8>,
    lists: Vec<Bytes>,
}

impl Rendered {
    pub(super) fn is_current(&self) -> bool {
        self.first.staleness.is_none()
    }

    /// What it shows; its index, and the age of an answer that is not current, are left out.
    pub(super) fn sight(&self) -> Sight {
        let mut first = v1::StatusResponse { raft_index: 0, ..self.first.clone() };
        if let Some(staleness) = &mut first.staleness {
            staleness.age_ms = 0;
        }
        Sight { first: first.encode_to_vec(), lists: self.lists.clone() }
    }

    /// The parts of the answer.
    pub(super) fn parts(self) -> Vec<Bytes> {
        let mut parts = self.lists;
        // Encoded messages that are joined are one message with the fields of all.
        parts[0] = [&self.first.encode_to_vec()[..], &parts[0]].concat().into();
        parts
    }
}

/// The status as of this node's newest state.
pub(super) async fn render(member: &Member, request: &v1::StatusRequest) -> Rendered {
    // Before the state: what is committed in between is in it.
    let freshness = member.freshness();
    let raft = member.store.raft().status();
    let suffrage = suffrage(&raft);
    // Shared with the store, and read outside of its lock: a large response must not block `apply`.
    let state = Arc::new(member.store.snapshot());
    let pulling = on_state(&state, request, |shown| shown.pulling()).await;
    let pulls = pulls::of(&pulling, &state, member).await;
    let mut first = v1::StatusResponse {
        raft_index: state.index.0,
        answered_by: member.hostname.to_string(),
        nodes: view::node_infos(&state, &suffrage),
        ..v1::StatusResponse::default()
    };
    match freshness.message(member.hostname.as_str()) {
        None => {
            let leader = raft.leader.map(|leader| view::hostname(&state, NodeId(leader.id)));
            first.leader = leader.unwrap_or_default();
        }
        staleness @ Some(_) => {
            view::unknown(&mut first.nodes);
            first.staleness = staleness;
        }
    }
    let lists = on_state(&state, request, move |shown| encode(shown, &pulls)).await;
    Rendered { first, lists, has_pulls: !pulling.is_empty() }
}

fn encode(shown: &Shown<'_>, pulls: &Pulls) -> Vec<Bytes> {
    let mut parts = Parts::default();
    for mut deployment in shown.deployments() {
        pulls.add_to_rollouts(&mut deployment);
        parts.deployment(deployment);
    }
    for mut replica in shown.replicas() {
        pulls.add_to(&mut replica);
        parts.replica(replica);
    }
    parts.end()
}

/// Off the async threads, on which consensus runs: with many replicas it takes long.
async fn on_state<T: Send + 'static>(
    state: &Arc<ClusterState>,
    request: &v1::StatusRequest,
    work: impl FnOnce(&Shown<'_>) -> T + Send + 'static,
) -> T {
    let (state, request) = (Arc::clone(state), request.clone());
    let done = tokio::task::spawn_blocking(move || work(&Shown::of(&state, &request)));
    done.await.expect("views of a state do not panic")
}
