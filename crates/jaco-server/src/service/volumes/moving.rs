//! The replicas and volumes that move together with a volume, and the end of a move: the replicas start on the other node.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use jaco_compose::model::ContainerSpec;
use jaco_compose::reach::reaches;
use jaco_proto::v1;
use jaco_state::ClusterState;
use jaco_state::command::DataMove;
use jaco_store::Store;
use jaco_types::spec::{ReachKind, ServiceSpec};
use jaco_types::{
    Author, DeploymentName, DesiredState, ErrorCode, NodeId, Rejection, ReplicaId, ServiceName,
    Slot, SpecHash, StateIndex,
};

use super::list::list;
use super::place::Place;
use crate::auth::permission::Concern;
use crate::forward::Write;
use crate::member::Member;
use crate::service::cluster::find_node;
use crate::service::upgraded;
use crate::status::invalid;
use crate::view::hostname;

/// What has to be copied if this volume moves, and which replicas move with it.
pub(super) async fn plan(
    member: &Member,
    request: &v1::PlanVolumeMoveRequest,
) -> Result<v1::PlanVolumeMoveResponse, Rejection> {
    member.caught_up().await?;
    let from = match request.from.as_str() {
        "" => in_use(member, request)?.unwrap_or_default(),
        named => named.to_owned(),
    };
    let place = Place::find(member, (&request.deployment, &request.volume, &from)).await?;
    member.store.read(upgraded::data_may_move)?;
    let to = member.store.read(|state| find_node(state, &request.to))?;
    let from = place.node();
    if from == to {
        return Err(place.stays(&request.to));
    }
    let held = held(member, place.deployment(), &place.hostname(member)).await?;
    let is_meant =
        |one: &&v1::VolumeInfo| one.volume == request.volume || one.engine_name == request.volume;
    let asked = held.iter().find(is_meant);
    let asked = asked.ok_or_else(|| place.absent("the node does not have it"))?;
    let keys: BTreeSet<&str> = held.iter().map(|one| one.volume.as_str()).collect();
    // What containers mount is worked out of their specs, which is too long for the lock of the state.
    let state = member.store.snapshot();
    let of_it = on_node(&state, place.deployment(), from);
    let mounted = |spec: &ServiceSpec| -> BTreeSet<&str> {
        let volume_of =
            |key: &str| member.agent.volume_of(place.deployment(), key, &spec.container);
        keys.iter().copied().filter(|key| volume_of(key).is_some()).collect()
    };
    let mut mounts: BTreeMap<SpecHash, BTreeSet<&str>> = BTreeMap::new();
    for (_, spec) in &of_it {
        mounts.entry(spec.hash).or_insert_with(|| mounted(spec));
    }
    let candidates: Vec<Candidate<'_>> = of_it
        .iter()
        .map(|(slot, spec)| Candidate {
            service: &slot.service.service,
            shares_with: &spec.scheduling.shares_namespaces_with,
            mounts: &mounts[&spec.hash],
        })
        .collect();
    let (volumes, movers) = together(&asked.volume, &candidates);
    let movers: Vec<_> = movers.into_iter().map(|at| of_it[at]).collect();
    let mounts_one = |(_, spec): &(&Slot, &ServiceSpec)| {
        let volume_of =
            |key: &&str| member.agent.volume_of(place.deployment(), key, &spec.container);
        volumes.iter().any(|key| volume_of(key).is_some())
    };
    if let Some((slot, _)) = on_node(&state, place.deployment(), to).into_iter().find(mounts_one) {
        return Err(has_its_own(&slot.id, &request.to));
    }
    let left: BTreeSet<String> =
        movers.iter().flat_map(|(_, spec)| left_behind(&spec.container)).collect();
    Ok(v1::PlanVolumeMoveResponse {
        from: hostname(&state, from),
        to: hostname(&state, to),
        volumes: volumes.into_iter().map(str::to_owned).collect(),
        replicas: movers.iter().map(|(slot, _)| mover(slot)).collect(),
        left: left.into_iter().collect(),
    })
}

/// The refusal to put a volume in the place of another replica's, disabled or not.
fn has_its_own(replica: &ReplicaId, node: &str) -> Rejection {
    let message = format!("replica {replica} has its own data in that volume on {node}");
    Rejection::new(ErrorCode::VolumeInUse, message)
}

