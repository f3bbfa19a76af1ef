//! Whether what `jaco wait` waits for holds. Pure: the same status gives the same answer.

use jaco_proto::v1::{DeploymentInfo, ReplicaInfo, ServiceInfo, StatusResponse};

use super::verdict::{Failure, Scope, Verdict};

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Condition {
    /// The desired revision runs, and nothing else
    Converged,
    /// Its jobs have run to their end
    Completed,
    /// Nothing of it is left
    Gone,
    /// All of its replicas serve, of whatever revision
    Healthy,
}

impl Condition {
    /// The name on the command line and in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Converged => "converged",
            Self::Completed => "completed",
            Self::Gone => "gone",
            Self::Healthy => "healthy",
        }
    }

    /// As a sentence ends that says what is waited for: `to be healthy`.
    #[must_use]
    pub(super) const fn as_infinitive(self) -> &'static str {
        match self {
            Self::Converged => "to converge",
            Self::Completed => "to complete",
            Self::Gone => "to be gone",
            Self::Healthy => "to be healthy",
        }
    }
}

/// A deployment, or one service of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// The deployment.
    pub deployment: String,
    /// The service, unless all of them are meant.
    pub service: Option<String>,
}

impl Target {
    /// `DEPLOYMENT` or `DEPLOYMENT/SERVICE`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let (deployment, service) = match text.split_once('/') {
            Some((deployment, service)) => (deployment, Some(service.to_owned())),
            None => (text, None),
        };
        Self { deployment: deployment.to_owned(), service }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.service {
            Some(service) => write!(f, "{}/{service}", self.deployment),
            None => f.write_str(&self.deployment),
        }
    }
}

/// Why a target cannot be waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfit {
    /// There is no deployment of this name.
    NoDeployment,
    /// The deployment has no service of this name.
    NoService,
    /// Nothing of it runs to an end.
    NoJob,
}

/// Whether a target can be waited for at all.
///
/// # Errors
/// If it does not exist, unless that is what is waited for; or if nothing of it can complete.
pub fn check(status: &StatusResponse, target: &Target, condition: Condition) -> Result<(), Unfit> {
    if condition == Condition::Gone {
        return Ok(());
    }
    let deployment = deployment(status, target).ok_or(Unfit::NoDeployment)?;
    let service = service(deployment, target).map_err(|Absent| Unfit::NoService)?;
    let scope = Scope { status, deployment, service };
    if condition == Condition::Completed && jobs(scope).is_empty() {
        return Err(Unfit::NoJob);
    }
    Ok(())
}

/// The verdict on what is waited for.
#[must_use]
pub fn verdict(status: &StatusResponse, target: &Target, condition: Condition) -> Verdict {
    // What is not current proves nothing.
    if status.staleness.is_some() {
        return Verdict::InProgress;
    }
    match condition {
        Condition::Gone if is_gone(status, target) => Verdict::Converged,
        Condition::Gone => Verdict::InProgress,
        Condition::Converged => in_scope(status, target, Scope::verdict),
        Condition::Completed => in_scope(status, target, completed),
        Condition::Healthy => in_scope(status, target, healthy),
    }
}

fn in_scope<'s>(
    status: &'s StatusResponse,
    target: &Target,
    verdict: impl Fn(Scope<'s>) -> Verdict,
) -> Verdict {
    let Some(deployment) = deployment(status, target) else {
        return Verdict::Failed(Failure::Deleted);
    };
    match service(deployment, target) {
        Ok(service) => verdict(Scope { status, deployment, service }),
        Err(Absent) => Verdict::Failed(Failure::Removed),
    }
}

fn deployment<'s>(status: &'s StatusResponse, target: &Target) -> Option<&'s DeploymentInfo> {
    status.deployments.iter().find(|found| found.name == target.deployment)
}

/// The deployment does not have the service.
struct Absent;

fn service<'s>(
    deployment: &'s DeploymentInfo,
    target: &Target,
) -> Result<Option<&'s ServiceInfo>, Absent> {
    let Some(name) = &target.service else { return Ok(None) };
    let found = deployment.services.iter().find(|service| service.name == *name);
    found.map(Some).ok_or(Absent)
}

/// Whether a replica, or what is left of one, belongs to a target.
#[must_use]
pub fn covers(target: &Target, replica: &ReplicaInfo) -> bool {
    replica.deployment == target.deployment
        && target.service.as_ref().is_none_or(|service| replica.service == *service)
}

fn is_gone(status: &StatusResponse, target: &Target) -> bool {
    let is_desired = deployment(status, target).is_some_and(|found| service(found, target).is_ok());
    !is_desired && !status.replicas.iter().any(|replica| covers(target, replica))
}

/// The services that are waited for to complete: a named one that can; of a deployment its jobs, or where it has none,
/// those whose restart policy lets them end.
fn jobs(scope: Scope<'_>) -> Vec<&ServiceInfo> {
    let of = |kinds: &[&str]| -> Vec<&ServiceInfo> {
        let services = scope.services().iter();
        services.filter(|service| kinds.contains(&service.completes_as.as_str())).collect()
    };
    match (scope.service, of(&["job"])) {
        (None, jobs) if !jobs.is_empty() => jobs,
        (Some(_) | None, _) => of(&["job", "policy"]),
    }
}

/// Whether all replicas of the jobs have completed. Of a deployment, only its jobs count.
fn completed(scope: Scope<'_>) -> Verdict {
    let of_each = jobs(scope).into_iter().map(|job| {
        let scope = Scope { service: Some(job), ..scope };
        match scope.verdict() {
            Verdict::Converged | Verdict::Settling => {
                match scope.replicas(&job.name).all(|replica| replica.state == "completed") {
                    true => Verdict::Converged,
                    false => Verdict::InProgress,
                }
            }
            other @ (Verdict::InProgress | Verdict::Failed(_)) => other,
        }
    });
    worst(of_each)
}

/// Whether as many replicas as are desired serve or have completed. A rollout that was given up is healthy again once
/// what serves is complete, so only what does not come back by itself is a failure.
fn healthy(scope: Scope<'_>) -> Verdict {
    let is_up = |replica: &&ReplicaInfo| replica.in_routing || replica.state == "completed";
    let is_complete = scope.services().iter().all(|service| {
        let up = scope.replicas(&service.name).filter(is_up).count();
        up >= service.desired as usize
    });
    if is_complete {
        return Verdict::Converged;
    }
    match scope.verdict() {
        failed @ Verdict::Failed(Failure::Stuck | Failure::Exhausted) => failed,
        Verdict::Failed(_) | Verdict::InProgress | Verdict::Settling | Verdict::Converged => {
            Verdict::InProgress
        }
    }
}

/// The verdict on several. What is stuck may get room from what is still in progress.
#[must_use]
pub fn worst(verdicts: impl Iterator<Item = Verdict>) -> Verdict {
    let rank = |verdict: &Verdict| match verdict {
        Verdict::Converged => 0,
        Verdict::Settling => 1,
        Verdict::Failed(Failure::Stuck) => 2,
        Verdict::InProgress => 3,
        Verdict::Failed(_) => 4,
    };
    verdicts.max_by_key(rank).unwrap_or(Verdict::Converged)
}
