//! The rotation of the key-encryption key: one phase after another, each closed by the reports of all members (ADR 0127).
//! Says which key seals, which ones open, and who holds the phase; must never hold a key, nor leave a phase by itself.

use std::collections::BTreeMap;

use jaco_types::{KekId, Node, NodeId, StateIndex, Timestamp};

use super::sealed_key::SealedKey;
use crate::table::Table;

/// What the state knows of the keys that seal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sealing {
    /// The key that names secrets, sealed. Absent before the first rotation: it follows from the key-encryption key then.
    pub naming_key: Option<SealedKey>,
    /// The last rotation; absent if there was none.
    pub rotation: Option<KekRotation>,
}

/// The last rotation of the key-encryption key, which may be over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KekRotation {
    /// The entry that began it. Reports name it, so that one for an earlier rotation counts for nothing.
    pub id: StateIndex,
    /// When it began.
    pub begun_at: Timestamp,
    /// How far it is.
    pub phase: KekPhase,
    /// The entry that began the phase.
    pub entered: StateIndex,
    /// When the phase began.
    pub since: Timestamp,
    /// The key that is replaced.
    pub old: KekId,
    /// The one that replaces it.
    pub new: KekId,
    /// The furthest report of each member; none of those that have reported nothing.
    pub reports: BTreeMap<NodeId, KekStep>,
}

/// The phases of a rotation, in their order. None is entered twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KekPhase {
    /// Members get the new key; the old one seals.
    HandingOut,
    /// The new one seals, and what the old one sealed is sealed anew.
    Resealing,
    /// Nothing needs the old one any more.
    Settled,
    /// It was abandoned before anything was sealed with the new one.
    Abandoned,
}

/// What a member has done for the rotation, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KekStep {
    /// It has both keys, durable on its disk.
    Holds,
    /// It has the one that is left, and no other, and nothing that needs the other.
    Dropped,
}

impl KekPhase {
    /// Every phase.
    pub const ALL: &[Self] = &[Self::HandingOut, Self::Resealing, Self::Settled, Self::Abandoned];

    /// The phase as users see it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::HandingOut => "handing_out",
            Self::Resealing => "resealing",
            Self::Settled => "settled",
            Self::Abandoned => "abandoned",
        }
    }

    /// What each member has to report before the phase is left, or the rotation is complete.
    #[must_use]
    pub const fn goal(self) -> KekStep {
        match self {
            Self::HandingOut | Self::Resealing => KekStep::Holds,
            Self::Settled | Self::Abandoned => KekStep::Dropped,
        }
    }

    /// Whether no other phase follows.
    #[must_use]
    pub const fn is_last(self) -> bool {
        match self {
            Self::HandingOut | Self::Resealing => false,
            Self::Settled | Self::Abandoned => true,
        }
    }
}

impl KekStep {
    /// Every step, in order.
    pub const ALL: &[Self] = &[Self::Holds, Self::Dropped];

    /// The step as users see it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Dropped => "dropped",
        }
    }
}

impl KekRotation {
    /// The key that seals.
    #[must_use]
    pub fn seals(&self) -> KekId {
        match self.phase {
            KekPhase::HandingOut | KekPhase::Abandoned => self.old,
            KekPhase::Resealing | KekPhase::Settled => self.new,
        }
    }

    /// The keys of which there may be envelopes in the state.
    #[must_use]
    pub fn opens(&self) -> Vec<KekId> {
        match self.phase {
            KekPhase::HandingOut | KekPhase::Abandoned => vec![self.old],
            KekPhase::Resealing => vec![self.old, self.new],
            KekPhase::Settled => vec![self.new],
        }
    }

    /// Whether all `members` have done this, or more.
    #[must_use]
    pub fn all_have(&self, step: KekStep, members: &Table<NodeId, Node>) -> bool {
        members.values().all(|node| self.reports.get(&node.id) >= Some(&step))
    }

    /// Whether no phase follows, and each of `members` has dropped the key that is not needed any more.
    #[must_use]
    pub fn is_complete(&self, members: &Table<NodeId, Node>) -> bool {
        self.phase.is_last() && self.all_have(KekStep::Dropped, members)
    }

    /// The members for which everyone waits: those that have not done what the phase asks for.
    #[must_use]
    pub fn holders<'n>(&self, members: &'n Table<NodeId, Node>) -> Vec<&'n Node> {
        let goal = self.phase.goal();
        members.values().filter(|node| self.reports.get(&node.id) < Some(&goal)).collect()
    }
}
