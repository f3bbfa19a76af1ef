//! The edge of this node, as requests of other nodes ask it.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jaco_proto::v1;
use jaco_types::NodeId;

/// What the edges of nodes have answered lately, or why the nodes could not be asked.
pub(crate) type TrafficReports = BTreeMap<NodeId, Result<v1::EdgeTrafficResponse, String>>;

/// What the edges of nodes said a request would meet, or why the nodes could not be asked.
pub(crate) type EdgeReports = BTreeMap<NodeId, Result<v1::ProbeEdgeResponse, String>>;

/// Finds out what the edge of this node does. Implemented by the daemon.
#[async_trait]
pub trait EdgeProbe: Send + Sync + 'static {
    /// What it has answered lately. Where that is not known, the answer says why.
    async fn traffic(&self) -> v1::EdgeTrafficResponse;

    /// What a request would meet there. Where that is not known, the answer says why.
    async fn probe(&self, request: v1::ProbeEdgeRequest) -> v1::ProbeEdgeResponse;
}
