//! Clusters of real daemons on loopback, for tests: start, kill, pause and restart them, and wait
//! for the expected state. Nothing here uses another network, but for namespaces that it makes.

mod binary;
pub mod browser;
pub mod clock;
mod cluster;
mod collector;
mod command;
pub mod docker;
pub mod engines;
mod forwarding;
mod machines;
pub mod memory;
pub mod namespace;
mod node;
mod object_store;
pub mod packages;
mod programs;
pub mod random;
pub mod registry;
pub mod root;
pub mod router;
mod wait;

pub use binary::binary;
pub use cluster::{Cluster, Engine};
pub use collector::{CollectedSpan, Collector, CollectorAnswer};
pub use command::{ran, said, succeeded};
pub use forwarding::Forwarding;
pub use machines::Machines;
pub use node::Node;
pub use object_store::{ObjectStore, StoreAnswer};
pub use programs::{Installation, Programs};
pub use wait::{eventually, eventually_within, stays};

pub use jaco_client::{
    Client, ClientError, Credential, Taken, Target, VolumeInputs, fresh_request_id,
};
pub use jaco_proto::v1;
