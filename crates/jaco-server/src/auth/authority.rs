//! The cluster's certificate authority, sealed in the replicated state.

use jaco_pki::{CaCertificate, CertificateAuthority, TrustBundle};
use jaco_state::ClusterState;
use jaco_types::{ErrorCode, KekId, Rejection};

use super::cluster_key::{ClusterKey, cluster_meta};

/// Opens the authority that signs, with the key encryption key of this node.
///
/// # Errors
/// `kek_mismatch` if the key is not the cluster's, `internal` if what is sealed was altered.
pub(crate) fn open_authority(
    state: &ClusterState,
    key: &ClusterKey,
) -> Result<CertificateAuthority, Rejection> {
    let meta = cluster_meta(state)?;
    open(state, key, &meta.ca_certificate, &meta.sealed_ca_key)
}

/// Opens the authority that signs certificates of operators.
///
/// # Errors
/// As [`open_authority`].
pub(crate) fn open_authority_for_operators(
    state: &ClusterState,
    key: &ClusterKey,
) -> Result<CertificateAuthority, Rejection> {
    match &state.rotation {
        Some(rotation) if !rotation.phase.is_last() => {
            let signs = rotation.signs_for_operators(&state.nodes);
            open(state, key, &signs.certificate, &signs.sealed_key)
        }
        Some(_) | None => open_authority(state, key),
    }
}

/// `certificates` begins with that of the authority whose private key is sealed.
fn open(
    state: &ClusterState,
    key: &ClusterKey,
    certificates: &str,
    sealed: &[u8],
) -> Result<CertificateAuthority, Rejection> {
    // What it is sealed with may be the old key of a rotation.
    key.of(state)?;
    let sealed_by = KekId::of_envelope(sealed).and_then(|id| key.ring().get(id));
    let internal = |error: &dyn std::fmt::Display| {
        Rejection::new(
            ErrorCode::Internal,
            format!("the certificate authority of the cluster cannot be opened: {error}"),
        )
    };
    let trust = TrustBundle::from_pem(certificates).map_err(|error| internal(&error))?;
    let certificate: CaCertificate =
        trust.authorities().first().cloned().ok_or_else(|| internal(&"no certificate"))?;
    let key = sealed_by.ok_or_else(|| internal(&"this node does not have the key"))?;
    CertificateAuthority::open(certificate, sealed, &key).map_err(|error| internal(&error))
}
