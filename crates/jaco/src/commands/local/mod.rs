//! Commands for this machine: contexts, development clusters, help.

pub(crate) mod completion;
pub(crate) mod context;
pub(crate) mod dev;
pub(crate) mod help;
pub(crate) mod man_pages;
pub(crate) mod version;
