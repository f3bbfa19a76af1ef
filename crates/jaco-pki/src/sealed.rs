//! Secrets at rest: what is replicated or written to a snapshot only in sealed form.
//!
//! A sealed value opens only under the same key, for the same purpose, in the same cluster: a sealed
//! CA key cannot be passed off as a secret, nor one version of a secret as another. The envelope is
//! `version (1) | algorithm (1) | key id (8) | nonce (12) | ciphertext and tag`; its bytes are
//! frozen, new forms get a new version.

use std::fmt;

use data_encoding::HEXLOWER;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::hmac;
use zeroize::{Zeroize, Zeroizing};

use jaco_types::{ClusterId, KekId};

use crate::naming::NamingKey;
use crate::random;

const VERSION: u8 = 1;
const CHACHA20_POLY1305_ID: u8 = 1;
const KEY_ID_BYTES: usize = 8;
const NONCE_BYTES: usize = 12;
const TAG_BYTES: usize = 16;
const HEADER_BYTES: usize = 2 + KEY_ID_BYTES + NONCE_BYTES;

/// How many bytes an envelope adds to what it holds.
pub const OVERHEAD_BYTES: usize = HEADER_BYTES + TAG_BYTES;

/// The key that seals a cluster's secrets. Each server holds it in a file; it is never replicated.
///
/// Nonces are random, so one key should seal fewer than 2^32 values; a cluster seals a handful.
#[derive(Clone)]
pub struct KeyEncryptionKey([u8; 32]);

/// What a sealed value is for. Part of what is authenticated, so it cannot be changed afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose<'a> {
    /// The private key of the cluster's CA.
    CaKey,
    /// One version of a user's secret.
    Secret { name: &'a str, version: u64 },
    /// The password of a user at an image registry.
    Registry { name: &'a str, username: &'a str },
    /// The private key of a certificate that a user brought, under the name that routes have for it.
    ServedKey { name: &'a str },
    /// The private key of the account at an authority of certificates, by the address of its directory.
    AcmeAccountKey { directory: &'a str },
    /// The private key of a certificate that the cluster ordered for a domain.
    IssuedKey { domain: &'a str },
    /// The key that names secrets.
    NamingKey,
    /// The address of a notification target, and what signs what it is sent.
    NotifyTarget { name: &'a str },
    /// The key of a backup schedule at an object store.
    BackupSchedule { name: &'a str },
}

/// Why an envelope does not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    #[error("sealed value is too short")]
    Truncated,
    #[error("sealed value has unknown version {0}")]
    Version(u8),
    #[error("sealed value has unknown algorithm {0}")]
    Algorithm(u8),
    #[error("sealed value belongs to another key-encryption key")]
    WrongKey,
    #[error("sealed value was altered, or belongs to another cluster or purpose")]
    Refused,
}

impl KeyEncryptionKey {
    #[must_use]
    pub fn generate() -> Self {
        Self(random::bytes())
    }

    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Reads what [`KeyEncryptionKey::to_hex`] wrote; surrounding white space is ignored.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let bytes = Zeroizing::new(HEXLOWER.decode(text.trim().as_bytes()).ok()?);
        Some(Self(bytes.as_slice().try_into().ok()?))
    }

    /// The key as text, for the node's own key file. Wiped when dropped.
    #[must_use]
    pub fn to_hex(&self) -> Zeroizing<String> {
        Zeroizing::new(HEXLOWER.encode(&self.0))
    }

    /// Names the key without giving it away, so that a wrong key is told from a damaged value.
    #[must_use]
    pub fn id(&self) -> KekId {
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &self.0), b"jaco key id v1");
        let mut id = [0; KEY_ID_BYTES];
        id.copy_from_slice(&tag.as_ref()[..KEY_ID_BYTES]);
        KekId(id)
    }

    /// The key that names secrets where the cluster has none of its own, which it has from the first rotation of this
    /// one on.
    #[must_use]
    pub fn naming_key(&self) -> NamingKey {
        // A key of its own, so that a name says nothing about anything else that this key does.
        let own = hmac::Key::new(hmac::HMAC_SHA256, &self.0);
        let mut bytes = [0; 32];
        bytes.copy_from_slice(hmac::sign(&own, b"jaco content name v1").as_ref());
        NamingKey::from_bytes(bytes)
    }

    fn cipher(&self) -> LessSafeKey {
        let key = UnboundKey::new(&CHACHA20_POLY1305, &self.0);
        LessSafeKey::new(key.expect("a key of 32 bytes fits the cipher"))
    }
}

/// Seals `plaintext`. Two calls never give the same bytes.
#[must_use]
pub fn seal(
    key: &KeyEncryptionKey,
    cluster: &ClusterId,
    purpose: Purpose<'_>,
    plaintext: &[u8],
) -> Vec<u8> {
    let nonce: [u8; NONCE_BYTES] = random::bytes();
    let mut envelope = Vec::with_capacity(plaintext.len() + OVERHEAD_BYTES);
    envelope.extend([VERSION, CHACHA20_POLY1305_ID]);
    envelope.extend(key.id().0);
    envelope.extend(nonce);
    let associated = Aad::from(associated_data(&envelope, cluster, purpose));
    // Encrypted where it will stay: no second copy of the plaintext is left in memory.
    envelope.extend(plaintext);
    let tag = key
        .cipher()
        .seal_in_place_separate_tag(
            Nonce::assume_unique_for_key(nonce),
            associated,
            &mut envelope[HEADER_BYTES..],
        )
        .expect("the cipher refuses only inputs of 256 GiB and more");
    envelope.extend(tag.as_ref());
    envelope
}

/// Opens what [`seal`] made. Total on any input; the plaintext is wiped when dropped.
pub fn open(
    key: &KeyEncryptionKey,
    cluster: &ClusterId,
    purpose: Purpose<'_>,
    envelope: &[u8],
) -> Result<Zeroizing<Vec<u8>>, OpenError> {
    let version = *envelope.first().ok_or(OpenError::Truncated)?;
    if version != VERSION {
        return Err(OpenError::Version(version));
    }
    if envelope.len() < OVERHEAD_BYTES {
        return Err(OpenError::Truncated);
    }
    let (header, sealed) = envelope.split_at(HEADER_BYTES);
    if header[1] != CHACHA20_POLY1305_ID {
        return Err(OpenError::Algorithm(header[1]));
    }
    let (key_id, nonce) = header[2..].split_at(KEY_ID_BYTES);
    if key_id != key.id().0 {
        return Err(OpenError::WrongKey);
    }
    let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| OpenError::Truncated)?;
    let associated = Aad::from(associated_data(header, cluster, purpose));
    let mut bytes = Zeroizing::new(sealed.to_vec());
    let length = key
        .cipher()
        .open_in_place(nonce, associated, &mut bytes)
        .map_err(|_| OpenError::Refused)?
        .len();
    bytes.truncate(length);
    Ok(bytes)
}

