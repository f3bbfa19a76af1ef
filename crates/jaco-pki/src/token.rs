//! Join tokens for nodes and operator tokens for operators.
//!
//! Their texts start with a fixed prefix, so that a scanner finds a leaked one, and end with a
//! checksum, so that a damaged one is told from a refused one before anything is sent. The secret is
//! 256 random bits: only its SHA-256 is ever stored, and no slow hash is needed. Neither `Debug` nor
//! `Display` shows it; the full text is given out by `reveal` alone.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use data_encoding::{Encoding, HEXLOWER, Specification};
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, Zeroizing};

use jaco_types::{ClusterId, TokenId};

use crate::fingerprint::Fingerprint;
use crate::random;

/// The longest text that is looked at; the longest possible join token has 183 characters.
pub const TOKEN_CHARS_MAX: usize = 256;

const JOIN_PREFIX: &str = "jt1";
const OPERATOR_PREFIX: &str = "jo1";

/// RFC 4648 base32 in lower case without padding: survives being read out, and double clicks.
static BASE32: LazyLock<Encoding> = LazyLock::new(|| {
    let mut specification = Specification::new();
    specification.symbols.push_str("abcdefghijklmnopqrstuvwxyz234567");
    specification.encoding().expect("32 distinct symbols make an encoding")
});

/// Lets one node join: names the cluster, pins its CA, and proves an invitation. Text:
/// `jt1.<cluster>.<sha256 of the CA>.<id>.<secret>.<crc>`.
#[derive(Clone, PartialEq, Eq)]
pub struct JoinToken {
    pub cluster: ClusterId,
    /// The CA that the server must present, see [`crate::dial::Dialer::joiner`].
    pub authority: Fingerprint,
    pub id: TokenId,
    pub secret: TokenSecret,
}

/// Lets an operator in. Text: `jo1.<id>.<secret>.<crc>`.
#[derive(Clone, PartialEq, Eq)]
pub struct OperatorToken {
    pub id: TokenId,
    pub secret: TokenSecret,
}

/// 256 random bits. Wiped when dropped, compared in constant time, never printed.
#[derive(Clone)]
pub struct TokenSecret([u8; 32]);

/// The SHA-256 of a secret: what the cluster stores.
#[derive(Clone, Copy)]
pub struct SecretHash([u8; 32]);

