//! Whether a deployment has converged. Pure: the same status gives the same verdict.

use jaco_proto::v1::{DeploymentInfo, ReplicaInfo, ServiceInfo, StatusResponse};

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
    /// The service was removed from the deployment.
    Removed,
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
    Scope { status, deployment: found, service: None }.verdict()
}

/// A deployment, or one service of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope<'s> {
    pub(super) status: &'s StatusResponse,
    pub(super) deployment: &'s DeploymentInfo,
    pub(super) service: Option<&'s ServiceInfo>,
}

impl<'s> Scope<'s> {
    /// The verdict on the desired revision.
    pub(super) fn verdict(self) -> Verdict {
        match self.standing() {
            "active" => match self.missing_replicas() {
                Missing::None => Verdict::Converged,
                Missing::OfGlobal => Verdict::Settling,
                Missing::Some => Verdict::InProgress,
            },
            "failed" if !self.is_rolling() => Verdict::Failed(Failure::Exhausted),
            "rolled_back" if !self.is_rolling() => Verdict::Failed(Failure::RolledBack),
            "paused" if !self.is_rolling() => Verdict::Failed(Failure::Paused),
            "pending" if !self.is_in_flight() => Verdict::Failed(Failure::Stuck),
            _ => Verdict::InProgress,
        }
    }

    /// The services of the desired revision.
    pub(super) fn services(self) -> &'s [ServiceInfo] {
        match self.service {
            Some(service) => std::slice::from_ref(service),
            None => &self.deployment.services,
        }
    }

    /// The replicas of one of its services, without those that are being removed.
    pub(super) fn replicas(self, service: &'s str) -> impl Iterator<Item = &'s ReplicaInfo> {
        self.all_replicas()
            .filter(move |replica| replica.service == service && replica.state != "stopping")
    }

    /// The status of the service where it is one that the daemon tells by service.
    fn standing(self) -> &'s str {
        let of_service = self.service.map(|service| service.status.as_str());
        of_service.filter(|status| !status.is_empty()).unwrap_or(&self.deployment.status)
    }

    fn all_replicas(self) -> impl Iterator<Item = &'s ReplicaInfo> {
        self.status.replicas.iter().filter(move |replica| {
            replica.deployment == self.deployment.name
                && self.service.is_none_or(|service| replica.service == service.name)
        })
    }

    /// Which services have fewer or more replicas than they should have.
    fn missing_replicas(self) -> Missing {
        let differs = |it: &&ServiceInfo| self.replicas(&it.name).count() != it.desired as usize;
        let differ: Vec<&ServiceInfo> = self.services().iter().filter(differs).collect();
        match differ.iter().all(|service| service.placement == "global") {
            _ if differ.is_empty() => Missing::None,
            true => Missing::OfGlobal,
            false => Missing::Some,
        }
    }

    /// Whether the rollout or the rollback of a service goes on. What failed meanwhile may be rolled back, or
    /// tolerated.
    fn is_rolling(self) -> bool {
        let mut rollouts = self.services().iter().filter_map(|service| service.rollout.as_ref());
        rollouts.any(|rollout| {
            rollout.target_revision == self.deployment.revision
                && (rollout.state == "in_progress" || rollout.rollback_progress.is_some())
        })
    }

    /// Whether anything is going to change by itself.
    fn is_in_flight(self) -> bool {
        let can_roll = |service: &ServiceInfo| {
            service.rollout.as_ref().is_some_and(|rollout| rollout.state == "in_progress")
                && !service.unplaced.iter().any(|unplaced| is_out_of_room(&unplaced.reason))
        };
        self.services().iter().any(can_roll)
            || self.all_replicas().any(|replica| {
                replica.retiring.is_some()
                    || ["pending", "pulling", "starting"].contains(&replica.state.as_str())
            })
    }
}

enum Missing {
    None,
    OfGlobal,
    Some,
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
