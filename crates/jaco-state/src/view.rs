//! Folds of the state into what people and nodes ask about. Nothing here is stored.

use std::collections::BTreeMap;
use std::sync::Arc;

use jaco_types::rollout::WAITING_FOR_DEPENDENCY;
use jaco_types::slot::Exhausted;
use jaco_types::spec::{Condition, DeploymentSpec, ServiceSpec};
use jaco_types::{
    DeploymentName, ImageDigest, ImageNeed, Instance, InstanceId, NodeId, NodeStatus, ReasonCode,
    ReplicaState, RestartCount, RolloutState, Scheduling, ServiceKey, ServiceName, Slot, Standing,
    Timestamp,
};

use crate::disabled;
use crate::state::{ClusterState, Deployment};

/// An instance that a node should run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DesiredInstance {
    /// The instance.
    pub id: InstanceId,
    /// The service it belongs to.
    pub service: ServiceKey,
    /// What to run; absent only where the revision is no longer kept, when a running container
    /// stays and a missing one cannot be started.
    pub spec: Option<Arc<ServiceSpec>>,
    /// What its image is, where that is settled.
    pub digest: Option<ImageDigest>,
    /// The ids of the GPUs that it has for itself.
    pub gpus: Vec<Arc<str>>,
    /// Whether it is to be started, or only kept.
    pub role: Role,
}

/// Whether an instance is to be started, or only kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// It should run: start it if it never ran.
    Current,
    /// It serves until its successor does: keep it, never start it again.
    Retiring,
    /// It is out of the endpoints and traffic may still reach it: keep it until it is wanted no
    /// more; what follows it on this node waits.
    Leaving,
}

/// What `node` should run, by instance.
#[must_use]
pub fn desired_on(state: &ClusterState, node: NodeId) -> BTreeMap<InstanceId, DesiredInstance> {
    let mut desired = BTreeMap::new();
    for slot in state.slots.values() {
        let current = Some(&slot.current).filter(|_| slot.standing == Standing::Active);
        let roles = [(current, Role::Current), (slot.retiring.as_ref(), Role::Retiring)];
        for (instance, role) in roles {
            let Some(instance) = instance.filter(|instance| instance.node == node) else {
                continue;
            };
            let wanted = desired_instance(state, slot, instance, role);
            desired.insert(wanted.id.clone(), wanted);
        }
    }
    for leaving in state.leaving.values().filter(|leaving| leaving.node == node) {
        let wanted = DesiredInstance {
            id: leaving.id.clone(),
            service: leaving.service.clone(),
            spec: state.service_spec(&leaving.service, leaving.revision).map(Arc::clone),
            digest: state.image_digest(&leaving.service, leaving.revision).cloned(),
            gpus: leaving.gpus.clone(),
            role: Role::Leaving,
        };
        desired.insert(wanted.id.clone(), wanted);
    }
    desired
}

/// Instances that belong to no slot any more and of which something is left, with their nodes. Not
/// those of a node that is down: it would not say when they are gone.
pub fn ending(state: &ClusterState) -> impl Iterator<Item = (&InstanceId, NodeId)> {
    let has_slot = |id: &InstanceId| {
        let slot = state.slots.get(&id.replica);
        slot.is_some_and(|slot| slot.instances().any(|(held, _)| held == *id))
    };
    let answers =
        |node: NodeId| state.nodes.get(&node).is_some_and(|node| node.status != NodeStatus::Down);
    let leaving = state.leaving.values().filter(|leaving| !state.observed.contains(&leaving.id));
    let leaving = leaving.map(|leaving| (&leaving.id, leaving.node));
    let observed = state.observed.iter().filter(move |(id, _)| !has_slot(id));
    let observed = observed.map(|(id, seen)| (id, seen.node));
    leaving.chain(observed).filter(move |(_, node)| answers(*node))
}

/// Which images `node` should have, each with a spec that needs it: the rollouts that wait for the
/// node before their first step.
#[must_use]
pub fn prepared_on(state: &ClusterState, node: NodeId) -> BTreeMap<ImageNeed, Arc<ServiceSpec>> {
    let waits = |record: &Scheduling| {
        let rollout = record.rollout.as_ref()?;
        let is_asked = rollout.preparing.as_ref()?.nodes.contains_key(&node);
        is_asked.then_some(rollout.target_revision)
    };
    let asked = state.scheduling.iter().filter_map(|(service, record)| {
        let revision = waits(record)?;
        let spec = state.service_spec(service, revision)?;
        let digest = state.image_digest(service, revision).cloned();
        Some((ImageNeed { spec: spec.hash, digest }, Arc::clone(spec)))
    });
    asked.collect()
}

fn desired_instance(
    state: &ClusterState,
    slot: &Slot,
    instance: &Instance,
    role: Role,
) -> DesiredInstance {
    DesiredInstance {
        id: InstanceId { replica: slot.id.clone(), raft_index: instance.raft_index },
        service: slot.service.clone(),
        spec: state.service_spec(&slot.service, instance.revision).map(Arc::clone),
        digest: state.image_digest(&slot.service, instance.revision).cloned(),
        gpus: instance.gpus.clone(),
        role,
    }
}

