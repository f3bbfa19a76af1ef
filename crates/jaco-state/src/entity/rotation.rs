//! The rotation of the cluster's authority: one phase after another, each closed by the reports of all members (ADR 0121).
//! Says which authorities are trusted, which one signs, and who holds the phase; must never leave a phase by itself.

use std::collections::BTreeMap;

use jaco_types::{Node, NodeId, StateIndex, Timestamp};

use crate::table::Table;

/// The SHA-256 of an authority's certificate, DER.
pub type AuthorityFingerprint = [u8; 32];

/// The last rotation of the authority, which may be over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorityRotation {
    /// The entry that began it. Reports name it, so that one for an earlier rotation counts for nothing.
    pub id: StateIndex,
    /// When it began.
    pub begun_at: Timestamp,
    /// How far it is.
    pub phase: RotationPhase,
    /// When the phase began.
    pub since: Timestamp,
    /// The authority that is replaced.
    pub old: RotatedAuthority,
    /// The one that replaces it.
    pub new: RotatedAuthority,
    /// The furthest report of each member; none of those that have reported nothing.
    pub reports: BTreeMap<NodeId, RotationStep>,
}

/// One of the two authorities of a rotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RotatedAuthority {
    /// Its certificate, PEM.
    pub certificate: String,
    /// The SHA-256 of the certificate.
    pub fingerprint: AuthorityFingerprint,
    /// Its private key, sealed; empty once it signs nothing any more.
    pub sealed_key: Vec<u8>,
}

/// The phases of a rotation, in their order. None is entered twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RotationPhase {
    /// Both are trusted, the old one signs.
    Trusting,
    /// Both are trusted, the new one signs.
    Renewing,
    /// Only the new one is left.
    Settled,
    /// It was abandoned while nothing depended on the new one: only the old one is left.
    Abandoned,
}

/// What a member has done for the rotation, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RotationStep {
    /// It trusts both authorities, for connections in both directions.
    Trusts,
    /// The certificate that it uses is signed by the new one.
    Renewed,
    /// None of its connections to other members was opened with a certificate of the old one.
    Reconnected,
    /// It trusts the one that is left, and no other.
    Dropped,
}

impl RotationPhase {
    /// Every phase.
    pub const ALL: &[Self] = &[Self::Trusting, Self::Renewing, Self::Settled, Self::Abandoned];

    /// The phase as users see it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Trusting => "trusting",
            Self::Renewing => "renewing",
            Self::Settled => "settled",
            Self::Abandoned => "abandoned",
        }
    }

    /// What each member has to report before the phase is left, or the rotation is complete.
    #[must_use]
    pub const fn goal(self) -> RotationStep {
        match self {
            Self::Trusting => RotationStep::Trusts,
            Self::Renewing => RotationStep::Reconnected,
            Self::Settled | Self::Abandoned => RotationStep::Dropped,
        }
    }

    /// Whether no other phase follows.
    #[must_use]
    pub const fn is_last(self) -> bool {
        match self {
            Self::Trusting | Self::Renewing => false,
            Self::Settled | Self::Abandoned => true,
        }
    }
}

impl RotationStep {
    /// Every step, in order.
    pub const ALL: &[Self] = &[Self::Trusts, Self::Renewed, Self::Reconnected, Self::Dropped];

    /// The step as users see it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Trusts => "trusts",
            Self::Renewed => "renewed",
            Self::Reconnected => "reconnected",
            Self::Dropped => "dropped",
        }
    }
}

impl AuthorityRotation {
    /// The authorities that are trusted, the one that signs first.
    #[must_use]
    pub fn trusted(&self) -> Vec<&RotatedAuthority> {
        match self.phase {
            RotationPhase::Trusting => vec![&self.old, &self.new],
            RotationPhase::Renewing => vec![&self.new, &self.old],
            RotationPhase::Settled => vec![&self.new],
            RotationPhase::Abandoned => vec![&self.old],
        }
    }

    /// The authority that signs.
    #[must_use]
    pub fn signs(&self) -> &RotatedAuthority {
        match self.phase {
            RotationPhase::Trusting | RotationPhase::Abandoned => &self.old,
            RotationPhase::Renewing | RotationPhase::Settled => &self.new,
        }
    }

    /// The authority that signs certificates of operators: the new one as soon as all `members` trust it. No phase waits for
    /// operators, so they renew theirs before the one in which members do; that one ends in moments, and the old authority
    /// with it.
    #[must_use]
    pub fn signs_for_operators(&self, members: &Table<NodeId, Node>) -> &RotatedAuthority {
        match self.phase {
            RotationPhase::Trusting if self.all_have(RotationStep::Trusts, members) => &self.new,
            RotationPhase::Trusting
            | RotationPhase::Renewing
            | RotationPhase::Settled
            | RotationPhase::Abandoned => self.signs(),
        }
    }

    /// Whether a certificate that an operator gets now ends with this rotation: it is of the authority that will be dropped.
    #[must_use]
    pub fn is_early_for_operators(&self, members: &Table<NodeId, Node>) -> bool {
        !self.phase.is_last() && self.signs_for_operators(members) != &self.new
    }

    /// The certificates of those that are trusted, PEM, the one that signs first.
    #[must_use]
    pub fn certificates(&self) -> String {
        self.trusted().iter().map(|authority| authority.certificate.as_str()).collect()
    }

    /// Whether all `members` have done this, or more.
    #[must_use]
    pub fn all_have(&self, step: RotationStep, members: &Table<NodeId, Node>) -> bool {
        members.values().all(|node| self.reports.get(&node.id) >= Some(&step))
    }

    /// The members for which everyone waits: of those that have not done what the phase asks for, the ones that are least far.
    /// The others may not be able to go on before these.
    #[must_use]
    pub fn holders<'n>(&self, members: &'n Table<NodeId, Node>) -> Vec<&'n Node> {
        let step = |node: &Node| self.reports.get(&node.id).copied();
        let least = members.values().map(step).min().flatten();
        if least >= Some(self.phase.goal()) {
            return Vec::new();
        }
        members.values().filter(|node| step(node) == least).collect()
    }
}
