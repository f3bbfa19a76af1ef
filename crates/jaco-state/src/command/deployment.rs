//! Commands about deployments and their revisions.

use std::collections::{BTreeMap, BTreeSet};

use jaco_types::spec::{DeploymentSpec, Reach};
use jaco_types::{DeploymentName, Revision, ServiceName, TraceContext};

use crate::deployment::Pin;

/// Sets the desired spec of a deployment; creates the deployment if there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentApply {
    /// The deployment.
    pub name: DeploymentName,
    /// The desired spec.
    pub spec: DeploymentSpec,
    /// The revision that the spec was made from: the command is refused as stale if it is not the
    /// desired one any more.
    pub based_on: Option<Revision>,
    /// What services reach of their nodes, for the policy and the audit log; none where a member may not know it.
    pub reaches: BTreeMap<ServiceName, BTreeSet<Reach>>,
    /// Most replicas of all deployments together, where this adds to them; none where a member may not know it.
    pub replicas_max: Option<u64>,
    /// The trace of the request; none if it is not traced, or where a member may not know it.
    pub trace: Option<TraceContext>,
    /// What becomes of instances that run while their services get networks of the cluster; they stay as they are where a
    /// member may not know it.
    pub running: Running,
}

/// What becomes of instances that run while their services get networks of the cluster instead of their nodes'.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Running {
    /// They stay as they are.
    #[default]
    Stay,
    /// They get addresses in these networks too, and their containers are attached to them: until they are replaced, they
    /// and their successors reach each other.
    JoinNetworks,
}

impl DeploymentApply {
    /// Creates the command, with every option at its default.
    #[must_use]
    pub fn new(name: DeploymentName, spec: DeploymentSpec) -> Self {
        Self {
            name,
            spec,
            based_on: None,
            reaches: BTreeMap::new(),
            replicas_max: None,
            trace: None,
            running: Running::Stay,
        }
    }

    /// Sets [`Self::running`].
    #[must_use]
    pub fn running(mut self, running: Running) -> Self {
        self.running = running;
        self
    }

    /// Sets [`Self::based_on`].
    #[must_use]
    pub fn based_on(mut self, based_on: Option<Revision>) -> Self {
        self.based_on = based_on;
        self
    }

    /// Sets [`Self::reaches`].
    #[must_use]
    pub fn reaches(mut self, reaches: BTreeMap<ServiceName, BTreeSet<Reach>>) -> Self {
        self.reaches = reaches;
        self
    }

    /// Sets [`Self::trace`].
    #[must_use]
    pub fn trace(mut self, trace: Option<TraceContext>) -> Self {
        self.trace = trace;
        self
    }

    /// Sets [`Self::replicas_max`].
    #[must_use]
    pub fn replicas_max(mut self, max: Option<u64>) -> Self {
        self.replicas_max = max;
        self
    }
}

/// Makes the spec of an earlier revision the desired one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentRollback {
    /// The deployment.
    pub name: DeploymentName,
    /// The revision. Without one: the newest that was rolled out and differs from the desired one.
    pub to: Option<Revision>,
    /// What services of that revision reach of their nodes; none where a member may not know it.
    pub reaches: BTreeMap<ServiceName, BTreeSet<Reach>>,
    /// Most replicas of all deployments together, where this adds to them; none where a member may not know it.
    pub replicas_max: Option<u64>,
}

impl DeploymentRollback {
    /// Creates the command, with every option at its default.
    #[must_use]
    pub fn new(name: DeploymentName) -> Self {
        Self { name, to: None, reaches: BTreeMap::new(), replicas_max: None }
    }

    /// Sets [`Self::to`].
    #[must_use]
    pub fn to(mut self, to: Option<Revision>) -> Self {
        self.to = to;
        self
    }

    /// Sets [`Self::reaches`].
    #[must_use]
    pub fn reaches(mut self, reaches: BTreeMap<ServiceName, BTreeSet<Reach>>) -> Self {
        self.reaches = reaches;
        self
    }

    /// Sets [`Self::replicas_max`].
    #[must_use]
    pub fn replicas_max(mut self, max: Option<u64>) -> Self {
        self.replicas_max = max;
        self
    }
}

/// Sets whether a revision is kept however many follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevisionPin {
    /// The deployment.
    pub name: DeploymentName,
    /// The revision.
    pub revision: Revision,
    /// Whether it is kept.
    pub pin: Pin,
}

impl RevisionPin {
    /// Creates the command.
    #[must_use]
    pub fn new(name: DeploymentName, revision: Revision, pin: Pin) -> Self {
        Self { name, revision, pin }
    }
}

/// Deletes a deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentDelete {
    /// The deployment.
    pub name: DeploymentName,
}

impl DeploymentDelete {
    /// Creates the command.
    #[must_use]
    pub fn new(name: DeploymentName) -> Self {
        Self { name }
    }
}
