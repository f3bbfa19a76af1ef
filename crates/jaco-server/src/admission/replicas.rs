//! How many replicas a cluster may have been asked for.

use jaco_state::{Deployment, Table};
use jaco_types::spec::{DeploymentSpec, Placement};
use jaco_types::{DeploymentName, ErrorCode, Rejection};

/// Most replicas that the desired revisions of a cluster have together: ten deployments of the largest size.
pub(crate) const CLUSTER_REPLICAS_MAX: u64 = 100_000;

/// What an apply does to the number of replicas of its deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Growth {
    /// As many or more, or the deployment is new.
    NotFewer,
    Fewer,
}

/// Checks the total with `spec` as the desired one of a deployment. What does not grow is always admitted, so that a
/// cluster with too many can be made smaller in steps.
///
/// # Errors
/// `too_large`.
pub(crate) fn check(
    name: &DeploymentName,
    spec: &DeploymentSpec,
    nodes: usize,
    deployments: &Table<DeploymentName, Deployment>,
) -> Result<Growth, Rejection> {
    let (mut others, mut before) = (0_u64, 0_u64);
    for deployment in deployments.values() {
        let count = replicas(deployment.spec(), nodes);
        let sum = if deployment.name == *name { &mut before } else { &mut others };
        *sum = sum.saturating_add(count);
    }
    let wanted = replicas(spec, nodes);
    if wanted <= before || others.saturating_add(wanted) <= CLUSTER_REPLICAS_MAX {
        return Ok(if wanted < before { Growth::Fewer } else { Growth::NotFewer });
    }
    let message = format!(
        "deployment {name} would have {wanted} replicas beside {others} of the others, and a cluster has at most \
         {CLUSTER_REPLICAS_MAX}: ask for fewer, or scale down or delete others first"
    );
    Err(Rejection::new(ErrorCode::TooLarge, message))
}

/// How many replicas a spec asks for; a global service has one on every node.
fn replicas(spec: &DeploymentSpec, nodes: usize) -> u64 {
    let counts = spec.services.values().map(|service| match service.placement {
        Placement::Global => u64::try_from(nodes).unwrap_or(u64::MAX),
        Placement::Spread | Placement::Pack | Placement::Hosts(_) => u64::from(service.replicas),
    });
    counts.fold(0, u64::saturating_add)
}
