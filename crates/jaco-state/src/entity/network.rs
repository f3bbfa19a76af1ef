//! Networks of the cluster: the pool of addresses, the networks, and addresses in quarantine.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use jaco_types::{
    InstanceAddress, InstanceId, InvalidName, Ipv4Prefix, NetworkId, NetworkReach, NetworkScope,
    NodeId, Subnet, Timestamp,
};

use crate::table::Table;

/// The pool that is proposed where nobody asks for another one.
pub const POOL_DEFAULT: &str = "10.64.0.0/12";

/// The MTU of containers where nobody asks for another one: what a tunnel over 1,500 bytes leaves.
pub const MTU_DEFAULT: u16 = 1420;

/// The most networks that there can be: each lookup by name looks at all of them.
pub const NETWORKS_MAX: usize = 4096;

/// The prefix length of the range that the nodes' own addresses are from.
const MESH_LENGTH: u8 = 16;

/// All that the state knows of networks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Networks {
    /// Where subnets come from; absent as long as networks are those of each node.
    pub pool: Option<NetworkPool>,
    /// The networks.
    pub rows: Table<NetworkId, Network>,
    /// Addresses of instances that have none any more and that nobody may have yet (NET-3).
    pub quarantine: Table<InstanceId, Quarantine>,
}

impl Networks {
    /// The network of a scope; of several with different reach, that of this one.
    #[must_use]
    pub fn find(&self, scope: &NetworkScope, reach: Option<NetworkReach>) -> Option<&Network> {
        let is_it = |network: &&Network| {
            network.scope == *scope && reach.is_none_or(|reach| network.reach == reach)
        };
        self.rows.values().rev().find(is_it)
    }

    /// How many instances could get an address of the network at this time.
    #[must_use]
    pub fn free(&self, network: &Network, now: Timestamp) -> u32 {
        let taken = network.taken.iter().filter(|(_, holder)| !self.is_free(holder, now)).count();
        network.subnet.capacity().saturating_sub(u32::try_from(taken).unwrap_or(u32::MAX))
    }

    /// Whether what an instance had is out of quarantine.
    fn is_free(&self, holder: &InstanceId, now: Timestamp) -> bool {
        let until = self.quarantine.get(holder).and_then(|quarantine| quarantine.until);
        until.is_some_and(|until| until <= now)
    }
}

/// The range of addresses that subnets are taken from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkPool {
    /// All of it.
    pub prefix: Ipv4Prefix,
    /// The MTU of containers.
    pub mtu: u16,
    /// The number of the next network: none is used twice.
    pub next_network: u32,
    /// Where the search for a free subnet begins: freed ones are used again as late as possible.
    pub next_subnet: Ipv4Addr,
    /// Where the search for the own address of a node begins.
    pub next_mesh: Ipv4Addr,
}

impl NetworkPool {
    /// A pool that nothing was taken from.
    ///
    /// # Errors
    /// When the prefix is not of 8 to 15 bits, or the MTU not of 1,200 to 9,000 bytes: the least is what a tunnel leaves of a
    /// link that takes 1,280.
    pub fn new(prefix: Ipv4Prefix, mtu: u16) -> Result<Self, InvalidName> {
        if !(8..MESH_LENGTH).contains(&prefix.length()) {
            let rule = "a pool has a prefix length of 8 to 15";
            return Err(InvalidName { kind: "network pool", text: prefix.to_string(), rule });
        }
        if !(1200..=9000).contains(&mtu) {
            let rule = "use 1200 to 9000 bytes";
            return Err(InvalidName { kind: "MTU", text: mtu.to_string(), rule });
        }
        let (first, next_network) = (prefix.first(), 1);
        Ok(Self { prefix, mtu, next_network, next_subnet: first, next_mesh: first })
    }

    /// The range of the nodes' own addresses: its first part. No subnet is in it.
    #[must_use]
    pub fn mesh(&self) -> Ipv4Prefix {
        self.prefix.resized(MESH_LENGTH).unwrap_or(self.prefix)
    }
}

/// A network of the cluster: one subnet on all nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// Its number.
    pub id: NetworkId,
    /// Whose it is, under which name. Two networks have the same scope only while instances move from
    /// one to the other.
    pub scope: NetworkScope,
    /// What its members reach besides each other.
    pub reach: NetworkReach,
    /// Its addresses.
    pub subnet: Subnet,
    /// The place in the subnet where the search for a free address begins.
    pub cursor: u32,
    /// The addresses that nobody may have, each with who has it or had it last. What is in quarantine is
    /// among them.
    pub taken: BTreeMap<Ipv4Addr, InstanceId>,
}

/// The addresses of an instance that is in no slot any more and does not leave the endpoints either.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarantine {
    /// The node that ran it.
    pub node: NodeId,
    /// Its addresses.
    pub addresses: Vec<InstanceAddress>,
    /// When others may have them; absent as long as its node has not reported that it is gone.
    pub until: Option<Timestamp>,
}
