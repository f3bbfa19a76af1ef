//! Networks of the cluster: names, prefixes and addresses.
//!
//! A network has one subnet on all nodes. Its first address is the gateway that the engine of each node
//! has in it, the second that of the node's router; the last is for broadcasts.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use crate::id::{DeploymentName, InvalidName, NetworkName};
use crate::time::Millis;

/// How long an address is not given to another instance after its holder was observed gone (NET-3): what
/// was told the address before, a cached answer or a pooled connection, reaches nobody meanwhile.
pub const ADDRESS_QUARANTINE: Millis = Millis(60_000);

/// The prefix length of a network for which nothing else is asked.
pub const NETWORK_LENGTH_DEFAULT: u8 = 24;

/// The prefix length of the largest network that there can be.
pub const NETWORK_LENGTH_MIN: u8 = 20;

/// The prefix length of the smallest network that there can be.
pub const NETWORK_LENGTH_MAX: u8 = 26;

/// How many addresses of a network are for no instance: the network itself, the gateway, the router and
/// the broadcast address.
const RESERVED: u32 = 4;

/// The place of the first address of a subnet that an instance may have: after gateway and router.
const FIRST_OFFSET: u32 = 3;

/// A network: a number that is never reused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetworkId(pub u32);

impl NetworkId {
    /// The name of the Linux bridge that the network has on each node: `jn` and the number to the base 36,
    /// which is at most 9 characters. The container engine makes it, the router looks for it.
    #[must_use]
    pub fn bridge(self) -> String {
        let mut digits = Vec::new();
        let mut rest = self.0;
        loop {
            digits.push(char::from_digit(rest % 36, 36).expect("it is below 36"));
            rest /= 36;
            if rest == 0 {
                break;
            }
        }
        "jn".chars().chain(digits.into_iter().rev()).collect()
    }
}

impl fmt::Display for NetworkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A range of IPv4 addresses that begins at a multiple of its size.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ipv4Prefix {
    address: Ipv4Addr,
    length: u8,
}

impl Ipv4Prefix {
    /// The prefix of this first address and length.
    ///
    /// # Errors
    /// When the length is above 32, or the address is not the first of such a range.
    pub fn new(address: Ipv4Addr, length: u8) -> Result<Self, InvalidName> {
        let prefix = Self { address, length };
        match length <= 32 && address.to_bits() & !prefix.mask() == 0 {
            true => Ok(prefix),
            false => Err(invalid_prefix(&format!("{address}/{length}"))),
        }
    }

    /// The first address.
    #[must_use]
    pub const fn first(self) -> Ipv4Addr {
        self.address
    }

    /// The last address.
    #[must_use]
    pub fn last(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.address.to_bits() | !self.mask())
    }

    /// How many leading bits its addresses share.
    #[must_use]
    pub const fn length(self) -> u8 {
        self.length
    }

    /// Whether the address is one of it.
    #[must_use]
    pub fn contains(self, address: Ipv4Addr) -> bool {
        address.to_bits() & self.mask() == self.address.to_bits()
    }

    /// Whether it has an address in common with another one.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        self.contains(other.address) || other.contains(self.address)
    }

    /// Whether all addresses of another one are its own too.
    #[must_use]
    pub fn covers(self, other: Self) -> bool {
        self.length <= other.length && self.contains(other.address)
    }

    /// The prefix of this length that begins where it does.
    ///
    /// # Errors
    /// When the length is above 32, or so short that the prefix begins elsewhere.
    pub fn resized(self, length: u8) -> Result<Self, InvalidName> {
        Self::new(self.address, length)
    }

    fn mask(self) -> u32 {
        u32::MAX.checked_shl(32 - u32::from(self.length.min(32))).unwrap_or(0)
    }
}

impl fmt::Display for Ipv4Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}", self.address, self.length))
    }
}

impl fmt::Debug for Ipv4Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for Ipv4Prefix {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let parts = text
            .split_once('/')
            .and_then(|(address, length)| Some((address.parse().ok()?, length.parse().ok()?)));
        let (address, length) = parts.ok_or_else(|| invalid_prefix(text))?;
        Self::new(address, length)
    }
}

fn invalid_prefix(text: &str) -> InvalidName {
    let text = text.chars().take(80).collect();
    let rule = "use the first address of a range and its prefix length, like 10.64.0.0/12";
    InvalidName { kind: "IPv4 prefix", text, rule }
}

