//! Commands about the rotation of the cluster's authority.

use jaco_types::{NodeId, StateIndex};

use crate::rotation::{AuthorityFingerprint, RotatedAuthority, RotationStep};

/// Begins to replace the authority: from now on both are trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorityRotate {
    /// The fingerprint of the authority that is replaced, as the leader knew it.
    pub replaces: AuthorityFingerprint,
    /// The new one, with its sealed key.
    pub new: RotatedAuthority,
}

impl AuthorityRotate {
    /// Creates the command.
    #[must_use]
    pub fn new(replaces: AuthorityFingerprint, new: RotatedAuthority) -> Self {
        Self { replaces, new }
    }
}

/// A member reports what it has done for the rotation. Only that member may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorityReport {
    /// The rotation, by the entry that began it.
    pub rotation: StateIndex,
    /// The member.
    pub node: NodeId,
    /// What it has done.
    pub step: RotationStep,
}

impl AuthorityReport {
    /// Creates the command.
    #[must_use]
    pub fn new(rotation: StateIndex, node: NodeId, step: RotationStep) -> Self {
        Self { rotation, node, step }
    }
}

/// Leaves the phase *trusting*: from now on the new authority signs. An operator's decision, as only people know whether
/// everyone outside trusts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorityContinue {
    /// The rotation, by the entry that began it.
    pub rotation: StateIndex,
    /// What happens to join tokens that name the old authority.
    pub join_tokens: OpenJoinTokens,
}

impl AuthorityContinue {
    /// Creates the command; it is refused while there are join tokens that can be used.
    #[must_use]
    pub fn new(rotation: StateIndex) -> Self {
        Self { rotation, join_tokens: OpenJoinTokens::Wait }
    }

    /// Sets [`Self::join_tokens`].
    #[must_use]
    pub fn join_tokens(mut self, join_tokens: OpenJoinTokens) -> Self {
        self.join_tokens = join_tokens;
        self
    }
}

/// What happens to join tokens that can be used and name an authority that signs no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OpenJoinTokens {
    /// The command is refused as long as there are some.
    Wait,
    /// They are revoked.
    Revoke,
}

/// Leaves the phase *renewing*: the old authority is not trusted any more. The leader's, once all have reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthoritySettle {
    /// The rotation, by the entry that began it.
    pub rotation: StateIndex,
}

impl AuthoritySettle {
    /// Creates the command.
    #[must_use]
    pub fn new(rotation: StateIndex) -> Self {
        Self { rotation }
    }
}

/// Goes back to the old authority, where nothing depends on the new one yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorityAbandon {
    /// The rotation, by the entry that began it.
    pub rotation: StateIndex,
}

impl AuthorityAbandon {
    /// Creates the command.
    #[must_use]
    pub fn new(rotation: StateIndex) -> Self {
        Self { rotation }
    }
}
