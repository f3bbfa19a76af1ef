//! Commands for compose files, without a cluster, and the group `jaco compose`.

pub(crate) mod config;
mod group;
pub(crate) mod import;
pub(crate) mod schema;
mod support;
pub(crate) mod validate;

pub(crate) use group::{Args, run};
