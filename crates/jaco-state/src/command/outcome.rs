//! The result of an entry.

use jaco_types::{NodeId, Rejection, Revision};

/// What came of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was done.
    Done,
    /// The node is a member, under this id.
    NodeAdmitted {
        /// Its id.
        id: NodeId,
    },
    /// The desired revision of the deployment.
    Deployed {
        /// The revision.
        revision: Revision,
        /// Whether anything is different from before.
        change: SpecChange,
    },
    /// It was refused and changed nothing (ST-1).
    Rejected(Rejection),
}

/// Whether an apply changed the desired state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SpecChange {
    /// There was no such deployment.
    Created,
    /// Something is different.
    Updated,
    /// Nothing is different; the revision stays.
    Unchanged,
}
