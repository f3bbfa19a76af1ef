//! Authentication: who sent a request. Denied unless the connection or a token proves an identity.

pub(crate) mod authority;
pub(crate) mod cluster_key;
pub(crate) mod connection;
pub(crate) mod credential;
pub mod permission;
pub(crate) mod random_name;
pub mod refusals;
pub(crate) mod reseal;
pub(crate) mod sign_in_links;
pub mod uses;

use std::net::SocketAddr;

use jaco_pki::token::OperatorToken;
use jaco_pki::{
    Fingerprint, OperatorCertificateRecord, OperatorTokenRecord, PeerIdentity, Revocation,
    SecretHash, TokenKind, TokenRefusal, admit_certificate, admit_operator,
};
use jaco_state::ClusterState;
use jaco_state::token::Proof;
use jaco_types::{ErrorCode, Identity, NodeId, Origin, Rejection, Timestamp, TokenId};
use tonic::metadata::MetadataMap;
use tonic::{Request, Status};

use connection::Caller;

/// The sender of a request, by its connection and its `authorization` header.
///
/// # Errors
/// `unauthenticated` without a credential, or the code of why the credential is refused.
pub(crate) fn identify(
    state: &ClusterState,
    caller: &Caller,
    headers: &MetadataMap,
    now: Timestamp,
) -> Result<Identity, Rejection> {
    match caller {
        Caller::Unix { uid } | Caller::Browser { uid, .. } => Ok(Identity::Local { uid: *uid }),
        Caller::Tls { peer, .. } => match bearer(headers)? {
            Some(token) => operator(state, &token, now),
            None => certified(state, peer, now),
        },
    }
}

/// The member that sent a request.
///
/// # Errors
/// When the sender is no member.
pub(crate) fn identify_node(state: &ClusterState, caller: &Caller) -> Result<NodeId, Rejection> {
    let Caller::Tls { peer, .. } = caller else {
        let message = "this rpc is for members of the cluster, over TLS with their certificate";
        return Err(Rejection::new(ErrorCode::PermissionDenied, message));
    };
    match peer {
        PeerIdentity::Node { id, key_fingerprint, .. } => node(state, *id, key_fingerprint),
        PeerIdentity::Operator { .. } => Err(Rejection::new(
            ErrorCode::PermissionDenied,
            "this rpc is for members of the cluster: an operator's certificate does not allow it",
        )),
        PeerIdentity::None => Err(no_credential()),
    }
}

/// The sender by the certificate of its connection.
fn certified(
    state: &ClusterState,
    peer: &PeerIdentity,
    now: Timestamp,
) -> Result<Identity, Rejection> {
    match peer {
        PeerIdentity::Node { id, key_fingerprint, .. } => {
            node(state, *id, key_fingerprint).map(|id| Identity::Node { id })
        }
        PeerIdentity::Operator { id, key_fingerprint, .. } => {
            certified_operator(state, id, *key_fingerprint, now)
        }
        PeerIdentity::None => Err(no_credential()),
    }
}

fn no_credential() -> Rejection {
    let message = "the request has no credential: send an operator token (`jaco token issue` makes one on a \
                   node), or use the unix socket of a node";
    Rejection::new(ErrorCode::Unauthenticated, message)
}

/// A certificate proves a node's id. Whether that node is a member is checked against this node's state,
/// which may be old: an id at or below the state's index is in it or was removed; a higher one is of a node
/// that was admitted later.
fn node(state: &ClusterState, id: NodeId, key: &Fingerprint) -> Result<NodeId, Rejection> {
    match state.nodes.get(&id) {
        Some(member) if member.key_fingerprint == *key.as_bytes() => Ok(id),
        Some(_) => {
            let message = format!(
                "the certificate of node {id} has another key than the node joined with; reset its \
                                   data directory and join it anew"
            );
            Err(Rejection::new(ErrorCode::CertificateInvalid, message))
        }
        None if id.0 > state.index.0 || state.meta.is_none() => Ok(id),
        None => {
            let message = format!(
                "node {id} was removed from this cluster; to use the machine again, reset its data \
                                   directory and join it anew"
            );
            Err(Rejection::new(ErrorCode::CertificateInvalid, message))
        }
    }
}

