//! Clusters of real daemons on loopback, for tests: start, kill, pause and restart them, and wait
//! for the expected state. Nothing here uses another network.

mod binary;
mod cluster;
pub mod docker;
mod node;
pub mod router;
mod wait;

pub use binary::binary;
pub use cluster::{Cluster, Engine};
pub use node::Node;
pub use wait::{eventually, eventually_within, stays};

pub use jaco_client::{Client, ClientError, Target, fresh_request_id};
pub use jaco_proto::v1;