/// A replica as users see it: what should be and what is, in one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaView {
    /// Its state.
    pub state: ReplicaState,
    /// Why, where there is a reason to give.
    pub code: Option<ReasonCode>,
    /// Facts that belong to the reason.
    pub details: BTreeMap<String, String>,
}

/// The state of a slot: its current instance's observation, or `pending` while there is none. A
/// slot whose budget is spent is `failed/restart_exhausted`, whatever its container did last; one
/// that is disabled is `stopped/disabled`, with who wanted that, and when.
#[must_use]
pub fn replica(state: &ClusterState, slot: &Slot) -> ReplicaView {
    if slot.standing == Standing::Disabled {
        return disabled_replica(state, slot);
    }
    let seen = state.observed.get(&slot.current_id());
    let mut view = match seen {
        Some(seen) => {
            ReplicaView { state: seen.state, code: seen.code, details: seen.details.clone() }
        }
        None => ReplicaView { state: ReplicaState::Pending, code: None, details: BTreeMap::new() },
    };
    if slot.restarts.exhausted == Exhausted::Yes {
        view.state = ReplicaState::Failed;
        view.code = Some(ReasonCode::RestartExhausted);
        let failures = slot.restarts.consecutive.to_string();
        view.details.insert("consecutive_failures".to_owned(), failures);
    }
    view
}

fn disabled_replica(state: &ClusterState, slot: &Slot) -> ReplicaView {
    let mut details = BTreeMap::new();
    if let Some((scope, rest)) = state.disabled.of_slot(slot) {
        details.insert("disabled".to_owned(), disabled::describe(state, &scope));
        details.insert("by".to_owned(), rest.by.to_string());
        details.insert("at_ms".to_owned(), rest.at.0.to_string());
    }
    ReplicaView { state: ReplicaState::Stopped, code: Some(ReasonCode::Disabled), details }
}

/// When a replica is restarted that has failed not for the first time in a row and is left alone for
/// a while; absent when nothing of it waits for that.
#[must_use]
pub fn restart_at(state: &ClusterState, slot: &Slot) -> Option<Timestamp> {
    let seen = state.observed.get(&slot.current_id())?;
    let has_failed = match seen.state {
        ReplicaState::Failed | ReplicaState::Degraded => true,
        ReplicaState::Stopped => {
            let deployment = state.deployments.get(&slot.service.deployment);
            let is_job = |deployment: &Deployment| is_job(deployment.spec(), &slot.service.service);
            !deployment.is_some_and(is_job)
        }
        ReplicaState::Pending
        | ReplicaState::Pulling
        | ReplicaState::Starting
        | ReplicaState::Running => false,
    };
    let back_off = RestartCount::back_off(slot.restarts.consecutive.saturating_add(1));
    let waits = has_failed && slot.restarts.exhausted == Exhausted::No && back_off.0 > 0;
    waits.then(|| seen.since.after(back_off))
}

/// Whether an instance is up, and healthy where there is a healthcheck.
#[must_use]
pub fn is_running(state: &ClusterState, id: &InstanceId) -> bool {
    state.observed.get(id).is_some_and(|seen| seen.state == ReplicaState::Running)
}

/// Whether an instance ended by itself without an error.
#[must_use]
pub fn is_done(state: &ClusterState, id: &InstanceId) -> bool {
    state.observed.get(id).is_some_and(|seen| {
        seen.state == ReplicaState::Stopped && seen.exit.is_none_or(|exit| exit.code == 0)
    })
}

/// A place where an instance that serves can be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The instance.
    pub id: InstanceId,
    /// The node that runs it.
    pub node: NodeId,
    /// Where its container's ports answer, `ip:port` by container port.
    pub ports: BTreeMap<u16, String>,
    /// The engine's id of its container.
    pub container_id: String,
}

/// Whether traffic may be sent to an instance: a slot has it, it runs, and it is healthy where a
/// healthcheck is declared.
#[must_use]
pub fn in_routing(state: &ClusterState, id: &InstanceId) -> bool {
    let slot = state.slots.get(&id.replica);
    slot.is_some_and(|slot| slot.instances().any(|(live, _)| live == *id)) && is_running(state, id)
}

