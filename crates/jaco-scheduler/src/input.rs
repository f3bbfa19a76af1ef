//! What a pass is given: the replicated state, the live signals, the moment, the configuration.

use std::collections::BTreeMap;

use jaco_state::ClusterState;
use jaco_types::{
    Acknowledgement, ConsumerName, ImageNeed, ImageReadiness, Millis, NodeId, StateIndex, Timestamp,
};

/// All that a pass may look at.
#[derive(Debug, Clone, Copy)]
pub struct PlanInput<'a> {
    /// The replicated state.
    pub state: &'a ClusterState,
    /// What nodes and endpoint consumers reported to the leader lately; lost with it, and never replicated.
    pub signals: &'a Signals,
    /// The moment of the pass, by the leader's clock.
    pub now: Timestamp,
    /// The planner's settings.
    pub config: &'a PlannerConfig,
}

/// What nodes and endpoint consumers reported to the leader lately.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Signals {
    /// Since when this leader has been receiving heartbeats. Silence from before then means nothing.
    pub listening_since: Timestamp,
    /// The last heartbeat of each node.
    pub nodes: BTreeMap<NodeId, NodeSignal>,
    /// The last acknowledgement of each endpoint consumer.
    pub consumers: BTreeMap<ConsumerName, ConsumerSignal>,
    /// What each node that can pre-pull reports of the images that it was asked for.
    pub images: BTreeMap<NodeId, BTreeMap<ImageNeed, ImageReadiness>>,
}

/// The last acknowledgement of an endpoint consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerSignal {
    /// The attachment that it belongs to.
    pub session: StateIndex,
    /// When it came, by the leader's clock.
    pub heard_at: Timestamp,
    /// What it says of its traffic.
    pub acknowledgement: Acknowledgement,
}

/// The last heartbeat of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSignal {
    /// When it came, by the leader's clock.
    pub heard_at: Timestamp,
    /// Whether its container engine answers; if not, the error.
    pub engine: EngineSignal,
}

/// Whether a node's container engine answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineSignal {
    /// It does.
    Up,
    /// It does, and a disk of the node is nearly full: which one, and how full.
    DiskFull(String),
    /// It does not, for this reason.
    Down(String),
    /// The node's daemon has just started, and has not had an answer yet: what was known before holds.
    Unknown,
}

impl EngineSignal {
    /// Whether the two mean the same status of the node, whatever their reasons are.
    #[must_use]
    pub fn is_alike(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// The planner's settings. Defaults are the product's; tests shorten them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannerConfig {
    /// Silence after which a node counts as down (8 s: eight heartbeats, and longer than machines
    /// usually stand still; ADR 0092).
    pub node_down_after: Millis,
    /// How long an instance must run for its slot's failures to be forgotten (10 s): a container
    /// that starts and dies at once must not get a new budget each time.
    pub steady_after: Millis,
    /// Failures in a row after which the restart budget of a replica is exhausted (3, R-HEAL-2).
    pub failure_budget: u32,
    /// How long a terminating instance keeps running for consumers that do not acknowledge that it
    /// left the endpoints (10 s).
    pub routing_patience: Millis,
}

impl Default for PlannerConfig {
    fn default() -> Self {
        Self {
            node_down_after: Millis::from_secs(8),
            steady_after: Millis::from_secs(10),
            failure_budget: 3,
            routing_patience: Millis::from_secs(10),
        }
    }
}
