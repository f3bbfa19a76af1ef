//! `cpu=max` and its like: the greatest amount that any node has (R-CONS-6).

use std::cell::RefCell;
use std::collections::BTreeMap;

use jaco_types::Node;

use super::check::value_of;

/// The greatest amounts of some nodes, each worked out when it is first asked for.
#[derive(Debug, Default)]
pub(crate) struct Greatest(RefCell<BTreeMap<&'static str, Option<u64>>>);

impl Greatest {
    /// The greatest value of an attribute among `nodes`, which are the same each time; `None` where
    /// nothing is known of it.
    pub(crate) fn of<'n>(
        &self,
        attribute: &'static str,
        nodes: impl Iterator<Item = &'n Node>,
    ) -> Option<u64> {
        let work_out = || nodes.filter_map(|node| value_of(node, attribute)?.parse().ok()).max();
        *self.0.borrow_mut().entry(attribute).or_insert_with(work_out)
    }
}
