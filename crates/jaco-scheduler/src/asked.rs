//! What is asked of a node for a service: its own policy, and for each key that neither it nor its
//! deployment says anything about, what the cluster says (R-CONS-1).

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use jaco_types::Node;
use jaco_types::demand::{Demand, canonical_key};
use jaco_types::spec::{Constraint, SchedulingPolicy};
use jaco_types::unit::Resources;

use crate::attribute::{Check, missing_label};

/// What the cluster asks of nodes, by key.
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
        let falls_back = |(key, _): &(&String, &Demand)| !policy.own_keys.contains(*key);
        self.0.iter().filter(falls_back).map(|(_, demand)| demand)
    }

    /// All constraints that must hold, the service's own first.
    pub(crate) fn constraints<'d>(
        &'d self,
        policy: &'d SchedulingPolicy,
    ) -> impl Iterator<Item = &'d Constraint> {
        let of_cluster = self.for_policy(policy).filter_map(|demand| match demand {
            Demand::Attribute(constraint) => Some(constraint),
            Demand::Nothing
            | Demand::Cpu(_)
            | Demand::Memory(_)
            | Demand::MaxPerNode(_)
            | Demand::PlaceWith(_)
            | Demand::ScaleWith(_) => None,
        });
        policy.constraints.iter().chain(of_cluster)
    }

    /// What a node must have left.
    pub(crate) fn minimum(&self, policy: &SchedulingPolicy) -> Resources {
        let mut minimum = policy.minimum;
        for demand in self.for_policy(policy) {
            match demand {
                Demand::Cpu(cpu) => minimum.cpu = *cpu,
                Demand::Memory(memory) => minimum.memory = *memory,
                Demand::Nothing
                | Demand::Attribute(_)
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
            | Demand::Attribute(_)
            | Demand::PlaceWith(_)
            | Demand::ScaleWith(_) => None,
        });
        policy.max_per_node.or(of_cluster)
    }

    /// What a node must carry and satisfy, ready to be asked of many.
    pub(crate) fn gate<'d>(&'d self, policy: &'d SchedulingPolicy) -> Gate<'d> {
        Gate { policy, checks: self.constraints(policy).map(Check::new).collect() }
    }
}

/// The selectors and constraints of a service.
pub(crate) struct Gate<'d> {
    policy: &'d SchedulingPolicy,
    checks: Vec<Check<'d>>,
}

impl Gate<'_> {
    /// Whether the node carries every selector and satisfies every constraint.
    pub(crate) fn admits(&self, node: &Node) -> bool {
        missing_label(node, self.policy).is_none()
            && self.checks.iter().all(|check| check.holds(node))
    }
}
