//! Disabled allocations: stopped by a user, with their placement kept (R-SEL-4).

use std::collections::BTreeSet;

use async_trait::async_trait;
use jaco_compose::nearest;
use jaco_proto::v1;
use jaco_state::ClusterState;
use jaco_state::command::{DisabledSet, Disabling};
use jaco_types::{
    AllocationScope, Author, DeploymentName, ErrorCode, NodeId, Ordinal, Rejection, Role,
    ServiceKey, ServiceName, Slot,
};

use crate::auth::permission::Concern;
use crate::forward::Write;
use crate::member::Member;
use crate::status::invalid;
use crate::view;

#[async_trait]
impl Write for v1::SetDisabledRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::SetDisabledResponse, Rejection> {
        let change = match self.change.as_str() {
            "disable" => Disabling::Disable,
            "enable" => Disabling::Enable,
            "replace" => Disabling::Replace,
            other => {
                return Err(invalid(format!(
                    "change is {other:?}: write disable, enable or replace"
                )));
            }
        };
        if self.allocations.is_empty() && change != Disabling::Replace {
            return Err(invalid("no allocation is given: name a service, a node or a replica"));
        }
        let scopes = member.store.read(|state| resolve(state, &self.allocations))?;
        member.admit(&by, concerns(change, &scopes))?;
        let command = DisabledSet::new(change, scopes).into();
        member.commit(by, &self.request_id, command).await?;
        Ok(v1::SetDisabledResponse { disabled: member.store.read(of_cluster) })
    }
}

/// What a change is about: the deployments of its services. A node has replicas of many deployments, and a replacement
/// enables whatever else is disabled.
fn concerns(change: Disabling, scopes: &BTreeSet<AllocationScope>) -> Vec<Concern<'_>> {
    let of_all = (change == Disabling::Replace).then_some(Concern::Role(Role::Operator));
    let of_scopes = scopes.iter().map(|scope| match scope.service() {
        Some(service) => Concern::Deployment(&service.deployment),
        None => Concern::Role(Role::Operator),
    });
    of_all.into_iter().chain(of_scopes).collect()
}

/// The disabled allocations as a request would name them.
pub(in crate::service) fn references(state: &ClusterState) -> Vec<v1::AllocationRef> {
    let reference = |info: v1::DisabledInfo| {
        let v1::DisabledInfo { deployment, service, node, replica, by: _, at_ms: _ } = info;
        v1::AllocationRef { deployment, service, node, replica }
    };
    of_cluster(state).into_iter().map(reference).collect()
}

/// The disabled allocations.
pub(super) fn of_cluster(state: &ClusterState) -> Vec<v1::DisabledInfo> {
    let info = |(scope, disablement): (&AllocationScope, &jaco_types::Disablement)| {
        let service = scope.service();
        let replica = match scope {
            AllocationScope::Replica { id, .. } => id.to_string(),
            AllocationScope::Node(_)
            | AllocationScope::Service(_)
            | AllocationScope::Pair { .. } => String::new(),
        };
        v1::DisabledInfo {
            deployment: service.map(|key| key.deployment.to_string()).unwrap_or_default(),
            service: service.map(|key| key.service.to_string()).unwrap_or_default(),
            node: scope.node().map(|id| view::hostname(state, id)).unwrap_or_default(),
            replica,
            by: disablement.by.to_string(),
            at_ms: view::millis(disablement.at),
        }
    };
    state.disabled.scopes.iter().map(info).collect()
}

/// Resolves the names in a request.
///
/// # Errors
/// Every unknown name in one message, with the code of the first.
fn resolve(
    state: &ClusterState,
    named: &[v1::AllocationRef],
) -> Result<BTreeSet<AllocationScope>, Rejection> {
    let (mut scopes, mut problems) = (BTreeSet::new(), Vec::<Rejection>::new());
    for one in named {
        match scope(state, one) {
            Ok(scope) => drop(scopes.insert(scope)),
            Err(problem) => problems.push(problem),
        }
    }
    let Some(first) = problems.first() else { return Ok(scopes) };
    let messages: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
    Err(Rejection::new(first.code, messages.join("; ")))
}

