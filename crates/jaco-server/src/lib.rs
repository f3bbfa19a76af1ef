//! The gRPC edge of a node: who may ask, what is asked, and where the answer comes from.
//!
//! One TLS port serves peers and operators, one unix socket serves people on the machine. What is
//! decided here is only whether a request may become a command; the state's rules are checked
//! again by `apply`.

pub mod admission;
pub mod allocation;
pub mod archive;
mod archive_writer;
pub mod auth;
pub mod connection;
pub mod machine;
pub mod member;
pub mod peers;
pub mod preview;
mod raft_line;
pub mod raft_store;
pub mod refusals;
pub mod serve;
pub mod service;
pub mod status;
pub mod transport;
pub mod view;

pub use archive_writer::Archived;
pub use machine::ClusterMachine;
pub use member::{Lifecycle, Member, Stage};
pub use peers::Peers;
pub use raft_store::RaftStore;
