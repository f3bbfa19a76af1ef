//! The wait for the router of this node: a container of a network of the cluster starts only once the network
//! leads somewhere, and not before the router's rules hold for it.

use std::sync::Arc;

use async_trait::async_trait;
use jaco_types::{InstanceId, NetworkId};

/// Knows when the router of this node holds the addresses of an instance.
#[async_trait]
pub trait NetworkGate: Send + Sync {
    /// Waits until the router holds the addresses of an instance in these networks, which the engine has
    /// by now; not for long.
    ///
    /// # Errors
    /// Why it does not hold them.
    async fn ready(&self, instance: &InstanceId, networks: &[NetworkId]) -> Result<(), String>;
}

/// The gate of an agent; none where containers are pretended.
pub type Gate = Option<Arc<dyn NetworkGate>>;
