//! Messages of the cluster as sentences: what `jaco` prints and what the page of a node shows, in the same words.
//!
//! Pure: the present is an argument. Must never print, and never show what a message does not have.

pub mod attention;
pub mod condition;
pub mod explain;
pub mod job;
pub mod network;
pub mod node;
pub mod past;
pub mod plan;
pub mod progress;
pub mod pull;
pub mod quantity;
pub mod reason;
pub mod replica;
pub mod service;
pub mod staleness;
pub mod termination;
pub mod time;
pub mod whatif;
