//! What plans are made from.

use std::sync::Arc;

use jaco_state::acme::AcmeChallenge;
use jaco_state::edge::{PortClaim, RouteClaim};
use jaco_state::network::{Network, Quarantine};
use jaco_state::{ClusterState, Deployment, Table};
use jaco_types::{
    DeploymentName, InstanceId, InstanceObserved, NetworkId, Node, NodeId, PortKey, ReplicaId,
    RouteKey, Slot, TerminatingInstance,
};

/// The tables of a state that plans are made from: while they are the same, so is every plan. A copy shares the rows.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) nodes: Table<NodeId, Node>,
    pub(crate) slots: Table<ReplicaId, Slot>,
    pub(crate) deployments: Table<DeploymentName, Deployment>,
    pub(crate) observed: Table<InstanceId, InstanceObserved>,
    pub(crate) terminating: Table<InstanceId, TerminatingInstance>,
    pub(crate) networks: Table<NetworkId, Network>,
    pub(crate) quarantine: Table<InstanceId, Quarantine>,
    pub(crate) claims: Table<RouteKey, RouteClaim>,
    pub(crate) ports: Table<PortKey, PortClaim>,
    pub(crate) challenges: Table<Arc<str>, AcmeChallenge>,
}

impl Tables {
    pub(crate) fn of(state: &ClusterState) -> Self {
        Self {
            nodes: state.nodes.clone(),
            slots: state.slots.clone(),
            deployments: state.deployments.clone(),
            observed: state.observed.clone(),
            terminating: state.terminating.clone(),
            networks: state.networks.rows.clone(),
            quarantine: state.networks.quarantine.clone(),
            claims: state.edges.claims.clone(),
            ports: state.edges.ports.clone(),
            challenges: state.edges.acme.challenges.clone(),
        }
    }
}
