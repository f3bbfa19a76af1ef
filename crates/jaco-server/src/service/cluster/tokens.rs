//! Join and operator tokens.

use async_trait::async_trait;
use jaco_pki::{CaCertificate, JoinToken, OperatorToken, TrustBundle};
use jaco_proto::v1;
use jaco_state::command::{JoinTokenIssue, OperatorTokenIssue, OperatorTokenRevoke};
use jaco_state::{ClusterState, token};
use jaco_types::{Author, ErrorCode, Millis, Rejection, TokenId};

use crate::auth::authority::cluster_meta;
use crate::forward::Write;
use crate::member::Member;
use crate::status::invalid;
use crate::view;

/// Default lifetime of a join token.
const JOIN_TOKEN_LIFE: Millis = Millis::from_secs(3600);

/// Maximum lifetime and uses of a join token.
const JOIN_TOKEN_LIFE_MAX: Millis = Millis::from_secs(7 * 24 * 3600);
const JOIN_TOKEN_USES_MAX: u32 = 1000;

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
            let servers = state.nodes.values().map(|node| node.address.clone()).collect();
            Ok((JoinToken::mint(meta.id.clone(), authority), servers))
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
        let token = token::OperatorToken {
            id: minted.id.clone(),
            secret_hash: *minted.secret.hash().as_bytes(),
            issued_at: member.clock.now(),
            issued_by: by.by.clone(),
            revoked_at: None,
        };
        member.commit(by, "", OperatorTokenIssue::new(token).into()).await?;
        Ok(v1::IssueOperatorTokenResponse { token: minted.reveal().to_string() })
    }
}

#[async_trait]
impl Write for v1::RevokeOperatorTokenRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::RevokeOperatorTokenResponse, Rejection> {
        let id = TokenId::new(&self.name).map_err(invalid)?;
        member.commit(by, &self.request_id, OperatorTokenRevoke::new(id).into()).await?;
        Ok(v1::RevokeOperatorTokenResponse {})
    }
}

/// Issued tokens, without their secrets.
pub(super) fn list(state: &ClusterState) -> Vec<v1::TokenInfo> {
    let operators = state.operator_tokens.values().map(|token| v1::TokenInfo {
        id: token.id.to_string(),
        role: "operator".to_owned(),
        issued_at_ms: view::millis(token.issued_at),
        issued_by: token.issued_by.to_string(),
        expires_at_ms: 0,
        revoked_at_ms: token.revoked_at.map_or(0, view::millis),
        uses_left: 0,
    });
    let joins = state.join_tokens.values().map(|token| v1::TokenInfo {
        id: token.id.to_string(),
        role: "join".to_owned(),
        issued_at_ms: view::millis(token.issued_at),
        issued_by: token.issued_by.to_string(),
        expires_at_ms: view::millis(token.expires_at),
        revoked_at_ms: 0,
        uses_left: token.uses_left,
    });
    operators.chain(joins).collect()
}