/// The only node with replicas that mount the volume: others may have copies that nobody uses.
fn in_use(
    member: &Member,
    request: &v1::PlanVolumeMoveRequest,
) -> Result<Option<String>, Rejection> {
    let deployment = DeploymentName::new(&request.deployment).map_err(invalid)?;
    let mounts = |spec: &ServiceSpec| {
        member.agent.volume_of(&deployment, &request.volume, &spec.container).is_some()
    };
    let state = member.store.snapshot();
    let of_it = state.slots.values().filter(|slot| slot.service.deployment == deployment);
    let mut known: BTreeMap<SpecHash, bool> = BTreeMap::new();
    let nodes: BTreeSet<NodeId> = of_it
        .filter(|slot| {
            let spec = state.service_spec(&slot.service, slot.current.revision);
            spec.is_some_and(|it| *known.entry(it.hash).or_insert_with(|| mounts(it)))
        })
        .map(|slot| slot.current.node)
        .collect();
    let mut nodes = nodes.into_iter();
    let only = nodes.next().filter(|_| nodes.next().is_none());
    Ok(only.map(|node| hostname(&state, node)))
}

/// The volumes of the deployment that the node has.
async fn held(
    member: &Member,
    deployment: &DeploymentName,
    node: &str,
) -> Result<Vec<v1::VolumeInfo>, Rejection> {
    let request = v1::ListVolumesRequest { deployment: deployment.to_string(), local_only: false };
    let mut found = list(member, &request).await?;
    if let Some(why) = found.unreachable.remove(node) {
        let message = format!("the volumes of node {node} are not known: {why}");
        return Err(Rejection::new(ErrorCode::Unavailable, message));
    }
    found.volumes.retain(|one| one.node == node);
    Ok(found.volumes)
}

/// The replicas of the deployment on the node, with what each would run.
fn on_node<'s>(
    state: &'s ClusterState,
    deployment: &DeploymentName,
    node: NodeId,
) -> Vec<(&'s Slot, &'s ServiceSpec)> {
    let of_it = state
        .slots
        .values()
        .filter(|slot| slot.service.deployment == *deployment && slot.current.node == node);
    let spec = |slot: &'s Slot| state.service_spec(&slot.service, slot.current.revision);
    of_it.filter_map(|slot| Some((slot, &**spec(slot)?))).collect()
}

/// What decides whether a replica moves.
struct Candidate<'a> {
    service: &'a ServiceName,
    shares_with: &'a BTreeSet<ServiceName>,
    /// The volumes on the node that it mounts.
    mounts: &'a BTreeSet<&'a str>,
}

/// What moves if `volume` does: the replicas that mount it, those that cannot be apart from one of them, what else these mount,
/// and so on. Replicas by their place among the candidates.
fn together<'a>(
    volume: &'a str,
    candidates: &[Candidate<'a>],
) -> (BTreeSet<&'a str>, BTreeSet<usize>) {
    let (mut volumes, mut movers) = (BTreeSet::from([volume]), BTreeSet::new());
    loop {
        let services: BTreeSet<&ServiceName> =
            movers.iter().map(|at: &usize| candidates[*at].service).collect();
        let partners: BTreeSet<&ServiceName> =
            movers.iter().flat_map(|at| candidates[*at].shares_with).collect();
        let moves = |one: &Candidate<'_>| {
            !one.mounts.is_disjoint(&volumes)
                || partners.contains(one.service)
                || one.shares_with.iter().any(|with| services.contains(with))
        };
        let all: BTreeSet<usize> =
            (0..candidates.len()).filter(|at| moves(&candidates[*at])).collect();
        volumes.extend(all.iter().flat_map(|at| candidates[*at].mounts));
        if all == movers {
            return (volumes, movers);
        }
        movers = all;
    }
}

/// What a container has of its node that is in no volume of the deployment.
fn left_behind(container: &str) -> BTreeSet<String> {
    let reached = reaches(container).unwrap_or_default();
    let paths = reached.into_iter().filter(|reach| reach.kind == ReachKind::HostPath);
    let paths = paths.map(|reach| format!("{} {}", reach.kind.as_str(), reach.value));
    let volumes = ContainerSpec::parse(container).map(|spec| spec.volumes).unwrap_or_default();
    let external = volumes.into_values().filter(|volume| volume.external);
    paths.chain(external.map(|volume| format!("external volume {}", volume.name))).collect()
}

