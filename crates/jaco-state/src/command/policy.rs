//! Commands about what deployments may reach of the nodes.

use std::collections::BTreeSet;

use jaco_types::DeploymentName;
use jaco_types::spec::Reach;

use crate::policy::PolicyMode;

/// Sets what happens to a service that reaches for what is not granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicySet {
    /// The mode.
    pub mode: PolicyMode,
}

impl PolicySet {
    /// Creates the command.
    #[must_use]
    pub fn new(mode: PolicyMode) -> Self {
        Self { mode }
    }
}

/// Grants a deployment what it may reach; it need not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyAllow {
    /// The deployment.
    pub deployment: DeploymentName,
    /// What is granted besides what is already.
    pub reaches: BTreeSet<Reach>,
}

impl PolicyAllow {
    /// Creates the command.
    #[must_use]
    pub fn new(deployment: DeploymentName, reaches: BTreeSet<Reach>) -> Self {
        Self { deployment, reaches }
    }
}

/// Takes grants of a deployment back, exactly those that are named. What runs goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyRevoke {
    /// The deployment.
    pub deployment: DeploymentName,
    /// What is not granted any more.
    pub reaches: BTreeSet<Reach>,
}

impl PolicyRevoke {
    /// Creates the command.
    #[must_use]
    pub fn new(deployment: DeploymentName, reaches: BTreeSet<Reach>) -> Self {
        Self { deployment, reaches }
    }
}
