//! Laws over random clusters. NET-7: what is delivered. NET-12: where the steps lead.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use jaco_dataplane::{
    Delivery, Exposure, Found, Instance, Packet, PlanChange, PublicKey, Seen, SitePlan, Step,
    Topology, deliver, deliver_of_router, diff, plan, steps,
};
use jaco_types::{NetworkId, NodeId};
use proptest::prelude::*;

use crate::cluster::{plans, topologies};

/// Every address of every instance, with its site.
fn holders(topology: &Topology) -> Vec<(&Instance, NodeId, NetworkId, Ipv4Addr)> {
    let all = topology.instances.values().flat_map(|instance| {
        let site = topology.nodes[&instance.node].site;
        instance.addresses.iter().map(move |(id, address)| (instance, site, *id, *address))
    });
    all.collect()
}

/// Whether packets can leave the site at all.
fn is_linked(topology: &Topology, site: NodeId) -> bool {
    topology.mesh.is_some() && topology.nodes[&site].link.is_some()
}

/// NET-7: whoever sends what, it reaches only members of a network that the sender is in; honest packets do reach
/// them.
fn check_delivery(topology: &Topology, plans: &BTreeMap<NodeId, SitePlan>) -> Result<(), String> {
    let holders = holders(topology);
    let at = |site, network, address| {
        holders.iter().any(|holder| (holder.1, holder.2, holder.3) == (site, network, address))
    };
    let mesh = topology.nodes.values().filter_map(|node| Some(node.link.as_ref()?.address));
    let mut sources: BTreeSet<Ipv4Addr> = holders.iter().map(|holder| holder.3).collect();
    sources.extend(mesh);
    sources.extend(topology.networks.values().flat_map(|network| {
        [network.subnet.gateway(), network.subnet.router(), network.subnet.prefix().first()]
    }));
    for &(_, site, network, own) in &holders {
        for &(_, there, target_network, destination) in &holders {
            for &source in &sources {
                let packet = Packet { source, destination };
                let delivery = deliver(plans, site, network, packet);
                let delivered = matches!(delivery, Delivery::Bridge { site, network }
                    if at(site, network, destination));
                let shared = network == target_network;
                if delivered && !shared {
                    return Err(format!("{packet:?} of {site:?} {network:?}: {delivery:?}"));
                }
                let connected =
                    site == there || is_linked(topology, site) && is_linked(topology, there);
                if source == own && shared && connected && !delivered {
                    return Err(format!("{packet:?} of {site:?} {network:?}: {delivery:?}"));
                }
            }
        }
    }
    Ok(())
}

/// NET-7: what the router of a site sends by itself arrives at the instances of its networks on its own site, and at
/// the first address of all that edges serve, wherever they are; at others of its networks nowhere else, and at
/// nobody of another network.
fn check_delivery_of_routers(
    topology: &Topology,
    plans: &BTreeMap<NodeId, SitePlan>,
) -> Result<(), String> {
    for &site in plans.keys() {
        for (instance, there, network, destination) in holders(topology) {
            let delivery = deliver_of_router(plans, site, destination);
            let is_served = instance.exposure == Exposure::Edges
                && instance.addresses[0] == (network, destination);
            let expected = site == there
                || is_served && is_linked(topology, site) && is_linked(topology, there);
            // In another bridge nobody has the address.
            let arrives = delivery == Delivery::Bridge { site: there, network };
            if arrives != expected {
                return Err(format!("{destination} from the router of {site:?}: {delivery:?}"));
            }
        }
    }
    Ok(())
}

/// The peers of a site as the networks and routes of the cluster ask for them, each with its addresses.
fn needed_peers(topology: &Topology, site: NodeId) -> BTreeMap<PublicKey, BTreeSet<Ipv4Addr>> {
    let mut needed: BTreeMap<PublicKey, BTreeSet<Ipv4Addr>> = BTreeMap::new();
    if !is_linked(topology, site) {
        return needed;
    }
    let holders = holders(topology);
    let here: BTreeSet<NetworkId> =
        holders.iter().filter(|holder| holder.1 == site).map(|holder| holder.2).collect();
    let is_served = |instance: &Instance, address| {
        instance.exposure == Exposure::Edges && instance.addresses[0].1 == address
    };
    let is_serving = holders.iter().any(|holder| holder.1 == site && is_served(holder.0, holder.3));
    for (id, node) in topology.nodes.iter().filter(|(id, node)| node.site == **id && **id != site) {
        let Some(link) = &node.link else { continue };
        let of_it = holders.iter().filter(|holder| holder.1 == *id);
        let mut reached: BTreeSet<Ipv4Addr> = of_it
            .filter(|holder| here.contains(&holder.2) || is_served(holder.0, holder.3))
            .map(|holder| holder.3)
            .collect();
        if is_serving || !reached.is_empty() {
            reached.insert(link.address);
            needed.insert(link.key, reached);
        }
    }
    needed
}

