//! Published ports: those that every node answers for a service, whichever nodes its replicas are on.

use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::str::FromStr;

use crate::id::InvalidName;

/// The most published ports of a deployment. Each is a socket on every node.
pub const DEPLOYMENT_PORTS_MAX: usize = 1000;

/// The most published ports of a cluster.
pub const CLUSTER_PORTS_MAX: usize = 4000;

/// The ports of TCP on which edges answer HTTP and HTTPS while there are routes.
pub const ROUTE_PORTS: [u16; 2] = [80, 443];

const RANGE_RULE: &str =
    "use a port from 1 to 65535, or the first and the last one of a range: 8000-8010";
const ADDRESS_RULE: &str =
    "use the IPv4 or IPv6 address of an interface, or none for all addresses";

/// A published port as a service asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IngressPort {
    /// What is forwarded.
    pub transport: Transport,
    /// The port in the containers.
    pub target: NonZeroU16,
    /// The port on the nodes, or those of which the cluster chooses one.
    pub published: PortRange,
    /// The address on which nodes that have it answer; none is every address of every node.
    pub address: Option<ListenAddress>,
    /// Whether a container is told who the client is.
    pub proxy_protocol: ProxyProtocol,
}

/// A port that edges listen on. It is given to one service.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortKey {
    /// What it speaks below.
    pub transport: Transport,
    /// The port on the nodes.
    pub port: NonZeroU16,
    /// The address that it is bound to; none is every address of every node.
    pub address: Option<ListenAddress>,
}

/// A transport protocol that edges forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// Connections.
    Tcp,
    /// Datagrams.
    Udp,
}

/// Whether an instance is told who the client of a connection is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProxyProtocol {
    /// It is not: it sees the edge.
    #[default]
    Off,
    /// By the header of the PROXY protocol, version 2, before the first byte; with UDP before each datagram.
    V2,
}

/// Ports that follow each other, one at least.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortRange {
    first: NonZeroU16,
    last: NonZeroU16,
}

/// The address of an interface that a socket is bound to: never that of all interfaces.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenAddress(IpAddr);

impl PortKey {
    /// Address and port: `*:8080`, `127.0.0.1:53`.
    #[must_use]
    pub fn socket(self) -> String {
        let Self { port, address, .. } = self;
        address.map_or_else(|| format!("*:{port}"), |address| format!("{address}:{port}"))
    }

    /// Whether two sockets cannot both be: the same port, on the same address or one of them on all.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        let meet =
            self.address.is_none() || other.address.is_none() || self.address == other.address;
        meet && self.transport == other.transport && self.port == other.port
    }
}

impl IngressPort {
    /// The key with one of its ports.
    #[must_use]
    pub const fn key(self, port: NonZeroU16) -> PortKey {
        PortKey { transport: self.transport, port, address: self.address }
    }

    /// The key, if only one port will do.
    #[must_use]
    pub fn fixed(self) -> Option<PortKey> {
        self.published.single().map(|port| self.key(port))
    }
}

impl Transport {
    /// The protocol as users write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

impl PortRange {
    /// What the cluster chooses from where no port is asked for.
    pub const ANY: Self = match (NonZeroU16::new(30_000), NonZeroU16::new(32_767)) {
        (Some(first), Some(last)) => Self { first, last },
        (None, _) | (_, None) => Self { first: NonZeroU16::MIN, last: NonZeroU16::MAX },
    };

    /// The ports from the first to the last one.
    ///
    /// # Errors
    /// When the first one is the larger one, or 0.
    pub fn new(first: u16, last: u16) -> Result<Self, InvalidName> {
        let bounds = NonZeroU16::new(first).zip(NonZeroU16::new(last));
        let bounds = bounds.filter(|(first, last)| first <= last);
        bounds.map(|(first, last)| Self { first, last }).ok_or_else(|| InvalidName {
            kind: "range of ports",
            text: format!("{first}-{last}"),
            rule: RANGE_RULE,
        })
    }

    /// One port.
    #[must_use]
    pub const fn one(port: NonZeroU16) -> Self {
        Self { first: port, last: port }
    }

    /// The first port.
    #[must_use]
    pub const fn first(self) -> NonZeroU16 {
        self.first
    }

    /// The last port.
    #[must_use]
    pub const fn last(self) -> NonZeroU16 {
        self.last
    }

    /// The port, if it is one.
    #[must_use]
    pub fn single(self) -> Option<NonZeroU16> {
        (self.first == self.last).then_some(self.first)
    }

    /// Whether a port is one of them.
    #[must_use]
    pub fn contains(self, port: NonZeroU16) -> bool {
        (self.first..=self.last).contains(&port)
    }

    /// All of them, in order.
    pub fn iter(self) -> impl Iterator<Item = NonZeroU16> {
        (self.first.get()..=self.last.get()).filter_map(NonZeroU16::new)
    }
}

impl ListenAddress {
    /// Checks and keeps an address. An IPv4 address in the form of IPv6 is an IPv4 address.
    ///
    /// # Errors
    /// When no interface can have it, or it stands for all of them.
    pub fn new(address: IpAddr) -> Result<Self, InvalidName> {
        let address = address.to_canonical();
        let is_group = address.is_multicast() || address == IpAddr::from([255; 4]);
        if address.is_unspecified() || is_group {
            let text = address.to_string();
            return Err(InvalidName { kind: "address of a port", text, rule: ADDRESS_RULE });
        }
        Ok(Self(address))
    }

    /// The address.
    #[must_use]
    pub const fn get(self) -> IpAddr {
        self.0
    }
}

impl FromStr for ListenAddress {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let invalid = |_| InvalidName {
            kind: "address of a port",
            text: text.chars().take(80).collect(),
            rule: ADDRESS_RULE,
        };
        Self::new(text.parse().map_err(invalid)?)
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.single() {
            Some(port) => write!(f, "{port}"),
            None => write!(f, "{}-{}", self.first, self.last),
        }
    }
}

impl fmt::Debug for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for ListenAddress {
    /// As a part of an address with a port: IPv6 in brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V4(address) => write!(f, "{address}"),
            IpAddr::V6(address) => write!(f, "[{address}]"),
        }
    }
}

impl fmt::Debug for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for PortKey {
    /// `*:8080/tcp`, `127.0.0.1:53/udp`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}", self.socket(), self.transport))
    }
}

impl fmt::Debug for PortKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
