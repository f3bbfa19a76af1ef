//! NET-8: a name leads to no address to which no way stands, after each single step of a router; nor to one that a running
//! container is to be attached to and is not.

use std::net::Ipv4Addr;

use jaco_dataplane::SitePlan;
use jaco_state::Command;
use jaco_state::command::Observe;
use jaco_types::{InstanceId, NetworkId};

use super::{Committed, Facts, Invariant, InvariantViolation, Verdict};
use crate::network::MachineIx;

#[derive(Debug, Default)]
pub(super) struct Named;

impl Invariant for Named {
    fn committed(&mut self, facts: &Facts, step: &Committed<'_>) -> Verdict {
        let Command::Observe(Observe { joined, .. }) = &step.entry.command else { return Ok(()) };
        // What has ended meanwhile has no name.
        let is_up = |id: &InstanceId| facts.live().any(|seen| seen.instance == *id);
        let is_attached =
            |id: &InstanceId| facts.addresses.get(id).is_some_and(|all| !all.is_empty());
        match joined.iter().find(|id| is_up(id) && !is_attached(id)) {
            Some(instance) => Err(InvariantViolation::NamedApart { instance: instance.clone() }),
            None => Ok(()),
        }
    }

    fn routed(&mut self, facts: &Facts, machine: MachineIx) -> Verdict {
        let Some(holds) = facts.routers.get(&machine) else { return Ok(()) };
        let plan = &holds.plan;
        for ((network, name), by_deployment) in &plan.names.known {
            for addresses in by_deployment.values() {
                let here = addresses.ready_here.iter().find(|it| !is_here(plan, *network, **it));
                let there =
                    addresses.ready_elsewhere.iter().find(|it| !is_elsewhere(plan, *network, **it));
                let stands = |it: &Ipv4Addr| {
                    is_here(plan, *network, *it) || is_elsewhere(plan, *network, *it)
                };
                let starting = addresses.starting.iter().find(|it| !stands(it));
                if let Some(address) = here.or(there).or(starting) {
                    let (name, address, machine) = (name.clone(), *address, machine.0);
                    return Err(InvariantViolation::NamedWithoutWay { name, address, machine });
                }
            }
        }
        Ok(())
    }
}

/// Whether the bridge of the network carries packets to it.
fn is_here(plan: &SitePlan, network: NetworkId, address: Ipv4Addr) -> bool {
    plan.ports.contains_key(&network) && !plan.routes.contains_key(&address)
}

/// Whether packets to it are let into the tunnel, and out of it at the other end's.
fn is_elsewhere(plan: &SitePlan, network: NetworkId, address: Ipv4Addr) -> bool {
    plan.ports.contains_key(&network)
        && plan.tunnel.is_some()
        && plan.policy.scopes.contains_key(&network)
        && plan.routes.contains_key(&address)
        && plan.peers.values().any(|peer| peer.addresses.contains(&address))
}
