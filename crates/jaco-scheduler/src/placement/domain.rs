//! The domains that a service's replicas are spread over: the combinations of values of its spread
//! criteria, and how many replicas each should have (R-SPREAD-1 to R-SPREAD-4).
//!
//! The criteria form a tree, the heaviest at its root. Each level is apportioned inside its parent,
//! so that all of them hold at once and not only each by itself.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use jaco_types::spec::{SchedulingPolicy, SpreadCriterion};

use super::apportion::{Party, apportion};
use super::spread::mix;
use crate::nodes::{DomainValue, Grouping, NodeIx};

/// How many replicas there are and should be in each domain.
#[derive(Debug, Clone)]
pub(crate) struct Domains<'a> {
    criteria: Vec<&'a SpreadCriterion>,
    grouping: Arc<Grouping>,
    /// Where equal remainders begin to be given, so that services do not all choose the same
    /// domains first.
    seed: u64,
    present: Vec<Presence>,
    placed: Vec<u32>,
    most: Vec<u32>,
    targets: Vec<u32>,
    count: u32,
    /// The domain that comes first where remainders are equal.
    favoured: Option<usize>,
    remainders: Remainders,
}

/// Who gets what is left where equal shares are no whole numbers.
#[derive(Debug, Clone)]
enum Remainders {
    /// The value that got least in the other branches.
    InTurn,
    /// The domains that have it already: so many replicas each.
    WhereTheyAre(Vec<u32>),
}

/// What a value of a criterion should have of the replicas, and has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpreadShare {
    /// The attribute of the criterion.
    pub attribute: String,
    /// Its value; absent for the nodes that have none.
    pub value: Option<String>,
    /// The replicas that the criteria give it, if every node has room.
    pub desired: u32,
    /// The replicas that are there.
    pub actual: u32,
}

/// Whether some node that could take a replica is in a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    Present,
    Absent,
}

/// The criteria of a policy, the heaviest first; of equal ones, in the order they were written.
pub(crate) fn criteria(policy: &SchedulingPolicy) -> Vec<&SpreadCriterion> {
    let mut criteria: Vec<_> = policy.spread.iter().collect();
    criteria.sort_by_key(|criterion| Reverse(criterion.weight));
    criteria
}

impl<'a> Domains<'a> {
    /// The domains for `count` replicas in the end, where those that are `present` can take some
    /// and `on_nodes` names the node of each there is. Equal remainders are given to the domain of
    /// `favoured` first.
    pub(crate) fn new(
        criteria: Vec<&'a SpreadCriterion>,
        grouping: Arc<Grouping>,
        seed: u64,
        present: Vec<Presence>,
        on_nodes: impl Iterator<Item = NodeIx>,
        count: u32,
        favoured: Option<NodeIx>,
    ) -> Self {
        let size = grouping.len();
        let mut placed = vec![0; size];
        for node in on_nodes {
            placed[grouping.domain_of(node)] += 1;
        }
        let (most, targets) = (vec![u32::MAX; size], Vec::new());
        let favoured = favoured.map(|node| grouping.domain_of(node));
        let mut domains = Self {
            criteria,
            grouping,
            seed,
            present,
            placed,
            most,
            targets,
            count,
            favoured,
            remainders: Remainders::InTurn,
        };
        domains.set_targets();
        domains
    }

    /// The domain that is furthest below its share, or `None` when all are full.
    pub(crate) fn next(&mut self) -> Option<usize> {
        let total: u32 = self.placed.iter().sum();
        if total >= self.count {
            self.count = total.saturating_add(1);
            self.set_targets();
        }
        let open = (0..self.targets.len()).filter(|at| self.placed[*at] < self.targets[*at]);
        open.min_by_key(|at| (Reverse(self.below_share(*at)), *at))
    }

    /// By how many replicas a domain is below its share.
    pub(crate) fn below_share(&self, at: usize) -> i64 {
        i64::from(self.targets[at]) - i64::from(self.placed[at])
    }

    pub(crate) fn domain_of(&self, node: NodeIx) -> usize {
        self.grouping.domain_of(node)
    }

    /// Notes that a replica was placed on a node.
    pub(crate) fn place(&mut self, node: NodeIx) {
        self.placed[self.grouping.domain_of(node)] += 1;
    }

    /// Notes that nothing more fits into a domain; the others share what it should have taken.
    pub(crate) fn fill(&mut self, at: usize) {
        self.most[at] = self.placed[at];
        self.set_targets();
    }

    /// How many replicas of each domain go when only `count` stay, by the same shares: of those that
    /// are `going`, beside what is placed. No domain gets any.
    pub(crate) fn surplus(&mut self, going: impl Iterator<Item = NodeIx>, count: u32) -> Vec<u32> {
        self.count = count;
        self.most.clone_from(&self.placed);
        for node in going {
            self.most[self.grouping.domain_of(node)] += 1;
        }
        for (present, has) in self.present.iter_mut().zip(&self.most) {
            if *has > 0 {
                *present = Presence::Present;
            }
        }
        self.set_targets();
        self.most.iter().zip(&self.targets).map(|(has, keeps)| has.saturating_sub(*keeps)).collect()
    }

