//! Deployments and their services.

use jaco_proto::v1::{
    AllocationInfo, DeploymentInfo, GetDeploymentResponse, HistoryResponse, RevisionInfo,
    RolloutInfo, ServedRevision, ServiceInfo, UnplacedInfo,
};
use serde_json::{Value, json};

use crate::fields::{non_empty, string_map, without_null};
use crate::time::rfc3339;
use crate::{allocation, job, pull};

/// A deployment as JSON.
#[must_use]
pub fn json(deployment: &DeploymentInfo) -> Value {
    without_null(json!({
        "name": deployment.name,
        "revision": deployment.revision,
        "status": deployment.status,
        "services": deployment.services.iter().map(service_json).collect::<Value>(),
        "updated_at": rfc3339(deployment.updated_at_ms),
        "updated_by": deployment.updated_by,
    }))
}

fn service_json(service: &ServiceInfo) -> Value {
    without_null(json!({
        "name": service.name,
        "image": service.image,
        "image_digest": non_empty(&service.image_digest),
        "placement": service.placement,
        "status": non_empty(&service.status),
        "completes_as": non_empty(&service.completes_as),
        "desired": service.desired,
        "running": service.running,
        "completed": (service.completed > 0).then_some(service.completed),
        "disabled": (service.disabled > 0).then_some(service.disabled),
        "updated": service.updated,
        "spec_hash": service.spec_hash,
        "serving": (!service.serving.is_empty())
            .then(|| service.serving.iter().map(serving_json).collect::<Value>()),
        "rollout": service.rollout.as_ref().map(rollout_json),
        "unplaced": service.unplaced.iter().map(unplaced_json).collect::<Value>(),
        "published": (!service.published.is_empty()).then_some(&service.published),
        "job": service.job.as_ref().map(job::summary_json),
    }))
}

fn serving_json(served: &ServedRevision) -> Value {
    without_null(json!({
        "revision": served.revision,
        "image": non_empty(&served.image),
        "image_digest": non_empty(&served.image_digest),
        "replicas": served.replicas,
    }))
}

fn rollout_json(rollout: &RolloutInfo) -> Value {
    without_null(json!({
        "target_revision": rollout.target_revision,
        "previous_revision": (rollout.previous_revision > 0).then_some(rollout.previous_revision),
        "total_steps": rollout.total_steps,
        "current_step": rollout.current_step,
        "state": rollout.state,
        "pre_pull": (!rollout.prepull.is_empty()).then(|| string_map(&rollout.prepull)),
        "pulls": (!rollout.pulls.is_empty()).then(|| pulls_json(rollout)),
        "rollback_progress": rollout.rollback_progress.as_ref().map(|back| json!({
            "total_steps": back.total_steps,
            "current_step": back.current_step,
        })),
        "failure_reason": non_empty(&rollout.failure_reason),
        "started_at": rfc3339(rollout.started_at_ms),
    }))
}

fn pulls_json(rollout: &RolloutInfo) -> Value {
    let pulls = rollout.pulls.iter().map(|(node, pull)| (node.clone(), pull::json(pull)));
    Value::Object(pulls.collect())
}

fn unplaced_json(unplaced: &UnplacedInfo) -> Value {
    json!({
        "count": unplaced.count,
        "reason": unplaced.reason,
        "details": string_map(&unplaced.details),
    })
}

/// A deployment as JSON, with the version of each of its allocations (R-SEL-5): those of other deployments are left out.
#[must_use]
pub fn with_allocations(deployment: &DeploymentInfo, allocations: &[AllocationInfo]) -> Value {
    let own = allocations.iter().filter(|one| one.deployment == deployment.name);
    let mut value = json(deployment);
    value["allocations"] = own.map(allocation::json).collect();
    value
}

/// The stored spec of a revision as JSON; `compose` is its compose model, which is JSON in itself.
#[must_use]
pub fn stored_json(stored: &GetDeploymentResponse, compose: &Value) -> Value {
    without_null(json!({
        "name": stored.name,
        "revision": stored.revision,
        "revisions": stored.revisions,
        "applied_at": rfc3339(stored.applied_at_ms),
        "applied_by": stored.applied_by,
        "compose": compose,
        "overlay_yaml": stored.overlay_yaml,
        "environment_toml": stored.environment_toml,
    }))
}

/// The kept revisions of a deployment as JSON, oldest first.
#[must_use]
pub fn history_json(history: &HistoryResponse) -> Value {
    let revisions = history.revisions.iter().map(|info| revision_json(info, history.revision));
    json!({ "deployment": history.deployment, "revisions": revisions.collect::<Value>() })
}

fn revision_json(info: &RevisionInfo, current: u64) -> Value {
    without_null(json!({
        "revision": info.revision,
        "current": info.revision == current,
        "applied_at": rfc3339(info.applied_at_ms),
        "applied_by": info.applied_by,
        "restores": (info.restores > 0).then_some(info.restores),
        "pinned": info.pinned,
        "failure": non_empty(&info.failure),
        "replicas": info.replicas,
        "images": string_map(&info.images),
        "digests": (!info.digests.is_empty()).then(|| string_map(&info.digests)),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-EDGE-2: ports that every node answers are shown where there are any.
    #[test]
    fn published_ports_are_shown() {
        let published = vec!["*:53→53/udp".to_owned()];
        let with = ServiceInfo { published, ..ServiceInfo::default() };
        assert_eq!(service_json(&with)["published"][0], "*:53→53/udp");
        assert!(service_json(&ServiceInfo::default()).get("published").is_none());
    }
}
