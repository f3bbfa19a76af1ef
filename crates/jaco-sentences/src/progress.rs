//! A status as lines of progress. Pure: the same status gives the same lines.

use std::collections::BTreeMap;

use jaco_proto::v1::{DeploymentInfo, ReplicaInfo, RolloutInfo, ServiceInfo, StatusResponse};

use crate::quantity::count;
use crate::reason::{self, one_line};

/// The lines of one deployment: one per service, followed by its replicas that do not run.
#[must_use]
pub fn lines(status: &StatusResponse, deployment: &str) -> Vec<String> {
    let found = status.deployments.iter().filter(|found| found.name == deployment);
    let mut lines = Vec::new();
    for deployment in found {
        for service in &deployment.services {
            lines.push(service_line(status, deployment, service));
            lines.extend(details(status, deployment, service));
        }
        lines.extend(removed(status, deployment));
    }
    lines.extend(status.staleness.as_ref().map(|staleness| staleness.reason.clone()));
    lines
}

/// The lines of one deployment, or of one service of it, with its name before each service.
#[must_use]
pub fn lines_of(status: &StatusResponse, deployment: &str, service: Option<&str>) -> Vec<String> {
    let found = status.deployments.iter().filter(|found| found.name == deployment);
    let mut lines = Vec::new();
    for deployment in found {
        let is_meant = |it: &&ServiceInfo| service.is_none_or(|name| it.name == name);
        for service in deployment.services.iter().filter(is_meant) {
            let line = service_line(status, deployment, service);
            lines.push(format!("{}/{line}", deployment.name));
            lines.extend(details(status, deployment, service));
        }
        if service.is_none() {
            lines.extend(removed(status, deployment));
        }
    }
    lines
}

/// Why replicas of a service are not placed or do not run.
fn details<'s>(
    status: &'s StatusResponse,
    deployment: &'s DeploymentInfo,
    service: &'s ServiceInfo,
) -> impl Iterator<Item = String> {
    let unplaced = service.unplaced.iter().map(reason::of_unplaced);
    unplaced.chain(not_running(status, deployment, service)).map(|text| format!("  {text}"))
}

/// The lines of `now` that are not in `before`: the output on a pipe.
#[must_use]
pub fn changes(before: &[String], now: &[String]) -> Vec<String> {
    now.iter()
        .filter(|line| !before.contains(line))
        .map(|line| line.trim_start().to_owned())
        .collect()
}

/// One line about a whole deployment, for the periodic line on a pipe.
#[must_use]
pub fn summary(status: &StatusResponse, deployment: &str) -> String {
    let found = status.deployments.iter().find(|found| found.name == deployment);
    let Some(found) = found else { return format!("{deployment} is deleted") };
    let services = found.services.iter().map(|service| service_line(status, found, service));
    services.collect::<Vec<_>>().join("; ")
}

/// How many replicas of a deployment run, and what the others do: `2 of 6 replicas running, 4 disabled`.
#[must_use]
pub fn running_text(status: &StatusResponse, deployment: &str) -> String {
    let of_deployment =
        |replica: &&ReplicaInfo| replica.deployment == deployment && replica.state != "stopping";
    let replicas: Vec<_> = status.replicas.iter().filter(of_deployment).collect();
    let mut others: BTreeMap<&str, usize> = BTreeMap::new();
    for replica in &replicas {
        let state = match (replica.state.as_str(), replica.code.as_str()) {
            ("running", _) => continue,
            (_, "disabled") => "disabled",
            (_, "node_down") => "on a node that is down",
            ("stopped", _) if replica.exit_code == 0 => "completed",
            (state, _) => state,
        };
        *others.entry(state).or_default() += 1;
    }
    let running = replicas.len() - others.values().sum::<usize>();
    let mut text = match others.is_empty() {
        true => format!("{} running", count(running, "replica")),
        false => format!("{running} of {} running", count(replicas.len(), "replica")),
    };
    for (state, number) in others {
        text.push_str(&format!(", {number} {state}"));
    }
    text
}

fn service_line(
    status: &StatusResponse,
    deployment: &DeploymentInfo,
    service: &ServiceInfo,
) -> String {
    let mut line = format!("{} {}", service.name, running_of(service));
    if let Some(rollout) = rollout(status, deployment, service) {
        line.push_str(", ");
        line.push_str(&rollout);
    }
    line
}

/// How many replicas run of those that are desired, and how many have completed: `2/3 running`, `1/1 completed`.
fn running_of(service: &ServiceInfo) -> String {
    let ServiceInfo { running, completed, desired, .. } = service;
    match (running, completed) {
        (_, 0) => format!("{running}/{desired} running"),
        (0, _) => format!("{completed}/{desired} completed"),
        (_, _) => format!("{running}/{desired} running, {completed} completed"),
    }
}

/// Of the desired replicas of a service, those that are as they should be: they run, or have completed.
#[must_use]
pub fn fulfilled(service: &ServiceInfo) -> u32 {
    service.running.saturating_add(service.completed)
}

/// The state of a service in one line without its name.
#[must_use]
pub fn service_text(
    status: &StatusResponse,
    deployment: &DeploymentInfo,
    service: &ServiceInfo,
) -> String {
    let parts = std::iter::once(running_of(service))
        .chain(rollout(status, deployment, service))
        .chain(service.unplaced.iter().map(reason::of_unplaced));
    parts.collect::<Vec<_>>().join(", ")
}

