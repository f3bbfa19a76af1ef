//! The gRPC services: a folder for each service with several subjects, else a file.

mod archive;
mod audit_action;
pub(crate) mod cluster;
mod context;
pub(crate) mod deploy;
pub(crate) mod exec;
pub(crate) mod images;
mod others;
pub(crate) mod peer;
pub(crate) mod planner;
pub(crate) mod query;
pub(crate) mod routing;
mod upgraded;
pub(crate) mod volumes;

pub(crate) use context::Context;
