//! The topology of a cluster, from its replicated state.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use jaco_state::ClusterState;
use jaco_state::network::{Network as NetworkRow, Quarantine};
use jaco_state::view::in_routing;
use jaco_types::spec::ServiceSpec;
use jaco_types::{
    InstanceAddress, InstanceId, NetworkId, Node as Member, NodeId, NodeStatus, Revision,
    RouterLink, ServiceKey, Slot, SpecHash, TerminatingInstance,
};

use crate::served::Served;
use crate::topology::{
    Exposure, Instance, InterfaceName, Link, Mesh, Network, Node, PublicKey, Readiness, Topology,
};

impl Topology {
    /// The topology that a state stands for; an empty one where networks are those of each node.
    pub fn of(state: &ClusterState) -> Self {
        let Some(mesh) = mesh(state) else { return Self::default() };
        let served = Served::of(state);
        let networks = state.networks.rows.values().map(|row| (row.id, network(row)));
        let slots = state.slots.values().flat_map(|slot| in_slot(state, slot));
        let quarantine = state.networks.quarantine.iter();
        let stopping = quarantine.filter_map(|(id, row)| stopping(state, id, row));
        let live = stopping
            .chain(slots)
            .chain(state.terminating.values().map(terminating))
            .filter(|live| !live.addresses.is_empty());
        let live = live.filter(|live| !has_ended(state, &live.id));
        Self {
            mesh: Some(mesh),
            listeners: served.listeners(state),
            networks: networks.collect(),
            nodes: nodes(state),
            instances: live
                .map(|live| {
                    (live.id.clone(), instance(state, &live, served.exposure(live.service)))
                })
                .collect(),
        }
    }

    /// The member that keeps the router of a node's site; the node itself where it is no member.
    pub fn site_of(&self, node: NodeId) -> NodeId {
        self.nodes.get(&node).map_or(node, |known| known.site)
    }
}

/// What all tunnels have in common; `None` where networks are those of each node.
pub(crate) fn mesh(state: &ClusterState) -> Option<Mesh> {
    let pool = state.networks.pool.as_ref()?;
    Some(Mesh { pool: pool.prefix, subnet: pool.mesh(), mtu: pool.mtu })
}

/// The members, with the sites that they form.
pub(crate) fn nodes(state: &ClusterState) -> BTreeMap<NodeId, Node> {
    let sites = sites(state);
    state.nodes.values().map(|member| (member.id, node(member, &sites))).collect()
}

/// A network as routers see it.
pub(crate) fn network(row: &NetworkRow) -> Network {
    let bridge = InterfaceName::bridge_of(row.id);
    Network { subnet: row.subnet, reach: row.reach, bridge }
}

/// What [`Topology::of`] says of one instance, given who reaches those of its service.
pub(crate) fn instance_of(
    state: &ClusterState,
    id: &InstanceId,
    exposure: impl Fn(&ServiceKey) -> Exposure,
) -> Option<Instance> {
    let slot = state.slots.get(&id.replica);
    let of_slot = slot.into_iter().flat_map(|slot| in_slot(state, slot));
    let row = state.networks.quarantine.get(id);
    let candidates = row
        .and_then(|row| stopping(state, id, row))
        .into_iter()
        .chain(of_slot.filter(|live| live.id == *id))
        .chain(state.terminating.get(id).map(terminating));
    let live = candidates.filter(|live| !live.addresses.is_empty()).last()?;
    (!has_ended(state, id)).then(|| instance(state, &live, exposure(live.service)))
}

/// The member that keeps each router, by its key: the lowest of those that share it and are not down. A daemon that is gone
/// makes no plans, and the router goes on without it.
fn sites(state: &ClusterState) -> BTreeMap<[u8; 32], NodeId> {
    let mut sites: BTreeMap<[u8; 32], (bool, NodeId)> = BTreeMap::new();
    for member in state.nodes.values() {
        if let Some(link) = link(member) {
            let rank = (member.status == NodeStatus::Down, member.id);
            let first = sites.entry(link.key).or_insert(rank);
            *first = rank.min(*first);
        }
    }
    sites.into_iter().map(|(key, (_, keeper))| (key, keeper)).collect()
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
    /// The spec that its aliases and resolvers are from; no name leads to one without.
    spec: Option<(Revision, SpecHash)>,
    addresses: &'a [InstanceAddress],
    readiness: Readiness,
}

