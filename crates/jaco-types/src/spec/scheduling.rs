//! What narrows and weighs the choice of nodes.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use super::constraint::Constraint;
use crate::id::ServiceName;
use crate::unit::Resources;

/// What narrows and weighs the choice of nodes, beyond the placement. A change of it moves nobody
/// (R-CONS-4): it is asked when a replica gets a node; `beside` alone is asked for as long as there is
/// a replica.
///
/// An attribute is what every node has, as `node.hostname` or `node.kernel` (all of them are in
/// `jaco_scheduler::attribute`), or the key of a label, which may be written as `node.<key>`,
/// `meta.<key>` or `<key>`; with or without `${…}` around it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SchedulingPolicy {
    /// Labels that a node must all carry (R-SEL-1).
    pub selectors: BTreeSet<String>,
    /// What must hold of a node, all of it (R-CONS-7).
    pub constraints: Vec<Constraint>,
    /// What had better hold of a node, or not.
    pub affinities: Vec<Affinity>,
    /// What replicas are spread over; the deployment's first, then the service's (R-SPREAD-3).
    pub spread: Vec<SpreadCriterion>,
    /// What a node must have left; the node that has the least of it left is taken (R-CONS-3).
    pub minimum: Resources,
    /// The keys of constraints that the service or its deployment said something about, be it to ask
    /// for nothing: what the cluster says about them does not count (R-CONS-1).
    pub own_keys: BTreeSet<String>,
    /// Most replicas of the service on one node; none is as many as fit (R-CONS-6).
    pub max_per_node: Option<NonZeroU32>,
    /// Services of the deployment: a new replica goes on a node that has one of each of them.
    pub place_with: BTreeSet<ServiceName>,
    /// Services of the deployment that a replica cannot do without: it is on a node that has one of
    /// each of them, goes where they go, and starts anew when they do. With [`Placement::Global`] it
    /// is on every such node.
    pub shares_namespaces_with: BTreeSet<ServiceName>,
    /// How nodes that may take a replica are compared.
    pub scoring: Scoring,
}

/// How nodes that may take a replica are compared (R-SPREAD-6).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scoring {
    /// By JACO's own order of preference.
    #[default]
    Jaco,
    /// By Nomad's formulas.
    Nomad,
}

/// What had better hold of a node, or not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Affinity {
    /// What is looked at.
    pub constraint: Constraint,
    /// How much it counts, -100 to 100; below zero it had better not hold.
    pub weight: i8,
}

/// What replicas are spread over.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpreadCriterion {
    /// The attribute whose values share the replicas.
    pub attribute: String,
    /// Which of several criteria comes first, 0 to 100: the heaviest is met first, and the others
    /// inside each of its shares.
    pub weight: u8,
    /// The share of some values; the others share what remains. Empty: all share equally.
    pub targets: Vec<SpreadTarget>,
}

/// The share of one value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpreadTarget {
    /// The attribute's value.
    pub value: String,
    /// How much of all replicas, 0 to 100.
    pub percent: u8,
}
