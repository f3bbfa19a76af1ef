//! Who asks, and what it wants to reach: `deployment/service`, `deployment/service-index`, or a replica.

use std::collections::BTreeSet;
use std::fmt;

use jaco_state::ClusterState;
use jaco_types::{
    DeploymentName, ErrorCode, InstanceAddress, InstanceId, NodeId, Rejection, ReplicaId,
    ServiceKey, ServiceName, Slot,
};

/// An instance that may have addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Live {
    pub(crate) id: InstanceId,
    pub(crate) node: NodeId,
    pub(crate) addresses: Vec<InstanceAddress>,
    /// Whether it runs and is not attached to its networks yet.
    pub(crate) is_joining: bool,
}

/// What is to be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Destination {
    pub(crate) service: ServiceKey,
    /// This one alone.
    pub(crate) replica: Option<ReplicaId>,
    /// Its live instances, ready or not.
    pub(crate) instances: Vec<Live>,
    /// A TCP port; 0 for none.
    pub(crate) port: u16,
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.replica {
            Some(replica) => fmt::Display::fmt(replica, f),
            None => fmt::Display::fmt(&self.service, f),
        }
    }
}

/// What a text names, with its port.
///
/// # Errors
/// When there is no such deployment, service or replica.
pub(crate) fn destination(
    state: &ClusterState,
    text: &str,
    port: u16,
) -> Result<Destination, Rejection> {
    let (service, replica) = named(state, text)?;
    let instances = live(state, &service, replica.as_ref());
    Ok(Destination { service, replica, instances, port })
}

/// One live instance of each node that a text names, in the order of their replicas.
///
/// # Errors
/// When there is no such deployment, service or replica.
pub(crate) fn askers(state: &ClusterState, text: &str) -> Result<Vec<Live>, Rejection> {
    let (service, replica) = named(state, text)?;
    let mut nodes = BTreeSet::new();
    let mut all = live(state, &service, replica.as_ref());
    all.retain(|instance| nodes.insert(instance.node));
    Ok(all)
}

fn live(state: &ClusterState, service: &ServiceKey, replica: Option<&ReplicaId>) -> Vec<Live> {
    let slots = jaco_state::view::slots_of(state, &service.deployment)
        .filter(|slot| slot.service == *service)
        .filter(|slot| replica.is_none_or(|replica| slot.id == *replica));
    let instances = slots.flat_map(Slot::instances).map(|(id, instance)| Live {
        id,
        node: instance.node,
        addresses: instance.addresses.clone(),
        is_joining: instance.joining_since.is_some(),
    });
    instances.collect()
}

fn named(state: &ClusterState, text: &str) -> Result<(ServiceKey, Option<ReplicaId>), Rejection> {
    let Some((deployment, service)) = text.split_once('/') else {
        return replica(state, text).ok_or_else(|| {
            let message = format!(
                "there is no replica {text:?}: write DEPLOYMENT/SERVICE, or a name that `jaco get replicas` shows"
            );
            Rejection::new(ErrorCode::ReplicaNotFound, message)
        });
    };
    let missing = || {
        let message = format!("there is no deployment {deployment:?}");
        Rejection::new(ErrorCode::DeploymentNotFound, message)
    };
    let known = DeploymentName::new(deployment).ok();
    let known = known.and_then(|name| state.deployments.get(&name)).ok_or_else(missing)?;
    let name = ServiceName::new(service).ok();
    if let Some(name) = name.filter(|name| known.spec().services.contains_key(name)) {
        return Ok((ServiceKey { deployment: known.name.clone(), service: name }, None));
    }
    replica(state, &format!("{deployment}-{service}")).ok_or_else(|| {
        let services: Vec<String> =
            known.spec().services.keys().map(ToString::to_string).collect();
        let message = format!(
            "deployment {deployment} has no service and no replica {service:?}; its services are {}",
            services.join(", ")
        );
        Rejection::new(ErrorCode::ServiceNotFound, message)
    })
}

fn replica(state: &ClusterState, text: &str) -> Option<(ServiceKey, Option<ReplicaId>)> {
    let slot = state.slots.get(&ReplicaId::parse(text).ok()?)?;
    Some((slot.service.clone(), Some(slot.id.clone())))
}
