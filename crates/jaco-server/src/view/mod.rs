//! Responses to queries, from the replicated state. Pure: the same state gives the same response on every
//! node.

pub(crate) mod allocation;
pub(crate) mod content;
pub(crate) mod job;
pub(crate) mod path;
mod serving;
mod shown;
pub(crate) mod traffic;
pub(crate) mod ways;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jaco_proto::v1;
use jaco_state::audit::{AuditEvent, AuditKey};
use jaco_state::{ClusterState, Deployment, view};
use jaco_types::rollout::Scheduling;
use jaco_types::spec::{Placement, ServiceSpec};
use jaco_types::{
    Completion, DesiredState, ImageDigest, Instance, InstanceAddress, InstanceId, InstanceObserved,
    Node, NodeId, NodeStatus, ReplicaId, ReplicaState, Revision, RollbackProgress, Rollout,
    RolloutState, ServiceKey, ServiceName, Slot, StateIndex, TerminatingInstance, Termination,
    Timestamp, Unplaced,
};

/// The code of an instance that runs until the endpoint consumers have acknowledged its removal.
pub(crate) const TERMINATING: &str = "terminating";

/// The code of a replica whose node is down.
const NODE_DOWN: &str = "node_down";

/// The state of what the cluster cannot observe.
const UNKNOWN: &str = "unknown";

/// The state of what is no replica any more and is being removed.
const STOPPING: &str = "stopping";

pub(crate) use shown::Shown;

/// The suffrage of each member: `voter`, `learner`, or `none`.
pub(crate) type Suffrage = BTreeMap<NodeId, &'static str>;

/// The members.
#[must_use]
pub(crate) fn node_infos(state: &ClusterState, suffrage: &Suffrage) -> Vec<v1::NodeInfo> {
    let mut held: BTreeMap<NodeId, Counts> = BTreeMap::new();
    for slot in state.slots.values() {
        for (_, instance) in slot.instances() {
            held.entry(instance.node).or_default().replicas += 1;
        }
    }
    for (_, node) in view::stopping(state) {
        held.entry(node).or_default().stopping += 1;
    }
    let mut nodes: Vec<_> = state
        .nodes
        .values()
        .map(|node| node_info(node, suffrage, held.get(&node.id).copied().unwrap_or_default()))
        .collect();
    nodes.sort_by(|a, b| a.hostname.cmp(&b.hostname));
    nodes
}

/// Marks the status of nodes as unknown, in an answer that is not current.
pub(crate) fn unknown(nodes: &mut [v1::NodeInfo]) {
    for node in nodes {
        node.status = UNKNOWN.to_owned();
        node.status_reason.clear();
    }
}

/// Counts of a node.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    replicas: u32,
    stopping: u32,
}

fn node_info(node: &Node, suffrage: &Suffrage, counts: Counts) -> v1::NodeInfo {
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
        replicas: counts.replicas,
        joined_at_ms: millis(node.joined_at),
        stopping: counts.stopping,
        availability_reason: node.availability_reason.clone(),
        net: net(node).to_owned(),
        net_reason: problem(node).unwrap_or_default().to_owned(),
        edge: edge(node).to_owned(),
        edge_reason: node
            .facts
            .edge
            .as_ref()
            .and_then(|edge| edge.problem.clone())
            .unwrap_or_default(),
    }
}

/// Where the tunnel of a node runs; empty for one that has reported nothing of its router.
fn net(node: &Node) -> &'static str {
    match &node.facts.router {
        None => "",
        Some(router) => match router.link.filter(|_| router.works()) {
            Some(link) => link.backend.as_str(),
            None => "none",
        },
    }
}

fn edge(node: &Node) -> &'static str {
    match &node.facts.edge {
        None => "",
        Some(edge) if edge.problem.is_none() => "serves",
        Some(_) => "failing",
    }
}

fn problem(node: &Node) -> Option<&str> {
    node.facts.router.as_ref()?.problem.as_deref()
}

