//! The place of a node in the table of a pass.

/// A node's place in the table. The order is that of the host names, so that nothing depends on
/// the order in which nodes joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeIx(pub(crate) usize);
