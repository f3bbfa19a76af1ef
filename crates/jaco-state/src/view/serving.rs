//! Which revision serves: what a change of what runs starts from, and where an aborted rollout goes back to.

use std::collections::BTreeSet;
use std::sync::Arc;

use jaco_types::spec::{DeploymentSpec, ServiceSpec};
use jaco_types::{
    DeploymentName, ErrorCode, Rejection, Revision, Rollout, RolloutState, ServiceKey, ServiceName,
};

use crate::entity::deployment::Deployment;
use crate::state::ClusterState;

/// Why no revision of a deployment is what serves: some of its services went back, and others could not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WentBackInPart {
    /// The revision that was given up.
    pub given_up: Revision,
    /// The newest one that a service went back to.
    pub to: Revision,
    /// The services that are not as that one has them: they were added or removed by the one that was given up, or are
    /// jobs that it has started.
    pub without: BTreeSet<ServiceName>,
}

impl WentBackInPart {
    /// Refuses to change what runs, with what leads on.
    #[must_use]
    pub fn refusal(&self, deployment: &DeploymentName) -> Rejection {
        let Self { given_up, to, without } = self;
        let without: Vec<&str> = without.iter().map(ServiceName::as_str).collect();
        let message = format!(
            "revision {given_up} of {deployment} was rolled back to {to}, without {}: run `jaco rollback {deployment}` for \
             all of an earlier revision, or apply repaired files, and change it then",
            without.join(", ")
        );
        Rejection::new(ErrorCode::InvalidRequest, message)
    }
}

/// The revision whose spec serves, or will once everything has converged: the desired one, or where that was given up, the
/// one that its services went back to. A paused rollout gives nothing up.
///
/// # Errors
/// If no revision has all services as they are now.
pub fn serving_revision(
    state: &ClusterState,
    deployment: &Deployment,
) -> Result<Revision, WentBackInPart> {
    let desired = deployment.spec();
    let went_back: Vec<(&ServiceName, Revision)> = desired
        .services
        .keys()
        .filter_map(|service| Some((service, went_back_to(state, deployment, service)?)))
        .collect();
    let Some(newest) = went_back.iter().map(|(_, revision)| *revision).max() else {
        return Ok(deployment.revision);
    };
    // What each service is, or becomes again.
    let mut serves = desired.clone();
    for (service, revision) in went_back {
        if let Some(spec) = spec_at(deployment, service, revision) {
            serves.services.insert(service.clone(), Arc::clone(spec));
        }
    }
    let differs_at = |revision: &Revision| {
        let record = deployment.revisions.get(revision);
        record.map(|record| differing(&record.spec, &serves)).unwrap_or_default()
    };
    let earlier = deployment.revisions.range(..deployment.revision).rev();
    let earlier = earlier.map(|(revision, _)| *revision);
    let mut serving = std::iter::once(newest).chain(earlier).filter(|at| differs_at(at).is_empty());
    serving.next().ok_or_else(|| WentBackInPart {
        given_up: deployment.revision,
        to: newest,
        without: differs_at(&newest),
    })
}

/// What a service is held to: its spec in the desired revision, or where that was given up, in the one that it went back to.
/// `None` if the desired revision has no such service.
#[must_use]
pub fn held_spec<'d>(
    state: &ClusterState,
    deployment: &'d Deployment,
    service: &ServiceName,
) -> Option<&'d Arc<ServiceSpec>> {
    let desired = spec_at(deployment, service, deployment.revision)?;
    let earlier = went_back_to(state, deployment, service);
    Some(earlier.and_then(|at| spec_at(deployment, service, at)).unwrap_or(desired))
}

/// The revision that a service went back to, or still goes, because the desired one was given up.
fn went_back_to(
    state: &ClusterState,
    deployment: &Deployment,
    service: &ServiceName,
) -> Option<Revision> {
    let key = ServiceKey { deployment: deployment.name.clone(), service: service.clone() };
    let rollout = state.scheduling.get(&key)?.rollout.as_ref()?;
    let goes_back = match rollout.state {
        RolloutState::Aborted | RolloutState::RollbackPaused => true,
        RolloutState::InProgress | RolloutState::Completed | RolloutState::Paused => false,
    };
    let goes_back = goes_back && rollout.target_revision == deployment.revision;
    goes_back.then(|| goes_back_to(deployment, service, Some(rollout))).flatten()
}

/// The revision that the rollout led away from; where replicas had none in common, the newest before the desired one that
/// is kept. Either asks for something else of this service.
#[must_use]
pub fn goes_back_to(
    deployment: &Deployment,
    service: &ServiceName,
    rollout: Option<&Rollout>,
) -> Option<Revision> {
    let unwanted = spec_at(deployment, service, deployment.revision);
    let is_other = |revision: &Revision| match (spec_at(deployment, service, *revision), unwanted) {
        (Some(spec), Some(unwanted)) => asks_differently(spec, unwanted),
        (Some(_), None) => true,
        (None, _) => false,
    };
    let led_away_from = rollout.map(|rollout| rollout.previous_revision);
    let kept = || deployment.revisions.range(..deployment.revision).map(|(revision, _)| *revision);
    led_away_from.filter(is_other).or_else(|| kept().rev().find(is_other))
}

/// Whether one spec asks for other containers than another, for another number of them, or for other places.
#[must_use]
pub fn asks_differently(one: &ServiceSpec, other: &ServiceSpec) -> bool {
    one.hash != other.hash
        || one.replicas != other.replicas
        || one.placement != other.placement
        || one.scheduling != other.scheduling
}

fn spec_at<'d>(
    deployment: &'d Deployment,
    service: &ServiceName,
    revision: Revision,
) -> Option<&'d Arc<ServiceSpec>> {
    deployment.revisions.get(&revision)?.spec.services.get(service)
}

/// The services that two specs do not ask the same of.
fn differing(one: &DeploymentSpec, other: &DeploymentSpec) -> BTreeSet<ServiceName> {
    let names = one.services.keys().chain(other.services.keys());
    let differs = |name: &&ServiceName| match (one.services.get(*name), other.services.get(*name)) {
        (Some(one), Some(other)) => asks_differently(one, other),
        (Some(_), None) | (None, Some(_)) => true,
        (None, None) => false,
    };
    names.filter(differs).cloned().collect()
}
