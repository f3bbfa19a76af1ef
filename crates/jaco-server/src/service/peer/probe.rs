//! What the router of this node holds and reaches, and the same of other nodes.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use jaco_proto::v1;
use jaco_store::Store;
use jaco_types::NodeId;

use crate::member::Member;
use crate::router::Reports;

/// How long a node waits for the state that the question is about.
const STATE_PATIENCE: Duration = Duration::from_secs(1);

/// How long another node may take beyond what it sends packets for.
const PATIENCE: Duration = Duration::from_secs(3);

/// Asks this node.
pub(in crate::service) async fn probe(
    member: &Member,
    request: v1::ProbeRouterRequest,
) -> v1::ProbeRouterResponse {
    let mut index = member.store.watch_index();
    let reached = index.wait_for(|index| index.0 >= request.min_index);
    // Where it is not reached, the answer says how far this node is.
    drop(tokio::time::timeout(STATE_PATIENCE, reached).await);
    let answer = match &member.router {
        Some(router) => router.probe(request).await,
        None => {
            let error = "this node pretends containers and has no router".to_owned();
            v1::ProbeRouterResponse { error, ..v1::ProbeRouterResponse::default() }
        }
    };
    let state_index = member.store.read(|state| state.index.0);
    v1::ProbeRouterResponse { state_index, ..answer }
}

/// Asks several nodes at the same time, so that each hears the packets of the others.
pub(in crate::service) async fn probe_all(
    member: &Member,
    requests: BTreeMap<NodeId, v1::ProbeRouterRequest>,
) -> Reports {
    let asked = requests.into_iter().map(async |(node, request)| {
        let answer = match node == member.id {
            true => Ok(probe(member, request).await),
            false => elsewhere(member, node, request).await,
        };
        (node, answer)
    });
    join_all(asked).await.into_iter().collect()
}

async fn elsewhere(
    member: &Member,
    node: NodeId,
    request: v1::ProbeRouterRequest,
) -> Result<v1::ProbeRouterResponse, String> {
    let address = member.store.read(|state| state.nodes.get(&node).map(|it| it.address.clone()));
    let address = address.ok_or("it is no member any more")?;
    let deadline = PATIENCE + Duration::from_millis(u64::from(request.window_ms));
    let answer = member.peers.probe_router((node, &address), request, deadline).await;
    answer.map_err(|rejection| rejection.message)
}