fn deployment_info(
    state: &ClusterState,
    deployment: &Deployment,
    slots: &BTreeMap<&ServiceKey, Vec<&Slot>>,
) -> v1::DeploymentInfo {
    let record = deployment.revisions.get(&deployment.revision);
    let convergences = view::convergences(state, deployment);
    let jobs = deployment.spec().jobs();
    let services = deployment.spec().services.values().map(|spec| {
        let beside = nodes_of_partners(deployment, spec, slots);
        let key = ServiceKey { deployment: deployment.name.clone(), service: spec.name.clone() };
        let slots = slots.get(&key).map_or(&[][..], Vec::as_slice);
        let digest = record.and_then(|record| record.digests.get(&spec.name));
        let held = view::held_spec(state, deployment, &spec.name).unwrap_or(spec);
        let info = service_info(
            state,
            (spec, deployment.revision),
            held,
            digest,
            state.scheduling.get(&key),
            slots,
        );
        let status = convergences.services.get(&spec.name).map_or("", |found| found.as_str());
        v1::ServiceInfo {
            desired: beside.map_or(info.desired, count),
            published: published(state, &key),
            status: status.to_owned(),
            completes_as: completes_as(spec, &jobs).to_owned(),
            job: job::summary(state, &key),
            ..info
        }
    });
    v1::DeploymentInfo {
        name: deployment.name.to_string(),
        revision: deployment.revision.0,
        status: convergences.deployment.as_str().to_owned(),
        services: services.collect(),
        updated_at_ms: record.map_or(0, |record| millis(record.applied_at)),
        updated_by: record.map(|record| record.applied_by.to_string()).unwrap_or_default(),
    }
}

/// Why an exit with 0 is the completion of a service; empty if it is not.
fn completes_as(spec: &ServiceSpec, jobs: &BTreeSet<&ServiceName>) -> &'static str {
    match (jobs.contains(&spec.name), spec.restart.may_complete()) {
        (true, _) => "job",
        (false, true) => "policy",
        (false, false) => "",
    }
}

/// On how many nodes a global service follows other services: where each of them has a replica. `None` if it
/// follows none.
fn nodes_of_partners(
    deployment: &Deployment,
    spec: &ServiceSpec,
    slots: &BTreeMap<&ServiceKey, Vec<&Slot>>,
) -> Option<usize> {
    let policy = &spec.scheduling;
    let mut partners = policy.place_with.iter().chain(&policy.shares_namespaces_with);
    let nodes = |partner: &ServiceName| -> BTreeSet<NodeId> {
        let key = ServiceKey { deployment: deployment.name.clone(), service: partner.clone() };
        let slots = slots.get(&key).map_or(&[][..], Vec::as_slice);
        slots.iter().map(|slot| slot.current.node).collect()
    };
    let first = nodes(partners.next().filter(|_| spec.placement == Placement::Global)?);
    let all = partners.fold(first, |common, partner| &common & &nodes(partner));
    Some(all.len())
}

fn service_info(
    state: &ClusterState,
    (spec, revision): (&ServiceSpec, Revision),
    held: &ServiceSpec,
    digest: Option<&ImageDigest>,
    scheduling: Option<&Scheduling>,
    slots: &[&Slot],
) -> v1::ServiceInfo {
    let running = slots.iter().filter(|slot| runs(state, slot));
    let updated = slots.iter().filter(|slot| {
        slot.current.spec_hash == spec.hash
            && is_up(state, slot.current.node)
            && view::is_running(state, &slot.current_id())
    });
    let desired = match held.placement {
        Placement::Global => count(slots.len()),
        Placement::Spread | Placement::Pack | Placement::Hosts(_) => held.replicas,
    };
    let in_state = |wanted| count(slots.iter().filter(|slot| slot.desired_state == wanted).count());
    let unplaced = scheduling.map_or(&[][..], |record| &record.unplaced);
    v1::ServiceInfo {
        name: spec.name.to_string(),
        image: spec.image.to_string(),
        placement: held.placement.as_str().to_owned(),
        desired,
        running: count(running.count()),
        updated: count(updated.count()),
        spec_hash: spec.hash.short(),
        rollout: scheduling
            .and_then(|record| record.rollout.as_ref())
            .filter(|rollout| is_present(rollout, revision))
            .map(|rollout| rollout_info(state, rollout)),
        unplaced: unplaced.iter().map(unplaced_info).collect(),
        image_digest: digest.map(ToString::to_string).unwrap_or_default(),
        serving: serving::serving(state, slots),
        published: Vec::new(),
        status: String::new(),
        completes_as: String::new(),
        completed: in_state(DesiredState::Finished(Completion::Succeeded)),
        disabled: in_state(DesiredState::Disabled),
        job: None,
    }
}

/// The ports on which every node answers for a service.
fn published(state: &ClusterState, service: &ServiceKey) -> Vec<String> {
    let ports = state.edges.ports_of(service);
    ports
        .map(|(key, claim)| format!("{}→{}/{}", key.socket(), claim.target, key.transport))
        .collect()
}

