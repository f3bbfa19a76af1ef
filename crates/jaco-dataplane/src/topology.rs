//! The input of [`plan`](crate::plan()): networks, nodes and instances of the whole cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use jaco_types::{DeploymentName, InstanceId, Ipv4Prefix, NetworkId, NetworkReach, NodeId, Subnet};

use crate::edge::ListenerKey;

/// What the network of a whole cluster is derived from. Addresses and names are as the replicated state has
/// them; nothing in here depends on the site that reads it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topology {
    /// The addresses of routers and the size of packets. `None`: no network leaves its site.
    pub mesh: Option<Mesh>,
    /// Networks of the cluster, with disjoint subnets.
    pub networks: BTreeMap<NetworkId, Network>,
    /// Members of the cluster.
    pub nodes: BTreeMap<NodeId, Node>,
    /// Instances that have addresses, those that are terminating included.
    pub instances: BTreeMap<InstanceId, Instance>,
    /// The sockets that the edge of every site has.
    pub listeners: BTreeSet<ListenerKey>,
}

/// What all tunnels have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mesh {
    /// Holds all addresses of the cluster's networks and routers.
    pub pool: Ipv4Prefix,
    /// Holds the addresses of the routers, and no network.
    pub subnet: Ipv4Prefix,
    /// The largest packet between sites, in bytes: the smallest MTU of all nodes less what the tunnel adds.
    pub mtu: u16,
}

/// A network: one flat subnet on all sites.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// Its addresses.
    pub subnet: Subnet,
    /// Whether its members reach more than each other.
    pub reach: NetworkReach,
    /// The Linux bridge that the container engine of each site has for it.
    pub bridge: InterfaceName,
}

/// A member of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The member that keeps the router of the site: the lowest of those that share the container engine
    /// and are not down.
    pub site: NodeId,
    /// How its router is reached. Only the link of the member that keeps the router counts.
    pub link: Option<Link>,
}

/// How the router of a site is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The router's address in the mesh.
    pub address: Ipv4Addr,
    /// Its WireGuard key.
    pub key: PublicKey,
    /// Where its tunnel listens. `None`: it has to begin.
    pub endpoint: Option<SocketAddr>,
}

/// A WireGuard public key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub [u8; 32]);

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.0;
        write!(f, "{a:02x}{b:02x}{c:02x}{d:02x}…")
    }
}

/// An instance that has addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Where it runs.
    pub node: NodeId,
    /// Its deployment, in which its short names are unique.
    pub deployment: DeploymentName,
    /// The name of the instance alone, unique in its deployment: what its addresses resolve to.
    pub replica: String,
    /// What else it is called in each of its networks: its service. Lower case.
    pub names: BTreeSet<String>,
    /// What it is called in one of its networks only: aliases, `container_name`. Lower case.
    pub aliases: BTreeMap<NetworkId, BTreeSet<String>>,
    /// Whom the resolver asks for it about names that are not the cluster's, in this order; none are those of the node.
    pub resolvers: Vec<IpAddr>,
    /// Its addresses, in the order in which it is attached to networks.
    pub addresses: Vec<(NetworkId, Ipv4Addr)>,
    /// Whether its names lead to it.
    pub readiness: Readiness,
    /// Who reaches it.
    pub exposure: Exposure,
}

/// Who reaches an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exposure {
    /// The members of its networks.
    Members,
    /// Edges, too: those of all sites reach it at its address in its first network.
    Edges,
}

/// Whether the names of an instance lead to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Readiness {
    /// It is in the endpoints.
    Ready,
    /// It runs and is not yet in the endpoints: found only where nothing else of that name is ready, so that
    /// instances which need each other to become ready can meet.
    Starting,
    /// It is terminating: its addresses stay reachable for open connections, and no name leads to it.
    Terminating,
}

/// The name of a network interface: 1 to 15 printable ASCII characters without `/` and `:`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceName(String);

/// Why a text is no name of an interface.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not the name of an interface: 1 to 15 characters, no space, `/` or `:`")]
pub struct InvalidInterfaceName {
    text: String,
}

impl InterfaceName {
    /// # Errors
    /// If the kernel would refuse it.
    pub fn new(text: &str) -> Result<Self, InvalidInterfaceName> {
        let allowed = |c: char| c.is_ascii_graphic() && c != '/' && c != ':';
        let valid = (1..=15).contains(&text.len()) && text.chars().all(allowed);
        if valid && text != "." && text != ".." {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidInterfaceName { text: text.to_owned() })
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The bridge that the container engine of each site has for a network.
    pub fn bridge_of(network: NetworkId) -> Self {
        Self(network.bridge())
    }

    /// A name made of a prefix of one or two characters and the number of a network.
    pub(crate) fn numbered(prefix: &str, network: NetworkId) -> Self {
        let bridge = network.bridge();
        Self(format!("{prefix}{}", bridge.strip_prefix("jn").unwrap_or(&bridge)))
    }
}

impl fmt::Display for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
