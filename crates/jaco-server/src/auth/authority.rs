//! The cluster's certificate authority, sealed in the replicated state.

use jaco_pki::{CaCertificate, CertificateAuthority, TrustBundle};
use jaco_state::ClusterState;
use jaco_types::{ErrorCode, KekId, Rejection};

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
    // What it is sealed with may be the old key of a rotation.
    key.of(state)?;
    let sealed_by = KekId::of_envelope(&meta.sealed_ca_key).and_then(|id| key.ring().get(id));
    let internal = |error: &dyn std::fmt::Display| {
        Rejection::new(
            ErrorCode::Internal,
            format!("the certificate authority of the cluster cannot be opened: {error}"),
        )
    };
    let trust = TrustBundle::from_pem(&meta.ca_certificate).map_err(|error| internal(&error))?;
    let certificate: CaCertificate =
        trust.authorities().first().cloned().ok_or_else(|| internal(&"no certificate"))?;
    let key = sealed_by.ok_or_else(|| internal(&"this node does not have the key"))?;
    CertificateAuthority::open(certificate, &meta.sealed_ca_key, &key)
        .map_err(|error| internal(&error))
}
