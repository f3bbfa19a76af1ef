//! The volumes of all nodes, from their engines.

use std::collections::HashMap;
use std::time::Duration;

use jaco_agent::engine::{HeldVolume, VolumeMount};
use jaco_proto::v1;
use jaco_types::unit::Bytes;
use jaco_types::{DeploymentName, ErrorCode, Rejection};

use super::demand::demand;
use crate::member::Member;
use crate::service::others::{LATE, ask_others};
use crate::status::invalid;
use crate::view;

/// Deadline of a node to list.
const PATIENCE: Duration = Duration::from_secs(5);

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
    let question = v1::ListVolumesRequest { local_only: true, ..request.clone() };
    let others = ask_others(member, &question, PATIENCE, |node, address, question| async move {
        member.peers.volumes(node, &address).list_volumes(question).await
    });
    let (own, others) = tokio::join!(own, others);
    let mut found = v1::ListVolumesResponse::default();
    let own = (member.hostname.to_string(), own.map_err(|refused| refused.message));
    let others = others.into_iter().map(|(node, answer)| (node, answer.map(|it| it.volumes)));
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

/// The volumes of this node.
async fn local(
    member: &Member,
    deployment: Option<&DeploymentName>,
) -> Result<Vec<v1::VolumeInfo>, Rejection> {
    let held = tokio::time::timeout(PATIENCE, member.agent.volumes()).await;
    let held = held.map_err(|_| Rejection::new(ErrorCode::EngineError, LATE))?;
    let held = held.map_err(|error| Rejection::new(ErrorCode::EngineError, error.to_string()))?;
    let meant = held.into_iter().filter(|one| deployment.is_none_or(|of| one.deployment == *of));
    let sized = meant.map(|volume| {
        let size = size(member, &volume);
        info(member, volume, size)
    });
    Ok(sized.collect())
}

/// The size that its deployment gives to a volume; zero without.
fn size(member: &Member, volume: &HeldVolume) -> Bytes {
    member.store.read(|state| {
        let deployment = state.deployments.get(&volume.deployment);
        let services = deployment.into_iter().flat_map(|one| one.spec().services.values());
        let demands = services.flat_map(|service| &service.volumes);
        let demand = demand(demands, &volume.deployment, (&volume.key, &volume.name));
        demand.map(|demand| demand.size).unwrap_or_default()
    })
}

fn info(member: &Member, volume: HeldVolume, size: Bytes) -> v1::VolumeInfo {
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
        class: volume.class.map(|class| class.to_string()).unwrap_or_default(),
        size_bytes: size.0,
        used_bytes: volume.used.map(|used| used.0),
    }
}
