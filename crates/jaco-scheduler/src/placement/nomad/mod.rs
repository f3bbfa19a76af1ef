//! `scoring: nomad`: the node of the highest score by Nomad's formulas, for users who come from there
//! (R-SPREAD-6). What differs from Nomad is in `docs/concepts.md`.
//!
//! Constraints, capacity, ports, GPUs and limits are asked before any score; a score only orders the
//! nodes that may take the replica.

mod score;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;

use jaco_types::spec::{Placement, ServiceSpec, SpreadCriterion};
use jaco_types::unit::Resources;

use super::fixed::Fixed;
use super::preference::Preference;
use crate::attribute::{affinity, value_of};
use crate::eligibility::Room;
use crate::nodes::{NodeIx, NodeRow, NodeTable};
use score::Fit;

/// Nodes that may take replicas, and what their scores are made of.
pub(crate) struct Nomad {
    fit: Fit,
    count: u32,
    minimum: Resources,
    blocks: Vec<Block>,
    /// The sum of the weights of all blocks.
    weights: i128,
    candidates: Vec<Candidate>,
}

struct Candidate {
    node: NodeIx,
    /// Replicas of the service that are there.
    here: u32,
    affinity: Option<Fixed>,
    /// Its place in each block.
    places: Vec<Option<usize>>,
    /// How well it fits, until something is put there.
    fit: Option<Fixed>,
}

/// The score of a node by Nomad's formulas, in millionths; absent is a term that has nothing to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeScore {
    /// How well the replica fits: `binpack` where the service is packed, else `spread`.
    pub fit: i64,
    /// What speaks against a node that has replicas of the service.
    pub anti_affinity: Option<i64>,
    /// The weights of the affinities that hold, of all weights.
    pub affinity: Option<i64>,
    /// What the spread criteria say.
    pub spread: Option<i64>,
    /// The mean of the terms that are present: the node with the highest is chosen.
    pub total: i64,
}

/// What a score is the mean of; absent is what has nothing to say.
#[derive(Debug, Clone, Copy)]
struct Terms {
    fit: Fixed,
    anti_affinity: Option<Fixed>,
    affinity: Option<Fixed>,
    spread: Option<Fixed>,
}

/// One spread criterion.
struct Block {
    weight: i128,
    kind: Kind,
    /// How many replicas each value has; with targets, all that are not listed share one place.
    used: Vec<u32>,
}

enum Kind {
    Even,
    /// The percentage of each place.
    Targets(Vec<u32>),
}

impl Nomad {
    /// `candidates` in order; `on_nodes` names the node of each replica that counts.
    pub(crate) fn new(
        nodes: &NodeTable<'_>,
        goal: &ServiceSpec,
        candidates: &[NodeIx],
        on_nodes: &[NodeIx],
    ) -> Self {
        let policy = &goal.scheduling;
        let weight_of_all: i64 =
            policy.affinities.iter().map(|it| i64::from(it.weight).abs()).sum();
        let mut candidates: Vec<_> = candidates
            .iter()
            .map(|node| {
                let holding = affinity(nodes.row(*node).node, &policy.affinities);
                let affinity = score::affinity(holding, weight_of_all);
                Candidate { node: *node, here: 0, affinity, places: Vec::new(), fit: None }
            })
            .collect();
        for node in on_nodes {
            if let Ok(at) = candidates.binary_search_by_key(node, |candidate| candidate.node) {
                candidates[at].here += 1;
            }
        }
        let block = |criterion| Block::new(nodes, criterion, &mut candidates, on_nodes);
        let blocks: Vec<_> = policy.spread.iter().map(block).collect();
        Self {
            fit: match goal.placement {
                Placement::Pack => Fit::Pack,
                Placement::Spread | Placement::Hosts(_) | Placement::Global => Fit::Spread,
            },
            count: goal.replicas,
            minimum: nodes.demands.minimum(policy),
            weights: blocks.iter().map(|block| block.weight).sum(),
            blocks,
            candidates,
        }
    }

