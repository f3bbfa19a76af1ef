//! Whether the successor of a replica is better off on another node (R-SPREAD-7).
//!
//! A step starts a replica anew, so it may as well start where the spread lacks one. A replica keeps its
//! node if that is as good as the best one: nothing moves for its own sake.

use std::cell::OnceCell;

use jaco_types::spec::{Placement, Scoring};
use jaco_types::{Ordinal, ServiceSpec};

use crate::draft::{Pass, Roll, ServiceDraft, SlotDraft};
use crate::nodes::NodeIx;
use crate::placement::{Chooser, is_spread_evenly};

/// In debug builds the short answer is compared with the long one in clusters of so many nodes at most.
const COMPARED_MAX: usize = 32;

/// Where the replicas of a service are, by their places in the list of slots: now, or once steps that are
/// only thought of have been taken.
pub(super) struct OnNodes {
    nodes: Vec<Option<NodeIx>>,
    is_even: OnceCell<bool>,
}

impl OnNodes {
    pub(super) fn of(service: &ServiceDraft<'_>) -> Self {
        let nodes = service.slots.iter().map(|slot| slot.current.at).collect();
        Self { nodes, is_even: OnceCell::new() }
    }

    /// Thinks of a replica as being on another node.
    pub(super) fn set(&mut self, slot: usize, node: NodeIx) {
        if self.nodes[slot] != Some(node) {
            self.nodes[slot] = Some(node);
            self.is_even = OnceCell::new();
        }
    }

    /// The nodes of all others.
    pub(super) fn without(&self, slot: usize) -> Vec<NodeIx> {
        let others = self.nodes.iter().enumerate().filter(|(at, _)| *at != slot);
        others.filter_map(|(_, node)| *node).collect()
    }

    /// Whether the replicas are spread as well as if all were placed anew.
    fn is_even<'a>(&self, service: &ServiceDraft<'a>, pass: &Pass<'a>) -> bool {
        let there = || self.nodes.iter().copied().flatten();
        *self.is_even.get_or_init(|| is_spread_evenly(&pass.nodes, service, there()))
    }
}

/// The node that a replica would get if it were new, where its own is not as good.
pub(super) fn better_node<'a>(
    service: &ServiceDraft<'a>,
    pass: &Pass<'a>,
    slot: usize,
    on_nodes: &OnNodes,
) -> Option<NodeIx> {
    let siblings = on_nodes.without(slot);
    let slot = &service.slots[slot];
    let own = slot.current.at?;
    if !follows_the_spread(service) || !matches!(slot.ordinal, Ordinal::Index(_)) {
        return None;
    }
    // The answer for nearly all, for less than a choice among all nodes costs.
    let is_alone = !siblings.contains(&own);
    let has_no_wishes = service.goal().spec.scheduling.affinities.is_empty();
    let chosen = || {
        let chooser = Chooser::among(&pass.nodes, service, &siblings, Some(own));
        chooser.better_than(&pass.nodes, service.goal().spec, &slot.ordinal, own)
    };
    if is_alone && has_no_wishes && on_nodes.is_even(service, pass) {
        debug_assert!(pass.nodes.rows().len() > COMPARED_MAX || chosen().is_none(), "PL-21");
        return None;
    }
    chosen()
}

/// Whether the steps of a service look for better nodes. A rollback does not: what failed is left
/// behind without another change, and nothing was pulled for it. Nor does a service that stands with
/// others, which would have to follow it.
fn follows_the_spread(service: &ServiceDraft<'_>) -> bool {
    let goal = service.goal();
    let is_spread = match goal.spec.placement {
        Placement::Spread | Placement::Hosts(_) => true,
        Placement::Pack | Placement::Global => false,
    };
    is_spread
        && goal.roll == Roll::Forward
        && goal.spec.scheduling.scoring == Scoring::Jaco
        && service.colocation().is_empty()
        && !has_followers(service)
}

/// Whether a service of the deployment is placed with this one.
fn has_followers(service: &ServiceDraft<'_>) -> bool {
    let name = &service.key.service;
    let follows = |other: &ServiceSpec| {
        let policy = &other.scheduling;
        policy.place_with.contains(name) || policy.shares_namespaces_with.contains(name)
    };
    service.deployment.spec().services.values().any(|other| follows(other))
}

/// The node that a replica would get if it were new, whatever its own is like.
pub(super) fn other_node<'a>(
    service: &ServiceDraft<'a>,
    pass: &Pass<'a>,
    slot: &SlotDraft<'a>,
    siblings: &[NodeIx],
) -> Option<NodeIx> {
    let mut chooser = Chooser::among(&pass.nodes, service, siblings, None);
    chooser.choose(&pass.nodes, service.goal().spec, &slot.ordinal)
}
