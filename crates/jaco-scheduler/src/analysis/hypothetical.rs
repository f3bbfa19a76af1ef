//! A hypothetical cluster: the present one with nodes lost, nodes added and services of another size.
//! The forecast says what becomes of it.

use std::collections::{BTreeMap, BTreeSet};

use jaco_state::command::DeploymentApply;
use jaco_state::view::serving_revision;
use jaco_state::{ClusterState, Entry, Outcome, apply};
use jaco_types::spec::DeploymentSpec;
use jaco_types::{
    Availability, Hostname, Identity, Node, NodeFacts, NodeId, NodeStatus, Rejection, ServiceKey,
    StateIndex, Timestamp,
};

use crate::input::{EngineSignal, NodeSignal, PlanInput, Signals};

/// What is different from the present.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hypothesis {
    /// Nodes that fall silent.
    pub lost: BTreeSet<NodeId>,
    /// Nodes that join and are ready; names that no member has.
    pub added: BTreeMap<Hostname, NodeFacts>,
    /// Nodes that operators drain.
    pub drained: BTreeSet<NodeId>,
    /// How many replicas of these services are wanted.
    pub scaled: BTreeMap<ServiceKey, u32>,
}

/// The hypothetical cluster, before the planner answers it.
///
/// # Errors
/// The refusal of `apply`, where a service could not be given its size; or that of a change where no revision is what serves.
pub fn suppose(
    input: &PlanInput<'_>,
    hypothesis: &Hypothesis,
) -> Result<(ClusterState, Signals), Rejection> {
    let (mut state, mut signals) = (input.state.clone(), input.signals.clone());
    lose(&mut state, &mut signals, &hypothesis.lost);
    drain(&mut state, &hypothesis.drained);
    for (hostname, facts) in &hypothesis.added {
        let node = newcomer(&mut state, input.now, hostname, facts);
        let signal = NodeSignal { heard_at: input.now, engine: EngineSignal::Up };
        signals.nodes.insert(node.id, signal);
        state.nodes.insert(node.id, node);
    }
    scale(&mut state, input.now, &hypothesis.scaled)?;
    Ok((state, signals))
}

/// Makes nodes silent since before anybody listened, so that no grace is left.
pub(crate) fn lose(state: &mut ClusterState, signals: &mut Signals, lost: &BTreeSet<NodeId>) {
    for id in lost {
        signals.nodes.remove(id);
        if let Some(node) = state.nodes.get_mut(id) {
            node.status = NodeStatus::Down;
            node.joined_at = Timestamp(0);
        }
    }
}

/// Makes nodes give away what they have, for as long as it takes.
fn drain(state: &mut ClusterState, drained: &BTreeSet<NodeId>) {
    for id in drained {
        if let Some(node) = state.nodes.get_mut(id) {
            node.availability = Availability::Draining;
            node.drain = None;
        }
    }
}

fn newcomer(
    state: &mut ClusterState,
    now: Timestamp,
    hostname: &Hostname,
    facts: &NodeFacts,
) -> Node {
    state.index = StateIndex(state.index.0.saturating_add(1));
    Node {
        id: NodeId(state.index.0),
        hostname: hostname.clone(),
        address: String::new(),
        mesh_address: None,
        key_fingerprint: [0; 32],
        status: NodeStatus::Ready,
        status_reason: String::new(),
        availability: Availability::Active,
        availability_reason: String::new(),
        drain: None,
        facts: facts.clone(),
        labels: BTreeMap::new(),
        joined_at: now,
        modified: state.index,
    }
}

/// Applies what serves of each deployment with other numbers, as `jaco scale` does; services that it lacks are passed over.
fn scale(
    state: &mut ClusterState,
    now: Timestamp,
    scaled: &BTreeMap<ServiceKey, u32>,
) -> Result<(), Rejection> {
    for (key, replicas) in scaled {
        let Some(deployment) = state.deployments.get(&key.deployment) else { continue };
        let serving = serving_revision(state, deployment);
        let serving = serving.map_err(|part| part.refusal(&deployment.name))?;
        let Some(record) = deployment.revisions.get(&serving) else { continue };
        let mut spec = DeploymentSpec::clone(&record.spec);
        let Some(service) = spec.services.get_mut(&key.service) else { continue };
        std::sync::Arc::make_mut(service).replicas = *replicas;
        let index = StateIndex(state.index.0.saturating_add(1));
        let command = DeploymentApply::new(key.deployment.clone(), spec).into();
        let entry =
            Entry { index, at: now, by: Identity::Scheduler, origin: None, request: None, command };
        if let Outcome::Rejected(rejection) = apply(state, &entry) {
            return Err(rejection);
        }
    }
    Ok(())
}