proptest! {
    /// NET-7: of peers and their addresses there is what packets need, and nothing else.
    #[test]
    fn peers_are_those_that_packets_need(topology in topologies()) {
        for (site, plan) in plans(&topology) {
            let peers = plan.peers.into_iter().map(|(key, peer)| (key, peer.addresses));
            prop_assert_eq!(peers.collect::<BTreeMap<_, _>>(), needed_peers(&topology, site));
        }
    }

    /// NET-7
    #[test]
    fn edges_reach_what_they_serve_and_nobody_else(topology in topologies()) {
        let plans = plans(&topology);
        prop_assert_eq!(check_delivery_of_routers(&topology, &plans), Ok(()));
    }

    /// NET-7
    #[test]
    fn packets_are_delivered_iff_a_network_is_shared(topology in topologies()) {
        let plans = plans(&topology);
        prop_assert_eq!(check_delivery(&topology, &plans), Ok(()));
    }

    /// NET-7: a site cannot send in the name of another one, nor of an address that nobody has.
    #[test]
    fn remote_sources_are_those_of_their_site(topology in topologies()) {
        let plans = plans(&topology);
        let holders = holders(&topology);
        for &(_, site, network, own) in &holders {
            for &(_, there, _, destination) in holders.iter().filter(|holder| holder.1 != site) {
                let subnet = topology.networks[&network].subnet;
                let unassigned = Ipv4Addr::from(u32::from(subnet.prefix().first()) + 200);
                let elsewhere = holders.iter().filter(|holder| holder.1 != site).map(|holder| holder.3);
                for source in elsewhere.chain([unassigned]).filter(|source| *source != own) {
                    let packet = Packet { source, destination };
                    let delivery = deliver(&plans, site, network, packet);
                    let crossed = matches!(delivery, Delivery::Bridge { site, .. } if site == there);
                    prop_assert!(!crossed, "{:?} of {}", packet, site);
                }
            }
        }
    }

    /// NET-12: the steps lead to the plan at once, and then there are none.
    #[test]
    fn one_application_converges(before in topologies(), after in topologies(), site in 1_u64..=5) {
        let (before, after) = (plan(&before, NodeId(site)), plan(&after, NodeId(site)));
        let mut seen = Seen::of(&before);
        for step in diff(&after, &seen) {
            seen.carry_out(&step);
        }
        prop_assert_eq!(&seen, &Seen::of(&after));
        prop_assert_eq!(diff(&after, &seen), vec![]);
        prop_assert_eq!(diff(&before, &Seen::of(&before)), vec![]);
    }

    /// NET-13: what differs between two plans leads from the one to the other, and its steps are those of all of it.
    #[test]
    fn a_change_is_as_good_as_a_plan(before in topologies(), after in topologies(), site in 1_u64..=5) {
        let (before, after) = (plan(&before, NodeId(site)), plan(&after, NodeId(site)));
        let (change, seen) = (PlanChange::between(&before, &after), Seen::of(&before));
        prop_assert_eq!(change.is_empty(), before == after);
        let mut changed = before.clone();
        changed.change(&change);
        prop_assert_eq!(&changed, &after);
        match steps(&change, &seen) {
            Some(steps) => prop_assert_eq!(steps, diff(&after, &seen)),
            None => prop_assert!(
                (before.tunnel, before.policy.mesh) != (after.tunnel, after.policy.mesh)
            ),
        }
    }

    /// Between any two steps no port is without a policy, and no route or name leads where there is no way.
    #[test]
    fn every_moment_between_is_safe(before in topologies(), after in topologies(), site in 1_u64..=5) {
        let (before, after) = (plan(&before, NodeId(site)), plan(&after, NodeId(site)));
        for mut seen in [Seen::default(), Seen::of(&before)] {
            for step in diff(&after, &seen) {
                seen.carry_out(&step);
                let moved = |address: &Ipv4Addr| {
                    let has = |plan: &SitePlan| {
                        plan.names.owners.contains_key(address) || plan.routes.contains_key(address)
                    };
                    has(&before) && has(&after)
                };
                prop_assert_eq!(unsafe_moment(&seen, moved), None, "after {:?}", step);
            }
        }
    }

    /// The order in which instances and nodes were added to the cluster is irrelevant.
    #[test]
    fn plans_do_not_depend_on_order(topology in topologies(), site in 1_u64..=5) {
        let mut reordered = topology.clone();
        reordered.instances = topology.instances.clone().into_iter().rev().collect();
        reordered.nodes = topology.nodes.clone().into_iter().rev().collect();
        prop_assert_eq!(plan(&topology, NodeId(site)), plan(&reordered, NodeId(site)));
        // Ids that order the instances differently: what is planned for them is the same.
        let ids: Vec<_> = topology.instances.keys().cloned().collect();
        let values = topology.instances.values().rev().cloned();
        reordered.instances = ids.into_iter().zip(values).collect();
        prop_assert_eq!(plan(&topology, NodeId(site)), plan(&reordered, NodeId(site)));
    }

    /// NET-12: whatever is taken away or put in by others is put right.
    #[test]
    fn drift_is_repaired(topology in topologies(), site in 1_u64..=5, which in 0_usize..10) {
        let plan = plan(&topology, NodeId(site));
        let mut seen = Seen::of(&plan);
        drift(&mut seen, which);
        let changed = seen != Seen::of(&plan);
        let steps = diff(&plan, &seen);
        prop_assert_eq!(changed, !steps.is_empty());
        steps.iter().for_each(|step| seen.carry_out(step));
        prop_assert_eq!(&seen, &Seen::of(&plan));
    }

    /// NET-7: the check finds a plan that lets through too much, or too little.
    #[test]
    fn sabotage_is_found(topology in topologies(), site in 1_u64..=5) {
        let honest = plans(&topology);
        let Some(mine) = honest.get(&NodeId(site)) else { return Ok(()) };
        let check = |plans: &_| {
            check_delivery(&topology, plans)?;
            check_delivery_of_routers(&topology, plans)
        };
        for (a, b) in mine.ports.keys().zip(mine.ports.keys().skip(1)) {
            // Ports in each other's bridges: members meet strangers.
            let mut plans = honest.clone();
            let sabotaged = plans.get_mut(&NodeId(site)).unwrap();
            let (first, second) = (mine.ports[a].clone(), mine.ports[b].clone());
            sabotaged.ports.extend([(*a, second), (*b, first)]);
            let scopes = &mine.policy.scopes;
            let swapped = [(*a, scopes[b].clone()), (*b, scopes[a].clone())];
            sabotaged.policy.scopes.extend(swapped);
            if mine.routes.values().any(|network| [a, b].contains(&network)) {
                prop_assert!(check_delivery(&topology, &plans).is_err());
            }
        }
        for address in mine.routes.keys() {
            let mut plans = honest.clone();
            plans.get_mut(&NodeId(site)).unwrap().routes.remove(address);
            prop_assert!(check(&plans).is_err(), "without {}", address);
        }
        for (key, peer) in &mine.peers {
            let mut plans = honest.clone();
            plans.get_mut(&NodeId(site)).unwrap().peers.remove(key);
            prop_assert!(check(&plans).is_err(), "without {:?}", peer);
        }
        let mut plans = honest.clone();
        if plans.get_mut(&NodeId(site)).unwrap().policy.served.pop_first().is_some()
            && honest.keys().any(|other| other.0 != site && is_linked(&topology, *other))
        {
            prop_assert!(check(&plans).is_err(), "not served");
        }
    }
}

