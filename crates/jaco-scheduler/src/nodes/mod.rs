//! The nodes as a pass sees them, with what is reserved of each.

pub mod gpu;
mod grouping;
mod index;
mod lasting;
mod table;
mod usage;
pub(crate) mod volume;

pub(crate) use grouping::{DomainValue, Grouping};
pub(crate) use index::NodeIx;
pub(crate) use lasting::Lasting;
pub(crate) use table::{NodeRow, NodeTable};
pub(crate) use usage::Usage;
