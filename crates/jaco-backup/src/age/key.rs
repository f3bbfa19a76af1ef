//! Keys: recipients, whom a backup is encrypted for, and identities, which open it; and the files that hold them.

use std::fmt;

use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

use super::bech32;

const RECIPIENT: &str = "age";
const IDENTITY: &str = "age-secret-key-";

/// The most recipients of one backup, and the most identities that are tried.
pub(super) const KEYS_MAX: usize = 64;

/// The most bytes of a file of keys.
const FILE_BYTES_MAX: usize = 64 << 10;

/// Why a key is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It is no recipient. The text may be shown: a recipient is public.
    #[error("{0:?} is no recipient: one begins with `age1` and is printed by `age-keygen`")]
    NoRecipient(String),
    /// It is an identity where a recipient belongs. Its text is not repeated.
    #[error(
        "this is an identity, which opens backups: give the recipient, which begins with `age1`"
    )]
    IsIdentity,
    /// A line of a file is no identity. It may be one with a typing error, so it is not repeated.
    #[error(
        "line {0} is no identity: one begins with `AGE-SECRET-KEY-1`; other kinds of keys are not supported"
    )]
    NoIdentity(usize),
    /// A line of a file is no recipient.
    #[error(
        "line {0} is no recipient: one begins with `age1`; other kinds of keys are not supported"
    )]
    NoRecipientAt(usize),
    /// No key at all.
    #[error("there is no key in it")]
    Empty,
    /// More keys than are tried.
    #[error("there are more than {KEYS_MAX} keys")]
    TooMany,
    /// It is too large, or no text.
    #[error("it is no file of keys")]
    NoText,
}

/// Whom a backup is encrypted for: a public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Recipient(pub(super) [u8; 32]);

impl Recipient {
    /// Reads a recipient as `age-keygen` prints it.
    ///
    /// # Errors
    /// If it is none.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        if text.get(..IDENTITY.len()).is_some_and(|start| start.eq_ignore_ascii_case(IDENTITY)) {
            return Err(KeyError::IsIdentity);
        }
        let bytes = bech32::decode(RECIPIENT, text);
        let bytes = bytes.ok_or_else(|| KeyError::NoRecipient(text.chars().take(100).collect()))?;
        Ok(Self(*bytes))
    }
}

impl fmt::Display for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&bech32::encode(RECIPIENT, &self.0))
    }
}

/// One to 64 recipients. Each of them opens the backup by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipients(Vec<Recipient>);

impl Recipients {
    /// These recipients, each once.
    ///
    /// # Errors
    /// If there are none, or too many.
    pub fn new(all: impl IntoIterator<Item = Recipient>) -> Result<Self, KeyError> {
        let mut listed: Vec<Recipient> = all.into_iter().collect();
        listed.sort_unstable();
        listed.dedup();
        match listed.len() {
            0 => Err(KeyError::Empty),
            1..=KEYS_MAX => Ok(Self(listed)),
            _ => Err(KeyError::TooMany),
        }
    }

    /// Reads the lines of a file; empty ones and those with `#` are left out.
    ///
    /// # Errors
    /// If a line is none, or there are too many.
    pub fn read(file: &[u8]) -> Result<Vec<Recipient>, KeyError> {
        let parse = |(number, line): (usize, &str)| match Recipient::parse(line) {
            Err(KeyError::NoRecipient(_)) => Err(KeyError::NoRecipientAt(number)),
            parsed => parsed,
        };
        lines(file)?.map(parse).take(KEYS_MAX + 1).collect()
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Recipient> {
        self.0.iter()
    }
}

/// What opens a backup: a private key.
#[derive(Clone)]
pub(super) struct Identity {
    pub(super) secret: StaticSecret,
    pub(super) public: PublicKey,
}

/// The identities of a file.
#[derive(Clone)]
pub struct Identities(Vec<Identity>);

impl fmt::Debug for Identities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identities({})", self.0.len())
    }
}

impl Identities {
    /// Reads the lines of a file as `age-keygen` writes it.
    ///
    /// # Errors
    /// If a line is none, or there is no line or too many.
    pub fn read(file: &[u8]) -> Result<Self, KeyError> {
        let identity = |(number, line): (usize, &str)| {
            let bytes = bech32::decode(IDENTITY, line).ok_or(KeyError::NoIdentity(number))?;
            let secret = StaticSecret::from(*bytes);
            let public = PublicKey::from(&secret);
            Ok(Identity { secret, public })
        };
        let all: Vec<Identity> =
            lines(file)?.map(identity).take(KEYS_MAX + 1).collect::<Result<_, _>>()?;
        match all.len() {
            0 => Err(KeyError::Empty),
            1..=KEYS_MAX => Ok(Self(all)),
            _ => Err(KeyError::TooMany),
        }
    }

    /// Those of several files.
    ///
    /// # Errors
    /// If there are too many.
    pub fn join(all: impl IntoIterator<Item = Self>) -> Result<Option<Self>, KeyError> {
        let joined: Vec<Identity> = all.into_iter().flat_map(|some| some.0).collect();
        match joined.len() {
            0 => Ok(None),
            1..=KEYS_MAX => Ok(Some(Self(joined))),
            _ => Err(KeyError::TooMany),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Identity> {
        self.0.iter()
    }
}

/// The lines of a file that hold keys, with their numbers.
fn lines(file: &[u8]) -> Result<impl Iterator<Item = (usize, &str)>, KeyError> {
    let text = Some(file).filter(|file| file.len() <= FILE_BYTES_MAX);
    let text = text.and_then(|file| std::str::from_utf8(file).ok()).ok_or(KeyError::NoText)?;
    let trimmed = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    Ok(trimmed.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')))
}

/// A key that nobody else has, for one backup.
pub(super) fn fresh<const N: usize>() -> std::io::Result<Zeroizing<[u8; N]>> {
    use ring::rand::SecureRandom;
    let mut bytes = Zeroizing::new([0; N]);
    let filled = ring::rand::SystemRandom::new().fill(&mut *bytes);
    filled.map_err(|_| std::io::Error::other("the system has no random numbers"))?;
    Ok(bytes)
}
