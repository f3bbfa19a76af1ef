//! The nodes as a pass sees them, with what is reserved of each.

pub mod gpu;
mod grouping;
mod index;
mod table;
mod usage;

pub(crate) use grouping::{DomainValue, Grouping, Groupings};
pub(crate) use index::NodeIx;
pub(crate) use table::{NodeRow, NodeTable};
pub(crate) use usage::Usage;
