//! Commands of operators about networks.

use jaco_types::network::NETWORK_LENGTH_DEFAULT;
use jaco_types::spec::NetworkRef;
use jaco_types::{ErrorCode, NetworkId, NetworkName, NetworkScope, NodeId, Rejection, Timestamp};

use super::subnet::{self, NewNetwork, not_enabled};
use super::{address, mesh};
use crate::apply::audit::Audit;
use crate::audit::AuditKind;
use crate::command::{Entry, NetworkBegin, NetworkCreate, NetworkRemove, NetworkResize, Outcome};
use crate::network::{Network, NetworkPool};
use crate::state::ClusterState;

/// Begins the pool. The same command again changes nothing.
pub(in crate::apply) fn begin(
    state: &mut ClusterState,
    command: &NetworkBegin,
    audit: &mut Audit<'_>,
) -> Outcome {
    let NetworkBegin { prefix, mtu } = command;
    if let Some(pool) = &state.networks.pool {
        if pool.prefix == *prefix && pool.mtu == *mtu {
            return Outcome::Done;
        }
        let message = format!(
            "the cluster's networks are enabled already, with pool {} and an MTU of {}",
            pool.prefix, pool.mtu
        );
        return Outcome::Rejected(Rejection::new(ErrorCode::NetworkExists, message));
    }
    let pool = match NetworkPool::new(*prefix, *mtu) {
        Ok(pool) => pool,
        Err(error) => {
            return Outcome::Rejected(Rejection::new(ErrorCode::InvalidRequest, error.to_string()));
        }
    };
    state.networks.pool = Some(pool);
    let nodes: Vec<NodeId> = state.nodes.keys().copied().collect();
    for node in nodes {
        mesh::assign(state, node);
    }
    let facts = [("pool", prefix.to_string()), ("mtu", mtu.to_string())];
    audit.event(AuditKind::NetworksEnabled, facts);
    Outcome::Done
}

/// Creates a shared network.
pub(in crate::apply) fn create(
    state: &mut ClusterState,
    command: &NetworkCreate,
    audit: &mut Audit<'_>,
) -> Outcome {
    let NetworkCreate { name, reach, length } = command;
    if state.networks.pool.is_none() {
        return Outcome::Rejected(not_enabled());
    }
    let scope = NetworkScope::Shared(name.clone());
    if state.networks.find(&scope, None).is_some() {
        let message = format!("the cluster has a shared network {name} already");
        return Outcome::Rejected(Rejection::new(ErrorCode::NetworkExists, message));
    }
    let length = length.unwrap_or(NETWORK_LENGTH_DEFAULT);
    let new = NewNetwork { scope: scope.clone(), reach: *reach, length };
    match subnet::create(&state.networks, vec![new]) {
        Ok(networks) => state.networks = networks,
        Err(rejection) => return Outcome::Rejected(rejection),
    }
    audit.event(AuditKind::NetworkCreated, facts(state, &scope));
    Outcome::Done
}

/// Removes a shared network.
pub(in crate::apply) fn remove(
    state: &mut ClusterState,
    entry: &Entry,
    command: &NetworkRemove,
    audit: &mut Audit<'_>,
) -> Outcome {
    let NetworkRemove { name } = command;
    let scope = NetworkScope::Shared(name.clone());
    let Some(network) = state.networks.find(&scope, None) else { return unknown(&scope) };
    let users = users(state, name);
    if !users.is_empty() {
        let message = format!("network {name} is named by {}", users.join(", "));
        return Outcome::Rejected(Rejection::new(ErrorCode::NetworkInUse, message));
    }
    if let Some(rejection) = attached(state, network, entry.at) {
        return Outcome::Rejected(rejection);
    }
    let id = network.id;
    audit.event(AuditKind::NetworkRemoved, facts(state, &scope));
    free(state, entry.at, id);
    Outcome::Done
}

/// Gives a network another subnet. It is another network on the nodes from then on, with a number of its
/// own: engines cannot change the subnet of one that they have.
pub(in crate::apply) fn resize(
    state: &mut ClusterState,
    entry: &Entry,
    command: &NetworkResize,
    audit: &mut Audit<'_>,
) -> Outcome {
    let NetworkResize { scope, length } = command;
    let Some(network) = state.networks.find(scope, None) else { return unknown(scope) };
    if network.subnet.prefix().length() == *length {
        return Outcome::Done;
    }
    if let Some(rejection) = attached(state, network, entry.at) {
        return Outcome::Rejected(rejection);
    }
    let (id, reach) = (network.id, network.reach);
    let new = NewNetwork { scope: scope.clone(), reach, length: *length };
    match subnet::create(&state.networks, vec![new]) {
        Ok(networks) => state.networks = networks,
        Err(rejection) => return Outcome::Rejected(rejection),
    }
    free(state, entry.at, id);
    audit.event(AuditKind::NetworkResized, facts(state, scope));
    Outcome::Done
}

/// Removes a network that nobody has an address of, but for quarantines that are over.
fn free(state: &mut ClusterState, now: Timestamp, id: NetworkId) {
    address::expire(state, now);
    state.networks.rows.remove(&id);
}

/// Why a network cannot be removed or replaced: an instance has an address of it, or had one until lately.
fn attached(state: &ClusterState, network: &Network, now: Timestamp) -> Option<Rejection> {
    let taken = network.subnet.capacity() - state.networks.free(network, now);
    (taken > 0).then(|| {
        let message = format!(
            "{taken} addresses of network {} are in use or in quarantine: stop what is attached, \
             and wait a minute",
            network.scope
        );
        Rejection::new(ErrorCode::NetworkInUse, message).with("addresses", taken.to_string())
    })
}

/// The deployments whose desired spec names a shared network.
fn users(state: &ClusterState, name: &NetworkName) -> Vec<String> {
    let network = NetworkRef::Shared(name.clone());
    let names_it = |deployment: &&crate::Deployment| {
        let mut services = deployment.spec().services.values();
        services.any(|service| service.networks.iter().any(|one| one.network == network))
    };
    let users = state.deployments.values().filter(names_it);
    users.map(|deployment| deployment.name.to_string()).collect()
}

fn unknown(scope: &NetworkScope) -> Outcome {
    let message = format!("the cluster has no network {scope}");
    Outcome::Rejected(Rejection::new(ErrorCode::NetworkNotFound, message))
}

fn facts(state: &ClusterState, scope: &NetworkScope) -> [(&'static str, String); 2] {
    let subnet = state.networks.find(scope, None).map(|row| row.subnet.prefix().to_string());
    [("network", scope.to_string()), ("subnet", subnet.unwrap_or_default())]
}