/// The subnet of a network, with room for at least one instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subnet(Ipv4Prefix);

impl Subnet {
    /// Takes a prefix of [`NETWORK_LENGTH_MIN`] to [`NETWORK_LENGTH_MAX`].
    ///
    /// # Errors
    /// When it is longer or shorter than that.
    pub fn new(prefix: Ipv4Prefix) -> Result<Self, InvalidName> {
        let is_allowed = (NETWORK_LENGTH_MIN..=NETWORK_LENGTH_MAX).contains(&prefix.length);
        let rule = "a network has a prefix length of 20 to 26";
        let invalid = || InvalidName { kind: "subnet", text: prefix.to_string(), rule };
        is_allowed.then_some(Self(prefix)).ok_or_else(invalid)
    }

    /// Its prefix.
    #[must_use]
    pub const fn prefix(self) -> Ipv4Prefix {
        self.0
    }

    /// The engine's address in it, on every node.
    #[must_use]
    pub fn gateway(self) -> Ipv4Addr {
        self.at(1)
    }

    /// The router's address in it, on every node.
    #[must_use]
    pub fn router(self) -> Ipv4Addr {
        self.at(2)
    }

    /// How many instances can have an address in it.
    #[must_use]
    pub fn capacity(self) -> u32 {
        (1 << (32 - u32::from(self.0.length))) - RESERVED
    }

    /// The address of an instance at this place of `0..capacity`; places behind the last one begin anew.
    #[must_use]
    pub fn instance_address(self, place: u32) -> Ipv4Addr {
        self.at(FIRST_OFFSET + place % self.capacity())
    }

    /// Whether an instance may have this address.
    #[must_use]
    pub fn is_for_instances(self, address: Ipv4Addr) -> bool {
        let offset = address.to_bits().wrapping_sub(self.0.address.to_bits());
        (FIRST_OFFSET..FIRST_OFFSET + self.capacity()).contains(&offset)
    }

    fn at(self, offset: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.0.address.to_bits() + offset)
    }
}

/// The prefix length of a network for so many replicas: four addresses for each, so that all of them can
/// be replaced twice while addresses are in quarantine; never less than the default.
#[must_use]
pub fn network_length(replicas: u32) -> u8 {
    let needed = replicas.saturating_mul(4).saturating_add(RESERVED);
    let fits = |length: &u8| needed <= 1 << (32 - u32::from(*length));
    let lengths = (NETWORK_LENGTH_MIN..=NETWORK_LENGTH_DEFAULT).rev();
    lengths.into_iter().find(fits).unwrap_or(NETWORK_LENGTH_MIN)
}

/// Whose network it is, under which name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NetworkScope {
    /// That of a deployment, under the key that its compose file has for it.
    Deployment {
        /// The deployment.
        deployment: DeploymentName,
        /// The key.
        key: NetworkName,
    },
    /// One that operators made, for all deployments.
    Shared(NetworkName),
}

impl NetworkScope {
    /// The deployment that it belongs to.
    #[must_use]
    pub fn deployment(&self) -> Option<&DeploymentName> {
        match self {
            Self::Deployment { deployment, .. } => Some(deployment),
            Self::Shared(_) => None,
        }
    }

    /// Reads a scope as it is displayed.
    ///
    /// # Errors
    /// The rule that a name in it breaks.
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        Ok(match text.split_once('/') {
            Some((deployment, key)) => Self::Deployment {
                deployment: DeploymentName::new(deployment)?,
                key: NetworkName::new(key)?,
            },
            None => Self::Shared(NetworkName::new(text)?),
        })
    }
}

impl fmt::Display for NetworkScope {
    /// `shop/default`, or the name of a shared one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deployment { deployment, key } => f.pad(&format!("{deployment}/{key}")),
            Self::Shared(name) => fmt::Display::fmt(name, f),
        }
    }
}

/// What the members of a network reach besides each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NetworkReach {
    /// What their node reaches.
    #[default]
    Outside,
    /// Nothing: compose's `internal`.
    Internal,
}

/// An address of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceAddress {
    /// The network.
    pub network: NetworkId,
    /// The address there.
    pub address: Ipv4Addr,
}
