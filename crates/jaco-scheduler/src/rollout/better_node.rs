//! Whether the successor of a replica is better off on another node (R-SPREAD-7).
//!
//! A step starts a replica anew, so it may as well start where the spread lacks one. A replica keeps its
//! node if that is as good as the best one: nothing moves for its own sake.

use jaco_types::spec::{Placement, Scoring};
use jaco_types::{Ordinal, ServiceSpec};

use crate::draft::{Pass, Roll, ServiceDraft, SlotDraft};
use crate::nodes::NodeIx;
use crate::placement::Chooser;

/// Where the replicas of a service are, by their places in the list of slots: now, or once steps that are
/// only thought of have been taken.
pub(super) struct OnNodes(Vec<Option<NodeIx>>);

impl OnNodes {
    pub(super) fn of(service: &ServiceDraft<'_>) -> Self {
        Self(service.slots.iter().map(|slot| slot.current.at).collect())
    }

    /// Thinks of a replica as being on another node.
    pub(super) fn set(&mut self, slot: usize, node: NodeIx) {
        self.0[slot] = Some(node);
    }

    /// The nodes of all others.
    pub(super) fn without(&self, slot: usize) -> Vec<NodeIx> {
        let others = self.0.iter().enumerate().filter(|(at, _)| *at != slot);
        others.filter_map(|(_, node)| *node).collect()
    }
}

/// The node that a replica would get if it were new, where its own is not as good.
pub(super) fn better_node<'a>(
    service: &ServiceDraft<'a>,
    pass: &Pass<'a>,
    slot: &SlotDraft<'a>,
    siblings: &[NodeIx],
) -> Option<NodeIx> {
    let own = slot.current.at?;
    if !follows_the_spread(service) || !matches!(slot.ordinal, Ordinal::Index(_)) {
        return None;
    }
    Chooser::among(&pass.nodes, service, siblings, Some(own)).better_than(
        &pass.nodes,
        service.goal().spec,
        &slot.ordinal,
        own,
    )
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
