//! Verification of a presented token. Pure: the stored record and the time are arguments.
//!
//! The secret is compared first, in constant time: an id alone reveals nothing about the token's
//! state, not even its existence.

use jaco_types::{ClusterId, ErrorCode, Timestamp, TokenId};

use crate::fingerprint::Fingerprint;
use crate::token::{JoinToken, OperatorToken, SecretHash, TokenParseError};

/// Stored form of a join token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinTokenRecord {
    pub id: TokenId,
    pub secret: SecretHash,
    /// Good until this moment, inclusive.
    pub expires: Timestamp,
    pub uses_left: u32,
    pub revocation: Revocation,
}

/// Stored form of an operator token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorTokenRecord {
    pub id: TokenId,
    pub secret: SecretHash,
    /// The secret before a rotation, and until when that one is good, inclusive.
    pub former: Option<(SecretHash, Timestamp)>,
    /// Good until this moment, inclusive; `None` means until revoked.
    pub expires: Option<Timestamp>,
    pub revocation: Revocation,
}

/// Stored form of an operator's client certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorCertificateRecord {
    /// That of the key that it was issued for.
    pub key: Fingerprint,
    /// Good until this moment, inclusive, however often it is renewed; `None` means until revoked.
    pub expires: Option<Timestamp>,
    pub revocation: Revocation,
}

/// Whether a token was revoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revocation {
    Live,
    Revoked,
}

/// Which of the two tokens a refusal is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    Join,
    Operator,
}

/// Why a token is refused. Order is the order of the checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenRefusal {
    #[error("token is malformed")]
    Malformed(#[source] TokenParseError),
    #[error("token is for another cluster")]
    WrongCluster,
    /// Reads as [`TokenRefusal::BadSecret`] does: who guesses must not learn which ids exist.
    #[error("no token has this id and this secret")]
    Unknown,
    #[error("no token has this id and this secret")]
    BadSecret,
    #[error("no certificate was issued under this name for this key")]
    AnotherKey,
    #[error("token was revoked")]
    Revoked,
    #[error("token has expired")]
    Expired,
    #[error("token has no uses left")]
    Consumed,
}

/// Whether `token` may admit a node to `cluster` at `now`. `record` is what is stored under its id.
///
/// A joiner that lost the reply comes back with the same key: look its key up among the admitted
/// nodes before taking [`TokenRefusal::Consumed`] for an answer.
pub fn admit_join(
    record: Option<&JoinTokenRecord>,
    token: &JoinToken,
    cluster: &ClusterId,
    now: Timestamp,
) -> Result<(), TokenRefusal> {
    if token.cluster != *cluster {
        return Err(TokenRefusal::WrongCluster);
    }
    let record = record.filter(|record| record.id == token.id);
    check_secret(record.map(|record| record.secret), token.secret.hash())?;
    let record = record.ok_or(TokenRefusal::Unknown)?;
    check_standing(record.revocation, Some(record.expires), now)?;
    if record.uses_left == 0 {
        return Err(TokenRefusal::Consumed);
    }
    Ok(())
}

/// Whether `token` lets an operator in at `now`. `record` is what is stored under its id.
pub fn admit_operator(
    record: Option<&OperatorTokenRecord>,
    token: &OperatorToken,
    now: Timestamp,
) -> Result<(), TokenRefusal> {
    let record = record.filter(|record| record.id == token.id);
    let shown = token.secret.hash();
    let former = record.and_then(|record| record.former).filter(|(_, until)| now <= *until);
    let by_former = check_secret(former.map(|(secret, _)| secret), shown);
    check_secret(record.map(|record| record.secret), shown)
        .or_else(|refusal| by_former.map_err(|_| refusal))?;
    let record = record.ok_or(TokenRefusal::Unknown)?;
    check_standing(record.revocation, record.expires, now)
}

/// Whether a certificate for the key `shown`, which the handshake verified, lets an operator in at `now`. `record` is what
/// is stored under the id in the certificate.
pub fn admit_certificate(
    record: Option<&OperatorCertificateRecord>,
    shown: Fingerprint,
    now: Timestamp,
) -> Result<(), TokenRefusal> {
    let record = record.filter(|record| record.key == shown).ok_or(TokenRefusal::AnotherKey)?;
    check_standing(record.revocation, record.expires, now)
}

impl TokenRefusal {
    /// The code on the wire. A guesser cannot tell an unknown token from a wrong secret by it.
    #[must_use]
    pub const fn code(&self, kind: TokenKind) -> ErrorCode {
        match (self, kind) {
            (Self::Revoked, _) => ErrorCode::TokenRevoked,
            (Self::Expired, TokenKind::Join) => ErrorCode::JoinTokenExpired,
            (Self::Expired, TokenKind::Operator) => ErrorCode::TokenExpired,
            (Self::Consumed, TokenKind::Join) => ErrorCode::JoinTokenConsumed,
            (
                Self::Malformed(_)
                | Self::WrongCluster
                | Self::Unknown
                | Self::BadSecret
                | Self::AnotherKey,
                TokenKind::Join,
            ) => ErrorCode::JoinTokenInvalid,
            (
                Self::Malformed(_)
                | Self::WrongCluster
                | Self::Unknown
                | Self::BadSecret
                | Self::AnotherKey
                | Self::Consumed,
                TokenKind::Operator,
            ) => ErrorCode::TokenInvalid,
        }
    }
}

impl From<TokenParseError> for TokenRefusal {
    fn from(error: TokenParseError) -> Self {
        Self::Malformed(error)
    }
}

/// Compares hashes even when there is nothing to compare with, so that an unknown id takes as long
/// as a wrong secret.
fn check_secret(stored: Option<SecretHash>, presented: SecretHash) -> Result<(), TokenRefusal> {
    let matches = stored.unwrap_or(SecretHash::from_bytes([0; 32])) == presented;
    match (stored, matches) {
        (None, _) => Err(TokenRefusal::Unknown),
        (Some(_), false) => Err(TokenRefusal::BadSecret),
        (Some(_), true) => Ok(()),
    }
}

fn check_standing(
    revocation: Revocation,
    expires: Option<Timestamp>,
    now: Timestamp,
) -> Result<(), TokenRefusal> {
    match revocation {
        Revocation::Revoked => return Err(TokenRefusal::Revoked),
        Revocation::Live => {}
    }
    if expires.is_some_and(|expires| now > expires) {
        return Err(TokenRefusal::Expired);
    }
    Ok(())
}
