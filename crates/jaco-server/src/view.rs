//! The replicated state as people ask about it. Pure: the same state gives the same answer on
//! every node.

use std::collections::{BTreeMap, HashMap};

use jaco_proto::v1;
use jaco_state::audit::{AuditEvent, AuditKey};
use jaco_state::{ClusterState, Deployment, view};
use jaco_types::rollout::Scheduling;
use jaco_types::spec::{Placement, ServiceSpec};
use jaco_types::{
    Ending, GoingBack, ImageDigest, Instance, InstanceId, InstanceObserved, Leaving, Node, NodeId,
    ReplicaId, Rollout, ServiceKey, Slot, StateIndex, Timestamp, Unplaced,
};

/// The reason of an instance that runs on until those who follow the endpoints have let go of it.
pub const LEAVING_ROUTING: &str = "leaving_routing";

/// What raft makes of each member: `voter`, `learner`, or `none`.
pub type Suffrage = BTreeMap<NodeId, &'static str>;

/// The answer to a status request, as far as it comes from the state.
#[must_use]
pub fn status(
    state: &ClusterState,
    request: &v1::StatusRequest,
    suffrage: &Suffrage,
) -> v1::StatusResponse {
    let wanted = |key: &ServiceKey| {
        (request.deployment.is_empty() || key.deployment.as_str() == request.deployment)
            && (request.service.is_empty() || key.service.as_str() == request.service)
    };
    let mut slots: BTreeMap<&ServiceKey, Vec<&Slot>> = BTreeMap::new();
    for slot in state.slots.values().filter(|slot| wanted(&slot.service)) {
        slots.entry(&slot.service).or_default().push(slot);
    }
    let deployments = state.deployments.values();
    let deployments = deployments.filter(|deployment| {
        request.deployment.is_empty() || deployment.name.as_str() == request.deployment
    });
    let deployments = deployments.map(|deployment| deployment_info(state, deployment, &slots));
    let replicas = slots.values().flatten().map(|slot| replica_info(state, slot));
    let leftovers = state
        .observed
        .values()
        .filter(|seen| wanted(&seen.service) && !state.slots.contains(&seen.id.replica));
    v1::StatusResponse {
        raft_index: state.index.0,
        leader: String::new(),
        answered_by: String::new(),
        deployments: deployments.collect(),
        replicas: replicas.chain(leftovers.map(|seen| leftover_info(state, seen))).collect(),
        nodes: node_infos(state, suffrage),
    }
}

/// The members.
#[must_use]
pub fn node_infos(state: &ClusterState, suffrage: &Suffrage) -> Vec<v1::NodeInfo> {
    let mut held: BTreeMap<NodeId, Held> = BTreeMap::new();
    for slot in state.slots.values() {
        for (_, instance) in slot.instances() {
            held.entry(instance.node).or_default().replicas += 1;
        }
    }
    for (_, node) in view::ending(state) {
        held.entry(node).or_default().ending += 1;
    }
    let mut nodes: Vec<_> = state
        .nodes
        .values()
        .map(|node| node_info(node, suffrage, held.get(&node.id).copied().unwrap_or_default()))
        .collect();
    nodes.sort_by(|a, b| a.hostname.cmp(&b.hostname));
    nodes
}

/// What a node holds.
#[derive(Debug, Clone, Copy, Default)]
struct Held {
    replicas: u32,
    ending: u32,
}

fn node_info(node: &Node, suffrage: &Suffrage, held: Held) -> v1::NodeInfo {
    v1::NodeInfo {
        id: node.id.0,
        hostname: node.hostname.to_string(),
        address: node.address.clone(),
        status: node.status.as_str().to_owned(),
        status_reason: node.status_reason.clone(),
        availability: node.availability.as_str().to_owned(),
        suffrage: (*suffrage.get(&node.id).unwrap_or(&"none")).to_owned(),
        version: node.facts.version.clone(),
        engine: node.facts.engine.clone(),
        os: node.facts.os.clone(),
        arch: node.facts.arch.clone(),
        cpu_millis: node.facts.capacity.cpu.0,
        memory_bytes: node.facts.capacity.memory.0,
        labels: node
            .all_labels()
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect(),
        replicas: held.replicas,
        joined_at_ms: millis(node.joined_at),
        ending: held.ending,
        availability_reason: node.availability_reason.clone(),
    }
}

