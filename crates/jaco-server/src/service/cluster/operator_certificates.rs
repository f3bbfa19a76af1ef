//! Client certificates of operators: issued as operator tokens are, and renewed for the same key.

use std::time::Duration;

use async_trait::async_trait;
use jaco_pki::{CertificateAuthority, CertificateDer, NodeCsr, OperatorCertificate, ca, operator};
use jaco_proto::v1;
use jaco_state::command::OperatorTokenIssue;
use jaco_state::token::{OperatorToken, Proof};
use jaco_store::Store;
use jaco_types::{Author, ErrorCode, Identity, Rejection, Role, Timestamp, TokenId};

use super::tokens::{expiry, rights};
use crate::auth::authority::open_authority_for_operators;
use crate::auth::cluster_key::cluster_meta;
use crate::auth::permission::{self, Concern};
use crate::forward::Write;
use crate::member::Member;
use crate::service::upgraded;
use crate::status::{from_propose_error, invalid};
use crate::view;

#[async_trait]
impl Write for v1::IssueOperatorCertificateRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::IssueOperatorCertificateResponse, Rejection> {
        let id = TokenId::new(&self.name).map_err(invalid)?;
        member.store.read(upgraded::certificates_may_begin)?;
        let rights = rights(member, &self.role, &self.deployments)?;
        let csr = request(&self.csr_der)?;
        let now = member.clock.now();
        let expires_at = expiry(self.ttl_secs, now)?;
        // Signed first: what cannot be signed must not take the name.
        let signed = sign(&authority(member)?, &csr, &id, expires_at, now)?;
        let token = OperatorToken {
            id,
            proof: Proof::Certificate(*csr.key_fingerprint().as_bytes()),
            issued_at: now,
            issued_by: by.by.clone(),
            revoked_at: None,
            expires_at,
            rights,
            last_used_at: None,
        };
        member.commit(by, "", OperatorTokenIssue::new(token).into()).await?;
        Ok(v1::IssueOperatorCertificateResponse {
            certificate_pem: ca::certificate_pem(&signed.der),
            certificate_expires_at_ms: view::millis(signed.expires_at),
            expires_at_ms: expires_at.map_or(0, view::millis),
        })
    }
}

/// Renews the certificate of the sender, or for an admin that of another one. What is committed by now counts: a node that
/// lags would renew what was revoked, or sign with an authority that is being replaced and not say so.
pub(super) async fn renew(
    member: &Member,
    author: &Author,
    asked: &v1::RenewOperatorCertificateRequest,
) -> Result<v1::RenewOperatorCertificateResponse, Rejection> {
    member.store.catch_up().await.map_err(|error| from_propose_error(&error))?;
    let id = whose(member, author, &asked.name)?;
    let csr = request(&asked.csr_der)?;
    let now = member.clock.now();
    let known = member.store.read(|state| state.operator_tokens.get(&id).cloned());
    let known = known.ok_or_else(|| {
        let message = format!("there is no client certificate with the name {id}");
        Rejection::new(ErrorCode::TokenNotFound, message)
    })?;
    match known.proof {
        Proof::Secret(_) | Proof::Rotated { .. } => {
            let message = format!("{id} is an operator token: only a certificate is renewed");
            return Err(invalid(message));
        }
        Proof::Certificate(key) if key != *csr.key_fingerprint().as_bytes() => {
            let message = format!(
                "the request has another key than the certificate of {id} was issued for; for a new key issue a new \
                 one: `jaco token issue NAME --csr FILE`"
            );
            return Err(Rejection::new(ErrorCode::CertificateInvalid, message));
        }
        Proof::Certificate(_) => {}
    }
    // Revoked or expired for good: no certificate of it counts any more.
    member.store.read(|state| {
        permission::rights(state, &Identity::Operator { token: id.clone() }, now).map(drop)
    })?;
    let signed = sign(&authority(member)?, &csr, &id, known.expires_at, now)?;
    let (ca_certificate_pem, ends_with_rotation) = member.store.read(|state| {
        let rotation = state.rotation.as_ref();
        let early = rotation.is_some_and(|now| now.is_early_for_operators(&state.nodes));
        cluster_meta(state).map(|meta| (meta.ca_certificate.clone(), early))
    })?;
    Ok(v1::RenewOperatorCertificateResponse {
        certificate_pem: ca::certificate_pem(&signed.der),
        certificate_expires_at_ms: view::millis(signed.expires_at),
        expires_at_ms: known.expires_at.map_or(0, view::millis),
        ca_certificate_pem,
        ends_with_rotation,
    })
}

fn whose(member: &Member, author: &Author, name: &str) -> Result<TokenId, Rejection> {
    let own = match &author.by {
        Identity::Operator { token } => Some(token),
        Identity::Local { .. }
        | Identity::Node { .. }
        | Identity::Scheduler
        | Identity::Anonymous => None,
    };
    match (name, own) {
        ("", Some(own)) => Ok(own.clone()),
        ("", None) => Err(invalid("name the client certificate to renew")),
        (name, own) => {
            let id = TokenId::new(name).map_err(invalid)?;
            if own != Some(&id) {
                member.admit(author, [Concern::Role(Role::Admin)])?;
            }
            Ok(id)
        }
    }
}

fn request(csr_der: &[u8]) -> Result<NodeCsr, Rejection> {
    NodeCsr::from_der(csr_der)
        .map_err(|error| Rejection::new(ErrorCode::CsrInvalid, error.to_string()))
}

fn authority(member: &Member) -> Result<CertificateAuthority, Rejection> {
    member.store.read(|state| open_authority_for_operators(state, &member.cluster_key))
}

struct Signed {
    der: CertificateDer<'static>,
    expires_at: Timestamp,
}

/// Signs until the certificate's usual end, or until what was issued expires.
fn sign(
    authority: &CertificateAuthority,
    csr: &NodeCsr,
    id: &TokenId,
    expires_at: Option<Timestamp>,
    now: Timestamp,
) -> Result<Signed, Rejection> {
    let internal = |error: &dyn std::fmt::Display| {
        Rejection::new(ErrorCode::Internal, format!("the certificate cannot be signed: {error}"))
    };
    let left = expires_at.map(|at| Duration::from_millis(at.since(now).0));
    let life = left.map_or(operator::OPERATOR_LIFE, |left| left.min(operator::OPERATOR_LIFE));
    let der = authority.sign_operator(csr, id, life, now).map_err(|error| internal(&error))?;
    let certificate = OperatorCertificate::read(&der).map_err(|error| internal(&error))?;
    Ok(Signed { expires_at: certificate.validity().not_after, der })
}
