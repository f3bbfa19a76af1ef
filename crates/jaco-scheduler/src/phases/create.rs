//! Creates the replicas that are missing (R-LOOP-3).

use std::collections::BTreeSet;

use jaco_types::spec::{Placement, ServiceSpec};
use jaco_types::{DesiredState, Ordinal, ReplicaId};

use crate::draft::{Draft, Pass, ServiceDraft};
use crate::nodes::NodeIx;
use crate::placement::{Chooser, candidates, hosts};
use crate::rollout::dependency;
use crate::verdict::is_own_kind;

/// Which services a phase creates replicas of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Services {
    /// Those that are placed on their own. They give the others a place.
    Independent,
    /// Those that are colocated with others.
    Colocated,
}

impl Services {
    fn of(spec: &ServiceSpec) -> Self {
        let policy = &spec.scheduling;
        match policy.shares_namespaces_with.is_empty() && policy.place_with.is_empty() {
            true => Self::Independent,
            false => Self::Colocated,
        }
    }
}

/// For how many replicas memory is reserved at once, of one service and of all: a service that asks for
/// more than the cluster has room for must not get the planner's memory for them.
const RESERVED_MAX: usize = 1_024;
const RESERVED_ALL_MAX: usize = 262_144;

/// Reserves memory in the plan for all that is missing and for a record of each service, so that a large
/// plan is not copied again and again while it grows.
pub(crate) fn reserve(draft: &mut Draft<'_>) {
    let counts = draft.services().iter().map(missing);
    let all = counts.fold(0, usize::saturating_add).min(RESERVED_ALL_MAX);
    let services = draft.services().len();
    draft.pass.changes.reserve(all + services);
    draft.pass.report.placed.reserve(all);
}

/// Creates the replicas that are missing of these services.
pub(crate) fn create(draft: &mut Draft<'_>, services: Services) {
    for at in draft.order().iter() {
        if Services::of(draft.services()[*at].goal().spec) != services
            || dependency::unmet(draft, *at).is_some()
        {
            continue;
        }
        let (service, pass) = draft.open(*at);
        match service.goal().spec.placement {
            Placement::Global => create_on_each_node(service, pass),
            Placement::Spread | Placement::Pack | Placement::Hosts(_) => {
                create_missing(service, pass);
            }
        }
    }
}

/// How many replicas the service has too few of.
pub(crate) fn missing(service: &ServiceDraft<'_>) -> usize {
    let placement = &service.goal().spec.placement;
    let present = service.slots.iter().filter(|slot| is_own_kind(slot, placement)).count();
    let wanted = usize::try_from(service.goal().spec.replicas).unwrap_or(usize::MAX);
    wanted.saturating_sub(present)
}

fn create_missing<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>) {
    let missing = missing(service);
    if missing == 0 || hosts::shortage(service, pass).is_some() {
        return;
    }
    let spec = service.goal().spec;
    let mut chooser = Chooser::new(&pass.nodes, service);
    service.slots.reserve(missing.min(RESERVED_MAX));
    for _ in 0..missing {
        if !pass.has_addresses(&service.key, service.goal().revision, spec) {
            return;
        }
        let (index, ordinal) = next_ordinal(service, pass);
        let Some(node) = chooser.choose(&pass.nodes, spec, &ordinal) else { return };
        service.record.next_index = index.saturating_add(1);
        service.create(pass, ordinal, node);
        let slot = service.slots.last().expect("a slot was just created");
        pass.report.place(slot.id.clone(), slot.current.node, spec.placement.as_str());
    }
}

/// The next index whose name is free. Two services can only share a name if an older version admitted
/// them; skipping is what keeps such a cluster alive.
fn next_ordinal(service: &ServiceDraft<'_>, pass: &Pass<'_>) -> (u64, Ordinal) {
    let mut index = service.record.next_index;
    loop {
        let ordinal = Ordinal::Index(index);
        let id = ReplicaId::new(&service.key, &ordinal);
        if index == u64::MAX || !pass.input.state.slots.contains(&id) {
            return (index, ordinal);
        }
        index += 1;
    }
}

/// `global`: one replica on each node that takes any, named after it (R-PLACE-4).
fn create_on_each_node<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>) {
    let spec = service.goal().spec;
    let present: BTreeSet<NodeIx> = nodes_of_global(service).collect();
    let allowed = candidates(&pass.nodes, spec, service.colocation());
    for node in allowed.iter().copied().filter(|node| !present.contains(node)) {
        let row = pass.nodes.row(node);
        let ordinal = Ordinal::Host(row.node.hostname.clone());
        // The host's replica of before it left is still there: it moves to the new node, or waits.
        let is_taken = pass.input.state.slots.contains(&ReplicaId::new(&service.key, &ordinal));
        // A disabled replica takes no room.
        let is_disabled = service.desired_state_of_new(pass, node) == DesiredState::Disabled;
        let revision = service.goal().revision;
        let fits = row.fits(spec) && pass.has_addresses(&service.key, revision, spec);
        if is_taken || !(is_disabled || fits) {
            continue;
        }
        let id = row.id;
        service.create(pass, ordinal, node);
        let slot = service.slots.last().expect("a slot was just created");
        pass.report.place(slot.id.clone(), id, "global");
    }
}

/// The nodes that have their replica of a global service.
pub(crate) fn nodes_of_global(service: &ServiceDraft<'_>) -> impl Iterator<Item = NodeIx> {
    let own = service.slots.iter().filter(|slot| matches!(slot.ordinal, Ordinal::Host(_)));
    own.filter_map(|slot| slot.current.at)
}
