//! `jaco config` and `jaco secret`: contents that the cluster stores by name.

mod actions;
pub(crate) mod config;
pub(crate) mod secret;
