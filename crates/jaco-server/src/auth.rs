//! Who is asking. Deny by default: only what a connection or a token proves counts.

use jaco_pki::token::OperatorToken;
use jaco_pki::{
    OperatorTokenRecord, PeerIdentity, Revocation, SecretHash, TokenKind, admit_operator,
};
use jaco_state::ClusterState;
use jaco_types::{ErrorCode, Identity, NodeId, Rejection, Timestamp};
use tonic::metadata::MetadataMap;

use crate::connection::Caller;

/// Who sent a request, by its connection and its `authorization` header.
///
/// # Errors
/// `unauthenticated` without any credential, or the reason why the one that was shown is refused.
pub fn identify(
    state: &ClusterState,
    caller: &Caller,
    headers: &MetadataMap,
    now: Timestamp,
) -> Result<Identity, Rejection> {
    match caller {
        Caller::Unix { uid } => Ok(Identity::Local { uid: *uid }),
        Caller::Tls { peer, .. } => match bearer(headers)? {
            Some(token) => operator(state, &token, now),
            None => node(state, peer),
        },
    }
}

/// The member that sent a request.
///
/// # Errors
/// When it is no member: peers' methods are for peers only.
pub fn identify_node(state: &ClusterState, caller: &Caller) -> Result<NodeId, Rejection> {
    let Caller::Tls { peer, .. } = caller else {
        let message = "this method is for members of the cluster, over TLS";
        return Err(Rejection::new(ErrorCode::PermissionDenied, message));
    };
    match node(state, peer)? {
        Identity::Node { id } => Ok(id),
        Identity::Local { .. }
        | Identity::Operator { .. }
        | Identity::Scheduler
        | Identity::Anonymous => {
            Err(Rejection::new(ErrorCode::PermissionDenied, "only members may ask this"))
        }
    }
}

/// A certificate proves its node's id. Whether that node is a member is checked as far as this
/// node can know: an id at or below its state's index is either in it or was removed; a higher one
/// belongs to a node that was admitted after what this node has seen.
fn node(state: &ClusterState, peer: &PeerIdentity) -> Result<Identity, Rejection> {
    let PeerIdentity::Node { id, key_fingerprint, .. } = peer else {
        let message = "no credential was shown: use an operator token, or the unix socket";
        return Err(Rejection::new(ErrorCode::Unauthenticated, message));
    };
    let id = *id;
    match state.nodes.get(&id) {
        Some(member) if member.key_fingerprint == *key_fingerprint.as_bytes() => {
            Ok(Identity::Node { id })
        }
        Some(_) => {
            let message = format!("the certificate of node {id} carries another node's key");
            Err(Rejection::new(ErrorCode::CertificateInvalid, message))
        }
        None if id.0 > state.index.0 || state.meta.is_none() => Ok(Identity::Node { id }),
        None => {
            let message = format!("node {id} is not a member of this cluster any more");
            Err(Rejection::new(ErrorCode::CertificateInvalid, message))
        }
    }
}

fn bearer(headers: &MetadataMap) -> Result<Option<OperatorToken>, Rejection> {
    let Some(value) = headers.get("authorization") else { return Ok(None) };
    let text = value.to_str().ok().and_then(|text| text.strip_prefix("Bearer "));
    let token = text.and_then(|text| text.trim().parse().ok());
    let malformed = || {
        let message = "the authorization header holds no operator token (jo1.…)";
        Rejection::new(ErrorCode::TokenInvalid, message)
    };
    token.map(Some).ok_or_else(malformed)
}

fn operator(
    state: &ClusterState,
    shown: &OperatorToken,
    now: Timestamp,
) -> Result<Identity, Rejection> {
    let known = state.operator_tokens.get(&shown.id).map(|known| OperatorTokenRecord {
        id: known.id.clone(),
        secret: SecretHash::from_bytes(known.secret_hash),
        expires: None,
        revocation: match known.revoked_at {
            Some(_) => Revocation::Revoked,
            None => Revocation::Live,
        },
    });
    match admit_operator(known.as_ref(), shown, now) {
        Ok(()) => Ok(Identity::Operator { token: shown.id.clone() }),
        Err(refusal) => {
            let message = format!("operator token {}: {refusal}", shown.id);
            Err(Rejection::new(refusal.code(TokenKind::Operator), message))
        }
    }
}
