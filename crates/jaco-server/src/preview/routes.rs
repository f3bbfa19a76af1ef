//! Routes that a change adds, removes and changes. Pure.

use std::collections::BTreeSet;

use jaco_proto::v1;
use jaco_state::ClusterState;
use jaco_types::route::RouteAction;
use jaco_types::{DeploymentName, Route, RouteKey};

/// The routes that differ, by deployment and key.
pub(super) fn routes(before: &ClusterState, after: &ClusterState) -> Vec<v1::PlannedRoute> {
    let names: BTreeSet<&DeploymentName> =
        before.deployments.keys().chain(after.deployments.keys()).collect();
    names.into_iter().flat_map(|name| of_deployment(before, after, name)).collect()
}

fn of_deployment(
    before: &ClusterState,
    after: &ClusterState,
    name: &DeploymentName,
) -> Vec<v1::PlannedRoute> {
    let of = |state: &'_ ClusterState| {
        let deployment = state.deployments.get(name);
        deployment.map(|deployment| deployment.spec().routes.clone()).unwrap_or_default()
    };
    let (old, new) = (of(before), of(after));
    let keys: BTreeSet<&RouteKey> = old.keys().chain(new.keys()).collect();
    let rows = keys.into_iter().filter_map(|key| {
        let (change, route) = match (old.get(key), new.get(key)) {
            (None, Some(route)) => ("added", route),
            (Some(route), None) => ("removed", route),
            (Some(before), Some(route)) if before != route => ("updated", route),
            (Some(_), Some(_)) | (None, None) => return None,
        };
        Some(row(name, key, change, route))
    });
    rows.collect()
}

fn row(name: &DeploymentName, key: &RouteKey, change: &str, route: &Route) -> v1::PlannedRoute {
    let target = match &route.action {
        RouteAction::Forward(upstream) => format!("{}:{}", upstream.service, upstream.port),
        RouteAction::Redirect(redirect) => format!("redirect to {}", redirect.to),
    };
    v1::PlannedRoute {
        deployment: name.to_string(),
        route: key.to_string(),
        change: change.to_owned(),
        target,
        tls: route.tls.to_string(),
    }
}
