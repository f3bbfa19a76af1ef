//! From the topology of the cluster to what the router of one site should hold.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use jaco_types::{NetworkId, NetworkReach, NodeId};

use crate::names::{Asker, Names, Owner};
use crate::site::{Peer, Policy, Port, SitePlan, Tunnel};
use crate::topology::{Exposure, Instance, Link, Network, Readiness, Topology};

/// The largest packet where no tunnel limits it.
const LOCAL_MTU: u16 = 1500;

/// What the router of the site that `site` keeps should hold. Total: what contradicts itself (an instance on a
/// node that is no member, an address of a network that does not exist) is left out, as if it were not there.
pub fn plan(topology: &Topology, site: NodeId) -> SitePlan {
    plan_for(topology, site, topology.instances.values().flat_map(|one| attachments(topology, one)))
}

/// The part of [`plan`] that is about these networks; peers have only what they have in them. `instances` are all
/// that are in one of them, in the order of the topology.
pub(crate) fn plan_part<'a>(
    topology: &'a Topology,
    site: NodeId,
    networks: &BTreeSet<NetworkId>,
    instances: impl Iterator<Item = &'a Instance> + Clone,
) -> SitePlan {
    let all = instances.flat_map(|one| attachments(topology, one));
    plan_for(topology, site, all.filter(|one| networks.contains(&one.network)))
}

fn plan_for<'a>(
    topology: &'a Topology,
    site: NodeId,
    attachments: impl Iterator<Item = Attachment<'a>> + Clone,
) -> SitePlan {
    let mesh = topology.mesh;
    let tunnel = mesh.zip(link(topology, site)).map(|(mesh, link)| Tunnel {
        address: link.address,
        mesh: mesh.subnet,
        key: link.key,
        mtu: mesh.mtu,
    });
    let mtu = mesh.map_or(LOCAL_MTU, |mesh| mesh.mtu);
    let here = attachments.clone().filter(|one| one.site == site);
    let ports = ports(topology, here.map(|one| one.network).collect(), mtu);
    let mut plan = SitePlan {
        policy: Policy::of(&ports, tunnel.and(mesh).map(|mesh| mesh.subnet)),
        tunnel,
        ports,
        names: Names { pool: mesh.map(|mesh| mesh.pool), ..Names::default() },
        listeners: topology.listeners.clone(),
        ..SitePlan::default()
    };
    for attachment in attachments {
        if attachment.site == site {
            record_here(&mut plan, topology, &attachment);
        } else {
            record_elsewhere(&mut plan, topology, &attachment);
        }
    }
    if !plan.policy.served.is_empty() {
        let others = topology.nodes.keys().filter(|other| **other != site);
        others.filter_map(|other| link(topology, *other)).for_each(|link| {
            peer(&mut plan, link);
        });
    }
    plan
}

/// An instance of this site: those of its networks reach it by name, and the edges of others if they serve it.
fn record_here(plan: &mut SitePlan, topology: &Topology, attachment: &Attachment<'_>) {
    if plan.tunnel.is_some() && attachment.exposure == Exposure::Edges {
        plan.policy.served.insert(attachment.address, attachment.network);
    }
    record_names(&mut plan.names, topology, attachment, Locality::Here);
}

/// An instance of another site. Where its network is not here there is a way to it for the edge alone, and no name.
fn record_elsewhere(plan: &mut SitePlan, topology: &Topology, attachment: &Attachment<'_>) {
    let is_member = plan.ports.contains_key(&attachment.network);
    let link = link(topology, attachment.site).filter(|_| plan.tunnel.is_some());
    let Some(link) = link.filter(|_| is_member || attachment.exposure == Exposure::Edges) else {
        return;
    };
    peer(plan, link).addresses.insert(attachment.address);
    plan.routes.insert(attachment.address, attachment.network);
    if is_member {
        record_names(&mut plan.names, topology, attachment, Locality::Elsewhere);
    }
}

