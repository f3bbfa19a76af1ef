//! How nodes are chosen, and what follows when one is lost.

use std::collections::BTreeSet;

use crate::id::Hostname;
use crate::time::Millis;

/// How nodes are chosen for a service's replicas.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Placement {
    /// Evenly over the eligible nodes (R-PLACE-1).
    #[default]
    Spread,
    /// One node after another (R-PLACE-2).
    Pack,
    /// Only these hosts (R-PLACE-3).
    Hosts(BTreeSet<Hostname>),
    /// One replica on each eligible node (R-PLACE-4).
    Global,
}

impl Placement {
    /// The mode as users write it.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Spread => "spread",
            Self::Pack => "pack",
            Self::Hosts(_) => "hosts",
            Self::Global => "global",
        }
    }
}

/// What becomes of a replica whose node becomes unreachable (R-NODE-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OnNodeLoss {
    /// It is placed elsewhere after so long without a heartbeat, and never before the node counts as down. The
    /// lost one may run on meanwhile, and until its node is back.
    Replace {
        /// The silence.
        after: Millis,
    },
    /// It waits for its node, however long.
    Wait,
    /// The node stops it by itself, and only then it is placed elsewhere.
    StopSelf {
        /// How long its node is without a leader before it begins to stop it.
        after: Millis,
        /// How long the container may take to stop.
        grace: Millis,
    },
}

impl Default for OnNodeLoss {
    /// As soon as the node counts as down.
    fn default() -> Self {
        Self::Replace { after: Millis(0) }
    }
}

impl OnNodeLoss {
    /// What may lie between a node's last contact and the moment that it counts from, and between
    /// the end of a container and the moment that its end is due: an answer of a leader that has just
    /// lost its quorum (4 s on a `wan`), a look every half second, the engine's own time for a kill.
    pub const SLACK: Millis = Millis::from_secs(10);

    /// How much faster the leader's clock may go than the node's: it counts at most this many
    /// tenths where the node's counts ten. A clock that is slewed goes wrong by less.
    const LEADER_TENTHS: u64 = 11;

    /// The silence, by the leader's clock, after which a replacement may start; none where it never
    /// may.
    #[must_use]
    pub fn replaced_after(self) -> Option<Millis> {
        match self {
            Self::Replace { after } => Some(after),
            Self::Wait => None,
            Self::StopSelf { after, grace } => {
                let by_node = after.0.saturating_add(grace.0).saturating_add(Self::SLACK.0);
                Some(Millis(by_node.saturating_mul(Self::LEADER_TENTHS).div_ceil(10)))
            }
        }
    }

    /// The silence, by the node's clock, after which the node stops it.
    #[must_use]
    pub fn stops_after(self) -> Option<Millis> {
        match self {
            Self::StopSelf { after, .. } => Some(after),
            Self::Replace { .. } | Self::Wait => None,
        }
    }

    /// The policy as users write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Replace { .. } => "replace",
            Self::Wait => "wait",
            Self::StopSelf { .. } => "stop_self",
        }
    }
}
