//! What a node must not lose when it collects what removed allocations left (R-SEL-3).

use std::collections::BTreeSet;
use std::sync::Arc;

use jaco_types::spec::ServiceSpec;
use jaco_types::{Availability, DeploymentName, NodeId, ServiceKey, Slot};

use crate::state::{ClusterState, Deployment};

/// What is needed on one node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needed {
    /// Specs of what is there, disabled or about to go included: what they mount is needed.
    pub specs: Vec<(DeploymentName, Arc<ServiceSpec>)>,
    /// Deployments of which nobody can say what is needed: all of theirs is.
    pub whole: BTreeSet<DeploymentName>,
}

/// What is needed on `node`. A node that is drained keeps all of every deployment there is: what had to
/// leave it comes back. So does every node as long as not all that a deployment wants has a place: a
/// replica without one may come to any of them, also to where an earlier one of its name left its data.
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
            // A rollout brings what is wanted by now to the same place.
            let wanted = state.deployments.get(&service.deployment);
            let wanted = wanted.and_then(|known| known.spec().services.get(&service.service));
            if let Some(wanted) = wanted {
                need(service, Some(wanted));
            }
        }
    }
    for leaving in state.leaving.values().filter(|leaving| leaving.node == node) {
        need(&leaving.service, state.service_spec(&leaving.service, leaving.revision));
    }
    // What still has a container may be on its way out, and mounts what it mounts.
    for seen in state.observed.values().filter(|seen| seen.node == node) {
        if !state.slots.contains(&seen.id.replica) && !state.leaving.contains(&seen.id) {
            needed.whole.insert(seen.service.deployment.clone());
        }
    }
    needed
}

/// Whether the planner has seen what people want of a deployment, and has found a place for all of it.
fn is_placed(state: &ClusterState, deployment: &Deployment) -> bool {
    deployment.spec().services.keys().all(|service| {
        let key = ServiceKey { deployment: deployment.name.clone(), service: service.clone() };
        state.scheduling.get(&key).is_some_and(|record| {
            record.planned_revision == deployment.revision && record.unplaced.is_empty()
        })
    })
}
