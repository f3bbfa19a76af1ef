//! What a service waits for before it starts.

use crate::id::ServiceName;

/// A service that must reach a condition before the replicas of its dependent start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    /// The service that is waited for, in the same deployment.
    pub service: ServiceName,
    /// The condition that it must reach.
    pub condition: DependencyCondition,
    /// Whether a service that is not in the deployment is waited for.
    pub required: DependencyRequirement,
}

/// The state that a dependency must have reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DependencyCondition {
    /// At least one replica has started: compose's `service_started`.
    Started,
    /// At least one replica is running and healthy: `service_healthy`.
    Healthy,
    /// Every replica exited with code 0: `service_completed_successfully`.
    CompletedSuccessfully,
}

/// What a dependency on a service that is not in the deployment means: compose's `required`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DependencyRequirement {
    /// The dependent waits for the service.
    Required,
    /// The dependent starts without the service.
    Optional,
}
