//! Who may use a route: passwords of users, in hashed form only, and ranges of source addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;
use std::sync::Arc;

use crate::id::InvalidName;

/// The most users of a route.
pub const USERS_MAX: usize = 256;

/// The most ranges of source addresses of a route.
pub const SOURCES_MAX: usize = 256;

/// The fewest rounds of a password's hash: with less, who gets hold of it finds the password.
pub const PASSWORD_ROUNDS_MIN: u32 = 10_000;

/// The most rounds of a password's hash: every check of it takes an edge about a second then.
pub const PASSWORD_ROUNDS_MAX: u32 = 2_000_000;

/// The first part of a hash as text.
const PASSWORD_SCHEME: &str = "pbkdf2-sha256";

const USER_RULE: &str = "use 1 to 255 bytes, without ':' and control characters";
const HASH_RULE: &str = "use what `jaco route password` prints: pbkdf2-sha256:ROUNDS:SALT:HASH, with 10000 to 2000000 \
                         rounds, and salt and hash in hexadecimal digits";
const USERS_RULE: &str = "use at most 256 users";
const RANGE_RULE: &str =
    "use an address, or the first one of a range and its prefix length: 10.0.0.0/8, 2001:db8::/32";
const SOURCES_RULE: &str = "use at most 256 ranges";

/// A user of a route.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserName(Arc<str>);

/// The hash of a password, by PBKDF2 with HMAC-SHA-256: not printed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PasswordHash {
    rounds: u32,
    salt: Arc<[u8]>,
    hash: [u8; 32],
}

/// The users that may pass, with their passwords.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedUsers(BTreeMap<UserName, PasswordHash>);

/// A range of IPv4 or IPv6 addresses that begins at a multiple of its size.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IpRange {
    first: IpAddr,
    length: u8,
}

/// The ranges of addresses from which requests may come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedSources(BTreeSet<IpRange>);

impl UserName {
    /// Checks and keeps a name.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn new(text: &str) -> Result<Self, InvalidName> {
        // What follows a colon would be a part of the password.
        let is_valid =
            (1..=255).contains(&text.len()) && !text.contains(|c: char| c == ':' || c.is_control());
        is_valid.then(|| Self(text.into())).ok_or_else(|| invalid("user", text, USER_RULE))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl PasswordHash {
    /// The hash that so many rounds with a salt of 8 to 64 bytes gave.
    ///
    /// # Errors
    /// When rounds or salt are out of their bounds.
    pub fn new(rounds: u32, salt: &[u8], hash: [u8; 32]) -> Result<Self, InvalidName> {
        let is_valid = (PASSWORD_ROUNDS_MIN..=PASSWORD_ROUNDS_MAX).contains(&rounds)
            && (8..=64).contains(&salt.len());
        is_valid.then(|| Self { rounds, salt: salt.into(), hash }).ok_or_else(invalid_hash)
    }

    /// Reads a hash as [`PasswordHash::to_text`] writes it.
    ///
    /// # Errors
    /// The rule that it breaks. The text is not in the error: it may be a password.
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        let parts: Vec<&str> = text.split(':').collect();
        let [PASSWORD_SCHEME, rounds, salt, hash] = parts[..] else { return Err(invalid_hash()) };
        let is_number = rounds.bytes().all(|byte| byte.is_ascii_digit());
        let rounds = Some(rounds).filter(|_| is_number).and_then(|text| text.parse().ok());
        let bytes = rounds.zip(hex::decode(salt).ok()).zip(hex::decode(hash).ok());
        let ((rounds, salt), hash) = bytes.ok_or_else(invalid_hash)?;
        Self::new(rounds, &salt, hash.try_into().map_err(|_| invalid_hash())?)
    }

    /// The hash as a manifest has it.
    #[must_use]
    pub fn to_text(&self) -> String {
        let (salt, hash) = (hex::encode(&self.salt), hex::encode(self.hash));
        format!("{PASSWORD_SCHEME}:{}:{salt}:{hash}", self.rounds)
    }