fn in_slot<'a>(state: &'a ClusterState, slot: &'a Slot) -> impl Iterator<Item = Live<'a>> {
    slot.instances().map(|(id, instance)| Live {
        // What is not attached yet is not reached by its address.
        readiness: match instance.joining_since.is_none() && in_routing(state, &id) {
            true => Readiness::Ready,
            false => Readiness::Starting,
        },
        id,
        node: instance.node,
        service: &slot.service,
        spec: Some((instance.revision, instance.spec_hash)),
        addresses: &instance.addresses,
    })
}

fn terminating(row: &TerminatingInstance) -> Live<'_> {
    Live {
        id: row.id.clone(),
        node: row.node,
        service: &row.service,
        spec: None,
        addresses: &row.addresses,
        readiness: Readiness::Terminating,
    }
}

/// What has been told to stop and is not known to be gone: it answers what it was asked before, and closes its
/// connections itself.
fn stopping<'a>(state: &'a ClusterState, id: &InstanceId, row: &'a Quarantine) -> Option<Live<'a>> {
    let observed = state.observed.get(id).filter(|_| row.until.is_none())?;
    Some(Live {
        id: id.clone(),
        node: row.node,
        service: &observed.service,
        spec: None,
        addresses: &row.addresses,
        readiness: Readiness::Terminating,
    })
}

/// Whether nothing of it runs any more: what it was reached by leads nowhere.
fn has_ended(state: &ClusterState, id: &InstanceId) -> bool {
    state.observed.get(id).is_some_and(|seen| seen.state.is_over())
}

fn instance(state: &ClusterState, live: &Live<'_>, exposure: Exposure) -> Instance {
    let service = live.service.service.as_str();
    let prefix = format!("{}-", live.service.deployment);
    let replica = live.id.replica.as_str();
    Instance {
        node: live.node,
        deployment: live.service.deployment.clone(),
        replica: replica.strip_prefix(&prefix).unwrap_or(replica).to_lowercase(),
        names: BTreeSet::from([service.to_lowercase()]),
        aliases: aliases(state, live),
        resolvers: own_spec(state, live).map(|spec| spec.resolvers.clone()).unwrap_or_default(),
        addresses: live.addresses.iter().map(|own| (own.network, own.address)).collect(),
        readiness: live.readiness,
        exposure,
    }
}

/// The spec of its revision, where that is kept.
fn own_spec<'a>(state: &'a ClusterState, live: &Live<'_>) -> Option<&'a Arc<ServiceSpec>> {
    let (revision, hash) = live.spec?;
    state.service_spec(live.service, revision).filter(|spec| spec.hash == hash)
}

/// The aliases of its revision; of one that joined the networks of its deployment while it ran, those of the desired
/// revision, whose containers ask for it.
fn aliases(state: &ClusterState, live: &Live<'_>) -> BTreeMap<NetworkId, BTreeSet<String>> {
    let Some(own) = own_spec(state, live) else { return BTreeMap::new() };
    let ServiceKey { deployment, service } = live.service;
    let desired = || state.deployments.get(deployment)?.spec().services.get(service);
    let spec = if own.networks.is_empty() { desired() } else { Some(own) };
    let attachments = spec.map(|spec| spec.networks.as_slice()).unwrap_or_default();
    let names = live.addresses.iter().filter_map(|own| {
        let scope = &state.networks.rows.get(&own.network)?.scope;
        let attachment = attachments.iter().find(|one| one.network.scope(deployment) == *scope)?;
        let names = attachment.aliases.iter().map(|alias| alias.to_lowercase());
        Some((own.network, names.collect()))
    });
    names.collect()
}
