//! Networks of deployments: created where a desired spec names them, removed once no kept revision does
//! and no address of them is taken. An earlier revision that is rolled back to finds them as they were.

use std::collections::BTreeMap;

use jaco_types::network::network_length;
use jaco_types::spec::{DeploymentSpec, NetworkRef, Placement};
use jaco_types::{
    DeploymentName, ErrorCode, NetworkId, NetworkName, NetworkScope, Rejection, ServiceName,
};

use super::subnet::{self, NewNetwork, not_enabled};
use crate::network::{Network, Networks};
use crate::state::ClusterState;

/// The rules of a spec's networks.
///
/// # Errors
/// The first that it breaks.
pub(in crate::apply) fn check(
    state: &ClusterState,
    name: &DeploymentName,
    spec: &DeploymentSpec,
) -> Result<(), Rejection> {
    for service in spec.services.values() {
        for (place, attachment) in service.networks.iter().enumerate() {
            let network = &attachment.network;
            check_attachment(state, spec, &service.name, network)?;
            if service.networks.iter().take(place).any(|other| other.network == *network) {
                let scope = network.scope(name);
                let message = format!("service {:?} names network {scope} twice", service.name);
                return Err(Rejection::new(ErrorCode::InvalidManifest, message));
            }
        }
    }
    with_wanted(state, name, spec).map(drop)
}

fn check_attachment(
    state: &ClusterState,
    spec: &DeploymentSpec,
    service: &ServiceName,
    network: &NetworkRef,
) -> Result<(), Rejection> {
    if state.networks.pool.is_none() {
        return Err(not_enabled());
    }
    match network {
        NetworkRef::Own(key) if spec.networks.contains_key(key) => Ok(()),
        NetworkRef::Own(key) => {
            let message = format!("service {service:?} names network {key}, which is not declared");
            Err(Rejection::new(ErrorCode::InvalidManifest, message))
        }
        NetworkRef::Shared(name) => {
            let known = state.networks.find(&NetworkScope::Shared(name.clone()), None);
            known.map(drop).ok_or_else(|| {
                let message = format!(
                    "service {service:?} names the shared network {name}, and the cluster has \
                     none of this name: run `jaco network create {name}`"
                );
                Rejection::new(ErrorCode::NetworkNotFound, message)
                    .with("network", name.to_string())
            })
        }
    }
}

/// Creates the networks that a desired spec names and that are not there. It was checked before.
pub(in crate::apply) fn create(
    state: &mut ClusterState,
    name: &DeploymentName,
    spec: &DeploymentSpec,
) {
    if let Ok(networks) = with_wanted(state, name, spec) {
        state.networks = networks;
    }
}

fn with_wanted(
    state: &ClusterState,
    name: &DeploymentName,
    spec: &DeploymentSpec,
) -> Result<Networks, Rejection> {
    let replicas = replicas(state, spec);
    let missing = spec.networks.iter().filter_map(|(key, network)| {
        let scope = NetworkRef::Own(key.clone()).scope(name);
        if state.networks.find(&scope, Some(network.reach)).is_some() {
            return None;
        }
        let of_replicas = || network_length(replicas.get(key).copied().unwrap_or_default());
        let length = network.length.unwrap_or_else(of_replicas);
        Some(NewNetwork { scope, reach: network.reach, length })
    });
    subnet::create(&state.networks, missing.collect())
}

/// How many replicas each network of a spec is to have.
fn replicas<'a>(state: &ClusterState, spec: &'a DeploymentSpec) -> BTreeMap<&'a NetworkName, u32> {
    let mut replicas: BTreeMap<&NetworkName, u32> = BTreeMap::new();
    for service in spec.services.values() {
        let wanted = match service.placement {
            Placement::Global => u32::try_from(state.nodes.len()).unwrap_or(u32::MAX),
            Placement::Spread | Placement::Pack | Placement::Hosts(_) => service.replicas,
        };
        for attachment in &service.networks {
            if let NetworkRef::Own(key) = &attachment.network {
                let sum = replicas.entry(key).or_default();
                *sum = sum.saturating_add(wanted);
            }
        }
    }
    replicas
}

/// Removes the networks of deployments that no kept revision names and that nobody has an address of.
pub(in crate::apply) fn settle(state: &mut ClusterState) {
    let is_over = |network: &Network| network.taken.is_empty() && !is_named(state, network);
    let over: Vec<NetworkId> =
        state.networks.rows.values().filter(|network| is_over(network)).map(|row| row.id).collect();
    for id in over {
        state.networks.rows.remove(&id);
    }
}

/// Whether it is shared, or a kept revision of its deployment names it.
fn is_named(state: &ClusterState, network: &Network) -> bool {
    let NetworkScope::Deployment { deployment, key } = &network.scope else { return true };
    let deployment = state.deployments.get(deployment);
    deployment.is_some_and(|deployment| {
        deployment.revisions.values().any(|record| {
            record.spec.networks.get(key).is_some_and(|spec| spec.reach == network.reach)
        })
    })
}
