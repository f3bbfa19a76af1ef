//! What a pass is given: the replicated state, the live signals, the moment, the configuration.

use std::collections::BTreeMap;

use jaco_state::ClusterState;
use jaco_types::{Millis, NodeId, Timestamp};

/// All that a pass may look at.
#[derive(Debug, Clone, Copy)]
pub struct PlanInput<'a> {
    /// The replicated state.
    pub state: &'a ClusterState,
    /// What the nodes told the leader lately; lost with it, and never replicated.
    pub signals: &'a Signals,
    /// The moment of the pass, by the leader's clock.
    pub now: Timestamp,
    /// The planner's settings.
    pub config: &'a PlannerConfig,
}

/// What the nodes told the leader lately.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Signals {
    /// Since when this leader has been listening. Silence from before then means nothing.
    pub listening_since: Timestamp,
    /// The last word of each node.
    pub nodes: BTreeMap<NodeId, NodeSignal>,
}

/// The last word of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSignal {
    /// When it came, by the leader's clock.
    pub heard_at: Timestamp,
    /// Whether its container engine answers; if not, what it said.
    pub engine: EngineSignal,
}

/// Whether a node's container engine answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineSignal {
    /// It does.
    Up,
    /// It does not, for this reason.
    Down(String),
}

/// The planner's settings. Defaults are the product's; tests shorten them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannerConfig {
    /// Silence after which a node counts as down (15 s, three of Swarm's heartbeats).
    pub node_down_after: Millis,
    /// How long an instance must run for its slot's failures to be forgotten (10 s): a container
    /// that starts and dies at once must not get a new budget each time.
    pub steady_after: Millis,
    /// Failures in a row after which a replica is left alone (3, R-HEAL-2).
    pub failure_budget: u32,
}

impl Default for PlannerConfig {
    fn default() -> Self {
        Self {
            node_down_after: Millis::from_secs(15),
            steady_after: Millis::from_secs(10),
            failure_budget: 3,
        }
    }
}
