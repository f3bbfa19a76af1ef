//! The volumes of all nodes, from their engines.

use std::collections::HashMap;
use std::time::Duration;

use jaco_agent::engine::{HeldVolume, VolumeMount};
use jaco_proto::v1;
use jaco_types::{DeploymentName, ErrorCode, NodeId, Rejection};
use tonic::Request;

use crate::member::Member;
use crate::status::{from_status, invalid};
use crate::view;

/// Deadline of a node to list.
const PATIENCE: Duration = Duration::from_secs(5);

/// The reason for a node that did not answer.
const LATE: &str = "no response before the deadline";

/// Lists the volumes of this node, and of all others unless only this one is asked.
pub(super) async fn list(
    member: &Member,
    request: &v1::ListVolumesRequest,
) -> Result<v1::ListVolumesResponse, Rejection> {
    member.caught_up().await?;
    let deployment = match request.deployment.as_str() {
        "" => None,
        name => Some(DeploymentName::new(name).map_err(invalid)?),
    };
    let own = local(member, deployment.as_ref());
    if request.local_only {
        let volumes = own.await?;
        return Ok(v1::ListVolumesResponse { volumes, unreachable: HashMap::new() });
    }
    let others = others(member).into_iter().map(|other| ask(member, other, &request.deployment));
    let (own, others) = tokio::join!(own, futures::future::join_all(others));
    let mut found = v1::ListVolumesResponse::default();
    let own = (member.hostname.to_string(), own.map_err(|refused| refused.message));
    for (node, answer) in std::iter::once(own).chain(others) {
        match answer {
            Ok(volumes) => found.volumes.extend(volumes),
            Err(why) => drop(found.unreachable.insert(node, why)),
        }
    }
    found.volumes.sort_by(|a, b| {
        (&a.deployment, &a.volume, &a.node).cmp(&(&b.deployment, &b.volume, &b.node))
    });
    Ok(found)
}

/// The other members: id, name and address.
fn others(member: &Member) -> Vec<(NodeId, String, String)> {
    member.store.read(|state| {
        let others = state.nodes.values().filter(|node| node.id != member.id);
        others.map(|node| (node.id, node.hostname.to_string(), node.address.clone())).collect()
    })
}

async fn ask(
    member: &Member,
    (node, hostname, address): (NodeId, String, String),
    deployment: &str,
) -> (String, Result<Vec<v1::VolumeInfo>, String>) {
    let request = v1::ListVolumesRequest { deployment: deployment.to_owned(), local_only: true };
    let mut request = Request::new(request);
    request.set_timeout(PATIENCE);
    let mut client = member.peers.volumes(node, &address);
    let answer = match tokio::time::timeout(PATIENCE, client.list_volumes(request)).await {
        Ok(Ok(answer)) => Ok(answer.into_inner().volumes),
        Ok(Err(status)) => Err(from_status(&status).message),
        Err(_) => Err(LATE.to_owned()),
    };
    (hostname, answer)
}

/// The volumes of this node.
async fn local(
    member: &Member,
    deployment: Option<&DeploymentName>,
) -> Result<Vec<v1::VolumeInfo>, Rejection> {
    let held = tokio::time::timeout(PATIENCE, member.agent.volumes()).await;
    let held = held.map_err(|_| Rejection::new(ErrorCode::EngineError, LATE))?;
    let held = held.map_err(|error| Rejection::new(ErrorCode::EngineError, error.to_string()))?;
    let meant = held.into_iter().filter(|one| deployment.is_none_or(|of| one.deployment == *of));
    Ok(meant.map(|volume| info(member, volume)).collect())
}

fn info(member: &Member, volume: HeldVolume) -> v1::VolumeInfo {
    let mount = |mount: VolumeMount| v1::VolumeMountInfo {
        replica: mount.instance.map(|instance| instance.replica.to_string()).unwrap_or_default(),
        access: mount.access.as_str().to_owned(),
    };
    v1::VolumeInfo {
        deployment: volume.deployment.to_string(),
        volume: volume.key,
        node: member.hostname.to_string(),
        engine_name: volume.name,
        created_at_ms: volume.created_at.map(view::millis).unwrap_or_default(),
        mounts: volume.mounts.into_iter().map(mount).collect(),
    }
}