/// What no moment may show. An address that has moved from one site to another may be without a peer between.
fn unsafe_moment(seen: &Seen, moved: impl Fn(&Ipv4Addr) -> bool) -> Option<String> {
    if seen.policy.is_none() && !seen.ports.is_empty() {
        return Some("a port without a policy".to_owned());
    }
    for address in &seen.routes {
        let has_peer = seen.peers.values().any(|peer| peer.addresses.contains(address));
        if !has_peer && !moved(address) {
            return Some(format!("{address} leads to no peer"));
        }
    }
    let names = seen.names.known.values().flat_map(BTreeMap::values);
    for address in names.flat_map(|found| &found.ready_elsewhere) {
        if !seen.routes.contains(address) && !moved(address) {
            return Some(format!("a name leads to {address}, which has no route"));
        }
    }
    None
}

fn drift(seen: &mut Seen, which: usize) {
    match which {
        0 => seen.policy = None,
        1 => {
            seen.tunnel = seen.tunnel.map(|_| Found::Broken);
        }
        2 => {
            seen.ports.pop_first();
        }
        3 => {
            if let Some(mut port) = seen.ports.first_entry() {
                port.insert(Found::Broken);
            }
        }
        4 => {
            seen.peers.pop_last();
        }
        5 => {
            seen.routes.pop_first();
        }
        6 => {
            if let Some(policy) = &mut seen.policy {
                policy.scopes.pop_first();
            }
        }
        7 => {
            if let Some(policy) = &mut seen.policy {
                policy.served.pop_first();
            }
        }
        8 => {
            seen.listeners.pop_first();
        }
        _ => {
            if let Some(mut peer) = seen.peers.first_entry() {
                peer.get_mut().addresses.insert(Ipv4Addr::new(10, 65, 9, 9));
            }
        }
    }
}

/// NET-12: nothing is written where nothing is missing, not even for an empty plan.
#[test]
fn an_empty_site_gets_its_policy_and_nothing_else() {
    let plan = SitePlan::default();
    assert_eq!(diff(&plan, &Seen::default()), [Step::LoadPolicy(plan.policy.clone())]);
    assert_eq!(diff(&plan, &Seen::of(&plan)), []);
}
