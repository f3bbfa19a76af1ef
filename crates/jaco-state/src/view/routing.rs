//! The endpoints of services.

use std::collections::BTreeMap;

use jaco_types::{DeploymentName, InstanceId, NodeId, ReplicaState, ServiceKey};

use super::replica::is_running;
use crate::state::ClusterState;

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
