//! Operator tokens, client certificates and join tokens, without what is secret of them.

use jaco_proto::v1::TokenInfo;
use serde_json::{Value, json};

use crate::fields::{non_empty, without_null};
use crate::time::rfc3339;

/// A token as JSON.
#[must_use]
pub fn json(token: &TokenInfo) -> Value {
    without_null(json!({
        "id": token.id,
        "kind": kind(token),
        "role": token.role,
        "deployments": (!token.deployments.is_empty()).then_some(&token.deployments),
        "issued_at": rfc3339(token.issued_at_ms),
        "issued_by": non_empty(&token.issued_by),
        "expires_at": rfc3339(token.expires_at_ms),
        "revoked_at": rfc3339(token.revoked_at_ms),
        "former_until": rfc3339(token.former_until_ms),
        "last_used_at": rfc3339(token.last_used_at_ms),
        "uses_left": (token.role == "join").then_some(token.uses_left),
    }))
}

/// `token` or `certificate`; earlier versions do not say it, and have tokens alone.
#[must_use]
pub fn kind(token: &TokenInfo) -> &str {
    if token.kind.is_empty() { "token" } else { &token.kind }
}
