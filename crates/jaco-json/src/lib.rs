//! Messages of the cluster as JSON: the one form that `jaco … -o json` prints and that daemons serve below `/api/v1/`.
//!
//! Stable for programs: names in lower snake case, times as RFC 3339 in UTC, amounts as integers. Members that say nothing
//! are left out. Pure; must never show what is secret: credentials are not in these messages.

pub mod allocation;
pub mod audit;
pub mod certificate;
pub mod cluster;
pub mod deployment;
pub mod difference;
pub mod fields;
pub mod image;
pub mod job;
pub mod network;
pub mod node;
pub mod pull;
pub mod replica;
pub mod route;
pub mod staleness;
pub mod status;
pub mod termination;
pub mod time;
pub mod token;
pub mod volume;
