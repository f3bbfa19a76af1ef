//! What a cluster consists of, in lines that a site's process can read.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};

use jaco_dataplane::edge::{ListenerKey, Transport};
use jaco_dataplane::{
    Exposure, Instance, InterfaceName, Link, Mesh, Network, Node, Readiness, Topology,
};
use jaco_net::PrivateKey;
use jaco_types::{
    DeploymentName, InstanceId, Ipv4Prefix, NetworkId, NetworkReach, NodeId, Ordinal, ReplicaId,
    ServiceKey, ServiceName, StateIndex, Subnet,
};

/// Where tunnels listen.
pub(crate) const PORT: u16 = 51820;

/// The lines of a cluster: `node 1`, `network 7 internal`, `instance 1 shop/web 7,8 10 starting`, `served 10`,
/// `asks 10 192.0.2.1`, `listen 80`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scenario {
    pub(crate) lines: Vec<String>,
}

impl Scenario {
    /// Sites are nodes here: each has an engine of its own.
    pub(crate) fn new(lines: &str) -> Self {
        let lines = lines.lines().map(str::trim).filter(|line| !line.is_empty());
        Self { lines: lines.map(str::to_owned).collect() }
    }

    pub(crate) fn topology(&self) -> Topology {
        let mut topology = Topology {
            mesh: Some(Mesh {
                pool: Ipv4Prefix::new([10, 64, 0, 0].into(), 12).unwrap(),
                subnet: Ipv4Prefix::new([10, 64, 0, 0].into(), 16).unwrap(),
                mtu: 1420,
            }),
            ..Topology::default()
        };
        for (number, line) in (1..).zip(&self.lines) {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["node", id] => topology.nodes.extend([node(id.parse().unwrap())]),
                ["network", id, reach] => {
                    topology.networks.extend([network(id.parse().unwrap(), reach)]);
                }
                ["instance", node, name, networks, address, readiness] => {
                    let networks: Vec<u64> =
                        networks.split(',').map(|id| id.parse().unwrap()).collect();
                    let node = node.parse().unwrap();
                    let instance =
                        instance(node, name, &networks, address.parse().unwrap(), readiness);
                    topology.instances.insert(instance_id(number), instance);
                }
                ["listen", port] => {
                    let (transport, port) = (Transport::Tcp, port.parse().unwrap());
                    topology.listeners.insert(ListenerKey { transport, address: None, port });
                }
                ["served", address] => at(&mut topology, address).exposure = Exposure::Edges,
                ["asks", address, resolver] => {
                    at(&mut topology, address).resolvers.push(resolver.parse().unwrap());
                }
                _ => panic!("unknown line {line:?}"),
            }
        }
        topology
    }
}

/// The instance whose first address ends so.
fn at<'a>(topology: &'a mut Topology, last: &str) -> &'a mut Instance {
    let last: u8 = last.parse().unwrap();
    let mut instances = topology.instances.values_mut();
    instances.find(|it| it.addresses[0].1.octets()[3] == last).unwrap()
}

/// The first three bytes of a network's addresses.
pub(crate) fn address(network: u64, last: u8) -> Ipv4Addr {
    let (high, low) = (network / 256, network % 256);
    Ipv4Addr::new(10, 65 + u8::try_from(high).unwrap(), u8::try_from(low).unwrap(), last)
}

/// Where a site is reached by others.
pub(crate) fn underlay(site: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, site)
}

pub(crate) fn key(site: u8) -> PrivateKey {
    PrivateKey::from_bytes([site; 32])
}

fn node(id: u8) -> (NodeId, Node) {
    let link = Link {
        address: Ipv4Addr::new(10, 64, 0, id),
        key: key(id).public_key(),
        endpoint: Some(SocketAddr::from((underlay(id), PORT))),
    };
    (NodeId(id.into()), Node { site: NodeId(id.into()), link: Some(link) })
}

fn network(id: u64, reach: &str) -> (NetworkId, Network) {
    let reach = if reach == "internal" { NetworkReach::Internal } else { NetworkReach::Outside };
    let bridge = InterfaceName::new(&format!("br-{id}")).unwrap();
    let subnet = Subnet::new(Ipv4Prefix::new(address(id, 0), 24).unwrap()).unwrap();
    (NetworkId(u32::try_from(id).unwrap()), Network { subnet, reach, bridge })
}

fn instance(node: u64, name: &str, networks: &[u64], last: u8, readiness: &str) -> Instance {
    let (deployment, service) = name.split_once('/').unwrap();
    let readiness = match readiness {
        "ready" => Readiness::Ready,
        "starting" => Readiness::Starting,
        "terminating" => Readiness::Terminating,
        other => panic!("unknown readiness {other:?}"),
    };
    Instance {
        node: NodeId(node),
        deployment: DeploymentName::new(deployment).unwrap(),
        replica: format!("{service}-{last}"),
        names: BTreeSet::from([service.to_owned()]),
        aliases: BTreeMap::new(),
        resolvers: Vec::new(),
        addresses: networks
            .iter()
            .map(|id| (NetworkId(u32::try_from(*id).unwrap()), address(*id, last)))
            .collect(),
        readiness,
        exposure: Exposure::Members,
    }
}

fn instance_id(number: u64) -> InstanceId {
    let service = ServiceKey {
        deployment: DeploymentName::new("shop").unwrap(),
        service: ServiceName::new("web").unwrap(),
    };
    let replica = ReplicaId::new(&service, &Ordinal::Index(number));
    InstanceId { replica, raft_index: StateIndex(number) }
}

/// Networks with their addresses on three sites: a third of the instances is on each.
pub(crate) fn large(networks: u64, addresses: u8) -> Scenario {
    let mut lines: Vec<String> = (1..=3).map(|node| format!("node {node}")).collect();
    for network in 1..=networks {
        lines.push(format!("network {network} external"));
        for last in 0..addresses {
            let (node, address) = (1 + last % 3, last + 10);
            lines.push(format!("instance {node} d{network}/web {network} {address} ready"));
        }
    }
    Scenario { lines }
}

/// Which networks a site has containers in.
pub(crate) fn networks_of(topology: &Topology, site: u8) -> BTreeMap<NetworkId, Network> {
    let here = topology.instances.values().filter(|it| it.node == NodeId(site.into()));
    let ids: BTreeSet<NetworkId> =
        here.flat_map(|it| it.addresses.iter().map(|(id, _)| *id)).collect();
    ids.into_iter().map(|id| (id, topology.networks[&id].clone())).collect()
}
