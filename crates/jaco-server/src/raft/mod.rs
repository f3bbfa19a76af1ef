//! The replicated state over consensus: the state machine, the store over it, and the transport.

mod machine;
mod store;
pub mod transport;

pub use machine::ClusterMachine;
pub use store::RaftStore;
