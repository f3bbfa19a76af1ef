//! Colocation: what `place-with`, `scale-with` and shared namespaces ask of a node (R-CONS-6).
//!
//! A view is a picture of where the partners of a service are. The draft takes it, and takes it anew
//! when a partner has changed since (`draft/colocate.rs`).

use std::collections::BTreeMap;

use jaco_types::{ServiceName, StateIndex};

use super::ineligible::Ineligible;
use crate::nodes::NodeIx;

/// Where the services are that a service is colocated with. Empty for almost all services.
#[derive(Debug, Default)]
pub(crate) struct ColocationView<'a>(Vec<Partner<'a>>);

/// One of those services.
#[derive(Debug)]
pub(crate) struct Partner<'a> {
    pub(crate) service: &'a ServiceName,
    pub(crate) bond: Bond,
    pub(crate) on: BTreeMap<NodeIx, Presence>,
}

/// When a partner is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bond {
    /// When a replica gets a node (`place-with`).
    WhenPlaced,
    /// As long as there is a replica (`scale-with`, shared namespaces).
    Always,
}

/// What a partner has on a node.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Presence {
    /// Current instances.
    pub(crate) current: u32,
    /// Those of them that run.
    pub(crate) running: u32,
    /// Instances that serve until their successor does, here or elsewhere.
    pub(crate) retiring: u32,
    /// The newest of those that run.
    pub(crate) newest: Option<StateIndex>,
}

/// Whether a replica has the partners that it needs on its node. The order is that of severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Colocation {
    /// All are there, or it needs none.
    Met,
    /// A partner was replaced and runs, and the replica still holds the namespaces of the old one.
    Replaced,
    /// A partner is there and does not run yet, or hands over to a successor, here or elsewhere.
    Pending,
    /// A partner is elsewhere or nowhere.
    Missing,
}

impl<'a> ColocationView<'a> {
    pub(crate) fn new(partners: Vec<Partner<'a>>) -> Self {
        Self(partners)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many replicas of the service a node can have, each with a partner of its own; and how
    /// many of them now, because those partners run.
    pub(crate) fn pairs(&self, node: NodeIx) -> (u32, u32) {
        let bound = self.0.iter().filter(|partner| partner.bond == Bond::Always);
        let here = bound.map(|partner| partner.at(node));
        here.fold((u32::MAX, u32::MAX), |(all, now), here| {
            (all.min(here.current), now.min(here.running))
        })
    }

    /// The first of the partners that replicas are paired with one for one.
    pub(crate) fn paired_with(&self) -> Option<&ServiceName> {
        let mut bound = self.0.iter().filter(|partner| partner.bond == Bond::Always);
        bound.next().map(|partner| partner.service)
    }

    /// Whether a new replica would find all partners here.
    pub(crate) fn is_on(&self, node: NodeIx) -> bool {
        self.missing(node).next().is_none()
    }

    /// The partners that a new replica would not find here, or not running.
    pub(crate) fn missing(&self, node: NodeIx) -> impl Iterator<Item = Ineligible> {
        let missing = self.0.iter().filter(move |partner| {
            let here = partner.at(node);
            match partner.bond {
                Bond::WhenPlaced => here.current == 0,
                Bond::Always => here.running == 0,
            }
        });
        missing.map(|partner| Ineligible::PartnerMissing { service: partner.service.clone() })
    }

    /// Whether a replica that has been on `node` since the entry `since` has what it needs; `None` is
    /// one that is new in this pass.
    pub(crate) fn of(&self, node: NodeIx, since: Option<StateIndex>) -> Colocation {
        let bound = self.0.iter().filter(|partner| partner.bond == Bond::Always);
        let each = bound.map(|partner| {
            let here = partner.at(node);
            match (here.current, here.retiring) {
                (0, 0) => Colocation::Missing,
                (_, retiring) if retiring > 0 || here.running == 0 => Colocation::Pending,
                _ if since.is_some_and(|since| here.newest > Some(since)) => Colocation::Replaced,
                _ => Colocation::Met,
            }
        });
        each.max().unwrap_or(Colocation::Met)
    }
}

impl Partner<'_> {
    fn at(&self, node: NodeIx) -> Presence {
        self.on.get(&node).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeIx = NodeIx(0);

    fn partner(service: &ServiceName, bond: Bond, here: Presence) -> Partner<'_> {
        Partner { service, bond, on: BTreeMap::from([(NODE, here)]) }
    }

    fn here(current: u32, running: u32, retiring: u32, newest: u64) -> Presence {
        let newest = (newest > 0).then_some(StateIndex(newest));
        Presence { current, running, retiring, newest }
    }

    /// R-CONS-6, PL-17: a partner counts once it runs alone; a replica of the same entry as its partner is not
    /// older than that, and one that is new in this pass holds no namespaces yet.
    #[test]
    fn a_partner_is_met_once_it_runs_alone() {
        let web = ServiceName::new("web").unwrap();
        let since = Some(StateIndex(5));
        for (here, since, expected) in [
            (Presence::default(), since, Colocation::Missing),
            (here(0, 0, 1, 0), since, Colocation::Pending),
            (here(1, 1, 1, 4), since, Colocation::Pending),
            (here(2, 1, 2, 4), None, Colocation::Pending),
            (here(1, 0, 0, 4), since, Colocation::Pending),
            (here(1, 1, 0, 4), since, Colocation::Met),
            (here(1, 1, 0, 5), since, Colocation::Met),
            (here(1, 1, 0, 6), since, Colocation::Replaced),
            (here(1, 1, 0, 6), None, Colocation::Met),
            (here(1, 1, 1, 6), since, Colocation::Pending),
        ] {
            let view = ColocationView::new(vec![partner(&web, Bond::Always, here)]);
            assert_eq!(view.of(NODE, since), expected, "{here:?} {since:?}");
            let elsewhere = view.of(NodeIx(1), since);
            assert_eq!(elsewhere, Colocation::Missing, "{here:?}");
            // What is needed for a place only is never missed later.
            let view = ColocationView::new(vec![partner(&web, Bond::WhenPlaced, here)]);
            assert_eq!(view.of(NODE, since), Colocation::Met, "{here:?}");
        }
    }

    /// R-CONS-6: the worst of several partners decides, in any order; without one there is nothing to miss.
    #[test]
    fn the_worst_partner_decides() {
        let names = ["api", "db", "web"].map(|name| ServiceName::new(name).unwrap());
        let found = [here(1, 1, 0, 4), here(1, 1, 0, 6), here(1, 0, 0, 4)];
        let view = |order: [usize; 3]| {
            let partners = order.map(|at| partner(&names[at], Bond::Always, found[at]));
            ColocationView::new(partners.into())
        };
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            let view = view(order);
            assert_eq!(view.of(NODE, Some(StateIndex(5))), Colocation::Pending);
            assert_eq!(view.pairs(NODE), (1, 0), "one of them does not run");
            assert_eq!(view.paired_with(), Some(&names[order[0]]));
            assert!(!view.is_empty() && !view.is_on(NODE));
            let missing: Vec<_> = view.missing(NODE).collect();
            assert_eq!(missing, [Ineligible::PartnerMissing { service: names[2].clone() }]);
        }
        let alone = ColocationView::new(vec![]);
        assert!(alone.is_empty() && alone.is_on(NODE));
        assert_eq!(alone.of(NODE, None), Colocation::Met);
        assert_eq!(alone.pairs(NODE), (u32::MAX, u32::MAX));
    }
}
