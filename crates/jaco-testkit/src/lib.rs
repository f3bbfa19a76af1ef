//! Clusters of real daemons on loopback, for tests: start, kill, pause and restart them, and wait
//! for what should come of it. Nothing here listens on or talks to anything but loopback.

mod binary;
mod cluster;
pub mod docker;
mod node;
mod wait;

pub use binary::binary;
pub use cluster::{Cluster, Engine};
pub use node::Node;
pub use wait::{eventually, eventually_within};

pub use jaco_client::{Client, ClientError, Target, fresh_request_id};
pub use jaco_proto::v1;