/// Where each service of this deployment can be reached; of all deployments where none is named. A
/// service that cannot be reached at all is there with an empty list.
#[must_use]
pub fn endpoints(
    state: &ClusterState,
    deployment: Option<&DeploymentName>,
) -> BTreeMap<ServiceKey, Vec<Endpoint>> {
    let mut endpoints: BTreeMap<ServiceKey, Vec<Endpoint>> = BTreeMap::new();
    let is_meant = |name: &DeploymentName| deployment.is_none_or(|wanted| wanted == name);
    for deployment in state.deployments.values().filter(|one| is_meant(&one.name)) {
        for service in deployment.spec().services.keys() {
            let deployment = deployment.name.clone();
            endpoints.insert(ServiceKey { deployment, service: service.clone() }, Vec::new());
        }
    }
    for slot in state.slots.values().filter(|slot| is_meant(&slot.service.deployment)) {
        for (id, instance) in slot.instances() {
            let Some(seen) = state.observed.get(&id) else { continue };
            if seen.state == ReplicaState::Running {
                let (ports, container_id) = (seen.ports.clone(), seen.container_id.clone());
                let endpoint = Endpoint { id, node: instance.node, ports, container_id };
                endpoints.entry(slot.service.clone()).or_default().push(endpoint);
            }
        }
    }
    endpoints
}

/// Whether others wait for a service to end without an error: that end is what it is for.
#[must_use]
pub fn is_job(spec: &DeploymentSpec, service: &ServiceName) -> bool {
    let mut dependencies = spec.services.values().flat_map(|other| &other.depends_on);
    dependencies.any(|dependency| {
        dependency.service == *service && dependency.condition == Condition::CompletedSuccessfully
    })
}

/// How far a deployment is from what is wanted of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Convergence {
    /// All that is wanted runs or has done its work, and nothing else.
    Converged,
    /// Something is under way.
    Progressing,
    /// Something wanted cannot be placed as things stand.
    CannotPlace,
    /// A replica failed too often and is left alone.
    Exhausted,
    /// The rollout, or its way back, has stopped half-way, and waits for an apply or a rollback.
    Paused,
    /// The rollout was given up; the previous revision serves.
    RolledBack,
}

impl Convergence {
    /// The status as users see it in lists.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Converged => "active",
            Self::Progressing => "updating",
            Self::CannotPlace => "pending",
            Self::Exhausted => "failed",
            Self::Paused => "paused",
            Self::RolledBack => "rolled_back",
        }
    }
}

/// How far `deployment` is from what is wanted of it. The worst of its services decides.
#[must_use]
pub fn convergence(state: &ClusterState, deployment: &Deployment) -> Convergence {
    let mut slots: BTreeMap<&ServiceKey, Vec<&Slot>> = BTreeMap::new();
    for slot in state.slots.values().filter(|slot| slot.service.deployment == deployment.name) {
        slots.entry(&slot.service).or_default().push(slot);
    }
    let mut worst = Convergence::Converged;
    for spec in deployment.spec().services.values() {
        let key = ServiceKey { deployment: deployment.name.clone(), service: spec.name.clone() };
        let slots = slots.remove(&key).unwrap_or_default();
        worst = worst.max(service_convergence(state, deployment, &key, spec, &slots));
    }
    // What is left belongs to services that are not wanted any more.
    if slots.is_empty() { worst } else { worst.max(Convergence::Progressing) }
}

fn service_convergence(
    state: &ClusterState,
    deployment: &Deployment,
    key: &ServiceKey,
    spec: &ServiceSpec,
    slots: &[&Slot],
) -> Convergence {
    let Some(record) = state.scheduling.get(key) else { return Convergence::Progressing };
    if record.planned_revision != deployment.revision {
        return Convergence::Progressing;
    }
    let rollout = record.rollout.as_ref();
    let rollout = rollout.filter(|one| one.target_revision == deployment.revision);
    let rollout = rollout.map(|one| one.state);
    match rollout {
        Some(RolloutState::Aborted) => return Convergence::RolledBack,
        Some(RolloutState::Paused | RolloutState::RollbackPaused) => return Convergence::Paused,
        Some(RolloutState::InProgress | RolloutState::Completed) | None => {}
    }
    if slots.iter().any(|slot| slot.restarts.exhausted == Exhausted::Yes) {
        return Convergence::Exhausted;
    }
    // What only waits for its turn is under way: the service it waits for says how that goes.
    let stuck = record.unplaced.iter().any(|each| each.reason != WAITING_FOR_DEPENDENCY);
    if stuck {
        return Convergence::CannotPlace;
    }
    // What was rolled out is watched for a while: until then it may still be given up.
    if !record.unplaced.is_empty() || rollout == Some(RolloutState::InProgress) {
        return Convergence::Progressing;
    }
    let is_job = is_job(deployment.spec(), &spec.name);
    let settled = slots.iter().all(|slot| {
        let id = slot.current_id();
        if slot.standing == Standing::Disabled {
            return slot.current.spec_hash == spec.hash && state.disabled.of_slot(slot).is_some();
        }
        slot.current.spec_hash == spec.hash
            && slot.retiring.is_none()
            && state.disabled.of_slot(slot).is_none()
            && (is_running(state, &id) || (is_job && is_done(state, &id)))
    });
    if settled { Convergence::Converged } else { Convergence::Progressing }
}

/// The slots of one deployment, in the order of their names.
pub fn slots_of<'a>(
    state: &'a ClusterState,
    deployment: &'a DeploymentName,
) -> impl Iterator<Item = &'a Slot> {
    state.slots.values().filter(|slot| slot.service.deployment == *deployment)
}
