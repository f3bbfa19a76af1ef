//! The nodes with what the slots take of them, from the state alone.

use jaco_state::ClusterState;
use jaco_types::spec::ServiceSpec;
use jaco_types::{DesiredState, Instance, NodeId, Revision, ServiceKey, Slot};

use crate::attribute::ClusterDemands;
use crate::nodes::{NodeTable, Usage};

/// All nodes with what is taken of them. Each slot is shown to `look` on the way, in the order of the ids: to walk
/// over all of them is what a rebalancing costs in a large cluster.
pub(super) fn nodes<'a>(state: &'a ClusterState, mut look: impl FnMut(&'a Slot)) -> NodeTable<'a> {
    let ids: Vec<NodeId> = state.nodes.keys().copied().collect();
    let mut usage = vec![Usage::default(); ids.len()];
    let mut specs = Specs { state, known: None };
    for slot in state.slots.values() {
        look(slot);
        let here = ids.binary_search(&slot.current.node);
        if slot.desired_state == DesiredState::Active
            && let Ok(at) = here
        {
            usage[at].replicas += 1;
            take(&mut usage[at], specs.of(slot, &slot.current), &slot.current);
        }
        if let Some(retiring) = &slot.retiring
            && let Ok(at) = ids.binary_search(&retiring.node)
        {
            take(&mut usage[at], specs.of(slot, retiring), retiring);
        }
    }
    let rows = state.nodes.values().zip(usage);
    NodeTable::new(rows, ClusterDemands::read(&state.constraints))
}

fn take(usage: &mut Usage, spec: Option<&ServiceSpec>, instance: &Instance) {
    if let Some(spec) = spec {
        usage.take(spec, &instance.gpus);
    }
}

/// The specs of instances. Slots come by their names, so that those of one service mostly follow each other.
struct Specs<'a> {
    state: &'a ClusterState,
    known: Option<(&'a ServiceKey, Revision, Option<&'a ServiceSpec>)>,
}

impl<'a> Specs<'a> {
    fn of(&mut self, slot: &'a Slot, instance: &Instance) -> Option<&'a ServiceSpec> {
        if let Some((service, revision, spec)) = self.known
            && revision == instance.revision
            && *service == slot.service
        {
            return spec;
        }
        let spec = self.state.service_spec(&slot.service, instance.revision).map(|spec| &**spec);
        self.known = Some((&slot.service, instance.revision, spec));
        spec
    }
}
