//! What is demanded of a node for a service: its own policy, and for each key that neither it nor its
//! deployment sets, the default of the cluster (R-CONS-1).

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use jaco_types::Node;
use jaco_types::demand::{Demand, canonical_key};
use jaco_types::spec::{Constraint, SchedulingPolicy};
use jaco_types::unit::Resources;

use super::check::{Check, missing_label};
use super::greatest::Greatest;

/// The default placement constraints of the cluster, by key.
#[derive(Debug, Default)]
pub(crate) struct ClusterDemands(BTreeMap<String, Demand>);

impl ClusterDemands {
    pub(crate) fn read(pairs: &BTreeMap<String, String>) -> Self {
        let demand = |(key, value): (&String, &String)| {
            // The state refuses pairs that are not understood.
            let demand = Demand::parse(key, value).ok()?;
            Some((canonical_key(key).to_owned(), demand))
        };
        Self(pairs.iter().filter_map(demand).collect())
    }

    fn for_policy<'d>(&'d self, policy: &'d SchedulingPolicy) -> impl Iterator<Item = &'d Demand> {
        let is_own = |key: &str| policy.own_keys.iter().any(|own| canonical_key(own) == key);
        self.0.iter().filter(move |(key, _)| !is_own(key)).map(|(_, demand)| demand)
    }

    /// All constraints that must hold, the service's own first.
    fn constraints<'d>(
        &'d self,
        policy: &'d SchedulingPolicy,
    ) -> impl Iterator<Item = &'d Constraint> {
        let of_cluster = self.for_policy(policy).filter_map(|demand| match demand {
            Demand::Rules(rules) => Some(rules),
            Demand::Nothing
            | Demand::Cpu(_)
            | Demand::Memory(_)
            | Demand::MaxPerNode(_)
            | Demand::PlaceWith(_)
            | Demand::ScaleWith(_) => None,
        });
        policy.constraints.iter().chain(of_cluster.flatten())
    }

    /// What a node must have left.
    pub(crate) fn minimum(&self, policy: &SchedulingPolicy) -> Resources {
        let mut minimum = policy.minimum;
        for demand in self.for_policy(policy) {
            match demand {
                Demand::Cpu(cpu) => minimum.cpu = *cpu,
                Demand::Memory(memory) => minimum.memory = *memory,
                Demand::Nothing
                | Demand::Rules(_)
                | Demand::MaxPerNode(_)
                | Demand::PlaceWith(_)
                | Demand::ScaleWith(_) => {}
            }
        }
        minimum
    }

    /// Most replicas of one service on one node.
    pub(crate) fn max_per_node(&self, policy: &SchedulingPolicy) -> Option<NonZeroU32> {
        let of_cluster = self.for_policy(policy).find_map(|demand| match demand {
            Demand::MaxPerNode(max) => Some(*max),
            Demand::Nothing
            | Demand::Cpu(_)
            | Demand::Memory(_)
            | Demand::Rules(_)
            | Demand::PlaceWith(_)
            | Demand::ScaleWith(_) => None,
        });
        policy.max_per_node.or(of_cluster)
    }

    /// What a node must carry and satisfy, ready to be asked of many. `greatest` gives the greatest
    /// value of an attribute that any node has.
    pub(crate) fn gate<'d>(
        &'d self,
        policy: &'d SchedulingPolicy,
        greatest: impl Fn(&'static str) -> Option<u64>,
    ) -> Gate<'d> {
        let checks = self.constraints(policy).map(|constraint| Check::among(constraint, &greatest));
        Gate { policy, checks: checks.collect() }
    }
}

/// The selectors and constraints of a service.
pub(crate) struct Gate<'d> {
    policy: &'d SchedulingPolicy,
    checks: Vec<Check<'d>>,
}

impl Gate<'_> {
    /// Whether every node passes.
    pub(crate) fn is_open(&self) -> bool {
        self.policy.selectors.is_empty() && self.checks.is_empty()
    }

    /// Whether the node carries every selector and satisfies every constraint.
    pub(crate) fn admits(&self, node: &Node) -> bool {
        missing_label(node, self.policy).is_none()
            && self.checks.iter().all(|check| check.holds(node))
    }

    /// The constraints that the node does not satisfy, the service's own first.
    pub(crate) fn failing(&self, node: &Node) -> impl Iterator<Item = &Constraint> {
        self.checks.iter().filter(|check| !check.holds(node)).map(|check| check.constraint)
    }
}

/// How many of the nodes carry every selector of a policy and satisfy every constraint of its own,
/// whatever state they are in.
#[must_use]
pub fn count_admitted(nodes: &[&Node], policy: &SchedulingPolicy) -> usize {
    let (demands, known) = (ClusterDemands::default(), Greatest::default());
    let gate = demands.gate(policy, |attribute| known.of(attribute, nodes.iter().copied()));
    nodes.iter().filter(|node| gate.admits(node)).count()
}