/// Whether a rollout concerns the desired revision, or goes on. One of an earlier revision that has ended is
/// history.
fn is_present(rollout: &Rollout, desired: Revision) -> bool {
    rollout.target_revision == desired
        || rollout.state == RolloutState::InProgress
        || rollout.rollback_progress.is_some()
}

/// Whether a node reports what it runs. What was observed on one that is down is old.
pub(crate) fn is_up(state: &ClusterState, node: NodeId) -> bool {
    state.nodes.get(&node).is_none_or(|node| node.status != NodeStatus::Down)
}

/// Whether an instance of a slot is known to run.
fn runs(state: &ClusterState, slot: &Slot) -> bool {
    slot.desired_state == DesiredState::Active
        && slot
            .instances()
            .any(|(id, instance)| is_up(state, instance.node) && view::is_running(state, &id))
}

/// The state of a slot; what its node cannot report is unknown.
fn replica_state(state: &ClusterState, slot: &Slot) -> (String, String, BTreeMap<String, String>) {
    let view = view::replica(state, slot);
    // What became of the others does not depend on their nodes.
    let is_active = slot.desired_state == DesiredState::Active;
    if is_active && !is_up(state, slot.current.node) {
        let node = hostname(state, slot.current.node);
        let details = BTreeMap::from([("node".to_owned(), node)]);
        return (UNKNOWN.to_owned(), NODE_DOWN.to_owned(), details);
    }
    let code = view.code.map(|code| code.as_str().to_owned()).unwrap_or_default();
    if view.state == ReplicaState::Pending
        && code.is_empty()
        && let Some(waits) = waits_for(state, slot)
    {
        let details = waits.details.clone();
        return (view.state.as_str().to_owned(), waits.reason.clone(), details);
    }
    (view.state.as_str().to_owned(), code, view.details)
}

/// What the planner has written that this slot waits for.
fn waits_for<'a>(state: &'a ClusterState, slot: &Slot) -> Option<&'a Unplaced> {
    let record = state.scheduling.get(&slot.service)?;
    let is_its =
        |one: &&Unplaced| one.details.get("replica").is_some_and(|id| *id == *slot.id.as_str());
    record.unplaced.iter().find(is_its)
}

/// By host name, why the image is not ready on each node.
fn prepull(state: &ClusterState, rollout: &Rollout) -> HashMap<String, String> {
    let nodes = rollout.prepull.iter().flat_map(|prepull| &prepull.nodes);
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
        prepull: prepull(state, rollout),
        previous_revision: rollout.previous_revision.0,
        // From live signals, not from the state.
        pulls: HashMap::new(),
        rollback_progress: rollout.rollback_progress.map(
            |RollbackProgress { total_steps, current_step }| v1::RollbackProgressInfo {
                total_steps,
                current_step,
            },
        ),
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
    let (shown, code, details) = replica_state(state, slot);
    let seen = state.observed.get(&id);
    let spec = state.service_spec(&slot.service, slot.current.revision);
    let digest = state.image_digest(&slot.service, slot.current.revision);
    v1::ReplicaInfo {
        id: slot.id.to_string(),
        deployment: slot.service.deployment.to_string(),
        service: slot.service.service.to_string(),
        node: hostname(state, slot.current.node),
        state: shown,
        code,
        details: details.into_iter().collect(),
        image: spec.map(|spec| spec.image.to_string()).unwrap_or_default(),
        revision: slot.current.revision.0,
        spec_hash: slot.current.spec_hash.short(),
        raft_index: slot.current.raft_index.0,
        container_id: seen.map(|seen| seen.container_id.clone()).unwrap_or_default(),
        ports: seen.map(|seen| reachable_ports(state, seen)).unwrap_or_default(),
        started_at_ms: seen.and_then(|seen| seen.started_at).map_or(0, millis),
        since_ms: seen.map_or(0, |seen| millis(seen.since)),
        consecutive_failures: slot.restarts.consecutive,
        retiring: slot.retiring.as_ref().map(|instance| retiring_info(state, slot, instance)),
        exit_code: seen.and_then(|seen| seen.exit).map_or(0, |exit| exit.code),
        exited: seen.is_some_and(|seen| seen.exit.is_some()),
        in_routing: runs(state, slot),
        terminating: terminating_infos(state, &slot.id),
        terminations: slot
            .terminations
            .iter()
            .rev()
            .map(|termination| termination_info(state, termination))
            .collect(),
        restart_at_ms: view::restart_at(state, slot).map_or(0, millis),
        gpus: slot.current.gpus.iter().map(ToString::to_string).collect(),
        addresses: addresses(state, slot),
        image_digest: digest.map(ToString::to_string).unwrap_or_default(),
        pull: None,
        joining_since_ms: slot.current.joining_since.map_or(0, millis),
    }
}

