//! Which of several nodes suits a replica best: the one order in which all choices compare nodes.
//!
//! Who may take a replica at all is asked before (`eligibility`); this orders those who may. A replica
//! that gets a node gets the least. Of too many, the one goes that leaves the greatest, each place seen
//! as it is without it. A move goes to the least, and leaves nothing that stands above what it is for
//! worse than it was. `docs/placement.md` has the same table for users.

use std::cmp::Reverse;

use jaco_types::spec::{Placement, ServiceSpec};
use jaco_types::unit::{Bytes, MilliCores, Resources};

use super::fixed::Fixed;
use crate::nodes::{NodeRow, NodeTable};

/// How well a node suits one more replica of a service. Smaller is better; the order of the fields is
/// the policy, and each counts only where all above it are equal. A field that has nothing to say, for
/// the service or for who compares, is the same for all nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Preference {
    /// What a move is for: how hot the node is, where hot nodes are rebalanced; the potential that is left,
    /// where operators ask for a rebalance. Nothing where no replica moves.
    pub(crate) purpose: u64,
    /// By how many replicas the node's domain is below its share of the spread criteria.
    pub(crate) below_share: Reverse<i64>,
    /// The place of that domain among all.
    pub(crate) domain: usize,
    /// The score by Nomad's formulas; with `scoring: nomad` it takes the place of all but the last.
    pub(crate) score: Reverse<Fixed>,
    /// The weights of the affinities that hold.
    pub(crate) affinity: Reverse<i64>,
    /// How many replicas of the service the node has.
    pub(crate) replica_count: ReplicaCount,
    /// What the node has left, of what the service's minimum speaks of: large ones stay free for those
    /// who need them.
    pub(crate) spare: Spare,
    /// Replicas of any service, where the service is packed.
    pub(crate) replicas: u32,
    /// Whose turn it is: with `spread` from the node on that a stable hash names, else by host name.
    pub(crate) turn: usize,
}

/// Replicas of the service that a node has already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ReplicaCount {
    /// Their number does not matter: packed by what is left.
    Any,
    /// Spread: the fewer, the better.
    Apart(u32),
    /// Packed: the more, the better, until the node is full.
    Together(Reverse<u32>),
}

/// What a node has left; zero of what the service's minimum does not speak of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Spare {
    memory: Bytes,
    cpu: MilliCores,
}

impl Preference {
    /// One that has nothing to say of any node.
    pub(crate) const SILENT: Self = Self {
        purpose: 0,
        below_share: Reverse(0),
        domain: 0,
        score: Reverse(Fixed::ZERO),
        affinity: Reverse(0),
        replica_count: ReplicaCount::Any,
        spare: Spare { memory: Bytes(0), cpu: MilliCores(0) },
        replicas: 0,
        turn: 0,
    };
}

/// What a service prefers of any node, by its placement and its minimum.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RankingPolicy {
    counts: Counts,
    pub(crate) minimum: Resources,
}

/// Which replicas count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counts {
    OwnApart,
    OwnTogether,
    Nobodys,
}

impl RankingPolicy {
    pub(crate) fn new(nodes: &NodeTable<'_>, goal: &ServiceSpec) -> Self {
        let minimum = nodes.demands.minimum(&goal.scheduling);
        let counts = match &goal.placement {
            Placement::Spread | Placement::Hosts(_) | Placement::Global => Counts::OwnApart,
            Placement::Pack if minimum == Resources::default() => Counts::OwnTogether,
            Placement::Pack => Counts::Nobodys,
        };
        Self { counts, minimum }
    }

    /// What it prefers of a node as it is, with `here` replicas of the service: `replica_count`, `spare` and
    /// `replicas`.
    pub(crate) fn of(self, row: &NodeRow<'_>, here: u32) -> Preference {
        let (replica_count, replicas) = match self.counts {
            Counts::OwnApart => (ReplicaCount::Apart(here), 0),
            Counts::OwnTogether => (ReplicaCount::Together(Reverse(here)), row.usage.replicas),
            Counts::Nobodys => (ReplicaCount::Any, 0),
        };
        Preference { replica_count, spare: self.spare(row), replicas, ..Preference::SILENT }
    }

    fn spare(self, row: &NodeRow<'_>) -> Spare {
        if self.minimum == Resources::default() {
            return Spare::default();
        }
        let left = row.left();
        let asked = |minimum: u64, left: u64| if minimum == 0 { 0 } else { left };
        Spare {
            memory: Bytes(asked(self.minimum.memory.0, left.memory.unwrap_or_default().0)),
            cpu: MilliCores(asked(self.minimum.cpu.0, left.cpu.unwrap_or_default().0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../../docs/placement.md");

    /// The names of the fields, in the order in which they are compared.
    fn fields() -> Vec<String> {
        let shown = format!("{:#?}", Preference::SILENT);
        let top = shown.lines().filter(|line| line.starts_with("    ") && line[4..5] != *" ");
        let names = top.filter_map(|line| line.trim().split_once(':'));
        names.map(|(name, _)| name.to_owned()).collect()
    }

    /// PL-21: the table of the documentation is the order of the fields.
    #[test]
    fn the_policy_is_the_documented_one() {
        let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `"));
        let documented: Vec<_> = rows.filter_map(|row| row.split_once('`')).collect();
        let documented: Vec<_> = documented.iter().map(|(name, _)| *name).collect();
        assert_eq!(documented, fields());
    }

    /// PL-21: what stands above decides, however bad all below it is.
    #[test]
    fn fields_are_compared_top_to_bottom() {
        let best = Preference {
            purpose: 0,
            below_share: Reverse(9),
            domain: 0,
            score: Reverse(Fixed::ONE),
            affinity: Reverse(9),
            replica_count: ReplicaCount::Together(Reverse(9)),
            spare: Spare { memory: Bytes(0), cpu: MilliCores(0) },
            replicas: 0,
            turn: 0,
        };
        let worst = Preference {
            purpose: 9,
            below_share: Reverse(0),
            domain: 9,
            score: Reverse(Fixed::ZERO),
            affinity: Reverse(0),
            replica_count: ReplicaCount::Together(Reverse(0)),
            spare: Spare { memory: Bytes(9), cpu: MilliCores(9) },
            replicas: 9,
            turn: 9,
        };
        let mut steps = vec![worst];
        steps.push(Preference { turn: best.turn, ..worst });
        steps.push(Preference { replicas: best.replicas, ..worst });
        steps.push(Preference { spare: best.spare, ..worst });
        steps.push(Preference { replica_count: best.replica_count, ..worst });
        steps.push(Preference { affinity: best.affinity, ..worst });
        steps.push(Preference { score: best.score, ..worst });
        steps.push(Preference { domain: best.domain, ..worst });
        steps.push(Preference { below_share: best.below_share, ..worst });
        steps.push(Preference { purpose: best.purpose, ..worst });
        assert_eq!(steps.len(), fields().len() + 1);
        assert!(steps.windows(2).all(|pair| pair[1] < pair[0]), "{steps:?}");
    }
}
