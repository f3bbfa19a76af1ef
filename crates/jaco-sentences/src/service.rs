//! What is to be said of a service.

use jaco_proto::v1::{DeploymentInfo, ServiceInfo, StatusResponse};

use crate::quantity::natural_order;
use crate::{job, progress, pull, reason};

/// How far the nodes are that pull the image before the first step of a rollout.
fn pulls(service: &ServiceInfo, now_ms: i64) -> Vec<String> {
    let mut pulls: Vec<_> = service.rollout.iter().flat_map(|rollout| &rollout.pulls).collect();
    pulls.sort_by(|(a, _), (b, _)| natural_order(a, b));
    let texts = pulls.into_iter().map(|(node, pull)| (node, pull::text(pull, now_ms)));
    let told = texts.filter(|(_, text)| !text.is_empty());
    told.map(|(node, text)| format!("{node}: {text}")).collect()
}

/// Its rollout, its pulls, why replicas are not placed, and its runs, if it is a job.
#[must_use]
pub fn notes(
    status: &StatusResponse,
    deployment: &DeploymentInfo,
    service: &ServiceInfo,
    now_ms: i64,
) -> String {
    let mut notes: Vec<String> =
        progress::rollout(status, deployment, service).into_iter().collect();
    notes.extend(pulls(service, now_ms));
    notes.extend(service.unplaced.iter().map(reason::of_unplaced));
    notes.extend(service.job.as_ref().map(|job| job::note(job, now_ms)));
    notes.join("; ")
}
