//! Join and operator tokens.

use async_trait::async_trait;
use jaco_pki::{CaCertificate, JoinToken, OperatorToken, TrustBundle};
use jaco_proto::v1;
use jaco_state::command::{
    JoinTokenIssue, JoinTokenRevoke, OperatorTokenIssue, OperatorTokenRevoke, OperatorTokenRotate,
};
use jaco_state::{ClusterState, token};
use jaco_store::Store;
use jaco_types::{Author, ErrorCode, Millis, Rejection, Rights, Role, Timestamp, TokenId};

use super::rotation;
use crate::auth::cluster_key::cluster_meta;
use crate::forward::Write;
use crate::member::Member;
use crate::service::upgraded;
use crate::status::{from_propose_error, invalid};
use crate::view;

/// Default lifetime of a join token.
const JOIN_TOKEN_LIFE: Millis = Millis::from_secs(3600);

/// Maximum lifetime and uses of a join token.
const JOIN_TOKEN_LIFE_MAX: Millis = Millis::from_secs(7 * 24 * 3600);
const JOIN_TOKEN_USES_MAX: u32 = 1000;

/// How long a secret may count beside the one that replaces it.
const OVERLAP_MAX: Millis = Millis::from_secs(90 * 24 * 3600);

/// Maximum lifetime of an operator token that expires.
const OPERATOR_TOKEN_LIFE_MAX: Millis = Millis::from_secs(3650 * 24 * 3600);

#[async_trait]
impl Write for v1::IssueJoinTokenRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::IssueJoinTokenResponse, Rejection> {
        let (minted, servers) = member.store.read(|state| -> Result<_, Rejection> {
            let meta = cluster_meta(state)?;
            let trust = TrustBundle::from_pem(&meta.ca_certificate)
                .map_err(|error| Rejection::new(ErrorCode::Internal, error.to_string()))?;
            let authority = trust.authorities().first().map(CaCertificate::fingerprint);
            let authority = authority
                .ok_or_else(|| Rejection::new(ErrorCode::Internal, "no authority is trusted"))?;
            Ok((JoinToken::mint(meta.id.clone(), authority), rotation::joinable(state)?))
        })?;
        let now = member.clock.now();
        let life = match self.ttl_secs {
            0 => JOIN_TOKEN_LIFE,
            secs => Millis::from_secs(secs).min(JOIN_TOKEN_LIFE_MAX),
        };
        let expires_at = now.after(life);
        let token = token::JoinToken {
            id: minted.id.clone(),
            secret_hash: *minted.secret.hash().as_bytes(),
            issued_at: now,
            issued_by: by.by.clone(),
            expires_at,
            uses_left: self.uses.clamp(1, JOIN_TOKEN_USES_MAX),
            revoked_at: None,
        };
        member.commit(by, "", JoinTokenIssue::new(token).into()).await?;
        Ok(v1::IssueJoinTokenResponse {
            token: minted.reveal().to_string(),
            expires_at_ms: view::millis(expires_at),
            servers,
        })
    }
}

#[async_trait]
impl Write for v1::IssueOperatorTokenRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::IssueOperatorTokenResponse, Rejection> {
        let mut minted = OperatorToken::mint();
        minted.id = TokenId::new(&self.name).map_err(invalid)?;
        let rights = rights(member, &self.role, &self.deployments)?;
        let now = member.clock.now();
        let expires_at = expiry(self.ttl_secs, now)?;
        let token = token::OperatorToken {
            id: minted.id.clone(),
            proof: token::Proof::Secret(*minted.secret.hash().as_bytes()),
            issued_at: now,
            issued_by: by.by.clone(),
            revoked_at: None,
            expires_at,
            rights,
            last_used_at: None,
        };
        member.commit(by, "", OperatorTokenIssue::new(token).into()).await?;
        Ok(v1::IssueOperatorTokenResponse {
            token: minted.reveal().to_string(),
            expires_at_ms: expires_at.map_or(0, view::millis),
        })
    }
}

#[async_trait]
impl Write for v1::RotateOperatorTokenRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::RotateOperatorTokenResponse, Rejection> {
        let mut minted = OperatorToken::mint();
        minted.id = TokenId::new(&self.name).map_err(invalid)?;
        member.store.read(upgraded::token_rotation_may_begin)?;
        let overlap = Millis::from_secs(self.overlap_secs);
        if overlap > OVERLAP_MAX {
            return Err(invalid("two secrets of a token count for at most 90 days (90d)"));
        }
        let former_until = (overlap > Millis(0)).then(|| member.clock.now().after(overlap));
        let secret = *minted.secret.hash().as_bytes();
        let command = OperatorTokenRotate::new(minted.id.clone(), secret);
        member.commit(by, "", command.former_until(former_until).into()).await?;
        Ok(v1::RotateOperatorTokenResponse {
            token: minted.reveal().to_string(),
            former_until_ms: former_until.map_or(0, view::millis),
        })
    }
}

