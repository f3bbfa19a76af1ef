//! NET-7: a packet of an instance reaches another one only if they share a network, whatever the routers are doing; once
//! all faults are over it does if they share one.

use jaco_state::view::is_running;

use super::packets::{Attached, Packets};
use super::{Facts, Invariant, InvariantViolation, Verdict};
use crate::network::MachineIx;

#[derive(Debug, Default)]
pub(super) struct Delivered;

impl Invariant for Delivered {
    fn routed(&mut self, facts: &Facts, machine: MachineIx) -> Verdict {
        reaches_only_its_networks(facts, machine)
    }

    fn up_changed(&mut self, facts: &Facts, machine: MachineIx) -> Verdict {
        reaches_only_its_networks(facts, machine)
    }

    fn converged(&mut self, facts: &Facts) -> Verdict {
        let Some(packets) = Packets::of(facts) else { return Ok(()) };
        let stays = |one: &&Attached<'_>| {
            let slot = facts.state.slots.get(&one.instance.replica);
            slot.is_some_and(|slot| slot.current_id() == *one.instance)
                && is_running(&facts.state, one.instance)
        };
        let attached: Vec<&Attached<'_>> = packets.attached.iter().filter(stays).collect();
        for from in &attached {
            for to in attached.iter().filter(|to| to.instance != from.instance) {
                reaches(&packets, from, to)?;
            }
        }
        Ok(())
    }
}

fn reaches_only_its_networks(facts: &Facts, machine: MachineIx) -> Verdict {
    let Some(packets) = Packets::of(facts) else { return Ok(()) };
    let strangers = packets.pairs_with(machine).filter(|(from, to)| !share_network(from, to));
    for (from, to) in strangers {
        for (own, other) in pairs(from, to) {
            let delivery = packets.send(from, own, other);
            if packets.receiver(delivery, other).is_some_and(|got| got.instance == to.instance) {
                let (from, to) = (from.instance.clone(), to.instance.clone());
                return Err(InvariantViolation::ReachedWithoutNetwork { from, to });
            }
        }
    }
    Ok(())
}

fn reaches(packets: &Packets<'_>, from: &Attached<'_>, to: &Attached<'_>) -> Verdict {
    for own in from.addresses {
        let Some(address) = to.address_in(own.network) else { continue };
        let delivery = packets.send(from, own, address);
        if packets.receiver(delivery, address).is_none_or(|got| got.instance != to.instance) {
            let (from, to) = (from.instance, to.instance);
            let subject = format!("packets of {from} do not reach {to} at {address}: {delivery:?}");
            return Err(InvariantViolation::NotReached { subject });
        }
    }
    Ok(())
}

fn share_network(one: &Attached<'_>, other: &Attached<'_>) -> bool {
    one.addresses.iter().any(|own| other.address_in(own.network).is_some())
}

fn pairs<'a>(
    from: &'a Attached<'_>,
    to: &'a Attached<'_>,
) -> impl Iterator<Item = (&'a jaco_types::InstanceAddress, std::net::Ipv4Addr)> {
    from.addresses.iter().flat_map(|own| to.addresses.iter().map(move |other| (own, other.address)))
}
