//! Clusters for tests, written down briefly or random.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use jaco_dataplane::edge::{ListenerKey, Transport};
use jaco_dataplane::{
    Exposure, Instance, InterfaceName, Link, Mesh, Network, Node, PublicKey, Readiness, SitePlan,
    Topology, plan,
};
use jaco_types::{DeploymentName, InstanceId, Ipv4Prefix, NetworkId, NetworkReach, NodeId, Subnet};
use proptest::prelude::*;

pub(crate) fn prefix(address: [u8; 4], length: u8) -> Ipv4Prefix {
    Ipv4Prefix::new(address.into(), length).unwrap()
}

pub(crate) fn network(id: u32, reach: NetworkReach) -> (NetworkId, Network) {
    let third = u8::try_from(id).unwrap();
    let network = Network {
        subnet: Subnet::new(prefix([10, 65, third, 0], 24)).unwrap(),
        reach,
        bridge: InterfaceName::new(&format!("br-{id}")).unwrap(),
    };
    (NetworkId(id), network)
}

pub(crate) fn mesh() -> Mesh {
    Mesh { pool: prefix([10, 64, 0, 0], 12), subnet: prefix([10, 64, 0, 0], 16), mtu: 1420 }
}

/// A node that keeps the router of its own site.
pub(crate) fn node(id: u8) -> (NodeId, Node) {
    let link = Link {
        address: Ipv4Addr::new(10, 64, 0, id),
        key: PublicKey([id; 32]),
        endpoint: Some(SocketAddr::from(([192, 0, 2, id], 51820))),
    };
    (NodeId(id.into()), Node { site: NodeId(id.into()), link: Some(link) })
}

/// `address` is the last byte, in each of the networks.
pub(crate) fn instance(node: u64, name: &str, networks: &[u32], address: u8) -> Instance {
    let (deployment, service) = name.split_once('/').unwrap();
    let in_network = |id: &u32| {
        let third = u8::try_from(*id).unwrap();
        (NetworkId(*id), Ipv4Addr::new(10, 65, third, address))
    };
    Instance {
        node: NodeId(node),
        deployment: DeploymentName::new(deployment).unwrap(),
        replica: format!("{service}-{address}"),
        names: BTreeSet::from([service.to_owned()]),
        aliases: BTreeMap::new(),
        resolvers: Vec::new(),
        addresses: networks.iter().map(in_network).collect(),
        readiness: Readiness::Ready,
        exposure: Exposure::Members,
    }
}

pub(crate) fn topology(
    nodes: &[u8],
    networks: &[u32],
    instances: impl IntoIterator<Item = Instance>,
) -> Topology {
    let instances = (1..).zip(instances).map(|(id, instance)| (instance_id(id), instance));
    Topology {
        mesh: Some(mesh()),
        networks: networks.iter().map(|id| network(*id, NetworkReach::Outside)).collect(),
        nodes: nodes.iter().map(|id| node(*id)).collect(),
        instances: instances.collect(),
        listeners: BTreeSet::new(),
    }
}

pub(crate) fn instance_id(number: u64) -> InstanceId {
    let service = jaco_types::ServiceKey {
        deployment: DeploymentName::new("shop").unwrap(),
        service: jaco_types::ServiceName::new("web").unwrap(),
    };
    let ordinal = jaco_types::Ordinal::Index(0);
    InstanceId {
        replica: jaco_types::ReplicaId::new(&service, &ordinal),
        raft_index: jaco_types::StateIndex(number),
    }
}

/// The plans of all sites.
pub(crate) fn plans(topology: &Topology) -> BTreeMap<NodeId, SitePlan> {
    let sites: BTreeSet<NodeId> = topology.nodes.values().map(|node| node.site).collect();
    sites.into_iter().map(|site| (site, plan(topology, site))).collect()
}

/// Clusters of up to five nodes, some of which share an engine, up to five networks and twelve instances.
pub(crate) fn topologies() -> impl Strategy<Value = Topology> {
    let sites = prop::collection::vec(1_u64..=5, 5);
    let readiness = prop_oneof![
        Just(Readiness::Ready),
        Just(Readiness::Starting),
        Just(Readiness::Terminating)
    ];
    let networks =
        prop::collection::btree_set(1_u32..=5, 1..=3).prop_map(Vec::from_iter).prop_shuffle();
    let deployment = prop_oneof![Just("shop"), Just("blog")];
    let service = prop_oneof![Just("web"), Just("db")];
    let exposure = prop_oneof![3 => Just(Exposure::Members), 1 => Just(Exposure::Edges)];
    let drawn = (1_u64..=5, deployment, service, networks, readiness, exposure);
    let instances = prop::collection::vec(drawn, 0..=12);
    let reach = prop_oneof![Just(NetworkReach::Outside), Just(NetworkReach::Internal)];
    let networks = prop::collection::vec(reach, 5);
    let unlinked = prop::option::weighted(0.1, 1_u8..=5);
    // A site whose key is another one than in most other clusters.
    let rekeyed = prop::option::of(1_u8..=5);
    let listeners = prop::collection::btree_set(listener(), 0..=2);
    (sites, networks, instances, any::<bool>(), unlinked, rekeyed, listeners).prop_map(
        |(sites, networks, instances, has_mesh, unlinked, rekeyed, listeners)| {
            let drawn = (10_u8..).zip(instances);
            let instances = drawn.map(
                |(address, (node, deployment, service, networks, readiness, exposure))| {
                    let name = format!("{deployment}/{service}");
                    let instance = instance(node, &name, &networks, address);
                    Instance { readiness, exposure, ..instance }
                },
            );
            let mut topology = topology(&[1, 2, 3, 4, 5], &[], instances);
            topology.networks = (1..).zip(networks).map(|(id, reach)| network(id, reach)).collect();
            share_engines(&mut topology, &sites);
            if let Some(id) = rekeyed {
                rekey(&mut topology, id);
            }
            if let Some(id) = unlinked {
                topology.nodes.get_mut(&NodeId(id.into())).unwrap().link = None;
            }
            topology.listeners = listeners;
            topology.mesh = topology.mesh.filter(|_| has_mesh);
            topology
        },
    )
}

fn listener() -> impl Strategy<Value = ListenerKey> {
    let transport = prop_oneof![Just(Transport::Tcp), Just(Transport::Udp)];
    let address = prop::option::of(Just(IpAddr::from([192, 0, 2, 1])));
    let port = prop_oneof![Just(80), Just(443)];
    (transport, address, port).prop_map(|(transport, address, port)| ListenerKey {
        transport,
        address,
        port,
    })
}

/// Gives the router of a node another key.
pub(crate) fn rekey(topology: &mut Topology, id: u8) {
    let node = topology.nodes.get_mut(&NodeId(id.into())).unwrap();
    node.link.as_mut().unwrap().key = PublicKey([id + 100; 32]);
}

/// Nodes with the same number share an engine; the lowest of them keeps the router.
fn share_engines(topology: &mut Topology, sites: &[u64]) {
    let nodes: Vec<NodeId> = topology.nodes.keys().copied().collect();
    for (node, engine) in nodes.iter().zip(sites) {
        let first = sites.iter().position(|other| other == engine).unwrap();
        topology.nodes.get_mut(node).unwrap().site = nodes[first];
    }
}