    /// How many rounds.
    #[must_use]
    pub const fn rounds(&self) -> u32 {
        self.rounds
    }

    /// The salt.
    #[must_use]
    pub fn salt(&self) -> &[u8] {
        &self.salt
    }

    /// The result.
    #[must_use]
    pub const fn hash(&self) -> [u8; 32] {
        self.hash
    }
}

fn invalid_hash() -> InvalidName {
    invalid("password hash", "…", HASH_RULE)
}

impl AllowedUsers {
    /// The users that may pass.
    ///
    /// # Errors
    /// When there are too many.
    pub fn new(users: BTreeMap<UserName, PasswordHash>) -> Result<Self, InvalidName> {
        let count = users.len();
        let is_allowed = count <= USERS_MAX;
        is_allowed
            .then_some(Self(users))
            .ok_or_else(|| invalid("users", &count.to_string(), USERS_RULE))
    }

    /// Whether everybody may pass.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The users with their passwords.
    #[must_use]
    pub const fn as_map(&self) -> &BTreeMap<UserName, PasswordHash> {
        &self.0
    }
}

impl IpRange {
    /// The range of this first address and length.
    ///
    /// # Errors
    /// When the length is longer than addresses are, or the address is not the first of such a range.
    pub fn new(first: IpAddr, length: u8) -> Result<Self, InvalidName> {
        let range = Self { first, length };
        let is_first = length <= width(first) && range.masked(first) == Some(bits(first));
        is_first
            .then_some(range)
            .ok_or_else(|| invalid("address range", &format!("{first}/{length}"), RANGE_RULE))
    }

    /// The first address.
    #[must_use]
    pub const fn first(self) -> IpAddr {
        self.first
    }

    /// How many leading bits its addresses share.
    #[must_use]
    pub const fn length(self) -> u8 {
        self.length
    }

    /// Whether an address is one of it. An IPv4 address in the form of IPv6 is an IPv4 address.
    #[must_use]
    pub fn contains(self, address: IpAddr) -> bool {
        self.masked(address.to_canonical()) == Some(bits(self.first))
    }

    /// The leading bits of an address of the same kind.
    fn masked(self, address: IpAddr) -> Option<u128> {
        let is_same_kind = self.first.is_ipv4() == address.is_ipv4();
        let rest = u32::from(width(self.first).checked_sub(self.length)?);
        let mask = u128::MAX.checked_shl(rest).unwrap_or(0);
        is_same_kind.then(|| bits(address) & mask)
    }
}

const fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => Ipv6Addr::to_bits(address),
    }
}

impl AllowedSources {
    /// The ranges from which requests may come.
    ///
    /// # Errors
    /// When there are too many.
    pub fn new(ranges: BTreeSet<IpRange>) -> Result<Self, InvalidName> {
        let count = ranges.len();
        let is_allowed = count <= SOURCES_MAX;
        is_allowed
            .then_some(Self(ranges))
            .ok_or_else(|| invalid("sources", &count.to_string(), SOURCES_RULE))
    }

    /// The ranges; none lets all pass.
    #[must_use]
    pub const fn as_set(&self) -> &BTreeSet<IpRange> {
        &self.0
    }
}

fn invalid(kind: &'static str, text: &str, rule: &'static str) -> InvalidName {
    InvalidName { kind, text: text.chars().take(80).collect(), rule }
}

impl FromStr for IpRange {
    type Err = InvalidName;

    /// An address alone is the range of that address.
    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let refused = || invalid("address range", text, RANGE_RULE);
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| refused())?;
        let is_number = |text: &&str| text.bytes().all(|byte| byte.is_ascii_digit());
        let length = match length {
            Some(length) => Some(length).filter(is_number).and_then(|text| text.parse().ok()),
            None => Some(width(address)),
        };
        Self::new(address, length.ok_or_else(refused)?)
    }
}

impl fmt::Display for IpRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}", self.first, self.length))
    }
}

impl fmt::Debug for IpRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for UserName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for UserName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a password hash")
    }
}
