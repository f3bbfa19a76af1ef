//! From a status to lines of progress, and to a verdict. Pure: the same status gives the same lines.

use jaco_proto::v1::{
    DeploymentInfo, ReplicaInfo, RolloutInfo, ServiceInfo, StatusResponse, UnplacedInfo,
};

use crate::view::ending;
use crate::when;

/// The most of a container's last line that is shown among other things, in characters.
const LAST_LINE_MAX: usize = 100;

/// How a deployment stands, for somebody who waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// All that is wanted runs, and nothing else.
    Converged,
    /// Something is under way, or the status is older than the change.
    Going,
    /// It does not get there, as things stand.
    Failing(Failure),
}

/// Why a deployment does not get there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// Something cannot be placed, and nothing else is under way: waiting may not help.
    Stuck,
    /// A replica failed too often.
    Exhausted,
    /// The rollout has stopped half-way.
    Paused,
    /// The rollout was given up; the previous revision serves.
    RolledBack,
    /// There is no such deployment any more.
    Gone,
}

/// How `deployment` stands, once it is at `revision` or a later one.
#[must_use]
pub fn verdict(status: &StatusResponse, deployment: &str, revision: u64) -> Verdict {
    let Some(found) = status.deployments.iter().find(|found| found.name == deployment) else {
        return Verdict::Failing(Failure::Gone);
    };
    if found.revision < revision {
        return Verdict::Going;
    }
    match found.status.as_str() {
        "active" => Verdict::Converged,
        "failed" => Verdict::Failing(Failure::Exhausted),
        "rolled_back" => Verdict::Failing(Failure::RolledBack),
        "paused" => Verdict::Failing(Failure::Paused),
        "pending" if !is_moving(status, found) => Verdict::Failing(Failure::Stuck),
        _ => Verdict::Going,
    }
}

/// Whether anything of a deployment is about to change by itself.
fn is_moving(status: &StatusResponse, deployment: &DeploymentInfo) -> bool {
    let replicas = status.replicas.iter().filter(|replica| replica.deployment == deployment.name);
    let rolls = |service: &ServiceInfo| {
        service.rollout.as_ref().is_some_and(|rollout| rollout.state == "in_progress")
            && !service.unplaced.iter().any(|unplaced| is_out_of_room(&unplaced.reason))
    };
    deployment.services.iter().any(rolls)
        || replicas.into_iter().any(|replica| {
            replica.retiring.is_some()
                || ["pending", "pulling", "starting"].contains(&replica.state.as_str())
        })
}

/// Whether a rollout that says so goes on only once a node has room, and not by itself.
fn is_out_of_room(reason: &str) -> bool {
    ["no_eligible_node", "no_room_to_roll", "no_room_on_node", "cannot_satisfy_host_placement"]
        .contains(&reason)
}

/// The lines of one deployment: one per service, and under it its unsteady replicas.
#[must_use]
pub fn lines(status: &StatusResponse, deployment: &str) -> Vec<String> {
    let found = status.deployments.iter().filter(|found| found.name == deployment);
    let mut lines = Vec::new();
    for deployment in found {
        for service in &deployment.services {
            lines.push(service_line(status, deployment, service));
            lines.extend(
                service.unplaced.iter().map(|unplaced| format!("  {}", unplaced_text(unplaced))),
            );
            lines.extend(unsteady(status, deployment, service).map(|text| format!("  {text}")));
        }
        lines.extend(leaving(status, deployment));
    }
    lines
}

/// The lines that are in `now` and were not in `before`: what a pipe is told.
#[must_use]
pub fn changes(before: &[String], now: &[String]) -> Vec<String> {
    now.iter()
        .filter(|line| !before.contains(line))
        .map(|line| line.trim_start().to_owned())
        .collect()
}

/// One line about a whole deployment, for a sign of life.
#[must_use]
pub fn summary(status: &StatusResponse, deployment: &str) -> String {
    let found = status.deployments.iter().find(|found| found.name == deployment);
    let Some(found) = found else { return format!("{deployment} is gone") };
    let services = found.services.iter().map(|service| service_line(status, found, service));
    services.collect::<Vec<_>>().join("; ")
}

fn service_line(
    status: &StatusResponse,
    deployment: &DeploymentInfo,
    service: &ServiceInfo,
) -> String {
    let mut line = format!("{} {}/{} running", service.name, service.running, service.desired);
    if let Some(rollout) = rollout(status, deployment, service) {
        line.push_str(", ");
        line.push_str(&rollout);
    }
    line
}

/// How a service is, in one line without its name.
#[must_use]
pub fn service_text(
    status: &StatusResponse,
    deployment: &DeploymentInfo,
    service: &ServiceInfo,
) -> String {
    let running = format!("{}/{} running", service.running, service.desired);
    let parts = std::iter::once(running)
        .chain(rollout(status, deployment, service))
        .chain(service.unplaced.iter().map(unplaced_text));
    parts.collect::<Vec<_>>().join(", ")
}

/// What a service's rollout is doing, or nothing once it is through: `rolling r1→r2 step 2/5`.
#[must_use]
pub fn rollout(
    status: &StatusResponse,
    deployment: &DeploymentInfo,
    service: &ServiceInfo,
) -> Option<String> {
    let from = oldest_revision(status, deployment, service);
    rollout_text(service.rollout.as_ref()?, from)
}