/// The peer that is the router of this link, with its address in the mesh at least.
fn peer<'a>(plan: &'a mut SitePlan, link: &Link) -> &'a mut Peer {
    let addresses = BTreeSet::from([link.address]);
    plan.peers.entry(link.key).or_insert(Peer { endpoint: link.endpoint, addresses })
}

/// One address of an instance, in a network that exists, on a node that is a member.
#[derive(Clone, Copy)]
struct Attachment<'a> {
    instance: &'a Instance,
    site: NodeId,
    network: NetworkId,
    address: Ipv4Addr,
    /// Who reaches the instance at this address.
    exposure: Exposure,
}

#[derive(Clone, Copy)]
enum Locality {
    Here,
    Elsewhere,
}

/// The attachments of an instance.
fn attachments<'a>(
    topology: &'a Topology,
    instance: &'a Instance,
) -> impl Iterator<Item = Attachment<'a>> + Clone {
    let site = topology.nodes.get(&instance.node).map(|node| node.site);
    instance.addresses.iter().enumerate().filter_map(move |(place, &(id, address))| {
        let (network, site) = (topology.networks.get(&id)?, site?);
        let exposure = if place == 0 { instance.exposure } else { Exposure::Members };
        let attachment = Attachment { instance, site, network: id, address, exposure };
        is_assignable(network, address).then_some(attachment)
    })
}

/// Whether an instance may have the address: neither the engine's gateway nor the router, which are on every site.
fn is_assignable(network: &Network, address: Ipv4Addr) -> bool {
    network.subnet.is_for_instances(address)
}

fn link(topology: &Topology, site: NodeId) -> Option<&Link> {
    topology.nodes.get(&site).filter(|node| node.site == site)?.link.as_ref()
}

fn ports(topology: &Topology, here: BTreeSet<NetworkId>, mtu: u16) -> BTreeMap<NetworkId, Port> {
    here.into_iter()
        .filter_map(|id| {
            let network = topology.networks.get(&id)?;
            Some((id, Port::new(id, network.bridge.clone(), network.subnet, mtu)))
        })
        .collect()
}

fn record_names(
    names: &mut Names,
    topology: &Topology,
    attachment: &Attachment<'_>,
    locality: Locality,
) {
    let Attachment { instance, network, address, .. } = *attachment;
    let name = format!("{}.{}", instance.replica, instance.deployment);
    names.owners.insert(address, Owner { network, name });
    if matches!(locality, Locality::Here) {
        names.askers.insert(address, asker(topology, instance));
    }
    if instance.readiness == Readiness::Terminating {
        return;
    }
    let aliases = instance.aliases.get(&network).into_iter().flatten();
    let all = instance.names.iter().chain(aliases).chain([&instance.replica]);
    for name in all {
        let by_deployment = names.known.entry((network, name.clone())).or_default();
        let found = by_deployment.entry(instance.deployment.clone()).or_default();
        let ready = instance.readiness == Readiness::Ready;
        let addresses = match (ready, locality) {
            (true, Locality::Here) => &mut found.ready_here,
            (true, Locality::Elsewhere) => &mut found.ready_elsewhere,
            (false, Locality::Here | Locality::Elsewhere) => &mut found.starting,
        };
        addresses.insert(address);
    }
}

fn asker(topology: &Topology, instance: &Instance) -> Asker {
    let networks: Vec<NetworkId> = instance.addresses.iter().map(|(id, _)| *id).collect();
    let reach = |id: &NetworkId| topology.networks.get(id).map(|network| network.reach);
    let external = networks.iter().any(|id| reach(id) == Some(NetworkReach::Outside));
    Asker {
        deployment: instance.deployment.clone(),
        networks,
        reach: if external { NetworkReach::Outside } else { NetworkReach::Internal },
        resolvers: instance.resolvers.clone(),
    }
}
