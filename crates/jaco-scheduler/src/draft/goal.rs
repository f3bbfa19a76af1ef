//! What a service's replicas should become.

use jaco_types::Revision;
use jaco_types::spec::ServiceSpec;

/// What every replica of a service should be in the end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Goal<'a> {
    pub(crate) revision: Revision,
    pub(crate) spec: &'a ServiceSpec,
    pub(crate) roll: Roll,
}

/// Which way a service's replicas are being replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Roll {
    /// To the revision that users want.
    Forward,
    /// Back to the previous revision, after an aborted rollout.
    Back,
    /// Not at all: the rollout or its rollback is paused.
    Paused,
}

/// Whether a service's containers are meant to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServiceRole {
    /// They serve; one that ends is started again, unless its restart policy says otherwise.
    Server,
    /// They run to their end once, because the service says so or others wait for that (R-JOB-1).
    Job,
}
