//! The identity of a cluster.

use jaco_types::{ClusterId, Timestamp};

/// The identity of a cluster, and its certificate authority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterMeta {
    /// Its id.
    pub id: ClusterId,
    /// Its name, for display.
    pub name: String,
    /// The certificate of its authority, PEM.
    pub ca_certificate: String,
    /// The authority's private key, sealed; no node stores the key to it beside it.
    pub sealed_ca_key: Vec<u8>,
    /// When it was created.
    pub created_at: Timestamp,
}