fn scope(state: &ClusterState, named: &v1::AllocationRef) -> Result<AllocationScope, Rejection> {
    let node = (!named.node.is_empty()).then(|| find_node(state, &named.node)).transpose()?;
    if named.service.is_empty() {
        return match (node, named.replica.is_empty()) {
            (Some(node), true) => Ok(AllocationScope::Node(node)),
            (None, true) => Err(invalid("an allocation needs a service, a node or both")),
            (_, false) => Err(invalid(format!(
                "replica {} is given without its service: write DEPLOYMENT/SERVICE --replica {}",
                named.replica, named.replica
            ))),
        };
    }
    let service = find_service(state, named)?;
    match (node, named.replica.as_str()) {
        (None, "") => Ok(AllocationScope::Service(service)),
        (Some(node), "") => Ok(AllocationScope::Pair { service, node }),
        (None, replica) => find_replica(state, service, replica),
        (Some(_), replica) => {
            Err(invalid(format!("give either replica {replica} or its node, not both")))
        }
    }
}

/// Finds a node by its host name or its peer address.
fn find_node(state: &ClusterState, name: &str) -> Result<NodeId, Rejection> {
    let address = |node: &&jaco_types::Node| {
        let host = node.address.rsplit_once(':').map_or(&*node.address, |(host, _)| host);
        host.trim_start_matches('[').trim_end_matches(']') == name
    };
    let by_name = state.nodes.values().find(|node| node.hostname.as_str() == name);
    let found = by_name.or_else(|| state.nodes.values().find(address));
    found.map(|node| node.id).ok_or_else(|| {
        let known: Vec<_> = state.nodes.values().map(|node| node.hostname.to_string()).collect();
        let message = format!("there is no node {name}; the members are {}", known.join(", "));
        Rejection::new(ErrorCode::NodeNotFound, message)
    })
}

/// Finds a service. The deployment may be empty if only one deployment has the service.
fn find_service(state: &ClusterState, named: &v1::AllocationRef) -> Result<ServiceKey, Rejection> {
    let service = ServiceName::new(&named.service).map_err(invalid)?;
    if named.deployment.is_empty() {
        let has_it = |known: &&jaco_state::Deployment| known.spec().services.contains_key(&service);
        let mut holders = state.deployments.values().filter(has_it).map(|known| known.name.clone());
        return match (holders.next(), holders.next()) {
            (Some(deployment), None) => Ok(ServiceKey { deployment, service }),
            (Some(one), Some(other)) => Err(invalid(format!(
                "{one} and {other} both have a service {service}: write DEPLOYMENT/{service}"
            ))),
            (None, _) => {
                let message = format!("no deployment has a service {service}");
                Err(Rejection::new(ErrorCode::ServiceNotFound, message))
            }
        };
    }
    let deployment = DeploymentName::new(&named.deployment).map_err(invalid)?;
    let Some(known) = state.deployments.get(&deployment) else {
        let message = format!("there is no deployment {deployment}");
        return Err(Rejection::new(ErrorCode::DeploymentNotFound, message));
    };
    if known.spec().services.contains_key(&service) {
        return Ok(ServiceKey { deployment, service });
    }
    let names = known.spec().services.keys().map(ServiceName::as_str);
    let hint = nearest(service.as_str(), names.clone());
    let hint = hint.map_or_else(
        || format!("it has {}", names.collect::<Vec<_>>().join(", ")),
        |near| format!("did you mean {near}?"),
    );
    let message = format!("deployment {deployment} has no service {service}: {hint}");
    Err(Rejection::new(ErrorCode::ServiceNotFound, message))
}

/// Finds a replica by its id, index or host. A replica of a global service is its service on that host.
fn find_replica(
    state: &ClusterState,
    service: ServiceKey,
    name: &str,
) -> Result<AllocationScope, Rejection> {
    let own = || state.slots.values().filter(|slot| slot.service == service);
    let is_it = |slot: &&Slot| slot.id.as_str() == name || slot.ordinal.to_string() == name;
    let Some(slot) = own().find(is_it) else {
        let known: Vec<_> = own().map(|slot| slot.id.to_string()).take(10).collect();
        let message = format!("{service} has no replica {name}; it has {}", known.join(", "));
        return Err(Rejection::new(ErrorCode::ReplicaNotFound, message));
    };
    Ok(match &slot.ordinal {
        Ordinal::Index(_) => AllocationScope::Replica { service, id: slot.id.clone() },
        Ordinal::Host(_) => AllocationScope::Pair { service, node: slot.current.node },
    })
}
