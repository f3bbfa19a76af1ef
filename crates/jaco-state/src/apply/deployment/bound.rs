//! How many replicas the deployments of a cluster may come to together.

use jaco_types::rollout::RolloutState;
use jaco_types::spec::{DeploymentSpec, Placement, ServiceSpec};
use jaco_types::{DeploymentName, ErrorCode, Rejection, Scheduling, ServiceKey};

use crate::deployment::Deployment;
use crate::state::ClusterState;
use crate::table::Table;

/// Most replicas that the deployments of a cluster come to together: ten of the largest size.
pub const CLUSTER_REPLICAS_MAX: u64 = 100_000;

/// What is asked of a cluster.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The deployments.
    pub deployments: &'a Table<DeploymentName, Deployment>,
    /// The rollouts of their services.
    pub scheduling: &'a Table<ServiceKey, Scheduling>,
    /// How many nodes there are.
    pub nodes: usize,
}

/// What a new spec does to the number of replicas of its deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Growth {
    /// As many or more, or the deployment is new.
    NotFewer,
    /// Fewer than there may be now.
    Fewer,
}

impl<'a> Asked<'a> {
    /// What is asked of this cluster.
    #[must_use]
    pub fn of(state: &'a ClusterState) -> Self {
        let ClusterState { deployments, scheduling, nodes, .. } = state;
        Self { deployments, scheduling, nodes: nodes.len() }
    }

    /// Checks the total with `spec` as the desired one of a deployment. A deployment counts with what a rollout that
    /// fails would bring back, so that no rollback exceeds the bound later. What does not grow is always admitted, so
    /// that a cluster with too many can be made smaller in steps.
    ///
    /// # Errors
    /// `too_large`.
    pub fn check(
        &self,
        name: &DeploymentName,
        spec: &DeploymentSpec,
        max: u64,
    ) -> Result<Growth, Rejection> {
        let (mut others, mut before) = (0_u64, 0_u64);
        for deployment in self.deployments.values() {
            let count = self.desired(deployment.spec());
            let sum = if deployment.name == *name { &mut before } else { &mut others };
            *sum = sum.saturating_add(count);
        }
        let mut brought_back = 0_u64;
        for (key, record) in self.scheduling.iter() {
            let count = self.brought_back(key, record);
            let sum = if key.deployment == *name { &mut before } else { &mut others };
            *sum = sum.saturating_add(count);
            if key.deployment != *name {
                brought_back = brought_back.saturating_add(count);
            }
        }
        let wanted = self.desired(spec);
        if wanted <= before || others.saturating_add(wanted) <= max {
            return Ok(if wanted < before { Growth::Fewer } else { Growth::NotFewer });
        }
        let of_rollouts = match brought_back {
            0 => String::new(),
            count => format!(" ({count} of them if rollouts that have not completed fail)"),
        };
        let message = format!(
            "deployment {name} would have {wanted} replicas beside {others} of the others{of_rollouts}, and a cluster \
             has at most {max}: ask for fewer, or scale down or delete others first"
        );
        Err(Rejection::new(ErrorCode::TooLarge, message))
    }

    fn desired(&self, spec: &DeploymentSpec) -> u64 {
        spec.services.values().map(|service| self.replicas(service)).fold(0, u64::saturating_add)
    }

    /// A global service has one on every node.
    fn replicas(&self, service: &ServiceSpec) -> u64 {
        match service.placement {
            Placement::Global => u64::try_from(self.nodes).unwrap_or(u64::MAX),
            Placement::Spread | Placement::Pack | Placement::Hosts(_) => {
                u64::from(service.replicas)
            }
        }
    }

    /// How many more replicas than desired a service has if its rollout fails, or if it has not begun.
    fn brought_back(&self, key: &ServiceKey, record: &Scheduling) -> u64 {
        let Some(deployment) = self.deployments.get(&key.deployment) else { return 0 };
        let unfinished =
            record.rollout.as_ref().filter(|rollout| rollout.state != RolloutState::Completed);
        let previous = unfinished.map(|rollout| rollout.previous_revision);
        let serving = Some(record.planned_revision).filter(|it| *it != deployment.revision);
        let counts = previous.into_iter().chain(serving).filter_map(|revision| {
            let record = deployment.revisions.get(&revision)?;
            Some(self.replicas(record.spec.services.get(&key.service)?))
        });
        let desired = deployment.spec().services.get(&key.service);
        let desired = desired.map_or(0, |service| self.replicas(service));
        counts.max().unwrap_or_default().saturating_sub(desired)
    }
}
