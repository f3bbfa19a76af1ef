//! `jaco config` and `jaco secret`: contents that the cluster stores by name.

mod actions;
pub(crate) mod config;
mod edit;
mod expiry;
mod private;
mod roll;
pub(crate) mod secret;
mod set;
mod source;
