//! The report of a pass: why replicas were placed where they are, and why others were not.

use std::collections::BTreeMap;

use jaco_types::{Hostname, NodeId, ReplicaId, ServiceKey};

use crate::eligibility::Ineligible;

/// The reasons of one pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The replicas that got a node in this pass.
    pub placed: Vec<Placed>,
    /// What is wanted and cannot be done now.
    pub unplaced: Vec<NotPlaced>,
}

/// A replica that got a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The replica.
    pub replica: ReplicaId,
    /// Its node.
    pub node: NodeId,
    /// What decided: the placement's name for a new replica, else why it moved.
    pub why: &'static str,
}

/// Replicas of one service that are wanted and have no node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotPlaced {
    /// The service.
    pub service: ServiceKey,
    /// How many replicas this is about.
    pub count: u32,
    /// The stable name of the cause.
    pub reason: &'static str,
    /// Facts that belong to it.
    pub details: BTreeMap<String, String>,
    /// Every node, by host name, with every rule that keeps the replicas off it.
    pub nodes: Vec<NodeVerdict>,
}

/// One node's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeVerdict {
    /// The node.
    pub node: NodeId,
    /// Its name.
    pub hostname: Hostname,
    /// All rules that failed, in the order of the checks.
    pub failed: Vec<Ineligible>,
}

impl Report {
    pub(crate) fn place(&mut self, replica: ReplicaId, node: NodeId, why: &'static str) {
        self.placed.push(Placed { replica, node, why });
    }
}