fn mover(slot: &Slot) -> v1::VolumeMover {
    v1::VolumeMover {
        replica: slot.id.to_string(),
        service: slot.service.service.to_string(),
        raft_index: slot.current.raft_index.0,
        disabled: slot.desired_state == DesiredState::Disabled,
    }
}

#[async_trait]
impl Write for v1::SettleVolumeMoveRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::SettleVolumeMoveResponse, Rejection> {
        let deployment = DeploymentName::new(&self.deployment).map_err(invalid)?;
        member.admit(&by, [Concern::Deployment(&deployment)])?;
        member.store.read(upgraded::data_may_move)?;
        let to = member.store.read(|state| find_node(state, &self.to))?;
        let replicas = member.store.read(|state| moved(state, &deployment, &self.replicas))?;
        if replicas.is_empty() {
            return Err(invalid("no replica is named"));
        }
        require_copies(member, &deployment, to, &self.volumes).await?;
        let command = DataMove::new(replicas, to).into();
        let applied = member.commit(by, &self.request_id, command).await?;
        Ok(v1::SettleVolumeMoveResponse { raft_index: applied.index.0 })
    }
}

/// Refuses unless the node has the volumes: until the replicas are its own, a garbage collection takes them for leftovers.
async fn require_copies(
    member: &Member,
    deployment: &DeploymentName,
    to: NodeId,
    volumes: &[String],
) -> Result<(), Rejection> {
    let node = member.store.read(|state| hostname(state, to));
    let held = held(member, deployment, &node).await?;
    let mut missing = volumes.iter().filter(|volume| held.iter().all(|one| one.volume != **volume));
    missing.next().map_or(Ok(()), |volume| {
        let message = format!("{node} has no copy of {deployment}/{volume}");
        Err(Rejection::new(ErrorCode::VolumeNotFound, message))
    })
}

/// The replicas of a request, all of this deployment.
fn moved(
    state: &ClusterState,
    deployment: &DeploymentName,
    named: &[v1::VolumeMover],
) -> Result<BTreeMap<ReplicaId, StateIndex>, Rejection> {
    let found = |mover: &v1::VolumeMover| {
        let slot = state.slots.values().find(|slot| slot.id.as_str() == mover.replica);
        let slot = slot.filter(|slot| slot.service.deployment == *deployment);
        let slot = slot.ok_or_else(|| {
            let message = format!("{deployment} has no replica {}", mover.replica);
            Rejection::new(ErrorCode::ReplicaNotFound, message)
        })?;
        Ok((slot.id.clone(), StateIndex(mover.raft_index)))
    };
    named.iter().map(found).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-OPS-1: what mounts a volume takes along what else it mounts, whoever mounts that, and who shares its namespaces, in
    /// both directions; others stay.
    #[test]
    fn what_cannot_be_apart_moves_together() {
        let name = |text: &str| ServiceName::new(text).unwrap();
        let services = ["db", "backup", "sidecar", "web", "cache"].map(name);
        let [db, backup, sidecar, web, cache] = &services;
        let none = BTreeSet::new();
        let with_db: BTreeSet<ServiceName> = [db.clone()].into();
        let with_web: BTreeSet<ServiceName> = [web.clone()].into();
        let mounts: [BTreeSet<&str>; 5] =
            [["data", "log"].into(), ["log", "dump"].into(), [].into(), [].into(), ["warm"].into()];
        let candidate = |at: usize, shares_with| Candidate {
            service: &services[at],
            shares_with,
            mounts: &mounts[at],
        };
        let all = [
            candidate(0, &none),
            candidate(1, &with_web),
            candidate(2, &with_db),
            candidate(3, &none),
            candidate(4, &none),
        ];
        for asked in ["data", "log", "dump"] {
            let (volumes, movers) = together(asked, &all);
            assert_eq!(volumes, ["data", "dump", "log"].into(), "{asked}");
            let movers: Vec<_> = movers.into_iter().map(|at| all[at].service).collect();
            assert_eq!(movers, [db, backup, sidecar, web], "{asked}");
        }
        let (volumes, movers) = together("warm", &all);
        assert_eq!((volumes, movers.len()), (["warm"].into(), 1), "{cache} alone");
        let (volumes, movers) = together("kept", &all);
        assert_eq!((volumes, movers.len()), (["kept"].into(), 0), "nobody mounts it");
    }
}