    /// What each value of each criterion should have, were all placed anew, and has; the heaviest criterion
    /// first. Where several distributions are as even, the one that is closest to what is there counts.
    pub(crate) fn shares(mut self) -> Vec<SpreadShare> {
        let actual = self.place_anew();
        let mut shares = Vec::new();
        for (level, criterion) in self.criteria.iter().enumerate() {
            let mut values: BTreeMap<&DomainValue, (u32, u32)> = BTreeMap::new();
            for (at, here) in actual.iter().enumerate() {
                if self.present[at] == Presence::Present || *here > 0 {
                    let (desired, known) =
                        values.entry(self.grouping.value(at, level)).or_default();
                    *desired = desired.saturating_add(self.targets[at]);
                    *known = known.saturating_add(*here);
                }
            }
            shares.extend(values.into_iter().map(|(value, (desired, actual))| SpreadShare {
                attribute: criterion.attribute.clone(),
                value: value.text().map(str::to_owned),
                desired,
                actual,
            }));
        }
        shares
    }

    /// Sets the targets as if nothing were placed, closest to what is there; gives what is there.
    fn place_anew(&mut self) -> Vec<u32> {
        let actual = std::mem::take(&mut self.placed);
        self.placed = vec![0; actual.len()];
        self.remainders = Remainders::WhereTheyAre(actual.clone());
        self.set_targets();
        actual
    }

    fn set_targets(&mut self) {
        let mut targets = vec![0; self.grouping.len()];
        let mut given = vec![Vec::new(); self.criteria.len()];
        let is_of_use = |at: &usize| self.present[*at] == Presence::Present || self.placed[*at] > 0;
        let all: Vec<usize> = (0..self.grouping.len()).filter(is_of_use).collect();
        self.share(self.count, 0, &all, &mut given, &mut targets);
        self.targets = targets;
    }

    /// Shares `count` among the domains `among`, which agree in all levels above `level`. `given`
    /// is what each value of each level got so far.
    fn share(
        &self,
        count: u32,
        level: usize,
        among: &[usize],
        given: &mut [Vec<u64>],
        targets: &mut [u32],
    ) {
        let Some(criterion) = self.criteria.get(level) else {
            // One domain is left: its path is complete.
            for at in among.iter().take(1) {
                targets[*at] = count;
            }
            return;
        };
        let value = |at: usize| self.grouping.value(at, level);
        let groups: Vec<&[usize]> =
            among.chunk_by(|a, b| value(*a).number() == value(*b).number()).collect();
        let values: Vec<&DomainValue> = groups.iter().map(|group| value(group[0])).collect();
        let last = values.iter().filter_map(|value| value.number()).max().unwrap_or(0);
        if given[level].len() <= last {
            given[level].resize(last + 1, 0);
        }
        let weights = weights(criterion, &values);
        let total: u64 = weights.iter().fold(0, |sum, weight| sum.saturating_add(*weight));
        let parties: Vec<Party> = groups
            .iter()
            .zip(weights)
            .map(|(group, weight)| {
                let quota = u64::from(count).saturating_mul(weight).checked_div(total);
                let party = self.party(group, weight, value(group[0]), &given[level]);
                self.ranked(party, group, quota.unwrap_or_default())
            })
            .collect();
        for (group, share) in groups.iter().zip(apportion(count, &parties)) {
            if let Some(number) = value(group[0]).number() {
                given[level][number] += u64::from(share);
            }
            self.share(share, level + 1, group, given, targets);
        }
    }

    fn party(&self, group: &[usize], weight: u64, value: &DomainValue, given: &[u64]) -> Party {
        let sum = |of: &dyn Fn(usize) -> u32| {
            group.iter().fold(0u32, |sum, at| sum.saturating_add(of(*at)))
        };
        let least = sum(&|at| self.placed[at]);
        let most = sum(&|at| match self.present[at] {
            Presence::Present => self.most[at],
            Presence::Absent => self.placed[at],
        });
        // Where remainders are equal, the value that got least in the other parents comes first, so
        // that the remainders of a level do not all fall to the same value.
        let number = value.number().unwrap_or(given.len());
        let so_far = given.get(number).copied().unwrap_or_default();
        let share = so_far.saturating_mul(1 << 20) / weight.max(1);
        let turn = match self.favoured.is_some_and(|own| group.contains(&own)) {
            true => 0,
            false => mix(self.seed ^ number as u64),
        };
        Party { weight, least, most, rank: (share, turn) }
    }

    /// The party with its rank among equal remainders. `quota` is its share in whole replicas.
    fn ranked(&self, party: Party, group: &[usize], quota: u64) -> Party {
        let Remainders::WhereTheyAre(actual) = &self.remainders else { return party };
        let there: u64 = group.iter().map(|at| u64::from(actual[*at])).sum();
        let rank = (u64::MAX - there.saturating_sub(quota), party.rank.1);
        Party { rank, ..party }
    }
}

/// The weights of the values that there are: a target's percent, and for the rest an equal part of
/// what remains of a hundred. Without targets all are equal.
fn weights(criterion: &SpreadCriterion, values: &[&DomainValue]) -> Vec<u64> {
    let percent = |value: &DomainValue| {
        let DomainValue::Of { text, .. } = value else { return None };
        let target = criterion.targets.iter().find(|target| *target.value == **text)?;
        Some(u64::from(target.percent))
    };
    let has_value = |value: &DomainValue| value.number().is_some();
    if criterion.targets.is_empty() {
        return values.iter().map(|value| u64::from(has_value(value))).collect();
    }
    let listed: u64 = criterion.targets.iter().map(|target| u64::from(target.percent)).sum();
    let rest = 100u64.saturating_sub(listed);
    let is_unlisted = |value: &&&DomainValue| has_value(value) && percent(value).is_none();
    let unlisted = u64::try_from(values.iter().filter(is_unlisted).count()).unwrap_or(u64::MAX);
    let weight = |value: &&DomainValue| match percent(value) {
        Some(percent) => percent.saturating_mul(unlisted.max(1)),
        None if has_value(value) => rest,
        None => 0,
    };
    values.iter().map(weight).collect()
}
