//! Garbage collection of volumes and logs of removed allocations (R-SEL-3). Each node inspects its own engine
//! and keeps what the newest state needs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use jaco_agent::RemovedAllocation;
use jaco_agent::engine::{GcMode, VolumeGc};
use jaco_proto::v1;
use jaco_state::audit::AuditKind;
use jaco_state::view::needed_on;
use jaco_store::Store;
use jaco_types::{Author, DeploymentName, ErrorCode, Rejection, ServiceKey};

use crate::member::Member;
use crate::service::audit_action::audit;
use crate::service::others::{LATE, ask_others};
use crate::status::{from_propose_error, invalid};
use crate::view;

/// Deadline of one node to collect; an engine removes a volume in less than a second.
const PATIENCE: Duration = Duration::from_secs(60);

/// Deadline of one node to list.
const LOOK_PATIENCE: Duration = Duration::from_secs(3);

/// Collects on this node, and on all others unless the request is from one of them.
pub(super) async fn collect(
    member: &Member,
    by: Author,
    request: v1::CollectVolumesRequest,
) -> Result<v1::CollectVolumesResponse, Rejection> {
    let own = local(member, &request).await?;
    if request.local_only {
        return Ok(own);
    }
    let found = with_others(member, own, &request, PATIENCE).await;
    if !request.dry_run {
        audit_deletions(member, by, &found).await?;
    }
    Ok(found)
}

/// What is left of one deployment, or of all, on every node that answers in time.
pub(in crate::service) async fn look(
    member: &Member,
    deployment: &str,
) -> v1::CollectVolumesResponse {
    let deployment = deployment.to_owned();
    let request = v1::CollectVolumesRequest { deployment, dry_run: true, local_only: false };
    let own = tokio::time::timeout(LOOK_PATIENCE, local(member, &request)).await;
    let own = match own {
        Ok(Ok(own)) => own,
        Ok(Err(rejection)) => unreachable(member, rejection.message),
        Err(_) => unreachable(member, LATE.to_owned()),
    };
    with_others(member, own, &request, LOOK_PATIENCE).await
}

fn unreachable(member: &Member, why: String) -> v1::CollectVolumesResponse {
    let unreachable = HashMap::from([(member.hostname.to_string(), why)]);
    v1::CollectVolumesResponse { unreachable, ..v1::CollectVolumesResponse::default() }
}

/// Sends the request to all other nodes concurrently.
async fn with_others(
    member: &Member,
    mut found: v1::CollectVolumesResponse,
    request: &v1::CollectVolumesRequest,
    patience: Duration,
) -> v1::CollectVolumesResponse {
    let question = v1::CollectVolumesRequest { local_only: true, ..request.clone() };
    let others = ask_others(member, &question, patience, |node, address, question| async move {
        member.peers.cluster(node, &address).collect_volumes(question).await
    });
    for (hostname, answer) in others.await {
        match answer {
            Ok(answer) => {
                found.volumes.extend(answer.volumes);
                found.removed.extend(answer.removed);
            }
            Err(why) => drop(found.unreachable.insert(hostname, why)),
        }
    }
    found.volumes.sort_by(|a, b| {
        (&a.node, &a.deployment, &a.volume).cmp(&(&b.node, &b.deployment, &b.volume))
    });
    found.removed.sort_by(|a, b| {
        (&a.node, &a.deployment, &a.service).cmp(&(&b.node, &b.deployment, &b.service))
    });
    found
}

/// Collects on this node, by the newest state.
async fn local(
    member: &Member,
    request: &v1::CollectVolumesRequest,
) -> Result<v1::CollectVolumesResponse, Rejection> {
    let deployment = match request.deployment.as_str() {
        "" => None,
        name => Some(DeploymentName::new(name).map_err(invalid)?),
    };
    member.store.catch_up().await.map_err(|error| from_propose_error(&error))?;
    let extent = if request.dry_run { GcMode::DryRun } else { GcMode::Remove };
    let removed = removed(member, deployment.as_ref(), extent).await?;
    let needed = member.store.read(|state| needed_on(state, member.id));
    let found = member.agent.collect_volumes(&VolumeGc { deployment, needed, extent }).await;
    let found = found.map_err(|error| Rejection::new(ErrorCode::EngineError, error.to_string()))?;
    let info = |volume: jaco_agent::engine::CollectedVolume| v1::CollectedVolume {
        node: member.hostname.to_string(),
        deployment: volume.deployment.to_string(),
        volume: volume.name,
        kept: volume.kept.unwrap_or_default(),
    };
    let volumes = found.into_iter().map(info).collect();
    Ok(v1::CollectVolumesResponse { volumes, removed, unreachable: HashMap::new() })
}

/// The allocations that were removed from this node and are not placed on it again.
async fn removed(
    member: &Member,
    deployment: Option<&DeploymentName>,
    extent: GcMode,
) -> Result<Vec<v1::RemovedAllocation>, Rejection> {
    let here: BTreeSet<ServiceKey> = member.store.read(|state| {
        let slots = state.slots.values().filter(|slot| slot.current.node == member.id);
        slots.map(|slot| slot.service.clone()).collect()
    });
    let remains = member.agent.removed_allocations().clone();
    let wanted = deployment.cloned();
    let read = move || -> std::io::Result<Vec<RemovedAllocation>> {
        let mut all = remains.list()?;
        all.retain(|one| wanted.as_ref().is_none_or(|wanted| *wanted == one.service.deployment));
        if extent == GcMode::Remove {
            // Also for those that are placed here again.
            all.iter().try_for_each(|one| remains.forget(&one.service))?;
        }
        Ok(all)
    };
    let read = tokio::task::spawn_blocking(read).await;
    let found = read.unwrap_or_else(|error| Err(std::io::Error::other(error)));
    let found = found.map_err(|error| {
        let message =
            format!("the records of removed allocations cannot be read or deleted: {error}");
        Rejection::new(ErrorCode::Internal, message)
    })?;
    let info = |one: RemovedAllocation| v1::RemovedAllocation {
        node: member.hostname.to_string(),
        deployment: one.service.deployment.to_string(),
        service: one.service.service.to_string(),
        removed_at_ms: view::millis(one.at),
        log_bytes: one.log_bytes,
    };
    Ok(found.into_iter().filter(|one| !here.contains(&one.service)).map(info).collect())
}

/// Audits what was deleted, if anything was.
async fn audit_deletions(
    member: &Member,
    by: Author,
    found: &v1::CollectVolumesResponse,
) -> Result<(), Rejection> {
    let mut by_node: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for volume in found.volumes.iter().filter(|volume| volume.kept.is_empty()) {
        by_node.entry(&volume.node).or_default().push(volume.volume.clone());
    }
    for one in &found.removed {
        let logs = format!("logs of {}/{}", one.deployment, one.service);
        by_node.entry(&one.node).or_default().push(logs);
    }
    if by_node.is_empty() {
        return Ok(());
    }
    let payload = by_node.into_iter().map(|(node, names)| (node.to_owned(), names.join(", ")));
    audit(member, by, AuditKind::VolumesCollected, payload.collect()).await
}
