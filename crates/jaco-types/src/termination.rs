//! How the instances of a slot ended: kept after the instances, their containers and their logs are
//! gone (R-HEAL-4).

use std::collections::BTreeMap;

use crate::id::{NodeId, Revision, StateIndex};
use crate::observed::{Exit, ReasonCode, ReplicaState};
use crate::time::Timestamp;

/// How many terminations a slot keeps: the three that exhaust a restart budget, and two before them.
pub const TERMINATIONS_MAX: usize = 5;

/// How one instance of a slot ended, as its node last reported it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Termination {
    /// The instance.
    pub raft_index: StateIndex,
    /// The node that ran it.
    pub node: NodeId,
    /// The revision whose spec it ran.
    pub revision: Revision,
    /// When its slot dropped it.
    pub at: Timestamp,
    /// The outcome for its slot.
    pub outcome: TerminationOutcome,
    /// Its last reported state.
    pub state: ReplicaState,
    /// Why, where there was a reason to give.
    pub code: Option<ReasonCode>,
    /// Facts that belong to the reason, as the failing component reported them.
    pub details: BTreeMap<String, String>,
    /// How its process ended, if it did.
    pub exit: Option<Exit>,
}

/// What followed an instance that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TerminationOutcome {
    /// Another instance took its place, because this one had failed.
    Restarted,
    /// One of another spec took its place.
    Rolled,
    /// One on another node took its place, because this one's was lost.
    NodeLost,
    /// One on another node took its place.
    Moved,
    /// Its predecessor still serves: the rollout was aborted.
    Reverted,
    /// Its successor serves.
    Succeeded,
    /// None: the slot was disabled.
    Disabled,
}

impl TerminationOutcome {
    /// Every one of them.
    pub const ALL: &[Self] = &[
        Self::Restarted,
        Self::Rolled,
        Self::NodeLost,
        Self::Moved,
        Self::Reverted,
        Self::Succeeded,
        Self::Disabled,
    ];

    /// The outcome as users see it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Restarted => "restarted",
            Self::Rolled => "rolled",
            Self::NodeLost => "node_lost",
            Self::Moved => "moved",
            Self::Reverted => "reverted",
            Self::Succeeded => "succeeded",
            Self::Disabled => "disabled",
        }
    }
}
