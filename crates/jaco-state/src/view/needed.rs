//! Data that garbage collection on a node must keep (R-SEL-3).

use std::collections::BTreeSet;
use std::sync::Arc;

use jaco_types::spec::ServiceSpec;
use jaco_types::{Availability, DeploymentName, NodeId, ServiceKey, Slot};

use crate::deployment::Deployment;
use crate::state::ClusterState;

/// The data that is needed on one node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needed {
    /// Specs of the replicas there, disabled and terminating ones included: what they mount is needed.
    pub specs: Vec<(DeploymentName, Arc<ServiceSpec>)>,
    /// Deployments whose needs are not known: all of their data is needed.
    pub whole: BTreeSet<DeploymentName>,
}

/// The data that is needed on `node`. A drained node keeps the data of every deployment: its replicas may
/// come back. So does every node while a deployment has unplaced replicas: they may be placed on any of
/// them, also where an earlier replica of the same name left its data.
#[must_use]
pub fn needed_on(state: &ClusterState, node: NodeId) -> Needed {
    let mut needed = Needed::default();
    let is_drained = |id: &NodeId| {
        state.nodes.get(id).is_some_and(|node| node.availability == Availability::Draining)
    };
    if is_drained(&node) {
        needed.whole.extend(state.deployments.keys().cloned());
    }
    let is_open = |deployment: &&Deployment| !is_placed(state, deployment);
    let open = state.deployments.values().filter(is_open);
    needed.whole.extend(open.map(|deployment| deployment.name.clone()));
    let mut need = |service: &ServiceKey, spec: Option<&Arc<ServiceSpec>>| match spec {
        Some(spec) => needed.specs.push((service.deployment.clone(), Arc::clone(spec))),
        None => drop(needed.whole.insert(service.deployment.clone())),
    };
    for slot in state.slots.values() {
        let Slot { service, current, retiring, .. } = slot;
        for instance in std::iter::once(current).chain(retiring).filter(|one| one.node == node) {
            need(service, state.service_spec(service, instance.revision));
            // A rollout starts the desired spec on the same node.
            let wanted = state.deployments.get(&service.deployment);
            let wanted = wanted.and_then(|known| known.spec().services.get(&service.service));
            if let Some(wanted) = wanted {
                need(service, Some(wanted));
            }
        }
    }
    for terminating in state.terminating.values().filter(|terminating| terminating.node == node) {
        need(&terminating.service, state.service_spec(&terminating.service, terminating.revision));
    }
    // A container that still exists may be terminating, and mounts its volumes.
    for seen in state.observed.values().filter(|seen| seen.node == node) {
        if !state.slots.contains(&seen.id.replica) && !state.terminating.contains(&seen.id) {
            needed.whole.insert(seen.service.deployment.clone());
        }
    }
    needed
}

/// Whether the planner has placed every replica of the desired revision.
fn is_placed(state: &ClusterState, deployment: &Deployment) -> bool {
    deployment.spec().services.keys().all(|service| {
        let key = ServiceKey { deployment: deployment.name.clone(), service: service.clone() };
        state.scheduling.get(&key).is_some_and(|record| {
            record.planned_revision == deployment.revision && record.unplaced.is_empty()
        })
    })
}
