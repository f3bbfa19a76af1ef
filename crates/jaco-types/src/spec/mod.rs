//! What a user wants: the spec of a deployment, after compose and overlay were resolved.
//!
//! Only what a decision depends on has a field of its own. Everything that just reaches the
//! container stays in the canonical text, so that a new compose key costs no new format.

mod constraint;
mod cron;
mod dependency;
mod deployment;
mod grant;
mod network;
mod placement;
mod privilege;
mod reach;
mod schedule;
mod scheduling;
mod service;
mod update;

pub use constraint::{Constraint, Operator};
pub use cron::Cron;
pub use dependency::{Dependency, DependencyCondition, DependencyRequirement};
pub use deployment::DeploymentSpec;
pub use grant::InvalidGrant;
pub use network::{Attachment, NetworkRef, NetworkSpec};
pub use placement::{OnNodeLoss, Placement};
pub use privilege::Privilege;
pub use reach::{Reach, ReachKind};
pub use schedule::{Concurrency, HistoryLimit, Schedule, ZoneName};
pub use scheduling::{Affinity, SchedulingPolicy, Scoring, SpreadCriterion, SpreadTarget};
pub use service::{
    Healthcheck, HostPort, MAX_REPLICAS, Protocol, PullPolicy, RestartPolicy, ServiceMode,
    ServiceSpec, Storage,
};
pub use update::{FailureAction, RollbackFailureAction, RollbackPolicy, UpdateOrder, UpdatePolicy};
