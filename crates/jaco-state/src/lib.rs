//! The replicated state of a cluster, and [`apply`], the only way it changes.
//!
//! Everything here is a pure function of its arguments: no clock, no randomness, no hash order, no
//! floats. Two nodes that applied the same entries hold equal states. ARCHITECTURE.md lists the laws
//! (ST-…); [`invariants`] checks those that hold of each state.
//!
//! ```text
//! table        cheap snapshots
//! entity       what the state consists of
//! audit        the audit log, its hash chain and retention
//! command      entries of the log and their outcomes
//! requests     outcomes by request id
//! state        the state
//! view         what users and nodes ask of it
//! invariants   what holds of each state
//! apply        how an entry changes it
//! ```

#![deny(clippy::float_arithmetic)]

pub mod apply;
pub mod audit;
pub mod command;
pub mod entity;
pub mod invariants;
pub mod requests;
pub mod state;
pub mod table;
pub mod view;

pub use apply::{apply, apply_evicting};
pub use command::{Change, Command, Entry, NewInstance, Outcome};
pub use entity::cluster_meta::ClusterMeta;
pub use entity::contents::Content;
pub use entity::deployment::Deployment;
pub use entity::disabled::DisabledAllocations;
pub use entity::{
    acme, backup, contents, deployment, disabled, edge, envelope, images, job, kek, network,
    notify, policy, registries, rotation, token,
};
pub use state::ClusterState;
pub use table::Table;