fn rollout_text(rollout: &RolloutInfo, from: Option<u64>) -> Option<String> {
    let to = rollout.target_revision;
    match rollout.state.as_str() {
        "in_progress" => {
            let way = match from.filter(|from| *from < to) {
                Some(from) => format!("r{from}→r{to}"),
                None => format!("to r{to}"),
            };
            if !rollout.preparing.is_empty() {
                return Some(format!("rolling {way}, preparing: {}", preparing(rollout)));
            }
            let total = rollout.total_steps;
            if rollout.current_step >= total {
                return Some(format!("rolling {way}, {total}/{total} done and watched"));
            }
            // A person counts the step under way, not those that are done.
            let step = (rollout.current_step + 1).min(rollout.total_steps);
            Some(format!("rolling {way} step {step}/{total}"))
        }
        "paused" => Some(format!("rollout to r{to} paused: {}", rollout.failure_reason)),
        "rollback_paused" => {
            let reason = &rollout.failure_reason;
            Some(format!("rollout to r{to} given up, and its way back paused: {reason}"))
        }
        "aborted" => {
            let back = rollout.going_back.as_ref().map_or(String::new(), |back| {
                let step = (back.current_step + 1).min(back.total_steps);
                format!(", going back step {step}/{}", back.total_steps)
            });
            Some(format!("rollout to r{to} given up{back}: {}", rollout.failure_reason))
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

fn unsteady<'s>(
    status: &'s StatusResponse,
    deployment: &'s DeploymentInfo,
    service: &'s ServiceInfo,
) -> impl Iterator<Item = String> {
    let of_service = replicas(status, deployment, service);
    of_service.filter(|replica| replica.state != "running").map(replica_text)
}

/// Replicas of services that are not wanted any more.
fn leaving<'s>(
    status: &'s StatusResponse,
    deployment: &'s DeploymentInfo,
) -> impl Iterator<Item = String> {
    let wanted = |replica: &ReplicaInfo| {
        deployment.services.iter().any(|service| service.name == replica.service)
    };
    let of_deployment =
        status.replicas.iter().filter(|replica| replica.deployment == deployment.name);
    of_deployment
        .filter(move |replica| !wanted(replica))
        .map(|replica| format!("{} on {} is being removed", replica.id, replica.node))
}

/// A replica that is not steady, with the reason: `shop-web-3 on n2: failed, image_pull_failed: …`.
#[must_use]
pub fn replica_text(replica: &ReplicaInfo) -> String {
    let place =
        if replica.node.is_empty() { String::new() } else { format!(" on {}", replica.node) };
    let reason = reason(replica);
    let reason = if reason.is_empty() { reason } else { format!(", {reason}") };
    format!("{}{place}: {}{reason}", replica.id, replica.state)
}

/// What keeps each node from having the image: `n2 pulling, n3 web:2: no such image`.
fn preparing(rollout: &RolloutInfo) -> String {
    let mut nodes: Vec<_> = rollout.preparing.iter().collect();
    nodes.sort();
    let nodes = nodes.into_iter().map(|(node, reason)| format!("{node} {}", one_line(reason)));
    nodes.collect::<Vec<_>>().join(", ")
}

/// Why a replica is in its state, in a few words; empty where there is nothing to say.
#[must_use]
pub fn reason(replica: &ReplicaInfo) -> String {
    let mut parts = Vec::new();
    // `pulling, pulling` says no more than `pulling`.
    if !replica.code.is_empty() && replica.code != replica.state {
        parts.push(replica.code.clone());
    }
    if replica.exited {
        parts.push(ending::exit_text(replica.exit_code));
    }
    let shown = |key: &str| !(replica.exited && key == "exit_code");
    let mut facts: Vec<_> = replica.details.iter().filter(|(key, _)| shown(key)).collect();
    facts.sort();
    parts.extend(facts.into_iter().map(|(key, fact)| match key.as_str() {
        "reason" => one_line(fact),
        "at_ms" => {
            format!("since {}", when::rfc3339(fact.parse().unwrap_or(0)).unwrap_or_default())
        }
        "disabled" => format!("with {fact}"),
        "output" => format!("said {:?}", last_line(fact)),
        _ => format!("{key}={}", one_line(fact)),
    }));
    parts.join(", ")
}

/// Why something is not placed: `2 replicas cannot be placed: cannot_satisfy_host_placement …`.
#[must_use]
pub fn unplaced_text(unplaced: &UnplacedInfo) -> String {
    let mut facts: Vec<_> = unplaced.details.iter().collect();
    facts.sort();
    let facts: String =
        facts.into_iter().map(|(key, fact)| format!(", {key}={}", one_line(fact))).collect();
    let what = crate::error::count(unplaced.count as usize, "replica");
    format!("{what} cannot be placed: {}{facts}", unplaced.reason)
}

/// What a container wrote last, as far as a line has room for it; `jaco get replica` has the rest.
fn last_line(text: &str) -> String {
    let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    line.trim().chars().take(LAST_LINE_MAX).collect()
}

/// Engines answer in paragraphs; a line of progress has room for one line.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
