//! The commands, one file each. The doc comments of their arguments are the help.

pub(crate) mod admin;
pub(crate) mod compose;
pub(crate) mod local;
pub(crate) mod placement;
pub(crate) mod workload;
