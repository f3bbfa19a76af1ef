//! Another WireGuard key for the router of a node (R-CLI-6). The node that is asked audits it and asks the node whose
//! router it is, which makes the key and keeps its private part.

use std::time::Duration;

use jaco_proto::v1;
use jaco_state::ClusterState;
use jaco_state::audit::AuditKind;
use jaco_types::{Author, ErrorCode, Identity, NodeId, Rejection, RouterLink};
use tonic::Request;

use super::nodes::find_node;
use crate::member::Member;
use crate::service::audit_action::audit;
use crate::status::{from_status, invalid};

/// How long another node may take, a little more than it waits for its router.
const PATIENCE: Duration = Duration::from_secs(20);

/// Replaces the key, and returns once the router has the new one.
///
/// # Errors
/// Where the cluster has no networks, the node no router of its own, or the node cannot be asked or does not have the
/// new key in time.
pub(super) async fn rotate(
    member: &Member,
    by: Author,
    request: v1::RotateNetworkKeyRequest,
) -> Result<v1::RotateNetworkKeyResponse, Rejection> {
    let (node, link) = member.store.read(|state| own_router(state, &request.hostname))?;
    let relayed = matches!(by.by, Identity::Node { .. });
    if !relayed {
        let payload = [("node".to_owned(), request.hostname.clone())];
        audit(member, by, AuditKind::NetworkKeyRotated, payload.into()).await?;
    }
    match (node == member.id, relayed) {
        (true, _) => here(member, &request.hostname, link).await,
        (false, false) => there(member, node, request).await,
        (false, true) => {
            let message = format!("{} is another node than this one: try again", request.hostname);
            Err(Rejection::new(ErrorCode::Unavailable, message))
        }
    }
}

/// The node, and how its router is reached, which no other node shares.
fn own_router(state: &ClusterState, hostname: &str) -> Result<(NodeId, RouterLink), Rejection> {
    if state.networks.pool.is_none() {
        let message = "networks are those of each node, and there is no tunnel between nodes: run \
                       `jaco network enable` first";
        return Err(Rejection::new(ErrorCode::NetworksNotEnabled, message));
    }
    let id = find_node(state, hostname)?;
    let link = |id: &NodeId| state.nodes.get(id)?.facts.router.as_ref()?.link;
    let Some(own) = link(&id) else {
        let message = format!("{hostname} has no router yet: see NET in `jaco node ls`");
        return Err(Rejection::new(ErrorCode::NetworksNotEnabled, message));
    };
    let others = state.nodes.values().filter(|node| node.id != id);
    let sharing = others.filter(|node| link(&node.id).is_some_and(|link| link.key == own.key));
    let sharing: Vec<String> = sharing.map(|node| node.hostname.to_string()).collect();
    if sharing.is_empty() {
        return Ok((id, own));
    }
    let message = format!(
        "{hostname} shares its container engine and router with {}, which would not change their key at the same moment: \
         restart the machine for another key",
        sharing.join(", ")
    );
    Err(invalid(message))
}

async fn here(
    member: &Member,
    hostname: &str,
    before: RouterLink,
) -> Result<v1::RotateNetworkKeyResponse, Rejection> {
    let late = |why: String| {
        let message = format!("the key of {hostname} is not replaced yet: {why}");
        Rejection::new(ErrorCode::TimedOut, message)
    };
    let router = member.router.as_ref();
    let router =
        router.ok_or_else(|| late("it pretends containers and has no router".to_owned()))?;
    let key = router.rotate_key().await.map_err(late)?;
    let before = before.key.to_vec().into();
    Ok(v1::RotateNetworkKeyResponse { before, key: key.to_vec().into() })
}

async fn there(
    member: &Member,
    node: NodeId,
    request: v1::RotateNetworkKeyRequest,
) -> Result<v1::RotateNetworkKeyResponse, Rejection> {
    let address = member.store.read(|state| state.nodes.get(&node).map(|it| it.address.clone()));
    let hostname = request.hostname.clone();
    let late = |why: String| {
        let message = format!(
            "{hostname} cannot be asked, or does not answer: {why}; asking again is safe, a key that is made already is taken"
        );
        Rejection::new(ErrorCode::Unavailable, message)
    };
    let Some(address) = address else { return Err(late("it is no member any more".to_owned())) };
    let mut asked = Request::new(request);
    asked.set_timeout(PATIENCE);
    let mut peer = member.peers.cluster(node, &address);
    match tokio::time::timeout(PATIENCE, peer.rotate_network_key(asked)).await {
        Ok(Ok(answer)) => Ok(answer.into_inner()),
        Ok(Err(status)) => {
            let rejection = from_status(&status);
            let lost = rejection.code == ErrorCode::Unavailable;
            Err(if lost { late(rejection.message) } else { rejection })
        }
        Err(_) => Err(late(format!("no response within {} s", PATIENCE.as_secs()))),
    }
}
