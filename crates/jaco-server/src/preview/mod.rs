//! The effect of a change, shown before it is made. Pure: built from a forecast, decides nothing.

mod difference;
mod ports;
mod routes;
mod survival;

use std::collections::BTreeSet;

use jaco_proto::v1;
use jaco_scheduler::forecast::{Action, End, Move};
use jaco_scheduler::report::NotPlaced;
use jaco_scheduler::{Forecast, PlanInput, PlannerConfig, noncompliant};
use jaco_state::ClusterState;
use jaco_state::command::Previous;
use jaco_types::{DeploymentName, RolloutState, ServiceKey, ServiceName, ServiceSpec};

use crate::view;

pub(crate) use survival::{Kind, survives};

/// The difference between `before` and the end of a forecast of it, or of a changed copy of it, and whether a loss would be
/// survived then with these voters.
#[must_use]
pub(crate) fn preview(
    before: &ClusterState,
    forecast: &Forecast,
    config: &PlannerConfig,
    voters: &BTreeSet<u64>,
) -> v1::Preview {
    let mut preview = v1::Preview {
        services: services(before, &forecast.state),
        changes: forecast.moves.iter().map(|each| change(before, &forecast.state, each)).collect(),
        waits: forecast.last.report.unplaced.iter().map(wait).collect(),
        survival: survival::both(&forecast.input(config), voters),
        digest: String::new(),
        based_on: before.index.0,
        complete: forecast.end == End::Rest,
        stays: stays(before, forecast, config),
        routes: routes::routes(before, &forecast.state),
        ports: ports::ports(before, &forecast.state),
    };
    preview.digest = digest(&preview);
    preview
}

/// Services with a changed spec, in order.
fn services(before: &ClusterState, after: &ClusterState) -> Vec<v1::PlannedService> {
    let names = before.deployments.keys().chain(after.deployments.keys());
    let names: BTreeSet<&DeploymentName> = names.collect();
    let mut rows = Vec::new();
    for name in names {
        let of = |state: &'_ ClusterState| -> BTreeSet<ServiceName> {
            let wanted = state.deployments.get(name);
            wanted
                .map(|wanted| wanted.spec().services.keys().cloned().collect())
                .unwrap_or_default()
        };
        for service in &of(before) | &of(after) {
            let key = ServiceKey { deployment: name.clone(), service };
            rows.extend(service_row(before, after, &key));
        }
    }
    rows
}

fn service_row(
    before: &ClusterState,
    after: &ClusterState,
    key: &ServiceKey,
) -> Option<v1::PlannedService> {
    let (change, fields) = match (wanted(before, key), wanted(after, key)) {
        (None, Some(_)) => ("created", Vec::new()),
        (Some(_), None) => ("removed", Vec::new()),
        (Some(old), Some(new)) if old != new => ("updated", difference::of_services(old, new)),
        (Some(_), Some(_)) | (None, None) => return None,
    };
    Some(v1::PlannedService {
        deployment: key.deployment.to_string(),
        service: key.service.to_string(),
        change: change.to_owned(),
        fields,
        rolled_back: abort_reason(before, after, key),
    })
}

fn wanted<'a>(state: &'a ClusterState, key: &ServiceKey) -> Option<&'a ServiceSpec> {
    let deployment = state.deployments.get(&key.deployment)?;
    deployment.spec().services.get(&key.service).map(|spec| &**spec)
}

/// Why the rollout would be aborted; empty if it would not.
fn abort_reason(before: &ClusterState, after: &ClusterState, key: &ServiceKey) -> String {
    let rollout = |state: &ClusterState| {
        let record = state.scheduling.get(key).and_then(|record| record.rollout.clone());
        record.filter(|rollout| rollout.state == RolloutState::Aborted)
    };
    match (rollout(before), rollout(after)) {
        (old, Some(new)) if old.as_ref() != Some(&new) => new.failure_reason,
        (_, _) => String::new(),
    }
}

