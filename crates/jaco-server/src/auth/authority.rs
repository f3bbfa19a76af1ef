//! The cluster's certificate authority, sealed in the replicated state.

use jaco_pki::{CaCertificate, CertificateAuthority, TrustBundle};
use jaco_state::ClusterState;
use jaco_types::{ErrorCode, Rejection};

use super::cluster_key::{ClusterKey, cluster_meta};

/// Opens the certificate authority with the key encryption key of this node.
///
/// # Errors
/// `kek_mismatch` if the key is not the cluster's, `internal` if what is sealed was altered.
pub(crate) fn open_authority(
    state: &ClusterState,
    key: &ClusterKey,
) -> Result<CertificateAuthority, Rejection> {
    let meta = cluster_meta(state)?;
    let key = key.of(state)?;
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
