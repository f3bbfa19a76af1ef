//! Tokens as the cluster remembers them: never the secret, only its hash.

use std::fmt;

use jaco_types::{Identity, Rights, Timestamp, TokenId};

/// Lets an operator use the cluster over TLS.
#[derive(Clone, PartialEq, Eq)]
pub struct OperatorToken {
    /// Its public id.
    pub id: TokenId,
    /// What its holder shows.
    pub proof: Proof,
    /// When it was issued.
    pub issued_at: Timestamp,
    /// By whom.
    pub issued_by: Identity,
    /// When it was revoked, if it was.
    pub revoked_at: Option<Timestamp>,
    /// When it stops working; `None` for a token that works until it is revoked.
    pub expires_at: Option<Timestamp>,
    /// What it allows; absent for a token of before there were roles, which allows everything.
    pub rights: Option<Rights>,
    /// When it was last used, to an hour; `None` if it never was, or only with versions that did not note it.
    pub last_used_at: Option<Timestamp>,
}

impl OperatorToken {
    /// What it allows.
    #[must_use]
    pub fn rights(&self) -> &Rights {
        self.rights.as_ref().unwrap_or(&Rights::Admin)
    }
}

/// What the holder of an operator token shows, as the cluster remembers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// The token's secret, by its SHA-256; it has 256 random bits, so no slow hash is needed.
    Secret([u8; 32]),
    /// A secret that was rotated, and until a moment the one before it as well, so that programs can be given the new one
    /// one after another. Both by their SHA-256.
    Rotated {
        /// The newest secret.
        secret: [u8; 32],
        /// The one that it replaces.
        former: [u8; 32],
        /// Until when that one counts, inclusive.
        former_until: Timestamp,
    },
    /// A client certificate that the cluster's authority signed for a public key, by the key's SHA-256. The certificate
    /// may be renewed, its key stays.
    Certificate([u8; 32]),
}

/// Lets nodes join.
#[derive(Clone, PartialEq, Eq)]
pub struct JoinToken {
    /// Its public id.
    pub id: TokenId,
    /// SHA-256 of the secret.
    pub secret_hash: [u8; 32],
    /// When it was issued.
    pub issued_at: Timestamp,
    /// By whom.
    pub issued_by: Identity,
    /// When it stops working.
    pub expires_at: Timestamp,
    /// How many joins it is still good for.
    pub uses_left: u32,
    /// When it was revoked, if it was.
    pub revoked_at: Option<Timestamp>,
}

// Hashes are not secrets, but nothing is gained by printing them into logs either.
impl fmt::Debug for OperatorToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("OperatorToken");
        out.field("id", &self.id).field("revoked_at", &self.revoked_at).finish_non_exhaustive()
    }
}

impl fmt::Debug for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("JoinToken");
        out.field("id", &self.id).field("uses_left", &self.uses_left).finish_non_exhaustive()
    }
}
