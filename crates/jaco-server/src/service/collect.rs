//! Removing for good what removed allocations left (R-SEL-3): each node looks at its own engine, and
//! keeps what the newest state needs there.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use jaco_agent::engine::{Collection, Extent};
use jaco_proto::v1;
use jaco_state::Command;
use jaco_state::audit::AuditKind;
use jaco_state::collecting::needed_on;
use jaco_store::{Proposal, Store};
use jaco_types::{Author, DeploymentName, ErrorCode, NodeId, Rejection};
use tonic::Request;

use crate::member::Member;
use crate::status::{from_propose_error, from_status, invalid};

/// How long one node may take: an engine removes a volume in less than a second.
const PATIENCE: Duration = Duration::from_secs(60);

/// Collects on this node, and on all others unless they ask for it.
pub(super) async fn collect(
    member: &Member,
    by: Author,
    request: v1::CollectVolumesRequest,
) -> Result<v1::CollectVolumesResponse, Rejection> {
    let mut volumes = local(member, &request).await?;
    if request.local_only {
        return Ok(v1::CollectVolumesResponse { volumes, unreachable: HashMap::new() });
    }
    let others: Vec<(NodeId, String, String)> = member.store.read(|state| {
        let others = state.nodes.values().filter(|node| node.id != member.id);
        others.map(|node| (node.id, node.hostname.to_string(), node.address.clone())).collect()
    });
    let mut unreachable = HashMap::new();
    for (node, hostname, address) in others {
        let asked = v1::CollectVolumesRequest { local_only: true, ..request.clone() };
        let mut asked = Request::new(asked);
        asked.set_timeout(PATIENCE);
        let mut peer = member.peers.cluster(node, &address);
        match tokio::time::timeout(PATIENCE, peer.collect_volumes(asked)).await {
            Ok(Ok(answer)) => volumes.extend(answer.into_inner().volumes),
            Ok(Err(status)) => drop(unreachable.insert(hostname, from_status(&status).message)),
            Err(_) => drop(unreachable.insert(hostname, "no answer in time".to_owned())),
        }
    }
    volumes.sort_by(|a, b| {
        (&a.node, &a.deployment, &a.volume).cmp(&(&b.node, &b.deployment, &b.volume))
    });
    if !request.dry_run {
        note(member, by, &volumes).await?;
    }
    Ok(v1::CollectVolumesResponse { volumes, unreachable })
}

/// Looks at this node's engine, knowing all that was agreed on by now.
async fn local(
    member: &Member,
    request: &v1::CollectVolumesRequest,
) -> Result<Vec<v1::CollectedVolume>, Rejection> {
    let deployment = match request.deployment.as_str() {
        "" => None,
        name => Some(DeploymentName::new(name).map_err(invalid)?),
    };
    member.store.catch_up().await.map_err(|error| from_propose_error(&error))?;
    let needed = member.store.read(|state| needed_on(state, member.id));
    let extent = if request.dry_run { Extent::Look } else { Extent::Remove };
    let found = member.agent.collect_volumes(&Collection { deployment, needed, extent }).await;
    let found = found.map_err(|error| Rejection::new(ErrorCode::EngineError, error.to_string()))?;
    let info = |volume: jaco_agent::engine::CollectedVolume| v1::CollectedVolume {
        node: member.hostname.to_string(),
        deployment: volume.deployment.to_string(),
        volume: volume.name,
        kept: volume.kept.unwrap_or_default(),
    };
    Ok(found.into_iter().map(info).collect())
}

/// One event, where anything went.
async fn note(
    member: &Member,
    by: Author,
    volumes: &[v1::CollectedVolume],
) -> Result<(), Rejection> {
    let mut by_node: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for volume in volumes.iter().filter(|volume| volume.kept.is_empty()) {
        by_node.entry(&volume.node).or_default().push(&volume.volume);
    }
    if by_node.is_empty() {
        return Ok(());
    }
    let payload = by_node.into_iter().map(|(node, names)| (node.to_owned(), names.join(", ")));
    let kind = AuditKind::VolumesCollected;
    let command = Command::AuditNote { kind, payload: payload.collect() };
    let Author { by, origin } = by;
    let proposal = Proposal { by, request: None, command };
    let noted = member.store.propose_from(proposal, origin).await;
    noted.map_err(|error| from_propose_error(&error))?;
    Ok(())
}
