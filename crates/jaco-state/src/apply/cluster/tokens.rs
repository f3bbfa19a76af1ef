//! Operator and join tokens.

use jaco_types::{ErrorCode, Rejection};

use crate::apply::audit::Audit;
use crate::audit::AuditKind;
use crate::command::{Entry, JoinTokenIssue, OperatorTokenIssue, OperatorTokenRevoke, Outcome};
use crate::state::ClusterState;

pub(in crate::apply) fn issue(
    state: &mut ClusterState,
    command: &OperatorTokenIssue,
    audit: &mut Audit<'_>,
) -> Outcome {
    let OperatorTokenIssue { token } = command;
    if state.operator_tokens.contains(&token.id) {
        let message =
            format!("a token named {} exists; revoke it or choose another name", token.id);
        return Outcome::Rejected(Rejection::new(ErrorCode::TokenExists, message));
    }
    audit.event(
        AuditKind::TokenIssue,
        [("token", token.id.to_string()), ("role", "operator".into())],
    );
    state.operator_tokens.insert(token.id.clone(), token.clone());
    Outcome::Done
}

pub(in crate::apply) fn revoke(
    state: &mut ClusterState,
    entry: &Entry,
    command: &OperatorTokenRevoke,
    audit: &mut Audit<'_>,
) -> Outcome {
    let OperatorTokenRevoke { id } = command;
    if !state.operator_tokens.contains(id) {
        let message = format!("there is no operator token named {id}");
        return Outcome::Rejected(Rejection::new(ErrorCode::TokenNotFound, message));
    }
    audit.event(AuditKind::TokenRevoke, [("token", id.to_string())]);
    if let Some(token) = state.operator_tokens.get_mut(id) {
        token.revoked_at.get_or_insert(entry.at);
    }
    Outcome::Done
}

/// Tokens that cannot be used any more go with the next one that is issued, so their number is
/// bounded by what is issued within one lifetime.
pub(in crate::apply) fn issue_join(
    state: &mut ClusterState,
    command: &JoinTokenIssue,
    audit: &mut Audit<'_>,
) -> Outcome {
    let JoinTokenIssue { token } = command;
    if state.join_tokens.contains(&token.id) {
        let message = format!("a join token with the id {} exists", token.id);
        return Outcome::Rejected(Rejection::new(ErrorCode::TokenExists, message));
    }
    audit.event(AuditKind::TokenIssue, [("token", token.id.to_string()), ("role", "join".into())]);
    let now = token.issued_at;
    state.join_tokens.retain(|_, known| now < known.expires_at);
    state.join_tokens.insert(token.id.clone(), token.clone());
    Outcome::Done
}
