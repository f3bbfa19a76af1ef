//! The cluster's certificate authority, sealed in the replicated state.

use jaco_pki::{CaCertificate, CertificateAuthority, KeyEncryptionKey, TrustBundle};
use jaco_state::{ClusterMeta, ClusterState};
use jaco_types::{ErrorCode, Rejection};

/// What the state says of the cluster itself.
///
/// # Errors
/// `cluster_uninitialized` on a node that has not received the state yet.
pub(crate) fn cluster_meta(state: &ClusterState) -> Result<&ClusterMeta, Rejection> {
    let missing = || {
        let message = "this node has not received the state of its cluster yet: try again, or ask \
                       another node";
        Rejection::new(ErrorCode::ClusterUninitialized, message)
    };
    state.meta.as_ref().ok_or_else(missing)
}

/// Opens the certificate authority with the key encryption key of this node.
///
/// # Errors
/// `internal` if it cannot be opened, because the key belongs to another cluster.
pub(crate) fn open_authority(
    state: &ClusterState,
    key: &KeyEncryptionKey,
) -> Result<CertificateAuthority, Rejection> {
    let meta = cluster_meta(state)?;
    let internal = |error: &dyn std::fmt::Display| {
        Rejection::new(
            ErrorCode::Internal,
            format!("the certificate authority of the cluster cannot be opened: {error}"),
        )
    };
    let trust = TrustBundle::from_pem(&meta.ca_certificate).map_err(|error| internal(&error))?;
    let certificate: CaCertificate =
        trust.authorities().first().cloned().ok_or_else(|| internal(&"no certificate"))?;
    CertificateAuthority::open(certificate, &meta.sealed_ca_key, key)
        .map_err(|error| internal(&error))
}