fn bearer(headers: &MetadataMap) -> Result<Option<OperatorToken>, Rejection> {
    let Some(value) = headers.get("authorization") else { return Ok(None) };
    let text = value.to_str().ok().and_then(|text| text.strip_prefix("Bearer "));
    let token = text.and_then(|text| text.trim().parse().ok());
    let malformed = || {
        let message = "the authorization header has no operator token: it must be `Bearer jo1.…`";
        Rejection::new(ErrorCode::TokenInvalid, message)
    };
    token.map(Some).ok_or_else(malformed)
}

fn operator(
    state: &ClusterState,
    shown: &OperatorToken,
    now: Timestamp,
) -> Result<Identity, Rejection> {
    // What was issued as a certificate has no secret: no token is one of it.
    let known = state.operator_tokens.get(&shown.id).and_then(|known| {
        let (secret, former) = match known.proof {
            Proof::Certificate(_) => return None,
            Proof::Secret(secret) => (secret, None),
            Proof::Rotated { secret, former, former_until } => {
                (secret, Some((SecretHash::from_bytes(former), former_until)))
            }
        };
        Some(OperatorTokenRecord {
            id: known.id.clone(),
            secret: SecretHash::from_bytes(secret),
            former,
            expires: known.expires_at,
            revocation: revocation(known),
        })
    });
    match admit_operator(known.as_ref(), shown, now) {
        Ok(()) => Ok(Identity::Operator { token: shown.id.clone() }),
        Err(refusal) => {
            let message = format!("operator token {}: {refusal}", shown.id);
            Err(Rejection::new(refusal.code(TokenKind::Operator), message))
        }
    }
}

/// The handshake has verified the certificate; whether it still counts is looked up for each request.
fn certified_operator(
    state: &ClusterState,
    id: &TokenId,
    key: Fingerprint,
    now: Timestamp,
) -> Result<Identity, Rejection> {
    let known = state.operator_tokens.get(id).and_then(|known| match known.proof {
        Proof::Secret(_) | Proof::Rotated { .. } => None,
        Proof::Certificate(key) => Some(OperatorCertificateRecord {
            key: Fingerprint::from_bytes(key),
            expires: known.expires_at,
            revocation: revocation(known),
        }),
    });
    match admit_certificate(known.as_ref(), key, now) {
        Ok(()) => Ok(Identity::Operator { token: id.clone() }),
        Err(refusal) => {
            let message = if refusal == TokenRefusal::Revoked {
                format!("client certificate {id} was revoked")
            } else if refusal == TokenRefusal::Expired {
                format!("client certificate {id} has expired, and is not renewed any more")
            } else {
                format!("client certificate {id}: {refusal}")
            };
            Err(Rejection::new(refusal.code(TokenKind::Operator), message))
        }
    }
}

fn revocation(known: &jaco_state::token::OperatorToken) -> Revocation {
    match known.revoked_at {
        Some(_) => Revocation::Revoked,
        None => Revocation::Live,
    }
}

/// What the connection of a request proves about its sender.
///
/// # Errors
/// `internal` if the listener did not set it, which it always does.
pub(crate) fn caller<T>(request: &Request<T>) -> Result<&Caller, Status> {
    let missing = || Status::internal("the listener did not record the sender of the request");
    request.extensions().get::<Caller>().ok_or_else(missing)
}

/// The origin of a request in audit events; `node` received it.
pub(crate) fn asked_from(caller: &Caller, node: NodeId) -> Origin {
    match caller {
        Caller::Unix { uid } => Origin::Socket { uid: *uid, node },
        // Without the scope id, which has a meaning on this machine only.
        Caller::Tls { source, .. } | Caller::Browser { source, .. } => {
            Origin::Address { address: SocketAddr::new(source.ip(), source.port()), node }
        }
    }
}

/// The origin of a request, for logs and events of refused access.
#[must_use]
pub(crate) fn address(caller: &Caller) -> String {
    match caller {
        Caller::Unix { uid } => format!("unix socket, uid {uid}"),
        Caller::Tls { source, .. } | Caller::Browser { source, .. } => source.ip().to_string(),
    }
}