fn deployment_info(
    state: &ClusterState,
    deployment: &Deployment,
    slots: &BTreeMap<&ServiceKey, Vec<&Slot>>,
) -> v1::DeploymentInfo {
    let record = deployment.revisions.get(&deployment.revision);
    let services = deployment.spec().services.values().map(|spec| {
        let key = ServiceKey { deployment: deployment.name.clone(), service: spec.name.clone() };
        let slots = slots.get(&key).map_or(&[][..], Vec::as_slice);
        let digest = record.and_then(|record| record.digests.get(&spec.name));
        service_info(state, spec, digest, state.scheduling.get(&key), slots)
    });
    v1::DeploymentInfo {
        name: deployment.name.to_string(),
        revision: deployment.revision.0,
        status: view::convergence(state, deployment).as_str().to_owned(),
        services: services.collect(),
        updated_at_ms: record.map_or(0, |record| millis(record.applied_at)),
        updated_by: record.map(|record| record.applied_by.to_string()).unwrap_or_default(),
    }
}

fn service_info(
    state: &ClusterState,
    spec: &ServiceSpec,
    digest: Option<&ImageDigest>,
    scheduling: Option<&Scheduling>,
    slots: &[&Slot],
) -> v1::ServiceInfo {
    let running =
        slots.iter().filter(|slot| slot.instances().any(|(id, _)| view::is_running(state, &id)));
    let updated = slots.iter().filter(|slot| {
        slot.current.spec_hash == spec.hash && view::is_running(state, &slot.current_id())
    });
    let desired = match spec.placement {
        Placement::Global => count(slots.len()),
        Placement::Spread | Placement::Pack | Placement::Hosts(_) => spec.replicas,
    };
    let unplaced = scheduling.map_or(&[][..], |record| &record.unplaced);
    v1::ServiceInfo {
        name: spec.name.to_string(),
        image: spec.image.to_string(),
        placement: spec.placement.as_str().to_owned(),
        desired,
        running: count(running.count()),
        updated: count(updated.count()),
        spec_hash: spec.hash.short(),
        rollout: scheduling
            .and_then(|record| record.rollout.as_ref())
            .map(|rollout| rollout_info(state, rollout)),
        unplaced: unplaced.iter().map(unplaced_info).collect(),
        image_digest: digest.map(ToString::to_string).unwrap_or_default(),
    }
}

/// By host name, what keeps each node from having the image.
fn preparing(state: &ClusterState, rollout: &Rollout) -> HashMap<String, String> {
    let nodes = rollout.preparing.iter().flat_map(|preparing| &preparing.nodes);
    nodes.map(|(node, reason)| (hostname(state, *node), reason.clone())).collect()
}

fn rollout_info(state: &ClusterState, rollout: &Rollout) -> v1::RolloutInfo {
    v1::RolloutInfo {
        target_revision: rollout.target_revision.0,
        total_steps: rollout.total_steps,
        current_step: rollout.current_step,
        state: rollout.state.as_str().to_owned(),
        failure_reason: rollout.failure_reason.clone(),
        started_at_ms: millis(rollout.started_at),
        preparing: preparing(state, rollout),
        previous_revision: rollout.previous_revision.0,
        going_back: rollout.going_back.map(|GoingBack { total_steps, current_step }| {
            v1::GoingBackInfo { total_steps, current_step }
        }),
    }
}

fn unplaced_info(unplaced: &Unplaced) -> v1::UnplacedInfo {
    v1::UnplacedInfo {
        count: unplaced.count,
        reason: unplaced.reason.clone(),
        details: unplaced.details.clone().into_iter().collect(),
    }
}

fn replica_info(state: &ClusterState, slot: &Slot) -> v1::ReplicaInfo {
    let id = slot.current_id();
    let view = view::replica(state, slot);
    let seen = state.observed.get(&id);
    let spec = state.service_spec(&slot.service, slot.current.revision);
    let digest = state.image_digest(&slot.service, slot.current.revision);
    v1::ReplicaInfo {
        id: slot.id.to_string(),
        deployment: slot.service.deployment.to_string(),
        service: slot.service.service.to_string(),
        node: hostname(state, slot.current.node),
        state: view.state.as_str().to_owned(),
        code: view.code.map(|code| code.as_str().to_owned()).unwrap_or_default(),
        details: view.details.into_iter().collect(),
        image: spec.map(|spec| spec.image.to_string()).unwrap_or_default(),
        revision: slot.current.revision.0,
        spec_hash: slot.current.spec_hash.short(),
        raft_index: slot.current.raft_index.0,
        container_id: seen.map(|seen| seen.container_id.clone()).unwrap_or_default(),
        ports: seen.map(ports).unwrap_or_default(),
        started_at_ms: seen.and_then(|seen| seen.started_at).map_or(0, millis),
        since_ms: seen.map_or(0, |seen| millis(seen.since)),
        consecutive_failures: slot.restarts.consecutive,
        retiring: slot.retiring.as_ref().map(|instance| retiring_info(state, slot, instance)),
        exit_code: seen.and_then(|seen| seen.exit).map_or(0, |exit| exit.code),
        exited: seen.is_some_and(|seen| seen.exit.is_some()),
        in_routing: slot.instances().any(|(id, _)| view::is_running(state, &id)),
        leaving: leaving_infos(state, &slot.id),
        endings: slot.endings.iter().rev().map(|ending| ending_info(state, ending)).collect(),
        restart_at_ms: view::restart_at(state, slot).map_or(0, millis),
        gpus: slot.current.gpus.iter().map(ToString::to_string).collect(),
        image_digest: digest.map(ToString::to_string).unwrap_or_default(),
    }
}

