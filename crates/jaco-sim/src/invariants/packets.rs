//! Packets between containers, by what the routers hold.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use jaco_agent::engine::ObservedContainer;
use jaco_dataplane::{Delivery, Packet, SitePlan, deliver};
use jaco_types::{InstanceAddress, InstanceId, NetworkId, NodeId};

use super::Facts;
use super::facts::is_up;
use crate::network::MachineIx;

/// A container that is up and has addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Attached<'a> {
    pub(super) machine: MachineIx,
    pub(super) node: NodeId,
    pub(super) instance: &'a InstanceId,
    pub(super) addresses: &'a [InstanceAddress],
}

impl Attached<'_> {
    /// Its address in a network.
    pub(super) fn address_in(&self, network: NetworkId) -> Option<Ipv4Addr> {
        self.addresses.iter().find(|own| own.network == network).map(|own| own.address)
    }
}

/// What all routers hold, and the containers that send and receive.
#[derive(Debug)]
pub(super) struct Packets<'a> {
    plans: BTreeMap<NodeId, &'a SitePlan>,
    pub(super) attached: Vec<Attached<'a>>,
}

impl<'a> Packets<'a> {
    /// `None` before any router holds anything.
    pub(super) fn of(facts: &'a Facts) -> Option<Self> {
        if facts.routers.is_empty() {
            return None;
        }
        let plans = facts.routers.values().map(|holds| (holds.node, &holds.plan)).collect();
        let attached = facts.machines.iter().flat_map(|(machine, containers)| {
            let node = facts.routers.get(machine).map(|holds| holds.node);
            let up = containers.values().filter(|seen| is_up(seen));
            up.filter_map(move |seen: &ObservedContainer| {
                let addresses = facts.addresses.get(&seen.instance)?;
                (!addresses.is_empty()).then_some(())?;
                let (machine, instance) = (*machine, &seen.instance);
                Some(Attached { machine, node: node?, instance, addresses })
            })
        });
        Some(Self { plans, attached: attached.collect() })
    }

    /// Senders and receivers of which at least one is on this machine: a step of its router, or a change of its
    /// containers, changes nothing for others.
    pub(super) fn pairs_with(
        &self,
        machine: MachineIx,
    ) -> impl Iterator<Item = (&Attached<'a>, &Attached<'a>)> {
        let pairs = self.attached.iter().flat_map(|from| {
            self.attached.iter().map(move |to| (from, to)).filter(|(from, to)| from != to)
        });
        pairs.filter(move |(from, to)| from.machine == machine || to.machine == machine)
    }

    /// What becomes of a packet from a container, out of its interface in a network.
    pub(super) fn send(
        &self,
        from: &Attached<'_>,
        own: &InstanceAddress,
        to: Ipv4Addr,
    ) -> Delivery {
        let packet = Packet { source: own.address, destination: to };
        deliver(&self.plans, from.node, own.network, packet)
    }

    /// The container that gets a packet which was delivered.
    pub(super) fn receiver(&self, delivery: Delivery, address: Ipv4Addr) -> Option<&Attached<'a>> {
        let Delivery::Bridge { site, network } = delivery else { return None };
        let mut there = self.attached.iter().filter(|one| one.node == site);
        there.find(|one| one.address_in(network) == Some(address))
    }
}
