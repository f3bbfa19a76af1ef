//! Messages of the cluster as tables and JSON. Pure.

pub(crate) mod allocation;
pub(crate) mod audit;
pub(crate) mod backup_schedule;
pub(crate) mod certificate;
pub(crate) mod cluster;
pub(crate) mod content;
pub(crate) mod deployment;
pub(crate) mod difference;
pub(crate) mod explain;
pub(crate) mod image;
pub(crate) mod job;
pub(crate) mod json;
pub(crate) mod kek_rotation;
mod list;
pub(crate) mod machine;
pub(crate) mod network;
pub(crate) mod node;
pub(crate) mod node_reasons;
pub(crate) mod notify;
pub(crate) mod path;
pub(crate) mod plan;
pub(crate) mod policy;
pub(crate) mod rebalance;
pub(crate) mod registry;
pub(crate) mod replica;
pub(crate) mod rotation;
pub(crate) mod route;
pub(crate) mod status;
pub(crate) mod token;
pub(crate) mod top;
mod traffic;
pub(crate) mod volume;

pub use jaco_sentences::progress;
pub(crate) use jaco_sentences::{reason, staleness, termination};
pub(crate) use list::{List, Summary};