    pub(crate) fn choose(&mut self, room: Room<'_, '_>) -> Option<NodeIx> {
        let extremes: Vec<_> =
            self.blocks.iter().map(|block| score::extremes(&block.used)).collect();
        let mut best: Option<(Preference, usize)> = None;
        for at in 0..self.candidates.len() {
            let node = self.candidates[at].node;
            let row = room.nodes.row(node);
            if !row.has_left(self.minimum) || !room.is_on(node) {
                continue;
            }
            let fit = self.candidates[at].fit;
            let fit = fit.unwrap_or_else(|| fit_of(self.fit, row, room.spec));
            self.candidates[at].fit = Some(fit);
            let score = Reverse(self.terms(&self.candidates[at], fit, &extremes).mean());
            let preference = Preference { score, turn: node.0, ..Preference::SILENT };
            if best.is_none_or(|(known, _)| preference < known) {
                best = Some((preference, at));
            }
        }
        let (_, at) = best?;
        let Self { blocks, candidates, .. } = self;
        let chosen = &mut candidates[at];
        chosen.here += 1;
        chosen.fit = None;
        for (block, place) in blocks.iter_mut().zip(&chosen.places) {
            if let Some(place) = place {
                block.used[*place] += 1;
            }
        }
        Some(chosen.node)
    }

    /// The score of each candidate for one more replica, whether or not it has room.
    pub(super) fn scores(
        &self,
        nodes: &NodeTable<'_>,
        spec: &ServiceSpec,
    ) -> Vec<(NodeIx, NodeScore)> {
        let extremes: Vec<_> =
            self.blocks.iter().map(|block| score::extremes(&block.used)).collect();
        let score = |candidate: &Candidate| {
            let fit = fit_of(self.fit, nodes.row(candidate.node), spec);
            (candidate.node, self.terms(candidate, fit, &extremes).score())
        };
        self.candidates.iter().map(score).collect()
    }

    fn terms(&self, candidate: &Candidate, fit: Fixed, extremes: &[Option<(u32, u32)>]) -> Terms {
        let of_block = |((block, place), extremes): ((&Block, &Option<usize>), &_)| {
            block.score(*place, self.count, self.weights, *extremes)
        };
        let spread: Fixed =
            self.blocks.iter().zip(&candidate.places).zip(extremes).map(of_block).sum();
        Terms {
            fit,
            anti_affinity: score::anti_affinity(candidate.here, self.count),
            affinity: candidate.affinity,
            spread: (!spread.is_zero()).then_some(spread),
        }
    }
}

impl Terms {
    /// The mean of the terms that have something to say: a criterion that is silent dilutes nothing.
    fn mean(self) -> Fixed {
        let terms = [Some(self.fit), self.anti_affinity, self.affinity, self.spread];
        let number = terms.iter().flatten().count();
        let sum: Fixed = terms.into_iter().flatten().sum();
        sum.over(i128::try_from(number).unwrap_or(1))
    }

    fn score(self) -> NodeScore {
        NodeScore {
            fit: self.fit.micros(),
            anti_affinity: self.anti_affinity.map(Fixed::micros),
            affinity: self.affinity.map(Fixed::micros),
            spread: self.spread.map(Fixed::micros),
            total: self.mean().micros(),
        }
    }
}

/// How well a node fits once the replica is there; one that declares nothing is taken for empty.
fn fit_of(kind: Fit, row: &NodeRow<'_>, spec: &ServiceSpec) -> Fixed {
    let capacity = row.node.facts.capacity;
    let free = |has: u64, used: u128, asked: u64| {
        let used = i128::try_from(used).unwrap_or(i128::MAX / 2) + i128::from(asked);
        let left = (i128::from(has) - used).max(0);
        if has == 0 { Fixed::ONE } else { Fixed::ratio(left, has.into()) }
    };
    let cpu = free(capacity.cpu.0, row.usage.cpu, spec.reservation.cpu.0);
    let memory = free(capacity.memory.0, row.usage.memory, spec.reservation.memory.0);
    score::fit(kind, cpu, memory)
}

