//! Commands of the planner and the rebalancer, reports of instances, and endpoint consumers.

use std::collections::BTreeMap;

use jaco_types::{
    ConsumerName, InstanceId, InstanceObserved, Millis, NodeId, ReplicaId, StateIndex,
};

use super::change::{Change, NewInstance};

/// Changes of the planner, all or none (ST-2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The index of the state that they were planned on.
    pub based_on: StateIndex,
    /// The changes, in order.
    pub changes: Vec<Change>,
}

impl Batch {
    /// Creates the command.
    #[must_use]
    pub fn new(based_on: StateIndex, changes: Vec<Change>) -> Self {
        Self { based_on, changes }
    }
}

/// Moves replicas off a hot node, and records why others were not moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rebalance {
    /// The index of the state that it was decided on.
    pub based_on: StateIndex,
    /// The moves, all or none.
    pub moves: Vec<RebalanceMove>,
    /// Facts about each replica that was not moved, the reason among them.
    pub kept: Vec<BTreeMap<String, String>>,
}

impl Rebalance {
    /// Creates the command, with every option at its default.
    #[must_use]
    pub fn new(based_on: StateIndex, moves: Vec<RebalanceMove>) -> Self {
        Self { based_on, moves, kept: Vec::new() }
    }

    /// Sets [`Self::kept`].
    #[must_use]
    pub fn kept(mut self, kept: Vec<BTreeMap<String, String>>) -> Self {
        self.kept = kept;
        self
    }
}

/// Reverts moves off hot nodes whose new instances did not become ready in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RebalanceRevert {
    /// The index of the state that it was decided on.
    pub based_on: StateIndex,
    /// The moves to revert, all or none.
    pub reverts: Vec<RevertedMove>,
}

impl RebalanceRevert {
    /// Creates the command.
    #[must_use]
    pub fn new(based_on: StateIndex, reverts: Vec<RevertedMove>) -> Self {
        Self { based_on, reverts }
    }
}

/// A replica that moves off a hot node: its new instance starts first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RebalanceMove {
    /// The slot.
    pub id: ReplicaId,
    /// The new instance.
    pub instance: NewInstance,
    /// The reasons, for the audit log.
    pub facts: BTreeMap<String, String>,
}

/// A move that is reverted: the replica stays where it serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevertedMove {
    /// The slot.
    pub id: ReplicaId,
    /// The reasons, for the audit log.
    pub facts: BTreeMap<String, String>,
}

/// A node reports the observed state of its instances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observe {
    /// The node.
    pub node: NodeId,
    /// Instances whose state changed.
    pub observed: Vec<InstanceObserved>,
    /// Instances of which the node has nothing any more.
    pub gone: Vec<InstanceId>,
    /// Instances whose running containers are attached to all their networks now.
    pub joined: Vec<InstanceId>,
}

impl Observe {
    /// Creates the command, with every option at its default.
    #[must_use]
    pub fn new(node: NodeId) -> Self {
        Self { node, observed: Vec::new(), gone: Vec::new(), joined: Vec::new() }
    }

    /// Sets [`Self::observed`].
    #[must_use]
    pub fn observed(mut self, observed: Vec<InstanceObserved>) -> Self {
        self.observed = observed;
        self
    }

    /// Sets [`Self::gone`].
    #[must_use]
    pub fn gone(mut self, gone: Vec<InstanceId>) -> Self {
        self.gone = gone;
        self
    }

    /// Sets [`Self::joined`].
    #[must_use]
    pub fn joined(mut self, joined: Vec<InstanceId>) -> Self {
        self.joined = joined;
        self
    }
}

/// Attaches a consumer of the endpoints. Replicas are not stopped before it acknowledges that they are
/// out of the endpoints, or its lease expires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerAttach {
    /// Its name; an attached consumer of the same name is replaced.
    pub name: ConsumerName,
    /// The node that it is connected to.
    pub node: NodeId,
    /// How long it may go without a heartbeat before it is detached.
    pub lease: Millis,
}

impl ConsumerAttach {
    /// Creates the command.
    #[must_use]
    pub fn new(name: ConsumerName, node: NodeId, lease: Millis) -> Self {
        Self { name, node, lease }
    }
}

/// Detaches a consumer of the endpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerDetach {
    /// Its name.
    pub name: ConsumerName,
    /// The attachment that ends; a newer one of the same name stays.
    pub session: StateIndex,
}

impl ConsumerDetach {
    /// Creates the command.
    #[must_use]
    pub fn new(name: ConsumerName, session: StateIndex) -> Self {
        Self { name, session }
    }
}
