//! Disabled allocations (R-SEL-4). The planner stops and starts their replicas.

use std::collections::BTreeSet;

use jaco_types::{
    AllocationScope, DeploymentName, Disablement, ErrorCode, Rejection, ServiceKey, StateIndex,
};

use crate::apply::audit::Audit;
use crate::apply::job;
use crate::audit::AuditKind;
use crate::command::{DisabledSet, Disabling, Entry, Outcome};
use crate::disabled::DISABLED_MAX;
use crate::state::ClusterState;
use crate::view::disabled::{describe, exists};

pub(in crate::apply) fn set(
    state: &mut ClusterState,
    entry: &Entry,
    command: &DisabledSet,
    audit: &mut Audit<'_>,
) -> Outcome {
    let DisabledSet { change, scopes } = command;
    let change = *change;
    if let Some(rejection) = unknown(state, scopes) {
        return Outcome::Rejected(rejection);
    }
    let known = || state.disabled.scopes.keys().cloned();
    let wanted: BTreeSet<AllocationScope> = match change {
        Disabling::Disable => known().chain(scopes.iter().cloned()).collect(),
        Disabling::Enable => {
            let is_meant =
                |known: &AllocationScope| scopes.iter().any(|scope| scope.contains(known));
            known().filter(|known| !is_meant(known)).collect()
        }
        Disabling::Replace => scopes.clone(),
    };
    if wanted.len() > DISABLED_MAX {
        let message = format!(
            "{} allocations would be disabled one by one, and at most {DISABLED_MAX} can be; name \
             whole services or nodes",
            wanted.len()
        );
        return Outcome::Rejected(Rejection::new(ErrorCode::TooLarge, message));
    }
    if change == Disabling::Enable
        && let Some(rejection) = still_disabled(state, scopes, &wanted)
    {
        return Outcome::Rejected(rejection);
    }
    write(state, entry, &wanted, audit);
    Outcome::Done
}

fn write(
    state: &mut ClusterState,
    entry: &Entry,
    wanted: &BTreeSet<AllocationScope>,
    audit: &mut Audit<'_>,
) {
    let gone: Vec<AllocationScope> =
        state.disabled.scopes.keys().filter(|scope| !wanted.contains(scope)).cloned().collect();
    let new: Vec<AllocationScope> =
        wanted.iter().filter(|scope| !state.disabled.scopes.contains(scope)).cloned().collect();
    if gone.is_empty() && new.is_empty() {
        return;
    }
    let changes = [(AuditKind::AllocationsEnabled, &gone), (AuditKind::AllocationsDisabled, &new)];
    for (kind, scopes) in changes.into_iter().filter(|(_, scopes)| !scopes.is_empty()) {
        let described: Vec<String> = scopes.iter().map(|scope| describe(state, scope)).collect();
        audit.event(kind, [("allocations", described.join(", "))]);
    }
    for scope in &gone {
        state.disabled.scopes.remove(scope);
    }
    let disablement = Disablement { by: entry.by.clone(), at: entry.at };
    for scope in &new {
        state.disabled.scopes.insert(scope.clone(), disablement.clone());
    }
    state.disabled.modified = entry.index;
    for scope in new {
        if let AllocationScope::Service(service) = scope {
            job::stop(state, entry, &service, audit);
        }
    }
}

/// The scopes that do not exist; the code is that of the first.
fn unknown(state: &ClusterState, scopes: &BTreeSet<AllocationScope>) -> Option<Rejection> {
    let mut unknown = scopes.iter().filter(|scope| !exists(state, scope)).peekable();
    let code = match unknown.peek()? {
        AllocationScope::Node(_) => ErrorCode::NodeNotFound,
        AllocationScope::Service(_) => ErrorCode::ServiceNotFound,
        AllocationScope::Pair { node, .. } if !state.nodes.contains(node) => {
            ErrorCode::NodeNotFound
        }
        AllocationScope::Pair { .. } => ErrorCode::ServiceNotFound,
        AllocationScope::Replica { .. } => ErrorCode::ReplicaNotFound,
    };
    let described: Vec<String> = unknown.map(|scope| describe(state, scope)).collect();
    let message = format!("the cluster has no {}", described.join(", no "));
    Some(Rejection::new(code, message))
}

/// An allocation that a wider scope disables would stay disabled: refused, not done by halves.
fn still_disabled(
    state: &ClusterState,
    scopes: &BTreeSet<AllocationScope>,
    left: &BTreeSet<AllocationScope>,
) -> Option<Rejection> {
    let wider = |scope: &AllocationScope| -> Option<AllocationScope> {
        let (service, nodes) = match scope {
            AllocationScope::Node(_) | AllocationScope::Service(_) => return None,
            AllocationScope::Pair { service, node } => (service, Some(*node)),
            AllocationScope::Replica { service, id } => {
                (service, state.slots.get(id).map(|slot| slot.current.node))
            }
        };
        let pair = |node| AllocationScope::Pair { service: service.clone(), node };
        let candidates =
            nodes.into_iter().flat_map(|node| [AllocationScope::Node(node), pair(node)]);
        let of_service = AllocationScope::Service(service.clone());
        std::iter::once(of_service).chain(candidates).find(|wider| left.contains(wider))
    };
    let problems: Vec<String> = scopes
        .iter()
        .filter_map(|scope| {
            let (scope, wider) = (describe(state, scope), describe(state, &wider(scope)?));
            Some(format!("{scope} is disabled with all of {wider}"))
        })
        .collect();
    (!problems.is_empty()).then(|| {
        let message = format!("{}; enable that instead", problems.join("; "));
        Rejection::new(ErrorCode::StillDisabled, message)
    })
}

/// Entries about what no longer exists are removed with it.
pub(in crate::apply) fn forget(
    state: &mut ClusterState,
    index: StateIndex,
    is_gone: impl Fn(&AllocationScope) -> bool,
) {
    let gone: Vec<AllocationScope> =
        state.disabled.scopes.keys().filter(|scope| is_gone(scope)).cloned().collect();
    for scope in &gone {
        state.disabled.scopes.remove(scope);
        state.disabled.modified = index;
    }
}

/// Entries about services that a deployment does not have any more.
pub(in crate::apply) fn forget_unwanted(
    state: &mut ClusterState,
    index: StateIndex,
    deployment: &DeploymentName,
) {
    if state.disabled.scopes.is_empty() {
        return;
    }
    let spec = state.deployments.get(deployment).map(|known| known.spec().clone());
    let is_gone = |service: &ServiceKey| {
        service.deployment == *deployment
            && !spec.as_ref().is_some_and(|spec| spec.services.contains_key(&service.service))
    };
    forget(state, index, |scope| scope.service().is_some_and(is_gone));
}