impl Block {
    /// Gives each candidate its place, and counts what is there already.
    fn new(
        nodes: &NodeTable<'_>,
        criterion: &SpreadCriterion,
        candidates: &mut [Candidate],
        on_nodes: &[NodeIx],
    ) -> Self {
        let value = |node: NodeIx| value_of(nodes.row(node).node, &criterion.attribute);
        let (places, pool, kind) = if criterion.targets.is_empty() {
            let values =
                candidates.iter().map(|candidate| candidate.node).chain(on_nodes.iter().copied());
            let mut places: BTreeMap<Cow<'_, str>, usize> =
                values.filter_map(value).map(|value| (value, 0)).collect();
            places.values_mut().enumerate().for_each(|(at, place)| *place = at);
            (places, None, Kind::Even)
        } else {
            let targets = criterion.targets.iter().enumerate();
            let places = targets.map(|(at, target)| (Cow::from(target.value.as_str()), at));
            let mut percents: Vec<u32> =
                criterion.targets.iter().map(|target| target.percent.into()).collect();
            let rest = 100_u32.saturating_sub(percents.iter().sum());
            // What is left for values that are not listed is theirs together; where all of it or
            // nothing is listed, they have no share.
            let pool = (rest > 0 && rest < 100).then_some(percents.len());
            percents.extend(pool.map(|_| rest));
            (places.collect(), pool, Kind::Targets(percents))
        };
        let place = |node| value(node).and_then(|value| places.get(&value).copied().or(pool));
        let size = match &kind {
            Kind::Even => places.len(),
            Kind::Targets(percents) => percents.len(),
        };
        let mut used = vec![0; size];
        for at in on_nodes.iter().filter_map(|node| place(*node)) {
            used[at] += 1;
        }
        for candidate in candidates {
            candidate.places.push(place(candidate.node));
        }
        Self { weight: criterion.weight.into(), kind, used }
    }

    fn score(
        &self,
        place: Option<usize>,
        count: u32,
        weights: i128,
        extremes: Option<(u32, u32)>,
    ) -> Fixed {
        let Some(at) = place else { return score::outside() };
        match &self.kind {
            Kind::Even => score::even(extremes, self.used[at]),
            Kind::Targets(percents) => match score::boost(percents[at], count, self.used[at]) {
                Some(boost) => boost.times(self.weight).over(weights),
                None => self.lowest(percents, count, weights),
            },
        }
    }

    /// What a value without a share gets: the least that any has, -1 at most.
    fn lowest(&self, percents: &[u32], count: u32, weights: i128) -> Fixed {
        let boosts = percents.iter().zip(&self.used);
        let boosts = boosts.filter_map(|(percent, used)| score::boost(*percent, count, *used));
        let boosts = boosts.map(|boost| boost.times(self.weight).over(weights));
        boosts.chain([score::outside()]).min().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-SPREAD-6: the example of Nomad's tests for two criteria, of weights 100 and 50: two of ten run,
    /// both in the first data centre and one in each rack.
    #[test]
    fn two_criteria_are_weighed_as_in_nomads_tests() {
        let block = |weight, percents: [u32; 2], used: [u32; 2]| Block {
            weight,
            kind: Kind::Targets(percents.to_vec()),
            used: used.to_vec(),
        };
        let (centres, racks) = (block(100, [60, 40], [2, 0]), block(50, [40, 60], [1, 1]));
        let score = |centre, rack| {
            let centre = centres.score(Some(centre), 10, 150, None);
            (centre + racks.score(Some(rack), 10, 150, None)).show(3)
        };
        let scores = [score(0, 0), score(1, 0), score(0, 1)];
        assert_eq!(scores, ["0.500", "0.667", "0.556"]);
    }
}
