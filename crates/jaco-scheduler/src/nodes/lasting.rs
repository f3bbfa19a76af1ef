//! What follows from the members alone, whatever a pass judges of them. To work it out for thousands of nodes costs
//! more than the rest of a pass over one deployment, so a planner keeps it until a member changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jaco_types::spec::Constraint;

use super::grouping::Grouping;
use super::index::NodeIx;

/// Users may apply specs with ever new criteria and constraints; those that are in use are worked out again.
const KEPT_MAX: usize = 64;

/// What follows from the members, and from the placement constraints of the cluster.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lasting {
    /// By the attributes of the criteria.
    groupings: BTreeMap<Vec<String>, Arc<Grouping>>,
    /// The nodes that selectors and constraints admit, whether or not they take replicas now.
    admitted: BTreeMap<Admission, Arc<[NodeIx]>>,
}

/// The selectors and constraints of a policy, and the keys that are its own.
pub(super) type Admission = (BTreeSet<String>, Vec<Constraint>, BTreeSet<String>);

impl Lasting {
    pub(super) fn grouping(
        &mut self,
        attributes: Vec<String>,
        work_out: impl FnOnce() -> Grouping,
    ) -> Arc<Grouping> {
        make_room(&mut self.groupings);
        Arc::clone(self.groupings.entry(attributes).or_insert_with(|| Arc::new(work_out())))
    }

    pub(super) fn admitted(
        &mut self,
        by: Admission,
        work_out: impl FnOnce() -> Arc<[NodeIx]>,
    ) -> Arc<[NodeIx]> {
        make_room(&mut self.admitted);
        Arc::clone(self.admitted.entry(by).or_insert_with(work_out))
    }
}

fn make_room<K, V>(kept: &mut BTreeMap<K, V>) {
    if kept.len() >= KEPT_MAX {
        kept.clear();
    }
}
