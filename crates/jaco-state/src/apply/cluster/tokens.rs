//! Operator and join tokens.

use std::collections::BTreeMap;

use jaco_types::{DeploymentName, ErrorCode, Rejection, Rights};

use crate::apply::audit::Audit;
use crate::audit::AuditKind;
use crate::command::{
    Entry, JoinTokenIssue, JoinTokenRevoke, OperatorTokenIssue, OperatorTokenRevoke,
    OperatorTokenRotate, Outcome, TokensUsed,
};
use crate::state::ClusterState;
use crate::token::{OperatorToken, Proof};

/// The name of a token that has expired can be given again. The name of a revoked one cannot: the revocation
/// stays in the list.
pub(in crate::apply) fn issue(
    state: &mut ClusterState,
    command: &OperatorTokenIssue,
    audit: &mut Audit<'_>,
) -> Outcome {
    let OperatorTokenIssue { token } = command;
    let has_expired = |known: &OperatorToken| {
        known.revoked_at.is_none() && known.expires_at.is_some_and(|at| at < token.issued_at)
    };
    if state.operator_tokens.get(&token.id).is_some_and(|known| !has_expired(known)) {
        let message =
            format!("a token named {} exists; revoke it or choose another name", token.id);
        return Outcome::Rejected(Rejection::new(ErrorCode::TokenExists, message));
    }
    audit.note(AuditKind::TokenIssue, facts(token));
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
    let Some(token) = state.operator_tokens.get_mut(id) else {
        let message = format!("there is no operator token named {id}");
        return Outcome::Rejected(Rejection::new(ErrorCode::TokenNotFound, message));
    };
    token.revoked_at.get_or_insert(entry.at);
    match &token.rights {
        Some(_) => audit.note(AuditKind::TokenRevoke, facts(token)),
        None => audit.event(AuditKind::TokenRevoke, [("token", id.to_string())]),
    }
    Outcome::Done
}

/// Rotated again while the former secret still counts, that one stays and the one in between ends: the answer that brought it may
/// have been lost, and programs use the former.
pub(in crate::apply) fn rotate(
    state: &mut ClusterState,
    entry: &Entry,
    command: &OperatorTokenRotate,
    audit: &mut Audit<'_>,
) -> Outcome {
    let OperatorTokenRotate { id, secret_hash, former_until } = command;
    let refused = |code, message| Outcome::Rejected(Rejection::new(code, message));
    let Some(token) = state.operator_tokens.get_mut(id) else {
        let message = format!("there is no operator token named {id}");
        return refused(ErrorCode::TokenNotFound, message);
    };
    if token.revoked_at.is_some() {
        let message = format!("operator token {id} was revoked: issue one with another name");
        return refused(ErrorCode::TokenRevoked, message);
    }
    if token.expires_at.is_some_and(|at| at < entry.at) {
        let message = format!("operator token {id} has expired: issue it again");
        return refused(ErrorCode::TokenExpired, message);
    }
    let former = match token.proof {
        Proof::Secret(present) => present,
        Proof::Rotated { former, former_until, .. } if entry.at <= former_until => former,
        Proof::Rotated { secret, .. } => secret,
        Proof::Certificate(_) => {
            let message = format!("{id} is a client certificate: it is renewed, for the same key");
            return refused(ErrorCode::InvalidRequest, message);
        }
    };
    token.proof = match former_until {
        None => Proof::Secret(*secret_hash),
        Some(until) => Proof::Rotated { secret: *secret_hash, former, former_until: *until },
    };
    let mut facts = facts(token);
    facts.extend(former_until.map(|at| ("former_until_ms".to_owned(), at.0.to_string())));
    audit.note(AuditKind::TokenRotate, facts);
    Outcome::Done
}

/// An earlier use never replaces a later one, and none is later than the entry that tells of it.
pub(in crate::apply) fn used(
    state: &mut ClusterState,
    entry: &Entry,
    command: &TokensUsed,
) -> Outcome {
    let TokensUsed { uses } = command;
    for (id, at) in uses {
        if let Some(token) = state.operator_tokens.get_mut(id) {
            token.last_used_at = token.last_used_at.max(Some(entry.at.min(*at)));
        }
    }
    Outcome::Done
}

/// What events about a token tell of it. Those about one without a role are as they were before there were roles,
/// because all members must write the same events.
fn facts(token: &OperatorToken) -> BTreeMap<String, String> {
    let role = token.rights.as_ref().map_or("operator", |rights| rights.role().as_str());
    let mut facts = vec![("token", token.id.to_string()), ("role", role.to_owned())];
    if let Proof::Certificate(_) = token.proof {
        facts.push(("kind", "certificate".to_owned()));
    }
    if let Some(Rights::Deployer(deployments)) = &token.rights {
        let names: Vec<&str> = deployments.iter().map(DeploymentName::as_str).collect();
        facts.push(("deployments", names.join(", ")));
    }
    facts.into_iter().map(|(name, fact)| (name.to_owned(), fact)).collect()
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

/// It stays in the list until it would have expired, so that a node that presents it learns why it is refused.
pub(in crate::apply) fn revoke_join(
    state: &mut ClusterState,
    entry: &Entry,
    command: &JoinTokenRevoke,
    audit: &mut Audit<'_>,
) -> Outcome {
    let JoinTokenRevoke { id } = command;
    let Some(token) = state.join_tokens.get_mut(id) else {
        let message = format!("there is no join token with the id {id}");
        return Outcome::Rejected(Rejection::new(ErrorCode::TokenNotFound, message));
    };
    if token.revoked_at.is_none() {
        token.revoked_at = Some(entry.at);
        audit.event(AuditKind::TokenRevoke, [("token", id.to_string()), ("role", "join".into())]);
    }
    Outcome::Done
}
