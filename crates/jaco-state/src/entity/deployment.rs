//! Deployments: the desired state of users, by revision.

use std::collections::BTreeMap;
use std::sync::Arc;

use jaco_types::spec::DeploymentSpec;
use jaco_types::{
    DeploymentName, Identity, ImageDigest, Revision, ServiceName, StateIndex, Timestamp,
    TraceContext,
};

/// A deployment, with its revisions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deployment {
    /// Its name.
    pub name: DeploymentName,
    /// The desired revision.
    pub revision: Revision,
    /// The revisions that can be rolled back to or that some replica still runs; always contains
    /// `revision`.
    pub revisions: BTreeMap<Revision, Arc<RevisionRecord>>,
    /// The last entry that changed the desired state.
    pub modified: StateIndex,
}

/// One revision, kept whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevisionRecord {
    /// The desired spec.
    pub spec: DeploymentSpec,
    /// When.
    pub applied_at: Timestamp,
    /// By whom.
    pub applied_by: Identity,
    /// The revision whose spec this is, if it was a rollback.
    pub restores: Option<Revision>,
    /// Whether it is kept however many follow.
    pub pin: Pin,
    /// Why its rollout failed; empty if it did not.
    pub failure: String,
    /// What the image of a service was when it was first looked for under this revision, or under an
    /// earlier one that this one goes on from: every replica of the revision runs exactly that
    /// (R-ROLL-5). A service that is not here runs what its image's name leads each node to.
    pub digests: BTreeMap<ServiceName, ImageDigest>,
    /// The trace of the request that asked for it, and the span that what it causes belongs to; none if it is not traced.
    pub trace: Option<TraceContext>,
}

/// Whether a revision is kept however many follow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pin {
    /// It is evicted when it is old.
    #[default]
    No,
    /// It stays.
    Yes,
}

impl Pin {
    /// The answer as the audit log has it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::Yes => "yes",
        }
    }
}

impl Deployment {
    /// The spec of the desired revision.
    ///
    /// # Panics
    /// Never: `revisions` always contains `revision` (invariant ST-5).
    #[must_use]
    pub fn spec(&self) -> &DeploymentSpec {
        &self.revisions.get(&self.revision).expect("the desired revision is kept (ST-5)").spec
    }
}
