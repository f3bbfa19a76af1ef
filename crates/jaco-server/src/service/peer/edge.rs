//! What the edge of this node does, and the same of other nodes.

use std::time::Duration;

use futures::future::join_all;
use jaco_proto::v1;
use jaco_store::Store;
use jaco_types::NodeId;

use crate::edge::{EdgeReports, TrafficReports};
use crate::member::Member;

/// How long another node may take: it answers from memory.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long a node waits for the state that the question is about.
const STATE_PATIENCE: Duration = Duration::from_secs(1);

/// How long another node may take for that, and for connections to instances.
const PROBE_PATIENCE: Duration = Duration::from_secs(3);

/// What is said of a node that has no edge and never will.
const PRETENDED: &str = "this node pretends containers and has no edge";

/// Asks this node.
pub(in crate::service) async fn traffic(member: &Member) -> v1::EdgeTrafficResponse {
    match &member.edge {
        Some(edge) => edge.traffic().await,
        None => v1::EdgeTrafficResponse {
            problem: PRETENDED.to_owned(),
            ..v1::EdgeTrafficResponse::default()
        },
    }
}

/// Asks several nodes at the same time.
pub(in crate::service) async fn traffic_of(member: &Member, nodes: &[NodeId]) -> TrafficReports {
    let asked = nodes.iter().map(async |node| {
        let answer = match *node == member.id {
            true => Ok(traffic(member).await),
            false => elsewhere(member, *node).await,
        };
        (*node, answer)
    });
    join_all(asked).await.into_iter().collect()
}

async fn elsewhere(member: &Member, node: NodeId) -> Result<v1::EdgeTrafficResponse, String> {
    let address = address(member, node)?;
    let answer = member.peers.edge_traffic((node, &address), PATIENCE).await;
    answer.map_err(|rejection| rejection.message)
}

fn address(member: &Member, node: NodeId) -> Result<String, &'static str> {
    let address = member.store.read(|state| state.nodes.get(&node).map(|it| it.address.clone()));
    address.ok_or("it is no member any more")
}

/// Asks this node what a request would meet.
pub(in crate::service) async fn probe(
    member: &Member,
    request: v1::ProbeEdgeRequest,
) -> v1::ProbeEdgeResponse {
    let mut index = member.store.watch_index();
    let reached = index.wait_for(|index| index.0 >= request.min_index);
    // Where it is not reached, the answer says how far this node is.
    drop(tokio::time::timeout(STATE_PATIENCE, reached).await);
    match &member.edge {
        Some(edge) => edge.probe(request).await,
        None => v1::ProbeEdgeResponse {
            problem: PRETENDED.to_owned(),
            ..v1::ProbeEdgeResponse::default()
        },
    }
}

/// Asks several nodes at the same time.
pub(in crate::service) async fn probe_all(
    member: &Member,
    nodes: &[NodeId],
    request: &v1::ProbeEdgeRequest,
) -> EdgeReports {
    let asked = nodes.iter().map(async |node| {
        let answer = match *node == member.id {
            true => Ok(probe(member, request.clone()).await),
            false => probe_elsewhere(member, *node, request.clone()).await,
        };
        (*node, answer)
    });
    join_all(asked).await.into_iter().collect()
}

async fn probe_elsewhere(
    member: &Member,
    node: NodeId,
    request: v1::ProbeEdgeRequest,
) -> Result<v1::ProbeEdgeResponse, String> {
    let address = address(member, node)?;
    let answer = member.peers.probe_edge((node, &address), request, PROBE_PATIENCE).await;
    answer.map_err(|rejection| rejection.message)
}
