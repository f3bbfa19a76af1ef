//! How many replicas of one service a node may have, beside what it has room for (R-CONS-6).

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use jaco_types::ServiceName;
use jaco_types::spec::ServiceSpec;

use super::colocation::ColocationView;
use super::ineligible::Ineligible;
use crate::nodes::{NodeIx, NodeTable};

/// The most on each node, and what is there.
#[derive(Debug)]
pub(crate) struct Limit {
    max: Option<NonZeroU32>,
    pairs: Option<Pairs>,
    counts: BTreeMap<NodeIx, u32>,
}

/// Where replicas have another service's for themselves, one for one.
#[derive(Debug)]
struct Pairs {
    partner: ServiceName,
    /// How many of the other are on each node.
    on: BTreeMap<NodeIx, PairsOn>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct PairsOn {
    all: u32,
    /// Those that a replica can come to now, because they run.
    now: u32,
}

impl Limit {
    /// `None` where a node may have any number.
    pub(crate) fn new(
        nodes: &NodeTable<'_>,
        max: Option<NonZeroU32>,
        paired: Option<&ColocationView<'_>>,
        on_nodes: &[NodeIx],
    ) -> Option<Self> {
        if max.is_none() && paired.is_none() {
            return None;
        }
        let pairs = paired.and_then(|view| {
            let on = nodes.rows().map(|(at, _)| {
                let (all, now) = view.pairs(at);
                (at, PairsOn { all, now: if view.is_on(at) { now } else { 0 } })
            });
            let on = on.filter(|(_, pairs)| pairs.all > 0).collect();
            Some(Pairs { partner: view.paired_with()?.clone(), on })
        });
        let mut limit = Self { max, pairs, counts: BTreeMap::new() };
        for node in on_nodes {
            limit.count(*node);
        }
        Some(limit)
    }

    /// Notes one more replica.
    pub(crate) fn count(&mut self, node: NodeIx) {
        *self.counts.entry(node).or_default() += 1;
    }

    /// What it has against one more replica. That pairs are full counts only as long as one is to
    /// come that is not.
    pub(crate) fn refuses(&self, node: NodeIx) -> Option<Ineligible> {
        if let Some(max) = self.max.filter(|max| self.count_on(node) >= max.get()) {
            return Some(Ineligible::MaxPerNode { max });
        }
        let pairs = self.pairs.as_ref().filter(|pairs| self.is_full(pairs, node))?;
        let takes_any = pairs.on.get(&node).is_some_and(|pairs| pairs.now > 0);
        (takes_any && self.has_pairs_to_come())
            .then(|| Ineligible::PartnerPending { service: pairs.partner.clone() })
    }

    /// Whether a replica would have another for itself that it cannot come to yet.
    pub(crate) fn has_pairs_to_come(&self) -> bool {
        self.pairs.as_ref().is_some_and(|pairs| {
            let mut on = pairs.on.iter();
            on.any(|(node, pairs)| self.count_on(*node).max(pairs.now) < pairs.all)
        })
    }

    fn is_full(&self, pairs: &Pairs, node: NodeIx) -> bool {
        self.count_on(node) >= pairs.on.get(&node).copied().unwrap_or_default().now
    }

    fn count_on(&self, node: NodeIx) -> u32 {
        self.counts.get(&node).copied().unwrap_or_default()
    }

    fn allows(&self, node: NodeIx) -> bool {
        let count = self.count_on(node);
        self.max.is_none_or(|max| count < max.get())
            && self.pairs.as_ref().is_none_or(|pairs| !self.is_full(pairs, node))
    }
}

/// Whether nodes have room for one more replica, in every respect.
#[derive(Clone, Copy)]
pub(crate) struct Room<'r, 'a> {
    pub(crate) nodes: &'r NodeTable<'a>,
    pub(crate) spec: &'r ServiceSpec,
    pub(crate) limit: Option<&'r Limit>,
    /// The nodes on which the service is disabled.
    pub(crate) disabled: &'r BTreeSet<NodeIx>,
}

impl Room<'_, '_> {
    pub(crate) fn is_on(&self, node: NodeIx) -> bool {
        self.limit.is_none_or(|limit| limit.allows(node))
            && !self.disabled.contains(&node)
            && self.nodes.row(node).fits(self.spec)
    }
}
