//! Replicas on nodes that would not take them any more: what is wanted of a node was changed after they were
//! placed. A rule that changes moves nobody; this says whom it would keep away now.

use jaco_types::spec::{Placement, ServiceSpec};
use jaco_types::unit::{Bytes, MilliCores, Resources};
use jaco_types::{NodeId, ReplicaId, ServiceKey};

use super::explain::draft;
use crate::draft::{ServiceDraft, SlotDraft};
use crate::eligibility::{Ineligible, place_refusals};
use crate::input::PlanInput;
use crate::nodes::volume::Lack;
use crate::nodes::{NodeIx, NodeTable};

/// A replica that its service would not place on its node any more.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Noncompliant {
    /// Its service.
    pub service: ServiceKey,
    /// The replica.
    pub replica: ReplicaId,
    /// Its node.
    pub node: NodeId,
    /// The rules that keep such a replica off the node; never empty.
    pub failed: Vec<Ineligible>,
}

/// Every replica that does not comply with what its service asks of a node now, in order. What comes and goes
/// by itself, such as room that others take, counts only as far as the replica's own demand is to blame.
#[must_use]
pub fn noncompliant(input: &PlanInput<'_>) -> Vec<Noncompliant> {
    let mut draft = draft(input);
    let mut found = Vec::new();
    for at in draft.order().iter() {
        let (service, pass) = draft.open(*at);
        let goal = service.goal().spec;
        // A global service leaves the nodes that do not comply.
        if goal.placement == Placement::Global {
            continue;
        }
        for slot in service.slots.iter().filter(|slot| slot.is_active()) {
            let Some(node) = slot.current.at else { continue };
            let failed = against(service, goal, slot, &pass.nodes, node);
            if !failed.is_empty() {
                let (service, replica) = (service.key.clone(), slot.id.clone());
                found.push(Noncompliant { service, replica, node: slot.current.node, failed });
            }
        }
    }
    found.sort();
    found
}

/// What keeps a replica of `goal` off the node that this slot is on, the slot itself left out of account.
fn against(
    service: &ServiceDraft<'_>,
    goal: &ServiceSpec,
    slot: &SlotDraft<'_>,
    nodes: &NodeTable<'_>,
    node: NodeIx,
) -> Vec<Ineligible> {
    let mut failed = place_refusals(nodes, node, goal, service.others(None));
    let own = slot.current.spec.map_or(Resources::default(), |spec| spec.reservation);
    let (left, needs) = (nodes.row(node).left(), goal.reservation);
    // What it has reserved already is its own, whatever else the node has given away.
    let cpu = left.cpu.map(|left| MilliCores(left.0.saturating_add(own.cpu.0)));
    if let Some(available) = cpu.filter(|available| needs.cpu > *available) {
        failed.push(Ineligible::InsufficientCpu { available, required: needs.cpu });
    }
    let memory = left.memory.map(|left| Bytes(left.0.saturating_add(own.memory.0)));
    if let Some(available) = memory.filter(|available| needs.memory > *available) {
        failed.push(Ineligible::InsufficientMemory { available, required: needs.memory });
    }
    failed.extend(lacks_space(goal, slot, nodes, node));
    failed
}

/// The classes of volumes of which too little is left for the sizes that are wanted now.
fn lacks_space(
    goal: &ServiceSpec,
    slot: &SlotDraft<'_>,
    nodes: &NodeTable<'_>,
    node: NodeIx,
) -> Vec<Ineligible> {
    if goal.volumes.is_empty() {
        return Vec::new();
    }
    let mut row = nodes.row(node).clone();
    slot.release_from(node, &mut row);
    let lacks = row.lacks_volumes(goal).into_iter();
    let of_space = lacks.filter(|lack| matches!(lack, Lack::NoSpace { .. }));
    of_space.map(Ineligible::from).collect()
}
