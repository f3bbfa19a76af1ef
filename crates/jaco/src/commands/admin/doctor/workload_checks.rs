//! Checks of services and replicas.

use jaco_proto::v1::{DeploymentInfo, ReplicaInfo, ServiceInfo, StatusResponse};

use super::finding::Findings;
use crate::view::reason;

/// Checks all services and replicas.
pub(super) fn workload(status: &StatusResponse, found: &mut Findings) {
    for deployment in &status.deployments {
        for of_deployment in &deployment.services {
            service(deployment, of_deployment, found);
        }
    }
    for one in &status.replicas {
        replica(one, found);
    }
}

/// Checks that a service is placed and its rollout has not stopped.
fn service(deployment: &DeploymentInfo, service: &ServiceInfo, found: &mut Findings) {
    let name = format!("{}/{}", deployment.name, service.name);
    for unplaced in &service.unplaced {
        let message = reason::of_unplaced(unplaced);
        let help = format!("jaco explain {name} shows what would make a node eligible");
        found.failing("placement", &name, message, help);
    }
    let Some(rollout) = &service.rollout else { return };
    if ["aborted", "paused", "rollback_paused"].contains(&rollout.state.as_str()) {
        let why = match rollout.failure_reason.as_str() {
            "" => String::new(),
            reason => format!(": {reason}"),
        };
        let message = format!(
            "its rollout to revision {} is {}{why}",
            rollout.target_revision, rollout.state
        );
        let help = format!("jaco status {name}; apply again after the cause is fixed");
        found.warning("rollout", &name, message, help);
    }
}

/// Checks that a replica runs.
fn replica(replica: &ReplicaInfo, found: &mut Findings) {
    if !["failed", "degraded"].contains(&replica.state.as_str()) {
        return;
    }
    let message = match reason::of_replica(replica).as_str() {
        "" => replica.state.clone(),
        reason => format!("{}: {reason}", replica.state),
    };
    let help = format!("jaco get replica {} shows its last log lines", replica.id);
    found.failing("replica", &replica.id, message, help);
}
