//! A replicated state with many networks, written row by row, for the stopwatch.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use jaco_state::ClusterState;
use jaco_state::network::{Network, NetworkPool};
use jaco_types::{
    Availability, DeploymentName, DesiredState, Instance, InstanceAddress, InstanceId,
    InstanceObserved, Ipv4Prefix, NetworkId, NetworkName, NetworkReach, NetworkScope, Node,
    NodeFacts, NodeId, NodeRouter, NodeStatus, Ordinal, ReplicaId, ReplicaState, RestartCount,
    Revision, RouterLink, ServiceKey, ServiceName, Slot, SpecHash, StateIndex, Subnet, Timestamp,
    TunnelBackend,
};

use crate::scenario::{PORT, address, key, underlay};

/// Nodes, each with a router of its own.
const NODES: u8 = 3;

/// The first address of a network that an instance has, by its last byte.
pub(crate) const FIRST: u8 = 10;

/// Networks with so many addresses each, spread over three nodes; all run.
pub(crate) fn state(networks: u32, addresses: u8) -> ClusterState {
    let mut state = ClusterState { index: StateIndex(100_000), ..ClusterState::default() };
    let pool = Ipv4Prefix::new([10, 64, 0, 0].into(), 12).unwrap();
    state.networks.pool = Some(NetworkPool::new(pool, 1420).unwrap());
    for id in 1..=NODES {
        state.nodes.insert(NodeId(id.into()), node(id));
    }
    for id in 1..=networks {
        state.networks.rows.insert(NetworkId(id), network(id));
        for place in 0..addresses {
            add(&mut state, 1 + place % NODES, id, FIRST + place);
        }
    }
    state
}

/// Writes an instance that runs and is in the endpoints, as the next entry.
pub(crate) fn add(state: &mut ClusterState, node: u8, network: u32, last: u8) {
    let (service, slot) = (service(network), slot(node, network, last));
    let id = slot.current_id();
    let seen = InstanceObserved {
        id: id.clone(),
        service,
        node: NodeId(node.into()),
        state: ReplicaState::Running,
        code: None,
        details: BTreeMap::new(),
        container_id: String::new(),
        ports: BTreeMap::new(),
        started_at: None,
        since: Timestamp(0),
        exit: None,
    };
    state.observed.insert(id, seen);
    state.slots.insert(slot.id.clone(), slot);
    state.index.0 += 1;
}

/// Removes it, as the next entry.
pub(crate) fn remove(state: &mut ClusterState, network: u32, last: u8) {
    let slot = state.slots.remove(&replica(network, last)).unwrap();
    let id: InstanceId = slot.current_id();
    state.observed.remove(&id);
    state.index.0 += 1;
}

fn service(network: u32) -> ServiceKey {
    ServiceKey {
        deployment: DeploymentName::new(&format!("d{network}")).unwrap(),
        service: ServiceName::new("web").unwrap(),
    }
}

fn replica(network: u32, last: u8) -> ReplicaId {
    ReplicaId::new(&service(network), &Ordinal::Index(last.into()))
}

fn slot(node: u8, network: u32, last: u8) -> Slot {
    let own = InstanceAddress { network: NetworkId(network), address: host(network, last) };
    let current = Instance {
        raft_index: StateIndex(1),
        node: NodeId(node.into()),
        revision: Revision(1),
        spec_hash: SpecHash([0; 32]),
        gpus: Vec::new(),
        addresses: vec![own],
        joining_since: None,
    };
    Slot {
        id: replica(network, last),
        service: service(network),
        ordinal: Ordinal::Index(last.into()),
        desired_state: DesiredState::Active,
        current,
        retiring: None,
        data: jaco_types::slot::SlotData::None,
        restarts: RestartCount::default(),
        terminations: Vec::new(),
        modified: StateIndex(1),
    }
}

pub(crate) fn host(network: u32, last: u8) -> Ipv4Addr {
    address(network.into(), last)
}

fn network(id: u32) -> Network {
    let prefix = Ipv4Prefix::new(host(id, 0), 24).unwrap();
    Network {
        id: NetworkId(id),
        scope: NetworkScope::Shared(NetworkName::new(&format!("n{id}")).unwrap()),
        reach: NetworkReach::Outside,
        subnet: Subnet::new(prefix).unwrap(),
        cursor: 0,
        taken: BTreeMap::new(),
    }
}

fn node(id: u8) -> Node {
    let link =
        RouterLink { key: key(id).public_key().0, port: PORT, backend: TunnelBackend::Userspace };
    let router = Some(NodeRouter { link: Some(link), problem: None });
    Node {
        id: NodeId(id.into()),
        hostname: format!("n{id}").parse().unwrap(),
        address: format!("{}:7000", underlay(id)),
        mesh_address: Some(Ipv4Addr::new(10, 64, 0, id)),
        key_fingerprint: [0; 32],
        status: NodeStatus::Ready,
        status_reason: String::new(),
        availability: Availability::Active,
        availability_reason: String::new(),
        drain: None,
        facts: NodeFacts { router, ..NodeFacts::default() },
        labels: BTreeMap::new(),
        joined_at: Timestamp(0),
        modified: StateIndex(1),
    }
}
