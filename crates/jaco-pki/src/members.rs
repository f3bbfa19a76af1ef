//! Which nodes are members, and which were removed.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;

use jaco_types::{NodeId, StateIndex};

/// The members of the cluster at a state.
///
/// A node's id is the index of the entry that admitted it and is never given again, so an id that is
/// not above the state's index and not among the members is a removed node's; one above it is of a
/// node that this state has not heard of yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Members {
    /// Their ids.
    pub nodes: BTreeSet<NodeId>,
    /// The index of the state.
    pub as_of: StateIndex,
}

/// The members as last set, read by handshakes. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct CurrentMembers {
    members: Arc<ArcSwap<Members>>,
}

impl CurrentMembers {
    pub(crate) fn set(&self, members: Members) {
        self.members.store(Arc::new(members));
    }

    pub(crate) fn have_removed(&self, node: NodeId) -> bool {
        let members = self.members.load();
        node.0 <= members.as_of.0 && !members.nodes.contains(&node)
    }
}

impl fmt::Debug for CurrentMembers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CurrentMembers").field(&self.members.load()).finish()
    }
}
