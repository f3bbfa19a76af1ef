//! Which replicas go when there are too many (R-PLACE-7): those of no use first, then whoever leaves the
//! place that is preferred least. Placing read backwards: what it would fill last is emptied first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jaco_types::Ordinal;

use crate::attribute::affinity;
use crate::draft::{ServiceDraft, SlotDraft};
use crate::eligibility::Colocation;
use crate::nodes::{NodeIx, NodeRow, NodeTable};
use crate::placement::{Domains, Preference, RankingPolicy, Seed, by_domain, criteria, presence};

/// The order of removal, first: the greatest, fields compared top to bottom.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct VictimScore {
    /// The place that it leaves, as it would be for a new replica once it has gone.
    place: Preference,
    /// The youngest of them.
    ordinal: Ordinal,
}

/// A replica that may go, and its node.
type Placed<'s, 'a> = (NodeIx, &'s SlotDraft<'a>);

/// The ordinals of the `surplus` replicas among `slots` that go.
pub(crate) fn choose<'a, 's>(
    nodes: &NodeTable<'a>,
    service: &ServiceDraft<'a>,
    slots: impl Iterator<Item = &'s SlotDraft<'a>>,
    surplus: usize,
) -> BTreeSet<Ordinal>
where
    'a: 's,
{
    let placed = |slot: &'s SlotDraft<'a>| slot.current.at.map(|at| (at, slot)).ok_or(slot);
    let (on_nodes, nowhere): (Vec<_>, Vec<_>) = slots.map(placed).partition(Result::is_ok);
    let on_nodes = on_nodes.into_iter().flatten();
    let is_of_use = |(_, slot): &Placed<'_, '_>| {
        slot.serves(service.role) && service.colocation_of(slot) != Colocation::Missing
    };
    let (serving, idle): (Vec<_>, Vec<_>) = on_nodes.partition(is_of_use);
    // What is on no node any more is of no use to anybody.
    let nowhere: BTreeSet<_> = nowhere.into_iter().filter_map(Result::err).map(ordinal).collect();
    let mut victims: BTreeSet<_> = nowhere.into_iter().rev().take(surplus).collect();
    let surplus = surplus - victims.len();
    let (staying, going, surplus) = match surplus.checked_sub(idle.len()) {
        None => (serving, idle, surplus),
        Some(more) => {
            victims.extend(idle.iter().map(|(_, slot)| ordinal(slot)));
            (Vec::new(), serving, more)
        }
    };
    for (surplus, going) in by_shares(nodes, service, &staying, going, surplus) {
        victims.extend(least_preferred(nodes, service, &staying, &going, surplus));
    }
    victims
}

fn ordinal(slot: &SlotDraft<'_>) -> Ordinal {
    slot.ordinal.clone()
}

/// Who may go of each domain, and how many of them do: what it has more than its share. Without spread
/// criteria there is one domain.
fn by_shares<'a, 's>(
    nodes: &NodeTable<'a>,
    service: &ServiceDraft<'a>,
    staying: &[Placed<'s, 'a>],
    going: Vec<Placed<'s, 'a>>,
    surplus: usize,
) -> Vec<(usize, Vec<Placed<'s, 'a>>)> {
    let goal = service.goal().spec;
    if goal.scheduling.spread.is_empty() || surplus == 0 {
        return vec![(surplus, going)];
    }
    let criteria = criteria(&goal.scheduling);
    let grouping = nodes.grouping(&criteria);
    let by_domain = by_domain(nodes, goal, service.colocation(), &grouping, &criteria);
    let present = by_domain.iter().map(|nodes| presence(nodes)).collect();
    let (seed, stay) = (Seed::of(&service.key).0, staying.iter().map(|(at, _)| *at));
    let mut domains = Domains::new(criteria, Arc::clone(&grouping), seed, present, stay, 0, None);
    let surplus = domains.surplus(going.iter().map(|(at, _)| *at), goal.replicas);
    let count = |surplus: u32| (usize::try_from(surplus).unwrap_or(usize::MAX), Vec::new());
    let mut shares: Vec<_> = surplus.into_iter().map(count).collect();
    for one in going {
        shares[grouping.domain_of(one.0)].1.push(one);
    }
    shares
}

/// The `surplus` of those that are `going` which go, without regard to domains.
///
/// Each choice makes a node emptier and so changes the next one. Only the first in line of each node
/// can be next, so the choice is among those and costs a logarithm.
fn least_preferred<'a, 's>(
    nodes: &NodeTable<'a>,
    service: &ServiceDraft<'a>,
    staying: &[Placed<'s, 'a>],
    going: &[Placed<'s, 'a>],
    surplus: usize,
) -> BTreeSet<Ordinal> {
    let mut victims = BTreeSet::new();
    if surplus == 0 {
        return victims;
    }
    let goal = service.goal().spec;
    let ranking = RankingPolicy::new(nodes, goal);
    let mut on_nodes: BTreeMap<NodeIx, OnNode<'_, '_>> = BTreeMap::new();
    for (at, slot) in going {
        let node = on_nodes.entry(*at).or_insert_with(|| {
            let row = nodes.row(*at).clone();
            let suits = affinity(row.node, &goal.scheduling.affinities);
            OnNode { at: *at, row, suits, count: 0, line: BTreeMap::new() }
        });
        node.count += 1;
        node.line.insert(ordinal(slot), slot);
    }
    for (at, _) in staying {
        on_nodes.entry(*at).and_modify(|node| node.count += 1);
    }
    let mut heads: BTreeSet<(VictimScore, NodeIx)> = BTreeSet::new();
    for (at, node) in &mut on_nodes {
        heads.extend(node.next(ranking).map(|score| (score, *at)));
    }
    while victims.len() < surplus {
        let Some((score, at)) = heads.pop_last() else { break };
        let next = on_nodes.get_mut(&at).and_then(|node| node.next(ranking));
        heads.extend(next.map(|score| (score, at)));
        victims.insert(score.ordinal);
    }
    victims
}

/// The replicas of the service on one node.
struct OnNode<'s, 'a> {
    at: NodeIx,
    /// The node without those that have left the line.
    row: NodeRow<'a>,
    /// Its affinity.
    suits: i64,
    /// How many of the service it then has.
    count: u32,
    line: BTreeMap<Ordinal, &'s SlotDraft<'a>>,
}

impl OnNode<'_, '_> {
    /// Lets the next one leave the line.
    fn next(&mut self, ranking: RankingPolicy) -> Option<VictimScore> {
        let (ordinal, slot) = self.line.pop_last()?;
        slot.release_from(self.at, &mut self.row);
        self.count -= 1;
        let place =
            Preference { affinity: Reverse(self.suits), ..ranking.of(&self.row, self.count) };
        Some(VictimScore { place, ordinal })
    }
}