/// Why a text is not a token. Never repeats any part of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenParseError {
    #[error("token is longer than {TOKEN_CHARS_MAX} characters")]
    TooLong,
    #[error("token does not start with {0:?}")]
    Prefix(&'static str),
    #[error("token does not have {0} parts")]
    Parts(usize),
    #[error("token is damaged: its checksum does not match")]
    Checksum,
    #[error("token has a malformed {0}")]
    Field(&'static str),
}

impl JoinToken {
    /// Makes a token with a new id and a new secret.
    #[must_use]
    pub fn mint(cluster: ClusterId, authority: Fingerprint) -> Self {
        Self { cluster, authority, id: mint_id(), secret: TokenSecret::mint() }
    }

    /// The full text, secret included. Wiped when dropped.
    #[must_use]
    pub fn reveal(&self) -> Zeroizing<String> {
        let authority = BASE32.encode(self.authority.as_bytes());
        let secret = Zeroizing::new(BASE32.encode(&self.secret.0));
        with_checksum(Zeroizing::new(format!(
            "{JOIN_PREFIX}.{}.{authority}.{}.{}",
            self.cluster, self.id, *secret
        )))
    }
}

impl OperatorToken {
    /// Makes a token with a new id and a new secret.
    #[must_use]
    pub fn mint() -> Self {
        Self { id: mint_id(), secret: TokenSecret::mint() }
    }

    /// The full text, secret included. Wiped when dropped.
    #[must_use]
    pub fn reveal(&self) -> Zeroizing<String> {
        let secret = Zeroizing::new(BASE32.encode(&self.secret.0));
        with_checksum(Zeroizing::new(format!("{OPERATOR_PREFIX}.{}.{}", self.id, *secret)))
    }
}

impl FromStr for JoinToken {
    type Err = TokenParseError;

    fn from_str(text: &str) -> Result<Self, TokenParseError> {
        let [cluster, authority, id, secret] = fields(text, JOIN_PREFIX)?;
        Ok(Self {
            cluster: ClusterId::new(cluster).map_err(|_| TokenParseError::Field("cluster id"))?,
            authority: Fingerprint::from_bytes(*decode(authority, "fingerprint")?),
            id: parse_id(id)?,
            secret: TokenSecret(*decode(secret, "secret")?),
        })
    }
}

impl FromStr for OperatorToken {
    type Err = TokenParseError;

    fn from_str(text: &str) -> Result<Self, TokenParseError> {
        let [id, secret] = fields(text, OPERATOR_PREFIX)?;
        Ok(Self { id: parse_id(id)?, secret: TokenSecret(*decode(secret, "secret")?) })
    }
}

impl TokenSecret {
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// What to store of this secret.
    #[must_use]
    pub fn hash(&self) -> SecretHash {
        SecretHash(*Fingerprint::of(&self.0).as_bytes())
    }

    fn mint() -> Self {
        Self(random::bytes())
    }
}

impl SecretHash {
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// 60 random bits: ids never meet by chance in one cluster, and stay short enough to type.
fn mint_id() -> TokenId {
    let mut text = BASE32.encode(&random::bytes::<8>());
    text.truncate(12);
    TokenId::new(&text).expect("base32 in lower case is within the rule for ids")
}

fn parse_id(text: &str) -> Result<TokenId, TokenParseError> {
    TokenId::new(text).map_err(|_| TokenParseError::Field("id"))
}

/// The parts between prefix and checksum, once both have been checked.
fn fields<'a, const N: usize>(
    text: &'a str,
    prefix: &'static str,
) -> Result<[&'a str; N], TokenParseError> {
    let text = text.trim();
    if text.len() > TOKEN_CHARS_MAX {
        return Err(TokenParseError::TooLong);
    }
    let rest = text.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('.'));
    let rest = rest.ok_or(TokenParseError::Prefix(prefix))?;
    let (body, checksum) = rest.rsplit_once('.').ok_or(TokenParseError::Parts(N + 2))?;
    let mut parts = body.split('.');
    let mut found = [""; N];
    for slot in &mut found {
        *slot = parts.next().ok_or(TokenParseError::Parts(N + 2))?;
    }
    if parts.next().is_some() {
        return Err(TokenParseError::Parts(N + 2));
    }
    let checked = &text[..text.len() - checksum.len() - 1];
    if checksum != encode_checksum(checked) {
        return Err(TokenParseError::Checksum);
    }
    Ok(found)
}

fn decode(text: &str, field: &'static str) -> Result<Zeroizing<[u8; 32]>, TokenParseError> {
    let mut out = Zeroizing::new([0; 32]);
    if BASE32.decode_len(text.len()) != Ok(out.len()) {
        return Err(TokenParseError::Field(field));
    }
    BASE32.decode_mut(text.as_bytes(), out.as_mut()).map_err(|_| TokenParseError::Field(field))?;
    Ok(out)
}

fn with_checksum(text: Zeroizing<String>) -> Zeroizing<String> {
    Zeroizing::new(format!("{}.{}", *text, encode_checksum(&text)))
}

fn encode_checksum(text: &str) -> String {
    BASE32.encode(&crc32c::crc32c(text.as_bytes()).to_be_bytes())
}

impl Drop for TokenSecret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl PartialEq for TokenSecret {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for TokenSecret {}

impl PartialEq for SecretHash {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for SecretHash {}

impl fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSecret(redacted)")
    }
}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretHash({})", HEXLOWER.encode(&self.0))
    }
}

impl fmt::Display for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{JOIN_PREFIX}.{}.…{}…", self.cluster, self.id)
    }
}

impl fmt::Debug for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JoinToken({self})")
    }
}

impl fmt::Display for OperatorToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{OPERATOR_PREFIX}.{}…", self.id)
    }
}

impl fmt::Debug for OperatorToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OperatorToken({self})")
    }
}
