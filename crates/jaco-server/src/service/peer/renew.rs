//! Renews the certificates of members.

use jaco_pki::{NodeCsr, ca};
use jaco_proto::v1;
use jaco_state::audit::AuditKind;
use jaco_state::command::AuditNote;
use jaco_store::Store;
use jaco_types::{ErrorCode, Identity, NodeId, Rejection};

use crate::auth::authority::open_authority;
use crate::auth::cluster_key::cluster_meta;
use crate::member::Member;
use crate::status::from_propose_error;

/// Signs a new certificate for the key that the member joined with.
pub(super) async fn renew(
    member: &Member,
    sender: NodeId,
    csr_der: &[u8],
) -> Result<v1::RenewCertificateResponse, Rejection> {
    let csr = NodeCsr::from_der(csr_der)
        .map_err(|error| Rejection::new(ErrorCode::CsrInvalid, error.to_string()))?;
    let known =
        member.store.read(|state| state.nodes.get(&sender).map(|node| node.key_fingerprint));
    if known != Some(*csr.key_fingerprint().as_bytes()) {
        let message = format!("the request has another key than node {sender} joined with");
        return Err(Rejection::new(ErrorCode::CertificateInvalid, message));
    }
    let payload = [("node_id".to_owned(), sender.to_string())].into();
    let command = AuditNote::new(AuditKind::CertificateRenewed, payload).into();
    let by = Identity::Node { id: sender };
    let proposal = jaco_store::Proposal { by, request: None, command };
    member.store.propose(proposal).await.map_err(|error| from_propose_error(&error))?;
    // Only now: a leader that was replaced without knowing it could sign with an authority that was rotated meanwhile.
    let (authority, trust) = member.store.read(|state| -> Result<_, Rejection> {
        let trust = cluster_meta(state)?.ca_certificate.clone();
        Ok((open_authority(state, &member.cluster_key)?, trust))
    })?;
    let certificate = authority
        .sign(&csr, sender, ca::NODE_LIFE, member.clock.now())
        .map_err(|error| Rejection::new(ErrorCode::Internal, error.to_string()))?;
    Ok(v1::RenewCertificateResponse {
        certificate_pem: ca::certificate_pem(&certificate),
        ca_certificate_pem: trust,
    })
}
