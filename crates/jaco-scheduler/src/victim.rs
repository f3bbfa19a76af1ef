//! Which replicas go when there are too many (R-PLACE-7).

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use jaco_types::{NodeId, Ordinal};

use crate::company::InCompany;
use crate::draft::{ServiceDraft, SlotDraft};
use crate::node_table::NodeTable;
use crate::placement::{Domains, Seed, by_domain, criteria, presence};

/// Who goes first: the greatest, fields compared top to bottom.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct VictimScore {
    use_: Use,
    /// Replicas of the service on its node: the fullest node gives first.
    on_node: usize,
    /// The youngest of them.
    ordinal: Ordinal,
}

/// Whether a replica is of use now; one that is not goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Use {
    Serves,
    Idle,
}

fn use_of(service: &ServiceDraft<'_>, slot: &SlotDraft<'_>) -> Use {
    match slot.serves(service.role) && slot.company != InCompany::No {
        true => Use::Serves,
        false => Use::Idle,
    }
}

/// The ordinals of the `surplus` replicas among `slots` that go: those of no use first, then from
/// each domain what it has more than its share.
pub(crate) fn choose<'a, 's>(
    nodes: &NodeTable<'a>,
    service: &ServiceDraft<'a>,
    slots: impl Iterator<Item = &'s SlotDraft<'a>>,
    surplus: usize,
) -> BTreeSet<Ordinal>
where
    'a: 's,
{
    let policy = &service.goal.spec.scheduling;
    let is_of_use =
        |slot: &&SlotDraft<'_>| use_of(service, slot) == Use::Serves && slot.current.at.is_some();
    let (serving, idle): (Vec<_>, Vec<_>) = slots.partition(is_of_use);
    if policy.spread.is_empty() || surplus <= idle.len() {
        return fullest_first(service, serving.into_iter().chain(idle), surplus);
    }
    let mut victims: BTreeSet<Ordinal> = idle.iter().map(|slot| slot.ordinal.clone()).collect();
    let criteria = criteria(policy);
    let grouping = nodes.grouping(&criteria);
    let by_domain = by_domain(nodes, service.goal.spec, &service.company, &grouping, &criteria);
    let present = by_domain.iter().map(|nodes| presence(nodes)).collect();
    let seed = Seed::of(&service.key).0;
    let on_nodes = serving.iter().filter_map(|slot| slot.current.at);
    let mut domains = Domains::new(criteria, Rc::clone(&grouping), seed, present, on_nodes, 0);
    for (domain, surplus) in domains.surplus(service.goal.spec.replicas).into_iter().enumerate() {
        let is_here = |slot: &&&SlotDraft<'_>| {
            slot.current.at.map(|at| grouping.domain_of(at)) == Some(domain)
        };
        let here = serving.iter().filter(is_here).copied();
        let surplus = usize::try_from(surplus).unwrap_or(usize::MAX);
        victims.extend(fullest_first(service, here, surplus));
    }
    victims
}

/// The `surplus` replicas that go, without regard to domains.
///
/// Each choice makes a node emptier and so changes the next one. Only the first in line of each
/// node and use can be next, so the choice is among those and costs a logarithm.
fn fullest_first<'s, 'a: 's>(
    service: &ServiceDraft<'_>,
    slots: impl Iterator<Item = &'s SlotDraft<'a>>,
    surplus: usize,
) -> BTreeSet<Ordinal> {
    let mut on_nodes: BTreeMap<NodeId, OnNode> = BTreeMap::new();
    for slot in slots {
        let use_ = use_of(service, slot);
        let node = on_nodes.entry(slot.current.node).or_default();
        node.count += 1;
        node.of_use(use_).insert(slot.ordinal.clone());
    }
    let mut line: BTreeSet<(VictimScore, NodeId)> = BTreeSet::new();
    for (id, node) in &on_nodes {
        line.extend(node.first_in_line().map(|score| (score, *id)));
    }
    let mut victims = BTreeSet::new();
    while victims.len() < surplus {
        let Some((score, id)) = line.pop_last() else { break };
        let node = on_nodes.entry(id).or_default();
        for stale in node.first_in_line() {
            line.remove(&(stale, id));
        }
        node.count -= 1;
        node.of_use(score.use_).remove(&score.ordinal);
        line.extend(node.first_in_line().map(|score| (score, id)));
        victims.insert(score.ordinal);
    }
    victims
}

/// The replicas of the service on one node.
#[derive(Debug, Default)]
struct OnNode {
    count: usize,
    serving: BTreeSet<Ordinal>,
    idle: BTreeSet<Ordinal>,
}

impl OnNode {
    fn of_use(&mut self, use_: Use) -> &mut BTreeSet<Ordinal> {
        match use_ {
            Use::Serves => &mut self.serving,
            Use::Idle => &mut self.idle,
        }
    }

    fn first_in_line(&self) -> impl Iterator<Item = VictimScore> + use<> {
        let on_node = self.count;
        let of = |use_, ordinals: &BTreeSet<Ordinal>| {
            ordinals.last().cloned().map(|ordinal| VictimScore { use_, on_node, ordinal })
        };
        of(Use::Serves, &self.serving).into_iter().chain(of(Use::Idle, &self.idle))
    }
}