/// When what is issued at `now` expires, if it does.
pub(super) fn expiry(ttl_secs: u64, now: Timestamp) -> Result<Option<Timestamp>, Rejection> {
    let life = Millis::from_secs(ttl_secs);
    if life > OPERATOR_TOKEN_LIFE_MAX {
        return Err(invalid("an operator token lives for at most ten years (3650d)"));
    }
    Ok((life > Millis(0)).then(|| now.after(life)))
}

/// What the token is to allow. As long as members may not know roles, a token can have none, which is an admin's.
pub(super) fn rights(
    member: &Member,
    role: &str,
    deployments: &[String],
) -> Result<Option<Rights>, Rejection> {
    let role = match role {
        "" => Role::Admin.as_str(),
        given => given,
    };
    let deployments = deployments.iter().map(String::as_str);
    let rights = Rights::new(role, deployments).map_err(invalid)?;
    match member.store.read(upgraded::roles_may_begin) {
        Ok(()) => Ok(Some(rights)),
        Err(_) if rights == Rights::Admin => Ok(None),
        Err(rejection) => Err(rejection),
    }
}

#[async_trait]
impl Write for v1::RevokeTokenRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::RevokeTokenResponse, Rejection> {
        let id = TokenId::new(&self.name).map_err(invalid)?;
        // The token may have been issued a moment ago, through another leader.
        member.store.catch_up().await.map_err(|error| from_propose_error(&error))?;
        let (role, command) = match member.store.read(|state| named(state, &id)) {
            Some(Named::Operator(role)) => (role.as_str(), OperatorTokenRevoke::new(id).into()),
            Some(Named::Join) => ("join", JoinTokenRevoke::new(id).into()),
            None => {
                let message = format!("there is no token with the name or id {id}");
                return Err(Rejection::new(ErrorCode::TokenNotFound, message));
            }
        };
        member.commit(by, &self.request_id, command).await?;
        Ok(v1::RevokeTokenResponse { role: role.to_owned() })
    }
}

/// Which kind of token this is the name of. Names are chosen by users and ids are random, so one text is
/// hardly ever both; a token that still works comes first.
fn named(state: &ClusterState, id: &TokenId) -> Option<Named> {
    let operator = state.operator_tokens.get(id);
    let join = state.join_tokens.get(id).map(|token| token.revoked_at.is_some());
    match (operator, join) {
        (Some(token), Some(false)) if token.revoked_at.is_some() => Some(Named::Join),
        (Some(token), _) => Some(Named::Operator(token.rights().role())),
        (None, Some(_)) => Some(Named::Join),
        (None, None) => None,
    }
}

/// The token that a text names.
enum Named {
    Operator(Role),
    Join,
}

/// Issued tokens, without their secrets.
pub(super) fn list(state: &ClusterState) -> Vec<v1::TokenInfo> {
    let operators = state.operator_tokens.values().map(|token| v1::TokenInfo {
        id: token.id.to_string(),
        role: token.rights().role().to_string(),
        issued_at_ms: view::millis(token.issued_at),
        issued_by: token.issued_by.to_string(),
        expires_at_ms: token.expires_at.map_or(0, view::millis),
        revoked_at_ms: token.revoked_at.map_or(0, view::millis),
        uses_left: 0,
        deployments: deployments(token.rights()),
        last_used_at_ms: token.last_used_at.map_or(0, view::millis),
        kind: match token.proof {
            token::Proof::Secret(_) | token::Proof::Rotated { .. } => "token".to_owned(),
            token::Proof::Certificate(_) => "certificate".to_owned(),
        },
        former_until_ms: match token.proof {
            token::Proof::Rotated { former_until, .. } => view::millis(former_until),
            token::Proof::Secret(_) | token::Proof::Certificate(_) => 0,
        },
    });
    let joins = state.join_tokens.values().map(|token| v1::TokenInfo {
        id: token.id.to_string(),
        role: "join".to_owned(),
        issued_at_ms: view::millis(token.issued_at),
        issued_by: token.issued_by.to_string(),
        expires_at_ms: view::millis(token.expires_at),
        revoked_at_ms: token.revoked_at.map_or(0, view::millis),
        uses_left: token.uses_left,
        deployments: Vec::new(),
        last_used_at_ms: 0,
        kind: "token".to_owned(),
        former_until_ms: 0,
    });
    operators.chain(joins).collect()
}

fn deployments(rights: &Rights) -> Vec<String> {
    match rights {
        Rights::Deployer(deployments) => deployments.iter().map(ToString::to_string).collect(),
        Rights::Viewer | Rights::Operator | Rights::Admin => Vec::new(),
    }
}