fn ending_info(state: &ClusterState, ending: &Ending) -> v1::EndingInfo {
    v1::EndingInfo {
        raft_index: ending.raft_index.0,
        node: hostname(state, ending.node),
        revision: ending.revision.0,
        at_ms: millis(ending.at),
        aftermath: ending.aftermath.as_str().to_owned(),
        state: ending.state.as_str().to_owned(),
        code: ending.code.map(|code| code.as_str().to_owned()).unwrap_or_default(),
        details: ending.details.clone().into_iter().collect(),
        exited: ending.exit.is_some(),
        exit_code: ending.exit.map_or(0, |exit| exit.code),
        out_of_memory: ending.exit.is_some_and(|exit| exit.out_of_memory),
    }
}

/// An instance that no slot names any more and that its node still has: on its way out.
fn leftover_info(state: &ClusterState, seen: &InstanceObserved) -> v1::ReplicaInfo {
    let is_leaving = state.leaving.contains(&seen.id);
    v1::ReplicaInfo {
        id: seen.id.replica.to_string(),
        deployment: seen.service.deployment.to_string(),
        service: seen.service.service.to_string(),
        node: hostname(state, seen.node),
        state: "stopping".to_owned(),
        raft_index: seen.id.raft_index.0,
        container_id: seen.container_id.clone(),
        ports: ports(seen),
        started_at_ms: seen.started_at.map_or(0, millis),
        since_ms: millis(seen.since),
        code: if is_leaving { LEAVING_ROUTING.to_owned() } else { String::new() },
        leaving: leaving_infos(state, &seen.id.replica),
        ..v1::ReplicaInfo::default()
    }
}

/// The instances of a replica that wait to be let go by those who follow the endpoints.
fn leaving_infos(state: &ClusterState, replica: &ReplicaId) -> Vec<v1::LeavingInfo> {
    let first = InstanceId { replica: replica.clone(), raft_index: StateIndex(0) };
    let rows = state.leaving.range(first..).map(|(_, leaving)| leaving);
    let rows = rows.take_while(|leaving| leaving.id.replica == *replica);
    let info = |leaving: &Leaving| v1::LeavingInfo {
        node: hostname(state, leaving.node),
        raft_index: leaving.id.raft_index.0,
        container_id: state
            .observed
            .get(&leaving.id)
            .map(|seen| seen.container_id.clone())
            .unwrap_or_default(),
        since_ms: millis(leaving.since),
        waits_for: state.consumers.keys().map(ToString::to_string).collect(),
    };
    rows.map(info).collect()
}

fn ports(seen: &InstanceObserved) -> std::collections::HashMap<u32, String> {
    seen.ports.iter().map(|(port, address)| (u32::from(*port), address.clone())).collect()
}

fn retiring_info(state: &ClusterState, slot: &Slot, instance: &Instance) -> v1::RetiringInfo {
    let seen = slot.retiring_id().and_then(|id| state.observed.get(&id));
    v1::RetiringInfo {
        node: hostname(state, instance.node),
        state: seen.map(|seen| seen.state.as_str().to_owned()).unwrap_or_default(),
        raft_index: instance.raft_index.0,
        container_id: seen.map(|seen| seen.container_id.clone()).unwrap_or_default(),
    }
}

/// The name of a node, or its number once it is no member any more.
#[must_use]
pub fn hostname(state: &ClusterState, id: NodeId) -> String {
    let node = state.nodes.get(&id);
    node.map_or_else(|| id.to_string(), |node| node.hostname.to_string())
}

/// An audit event on the wire.
#[must_use]
pub fn audit_event(key: AuditKey, event: &AuditEvent) -> v1::AuditEvent {
    v1::AuditEvent {
        index: key.index.0,
        number: key.number,
        kind: event.kind.as_str().to_owned(),
        at_ms: millis(event.at),
        by: event.by.to_string(),
        request_id: event.request.as_ref().map(ToString::to_string).unwrap_or_default(),
        payload: event.payload.clone().into_iter().collect(),
        previous: event.previous.map(|previous| previous.to_string()).unwrap_or_default(),
        origin: event.origin.map(|origin| origin.to_string()).unwrap_or_default(),
        gap: None,
    }
}

/// A moment on the wire.
#[must_use]
pub fn millis(at: Timestamp) -> i64 {
    i64::try_from(at.0).unwrap_or(i64::MAX)
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
