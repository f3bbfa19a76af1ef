//! The nodes on which operators disabled services, whichever replicas those have there (R-SEL-3).

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use jaco_state::DisabledAllocations;
use jaco_types::{AllocationScope, ServiceKey};

use crate::nodes::{NodeIx, NodeTable};

/// Where services are disabled by node, and by service and node.
pub(crate) struct DisabledNodes<'a> {
    /// The nodes on which every service is disabled.
    all: Rc<BTreeSet<NodeIx>>,
    /// All nodes on which a service is disabled, where it is on more.
    pairs: BTreeMap<&'a ServiceKey, Rc<BTreeSet<NodeIx>>>,
}

impl<'a> DisabledNodes<'a> {
    pub(crate) fn read(disabled: &'a DisabledAllocations, nodes: &NodeTable<'_>) -> Self {
        let mut all = BTreeSet::new();
        let mut pairs: BTreeMap<&ServiceKey, BTreeSet<NodeIx>> = BTreeMap::new();
        for scope in disabled.scopes.keys() {
            match scope {
                AllocationScope::Node(node) => all.extend(nodes.find(*node)),
                AllocationScope::Pair { service, node } => {
                    pairs.entry(service).or_default().extend(nodes.find(*node));
                }
                AllocationScope::Service(_) | AllocationScope::Replica { .. } => {}
            }
        }
        let both = |own: BTreeSet<NodeIx>| Rc::new(own.union(&all).copied().collect());
        let pairs = pairs.into_iter().map(|(service, own)| (service, both(own))).collect();
        Self { all: Rc::new(all), pairs }
    }

    /// The nodes on which this service is disabled.
    pub(crate) fn of(&self, service: &ServiceKey) -> Rc<BTreeSet<NodeIx>> {
        Rc::clone(self.pairs.get(service).unwrap_or(&self.all))
    }
}
