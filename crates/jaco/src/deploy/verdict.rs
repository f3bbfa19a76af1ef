//! Whether a deployment has converged. Pure: the same status gives the same verdict.

use jaco_proto::v1::{DeploymentInfo, ServiceInfo, StatusResponse};

/// The state of a deployment for a command that waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The observed state matches the desired state.
    Converged,
    /// The same, except that a global service does not have a replica on every node of the services that it
    /// follows: the planner is about to act, or cannot.
    Settling,
    /// A change is in flight, or the status is older than the change.
    InProgress,
    /// It will not converge without another change.
    Failed(Failure),
}

/// Why a deployment does not converge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// Some replicas cannot be placed and nothing else is in flight.
    Stuck,
    /// A replica has exhausted its restarts.
    Exhausted,
    /// The rollout is paused.
    Paused,
    /// The rollout was aborted and rolled back.
    RolledBack,
    /// The deployment was deleted.
    Deleted,
    /// A later revision replaced it before it had converged: this one.
    Superseded(u64),
}

/// The verdict on `revision` of `deployment`.
#[must_use]
pub fn verdict(status: &StatusResponse, deployment: &str, revision: u64) -> Verdict {
    // What is not current proves nothing.
    if status.staleness.is_some() {
        return Verdict::InProgress;
    }
    let Some(found) = status.deployments.iter().find(|found| found.name == deployment) else {
        return Verdict::Failed(Failure::Deleted);
    };
    if found.revision < revision {
        return Verdict::InProgress;
    }
    if found.revision > revision {
        return Verdict::Failed(Failure::Superseded(found.revision));
    }
    match found.status.as_str() {
        "active" => match missing_replicas(status, found) {
            Missing::None => Verdict::Converged,
            Missing::OfGlobal => Verdict::Settling,
            Missing::Some => Verdict::InProgress,
        },
        "failed" if !is_rolling(found) => Verdict::Failed(Failure::Exhausted),
        "rolled_back" if !is_rolling(found) => Verdict::Failed(Failure::RolledBack),
        "paused" if !is_rolling(found) => Verdict::Failed(Failure::Paused),
        "pending" if !is_in_flight(status, found) => Verdict::Failed(Failure::Stuck),
        _ => Verdict::InProgress,
    }
}

/// Which services have fewer or more replicas than they should have.
enum Missing {
    None,
    OfGlobal,
    Some,
}

fn missing_replicas(status: &StatusResponse, deployment: &DeploymentInfo) -> Missing {
    let replicas = |service: &ServiceInfo| {
        let of_service = status.replicas.iter().filter(|replica| {
            replica.deployment == deployment.name
                && replica.service == service.name
                && replica.state != "stopping"
        });
        of_service.count()
    };
    let differ = deployment.services.iter().filter(|it| replicas(it) != it.desired as usize);
    let differ: Vec<&ServiceInfo> = differ.collect();
    match differ.iter().all(|service| service.placement == "global") {
        _ if differ.is_empty() => Missing::None,
        true => Missing::OfGlobal,
        false => Missing::Some,
    }
}

/// Whether the rollout or the rollback of a service goes on. What failed meanwhile may be rolled back, or
/// tolerated.
fn is_rolling(deployment: &DeploymentInfo) -> bool {
    let mut rollouts = deployment.services.iter().filter_map(|service| service.rollout.as_ref());
    rollouts.any(|rollout| {
        rollout.target_revision == deployment.revision
            && (rollout.state == "in_progress" || rollout.rollback_progress.is_some())
    })
}

/// Whether anything of a deployment is going to change by itself.
fn is_in_flight(status: &StatusResponse, deployment: &DeploymentInfo) -> bool {
    let replicas = status.replicas.iter().filter(|replica| replica.deployment == deployment.name);
    let can_roll = |service: &ServiceInfo| {
        service.rollout.as_ref().is_some_and(|rollout| rollout.state == "in_progress")
            && !service.unplaced.iter().any(|unplaced| is_out_of_room(&unplaced.reason))
    };
    deployment.services.iter().any(can_roll)
        || replicas.into_iter().any(|replica| {
            replica.retiring.is_some()
                || ["pending", "pulling", "starting"].contains(&replica.state.as_str())
        })
}

/// Whether a rollout with this reason continues only when a node has room again.
fn is_out_of_room(reason: &str) -> bool {
    [
        "no_eligible_node",
        "no_room_to_roll",
        "no_room_on_node",
        "no_address",
        "cannot_satisfy_host_placement",
    ]
    .contains(&reason)
}
