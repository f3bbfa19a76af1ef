//! How the instances of a slot ended: kept after the instances, their containers and their logs are
//! gone (R-HEAL-4).

use std::collections::BTreeMap;

use crate::id::{NodeId, Revision, StateIndex};
use crate::observed::{Exit, ReasonCode, ReplicaState};
use crate::time::Timestamp;

/// How many endings a slot keeps. Three strikes fit, with what was before them.
pub const ENDINGS_MAX: usize = 5;

/// How one instance of a slot ended, as its node last told it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// The instance.
    pub raft_index: StateIndex,
    /// The node that ran it.
    pub node: NodeId,
    /// The revision whose spec it ran.
    pub revision: Revision,
    /// When it was given up.
    pub at: Timestamp,
    /// What became of its slot.
    pub aftermath: Aftermath,
    /// The last state that was told of it.
    pub state: ReplicaState,
    /// Why, where there was a reason to give.
    pub code: Option<ReasonCode>,
    /// Facts that belong to the reason, in the words of whoever failed.
    pub details: BTreeMap<String, String>,
    /// How its process ended, if it did.
    pub exit: Option<Exit>,
}

/// What became of a slot whose instance ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Aftermath {
    /// Another instance took its place, because this one had failed.
    Restarted,
    /// One of another spec took its place.
    Rolled,
    /// One on another node took its place, because this one's was lost.
    NodeLost,
    /// One on another node took its place.
    Moved,
    /// Its predecessor serves on: the rollout was given up.
    TakenBack,
    /// Its successor serves.
    Succeeded,
    /// Nothing: people disabled it.
    Disabled,
}

impl Aftermath {
    /// Every one of them.
    pub const ALL: &[Self] = &[
        Self::Restarted,
        Self::Rolled,
        Self::NodeLost,
        Self::Moved,
        Self::TakenBack,
        Self::Succeeded,
        Self::Disabled,
    ];

    /// The word as users see it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Restarted => "restarted",
            Self::Rolled => "rolled",
            Self::NodeLost => "node_lost",
            Self::Moved => "moved",
            Self::TakenBack => "taken_back",
            Self::Succeeded => "succeeded",
            Self::Disabled => "disabled",
        }
    }
}
