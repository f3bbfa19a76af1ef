//! What the edge of this node does, and the same of other nodes.

use std::time::Duration;

use futures::future::join_all;
use jaco_proto::v1;
use jaco_types::NodeId;

use crate::edge::TrafficReports;
use crate::member::Member;

/// How long another node may take: it answers from memory.
const PATIENCE: Duration = Duration::from_secs(1);

/// Asks this node.
pub(in crate::service) async fn traffic(member: &Member) -> v1::EdgeTrafficResponse {
    match &member.edge {
        Some(edge) => edge.traffic().await,
        None => v1::EdgeTrafficResponse {
            problem: "this node pretends containers and has no edge".to_owned(),
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
    let address = member.store.read(|state| state.nodes.get(&node).map(|it| it.address.clone()));
    let address = address.ok_or("it is no member any more")?;
    let answer = member.peers.edge_traffic((node, &address), PATIENCE).await;
    answer.map_err(|rejection| rejection.message)
}
