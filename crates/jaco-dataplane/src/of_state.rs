//! The topology of a cluster, from its replicated state.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use jaco_state::ClusterState;
use jaco_state::network::NetworkPool;
use jaco_state::view::in_routing;
use jaco_types::spec::ServiceSpec;
use jaco_types::{
    InstanceAddress, InstanceId, NetworkId, Node as Member, NodeId, Revision, RouterLink,
    ServiceKey, Slot, SpecHash,
};

use crate::topology::{
    Instance, InterfaceName, Link, Mesh, Network, Node, PublicKey, Readiness, Topology,
};

impl Topology {
    /// The topology that a state stands for; an empty one where networks are those of each node.
    pub fn of(state: &ClusterState) -> Self {
        let Some(pool) = &state.networks.pool else { return Self::default() };
        let sites = sites(state);
        let nodes = state.nodes.values().map(|member| (member.id, node(member, &sites)));
        let networks = state.networks.rows.values().map(|row| {
            let bridge = InterfaceName::bridge_of(row.id);
            (row.id, Network { subnet: row.subnet, reach: row.reach, bridge })
        });
        let slots = state.slots.values().flat_map(|slot| in_slot(state, slot));
        let terminating = state.terminating.values().map(|row| Live {
            id: row.id.clone(),
            node: row.node,
            service: &row.service,
            revision: row.revision,
            hash: row.spec_hash,
            addresses: &row.addresses,
            readiness: Readiness::Terminating,
        });
        let live = slots.chain(terminating).filter(|live| !live.addresses.is_empty());
        let live = live.filter(|live| !has_ended(state, &live.id));
        Self {
            mesh: Some(mesh(pool)),
            networks: networks.collect(),
            nodes: nodes.collect(),
            instances: live.map(|live| (live.id.clone(), instance(state, &live))).collect(),
        }
    }

    /// The member that keeps the router of a node's site; the node itself where it is no member.
    pub fn site_of(&self, node: NodeId) -> NodeId {
        self.nodes.get(&node).map_or(node, |known| known.site)
    }
}

fn mesh(pool: &NetworkPool) -> Mesh {
    Mesh { pool: pool.prefix, subnet: pool.mesh(), mtu: pool.mtu }
}

/// The lowest member of those that share a router, by its key.
fn sites(state: &ClusterState) -> BTreeMap<[u8; 32], NodeId> {
    let mut sites = BTreeMap::new();
    for member in state.nodes.values() {
        if let Some(link) = link(member) {
            let lowest = sites.entry(link.key).or_insert(member.id);
            *lowest = member.id.min(*lowest);
        }
    }
    sites
}

fn link(member: &Member) -> Option<RouterLink> {
    member.facts.router.as_ref()?.link
}

fn node(member: &Member, sites: &BTreeMap<[u8; 32], NodeId>) -> Node {
    let reported = link(member);
    let site = reported.and_then(|link| sites.get(&link.key)).copied().unwrap_or(member.id);
    let link = reported.zip(member.mesh_address).map(|(link, address)| Link {
        address,
        key: PublicKey(link.key),
        endpoint: endpoint(&member.address, link.port),
    });
    Node { site, link }
}

/// Where a router listens: at the address of its node, unless that is a name, which is not resolved here.
fn endpoint(address: &str, port: u16) -> Option<SocketAddr> {
    let (host, _) = address.rsplit_once(':')?;
    let ip: IpAddr = host.trim_matches(['[', ']']).parse().ok()?;
    Some(SocketAddr::new(ip, port))
}

/// An instance that has addresses and may be running.
struct Live<'a> {
    id: InstanceId,
    node: NodeId,
    service: &'a ServiceKey,
    revision: Revision,
    hash: SpecHash,
    addresses: &'a [InstanceAddress],
    readiness: Readiness,
}

fn in_slot<'a>(state: &'a ClusterState, slot: &'a Slot) -> impl Iterator<Item = Live<'a>> {
    slot.instances().map(|(id, instance)| Live {
        readiness: match in_routing(state, &id) {
            true => Readiness::Ready,
            false => Readiness::Starting,
        },
        id,
        node: instance.node,
        service: &slot.service,
        revision: instance.revision,
        hash: instance.spec_hash,
        addresses: &instance.addresses,
    })
}

/// Whether nothing of it runs any more: what it was reached by leads nowhere.
fn has_ended(state: &ClusterState, id: &InstanceId) -> bool {
    state.observed.get(id).is_some_and(|seen| seen.state.is_over())
}

fn instance(state: &ClusterState, live: &Live<'_>) -> Instance {
    let service = live.service.service.as_str();
    let prefix = format!("{}-", live.service.deployment);
    let replica = live.id.replica.as_str();
    Instance {
        node: live.node,
        deployment: live.service.deployment.clone(),
        replica: replica.strip_prefix(&prefix).unwrap_or(replica).to_lowercase(),
        names: BTreeSet::from([service.to_lowercase()]),
        aliases: aliases(state, live),
        addresses: live.addresses.iter().map(|own| (own.network, own.address)).collect(),
        readiness: live.readiness,
    }
}

/// The aliases of its revision, where that is kept: attachments and addresses have one order (NET-4).
fn aliases(state: &ClusterState, live: &Live<'_>) -> BTreeMap<NetworkId, BTreeSet<String>> {
    let spec = state.service_spec(live.service, live.revision);
    let is_its_own = |spec: &&std::sync::Arc<ServiceSpec>| spec.hash == live.hash;
    let Some(spec) = spec.filter(is_its_own) else { return BTreeMap::new() };
    let attached = live.addresses.iter().zip(&spec.networks);
    let names = attached.map(|(own, attachment)| {
        let names = attachment.aliases.iter().map(|alias| alias.to_lowercase());
        (own.network, names.collect())
    });
    names.collect()
}
