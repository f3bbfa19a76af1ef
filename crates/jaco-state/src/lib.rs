//! The replicated state of a cluster, and [`apply`], the only way it changes.
//!
//! Everything here is a pure function of its arguments: no clock, no randomness, no hash order, no
//! floats. Two nodes that applied the same entries hold equal states.

#![deny(clippy::float_arithmetic)]

pub mod apply;
pub mod audit;
pub mod audit_chain;
pub mod audit_refusals;
pub mod collecting;
pub mod command;
pub mod contents;
pub mod disabled;
pub mod invariants;
pub mod registries;
pub mod requests;
pub mod state;
pub mod table;
pub mod token;
pub mod view;

pub use apply::{apply, apply_letting_go};
pub use command::{Change, Command, Entry, NewInstance, Outcome};
pub use contents::Content;
pub use disabled::DisabledSet;
pub use state::{ClusterMeta, ClusterState, Deployment};
pub use table::Table;
