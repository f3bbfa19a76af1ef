//! Choosing a node for one replica after another, by the service's placement. One file per mode;
//! a new mode is a new file and a variant here.

pub(crate) mod global;
pub(crate) mod hosts;
mod pack;
mod spread;

use jaco_types::Ordinal;
use jaco_types::spec::{Placement, ServiceSpec};

use crate::draft::ServiceDraft;
use crate::node_table::{NodeIx, NodeTable};

/// Chooses nodes for the replicas of one service. It counts what it chose, so its caller has to
/// place exactly what it was told. Valid as long as nothing gives room back.
pub(crate) enum Chooser {
    Spread(spread::Spread),
    Pack(pack::Pack),
}

impl Chooser {
    /// A chooser for replicas of `service`, by the placement of its goal.
    pub(crate) fn new(nodes: &NodeTable<'_>, service: &ServiceDraft<'_>) -> Self {
        let candidates = match &service.goal.spec.placement {
            Placement::Hosts(hosts) => hosts::candidates(nodes, hosts),
            Placement::Spread | Placement::Pack | Placement::Global => nodes.open().to_vec(),
        };
        let on_nodes = service.slots.iter().filter_map(|slot| slot.current.at);
        match service.goal.spec.placement {
            Placement::Pack => Self::Pack(pack::Pack::new(nodes, candidates, on_nodes)),
            Placement::Spread | Placement::Hosts(_) | Placement::Global => {
                let seed = spread::Seed::of(&service.key);
                Self::Spread(spread::Spread::new(seed, candidates, on_nodes))
            }
        }
    }

    /// The node for this replica, or `None` if no candidate has room for it.
    pub(crate) fn choose(
        &mut self,
        nodes: &NodeTable<'_>,
        spec: &ServiceSpec,
        ordinal: &Ordinal,
    ) -> Option<NodeIx> {
        match self {
            Self::Spread(spread) => spread.choose(nodes, spec, ordinal),
            Self::Pack(pack) => pack.choose(nodes, spec),
        }
    }
}