/// The state of a service's rollout, unless it is complete: `rolling r1→r2 step 2/5`.
#[must_use]
pub fn rollout(
    status: &StatusResponse,
    deployment: &DeploymentInfo,
    service: &ServiceInfo,
) -> Option<String> {
    let from = oldest_revision(status, deployment, service);
    let rollout = service.rollout.as_ref()?;
    let text = rollout_text(rollout, from)?;
    match rollout.state.as_str() {
        "in_progress" => Some(text),
        // What the file says is not what serves.
        _ => Some(format!("{text}; {}", serving_text(status, deployment, service))),
    }
}

/// The images that replicas of a service run, each with its revision and how many there are.
pub fn serving<'s>(
    status: &'s StatusResponse,
    deployment: &'s DeploymentInfo,
    service: &'s ServiceInfo,
) -> BTreeMap<(u64, &'s str), usize> {
    let mut serving = BTreeMap::new();
    let running = replicas(status, deployment, service).filter(|it| it.state == "running");
    for replica in running {
        *serving.entry((replica.revision, replica.image.as_str())).or_default() += 1;
    }
    serving
}

/// `web:1 (r1) serves`
fn serving_text(
    status: &StatusResponse,
    deployment: &DeploymentInfo,
    service: &ServiceInfo,
) -> String {
    let serving = serving(status, deployment, service);
    let images: Vec<_> = match serving.len() {
        0 => return "none of its replicas runs".to_owned(),
        1 => serving.keys().map(|(revision, image)| format!("{image} (r{revision})")).collect(),
        _ => serving.iter().map(|((r, image), n)| format!("{n} of {image} (r{r})")).collect(),
    };
    let verb = if images.len() == 1 { "serves" } else { "serve" };
    format!("{} {verb}", images.join(" and "))
}

fn rollout_text(rollout: &RolloutInfo, from: Option<u64>) -> Option<String> {
    let to = rollout.target_revision;
    match rollout.state.as_str() {
        "in_progress" => {
            let range = match from.filter(|from| *from < to) {
                Some(from) => format!("r{from}→r{to}"),
                None => format!("to r{to}"),
            };
            if !rollout.prepull.is_empty() {
                return Some(format!("rolling {range}, pre-pulling: {}", pre_pull(rollout)));
            }
            let total = rollout.total_steps;
            if rollout.current_step >= total {
                return Some(format!("rolling {range}, {total}/{total} done, monitoring"));
            }
            // The number of the step in flight, counted from one.
            let step = (rollout.current_step + 1).min(rollout.total_steps);
            Some(format!("rolling {range} step {step}/{total}"))
        }
        "paused" => Some(format!("rollout to r{to} paused: {}", rollout.failure_reason)),
        "rollback_paused" => {
            let reason = &rollout.failure_reason;
            Some(format!("rollout to r{to} aborted, rollback paused: {reason}"))
        }
        "aborted" => {
            let back = rollout.rollback_progress.as_ref().map_or(String::new(), |back| {
                let step = (back.current_step + 1).min(back.total_steps);
                format!(", rolling back step {step}/{}", back.total_steps)
            });
            Some(format!("rollout to r{to} aborted{back}: {}", rollout.failure_reason))
        }
        _ => None,
    }
}

fn oldest_revision(
    status: &StatusResponse,
    deployment: &DeploymentInfo,
    service: &ServiceInfo,
) -> Option<u64> {
    let of_service = replicas(status, deployment, service);
    of_service.map(|replica| replica.revision).filter(|revision| *revision > 0).min()
}

fn replicas<'s>(
    status: &'s StatusResponse,
    deployment: &'s DeploymentInfo,
    service: &'s ServiceInfo,
) -> impl Iterator<Item = &'s ReplicaInfo> {
    status.replicas.iter().filter(move |replica| {
        replica.deployment == deployment.name && replica.service == service.name
    })
}

fn not_running<'s>(
    status: &'s StatusResponse,
    deployment: &'s DeploymentInfo,
    service: &'s ServiceInfo,
) -> impl Iterator<Item = String> {
    let of_service = replicas(status, deployment, service);
    of_service.filter(|replica| replica.state != "running").map(replica_text)
}

/// Replicas of services that were removed from the deployment.
fn removed<'s>(
    status: &'s StatusResponse,
    deployment: &'s DeploymentInfo,
) -> impl Iterator<Item = String> {
    let has_service = |replica: &ReplicaInfo| {
        deployment.services.iter().any(|service| service.name == replica.service)
    };
    let of_deployment =
        status.replicas.iter().filter(|replica| replica.deployment == deployment.name);
    of_deployment
        .filter(move |replica| !has_service(replica))
        .map(|replica| format!("{} on {} is being removed", replica.id, replica.node))
}

/// A replica with its state and the reason: `shop-web-3 on n2: failed, image_pull_failed: …`.
#[must_use]
pub fn replica_text(replica: &ReplicaInfo) -> String {
    let place =
        if replica.node.is_empty() { String::new() } else { format!(" on {}", replica.node) };
    let reason = reason::of_replica(replica);
    let reason = if reason.is_empty() { reason } else { format!(", {reason}") };
    format!("{}{place}: {}{reason}", replica.id, replica.state)
}

/// The nodes that do not have the image yet: `n2 pulling, n3 web:2: no such image`.
fn pre_pull(rollout: &RolloutInfo) -> String {
    let mut nodes: Vec<_> = rollout.prepull.iter().collect();
    nodes.sort();
    let nodes = nodes.into_iter().map(|(node, reason)| format!("{node} {}", one_line(reason)));
    nodes.collect::<Vec<_>>().join(", ")
}