/// Whether an envelope holds `plaintext`. How long that takes says nothing of what it holds instead.
#[must_use]
pub fn holds(
    key: &KeyEncryptionKey,
    cluster: &ClusterId,
    purpose: Purpose<'_>,
    envelope: &[u8],
    plaintext: &[u8],
) -> bool {
    let opened = open(key, cluster, purpose, envelope);
    let names = key.naming_key();
    opened.is_ok_and(|held| names.name_of(cluster, &held) == names.name_of(cluster, plaintext))
}

/// Seals the content of a secret under its [`NamingKey::name_of`].
#[must_use]
pub fn seal_named(
    key: &KeyEncryptionKey,
    cluster: &ClusterId,
    name: &[u8; 32],
    plaintext: &[u8],
) -> Vec<u8> {
    let purpose = HEXLOWER.encode(name);
    seal(key, cluster, Purpose::Secret { name: &purpose, version: 0 }, plaintext)
}

/// Opens what [`seal_named`] made, under its name.
pub fn open_named(
    key: &KeyEncryptionKey,
    cluster: &ClusterId,
    name: &[u8; 32],
    envelope: &[u8],
) -> Result<Zeroizing<Vec<u8>>, OpenError> {
    let purpose = HEXLOWER.encode(name);
    open(key, cluster, Purpose::Secret { name: &purpose, version: 0 }, envelope)
}

/// Everything the envelope vouches for besides its content. Fields carry their length, so that no
/// two combinations of cluster and purpose have the same bytes.
fn associated_data(header: &[u8], cluster: &ClusterId, purpose: Purpose<'_>) -> Vec<u8> {
    let mut out = header.to_vec();
    let mut field = |bytes: &[u8]| {
        out.extend((bytes.len() as u64).to_be_bytes());
        out.extend(bytes);
    };
    field(cluster.as_str().as_bytes());
    match purpose {
        Purpose::CaKey => field(b"ca-key"),
        Purpose::Secret { name, version } => {
            field(b"secret");
            field(name.as_bytes());
            field(&version.to_be_bytes());
        }
        Purpose::Registry { name, username } => {
            field(b"registry");
            field(name.as_bytes());
            field(username.as_bytes());
        }
        Purpose::ServedKey { name } => {
            field(b"served-key");
            field(name.as_bytes());
        }
        Purpose::AcmeAccountKey { directory } => {
            field(b"acme-account-key");
            field(directory.as_bytes());
        }
        Purpose::IssuedKey { domain } => {
            field(b"issued-key");
            field(domain.as_bytes());
        }
        Purpose::NamingKey => field(b"naming-key"),
        Purpose::NotifyTarget { name } => {
            field(b"notify-target");
            field(name.as_bytes());
        }
        Purpose::BackupSchedule { name } => {
            field(b"backup-schedule");
            field(name.as_bytes());
        }
    }
    out
}

impl Drop for KeyEncryptionKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for KeyEncryptionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyEncryptionKey(id {})", self.id())
    }
}
