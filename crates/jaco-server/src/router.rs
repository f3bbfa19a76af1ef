//! The router of this node, as requests of other nodes ask it.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jaco_proto::v1;
use jaco_types::NodeId;

/// What the routers of nodes said, or why the nodes could not be asked.
pub(crate) type Reports = BTreeMap<NodeId, Result<v1::ProbeRouterResponse, String>>;

/// Finds out what the router of this node holds and reaches, and has it take another key. Implemented by the daemon.
#[async_trait]
pub trait RouterProbe: Send + Sync + 'static {
    /// Asks the router, for as long as the request says. Where it does not work, the answer says why.
    async fn probe(&self, request: v1::ProbeRouterRequest) -> v1::ProbeRouterResponse;

    /// Replaces the key of its tunnel, and returns the new public key once the tunnel has it.
    ///
    /// # Errors
    /// Why it has not, or not yet.
    async fn rotate_key(&self) -> Result<[u8; 32], String>;
}