/// The addresses of the current instance.
fn addresses(state: &ClusterState, slot: &Slot) -> Vec<v1::ReplicaAddress> {
    let named = |one: &InstanceAddress| {
        let network = state.networks.rows.get(&one.network)?.scope.to_string();
        Some(v1::ReplicaAddress { network, address: one.address.to_string() })
    };
    slot.current.addresses.iter().filter_map(named).collect()
}

fn termination_info(state: &ClusterState, termination: &Termination) -> v1::TerminationInfo {
    v1::TerminationInfo {
        raft_index: termination.raft_index.0,
        node: hostname(state, termination.node),
        revision: termination.revision.0,
        at_ms: millis(termination.at),
        outcome: termination.outcome.as_str().to_owned(),
        state: termination.state.as_str().to_owned(),
        code: termination.code.map(|code| code.as_str().to_owned()).unwrap_or_default(),
        details: termination.details.clone().into_iter().collect(),
        exited: termination.exit.is_some(),
        exit_code: termination.exit.map_or(0, |exit| exit.code),
        out_of_memory: termination.exit.is_some_and(|exit| exit.out_of_memory),
    }
}

/// An instance that belongs to no slot any more and that its node has not removed yet.
fn leftover_info(state: &ClusterState, seen: &InstanceObserved) -> v1::ReplicaInfo {
    let is_terminating = state.terminating.contains(&seen.id);
    v1::ReplicaInfo {
        id: seen.id.replica.to_string(),
        deployment: seen.service.deployment.to_string(),
        service: seen.service.service.to_string(),
        node: hostname(state, seen.node),
        state: STOPPING.to_owned(),
        raft_index: seen.id.raft_index.0,
        container_id: seen.container_id.clone(),
        ports: reachable_ports(state, seen),
        started_at_ms: seen.started_at.map_or(0, millis),
        since_ms: millis(seen.since),
        code: if is_terminating { TERMINATING.to_owned() } else { String::new() },
        terminating: terminating_infos(state, &seen.id.replica),
        ..v1::ReplicaInfo::default()
    }
}

/// The instances of a replica that run until the endpoint consumers have acknowledged their removal.
fn terminating_infos(state: &ClusterState, replica: &ReplicaId) -> Vec<v1::TerminatingInfo> {
    let first = InstanceId { replica: replica.clone(), raft_index: StateIndex(0) };
    let rows = state.terminating.range(first..).map(|(_, terminating)| terminating);
    let rows = rows.take_while(|terminating| terminating.id.replica == *replica);
    let info = |terminating: &TerminatingInstance| v1::TerminatingInfo {
        node: hostname(state, terminating.node),
        raft_index: terminating.id.raft_index.0,
        container_id: state
            .observed
            .get(&terminating.id)
            .map(|seen| seen.container_id.clone())
            .unwrap_or_default(),
        since_ms: millis(terminating.since),
        waits_for: state.consumers.keys().map(ToString::to_string).collect(),
        in_node_networks: view::is_apart(state, &terminating.service, terminating.revision),
    };
    rows.map(info).collect()
}

/// Where the container's ports are reached: one that listens on every address, at its node's.
fn reachable_ports(state: &ClusterState, seen: &InstanceObserved) -> HashMap<u32, String> {
    let node = state.nodes.get(&seen.node);
    let host = node.and_then(|node| Some(node.address.rsplit_once(':')?.0));
    let reachable = |address: &String| {
        let wildcard = ["0.0.0.0:", "[::]:"].iter().find_map(|any| address.strip_prefix(any));
        match (wildcard, host) {
            (Some(port), Some(host)) => format!("{host}:{port}"),
            (Some(_), None) | (None, _) => address.clone(),
        }
    };
    seen.ports.iter().map(|(port, address)| (u32::from(*port), reachable(address))).collect()
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

/// The host name of a node; of one that is no member any more, whose name is gone, that it was removed.
#[must_use]
pub(crate) fn hostname(state: &ClusterState, id: NodeId) -> String {
    let node = state.nodes.get(&id);
    node.map_or_else(|| format!("removed node {id}"), |node| node.hostname.to_string())
}

/// Converts an audit event.
#[must_use]
pub(crate) fn audit_event(key: AuditKey, event: &AuditEvent) -> v1::AuditEvent {
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

/// Converts a timestamp.
#[must_use]
pub(crate) fn millis(at: Timestamp) -> i64 {
    i64::try_from(at.0).unwrap_or(i64::MAX)
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