fn change(before: &ClusterState, after: &ClusterState, each: &Move) -> v1::PlannedChange {
    let name = |id: Option<_>| id.map(|id| view::hostname(after, id)).unwrap_or_default();
    let at = if each.action == Action::Stop { each.from } else { each.to };
    let order = each.previous.map(|previous| match previous {
        Previous::Retire => "start_first",
        Previous::Drop => "stop_first",
    });
    v1::PlannedChange {
        action: each.action.as_str().to_owned(),
        replica: each.replica.to_string(),
        node: name(at),
        reason: each.cause.to_owned(),
        deployment: each.service.deployment.to_string(),
        service: each.service.service.to_string(),
        from_node: name(each.from),
        order: order.unwrap_or_default().to_owned(),
        fields: container_fields(before, after, each),
    }
}

fn container_fields(before: &ClusterState, after: &ClusterState, each: &Move) -> Vec<String> {
    let spec = |state: &ClusterState| {
        let revision = state.slots.get(&each.replica)?.current.revision;
        state.service_spec(&each.service, revision).cloned()
    };
    // A replica that the forecast has not reached still has its old instance.
    let end = match each.to {
        Some(_) => spec(after),
        None => after
            .deployments
            .get(&each.service.deployment)
            .and_then(|wanted| wanted.spec().services.get(&each.service.service).cloned()),
    };
    match (spec(before), end) {
        (Some(old), Some(new)) if each.action != Action::Stop => {
            difference::of_containers(&old, &new)
        }
        (_, _) => Vec::new(),
    }
}

/// Replicas that do not comply at the end, unless the same was so before and their service does not change.
fn stays(
    before: &ClusterState,
    forecast: &Forecast,
    config: &PlannerConfig,
) -> Vec<v1::PlannedStay> {
    let after = forecast.input(config);
    let is_changed = |key: &ServiceKey| wanted(before, key) != wanted(&forecast.state, key);
    let (mut found, unchanged): (Vec<_>, Vec<_>) =
        noncompliant(&after).into_iter().partition(|found| is_changed(&found.service));
    // Each look reads the whole state.
    if !unchanged.is_empty() {
        let known: BTreeSet<_> =
            noncompliant(&PlanInput { state: before, ..after }).into_iter().collect();
        found.extend(unchanged.into_iter().filter(|found| !known.contains(found)));
        found.sort();
    }
    found
        .into_iter()
        .map(|found| v1::PlannedStay {
            deployment: found.service.deployment.to_string(),
            service: found.service.service.to_string(),
            replica: found.replica.to_string(),
            node: view::hostname(&forecast.state, found.node),
            failed: found.failed.iter().map(ToString::to_string).collect(),
        })
        .collect()
}

fn wait(entry: &NotPlaced) -> v1::PlannedWait {
    v1::PlannedWait {
        deployment: entry.service.deployment.to_string(),
        service: entry.service.service.to_string(),
        count: entry.count,
        reason: entry.reason.to_owned(),
        details: entry.details.clone().into_iter().collect(),
    }
}

/// SHA-256 over everything that a user decides by, one fact a line.
fn digest(preview: &v1::Preview) -> String {
    let mut text = format!("complete {}\n", preview.complete);
    for row in &preview.services {
        let v1::PlannedService { deployment, service, change, fields, rolled_back } = row;
        text.push_str(&format!("{deployment}/{service} {change} {fields:?} {rolled_back:?}\n"));
    }
    for row in &preview.changes {
        let v1::PlannedChange { action, replica, node, reason, from_node, order, fields, .. } = row;
        text.push_str(&format!(
            "{action} {replica} {from_node} {node} {reason:?} {order} {fields:?}\n"
        ));
    }
    for row in &preview.routes {
        let v1::PlannedRoute { deployment, route, change, target, tls } = row;
        text.push_str(&format!("{deployment} {change} {route} {target:?} {tls}\n"));
    }
    for row in &preview.ports {
        let v1::PlannedPort { deployment, port, change, target } = row;
        text.push_str(&format!("{deployment} {change} {port} {target}\n"));
    }
    for row in &preview.waits {
        let v1::PlannedWait { deployment, service, count, reason, .. } = row;
        text.push_str(&format!("{deployment}/{service} waits {count} {reason}\n"));
    }
    for row in &preview.stays {
        let v1::PlannedStay { replica, node, failed, .. } = row;
        text.push_str(&format!("{replica} stays {node} {failed:?}\n"));
    }
    hex::encode(ring::digest::digest(&ring::digest::SHA256, text.as_bytes()))
}
