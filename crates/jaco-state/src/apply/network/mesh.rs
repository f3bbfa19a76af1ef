//! The nodes' own addresses (NET-6).

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use jaco_types::NodeId;

use crate::state::ClusterState;

/// Gives a node its own address, once there is a pool. A node that has one keeps it.
pub(in crate::apply) fn assign(state: &mut ClusterState, node: NodeId) {
    let used: BTreeSet<Ipv4Addr> =
        state.nodes.values().filter_map(|node| node.mesh_address).collect();
    let Some(pool) = &mut state.networks.pool else { return };
    let Some(node) = state.nodes.get_mut(&node).filter(|node| node.mesh_address.is_none()) else {
        return;
    };
    let mesh = pool.mesh();
    let (first, last) = (mesh.first().to_bits(), mesh.last().to_bits());
    let from = pool.next_mesh.to_bits().clamp(first, last);
    // The first address is the mesh itself, the last is for broadcasts.
    let places = (from..last).chain(first..from).filter(|place| *place != first);
    let mut free = places.map(Ipv4Addr::from_bits).filter(|address| !used.contains(address));
    if let Some(address) = free.next() {
        node.mesh_address = Some(address);
        pool.next_mesh = Ipv4Addr::from_bits(address.to_bits() + 1);
    }
}
