//! NET-9: packets to an address reach nobody but the replica that it is the address of for those who send them: an
//! address that is used again is another replica's for everybody before it is reached.

use jaco_types::InstanceAddress;

use super::packets::Packets;
use super::{Facts, Invariant, InvariantViolation, Verdict};
use crate::network::MachineIx;

#[derive(Debug, Default)]
pub(super) struct Reached;

impl Invariant for Reached {
    fn routed(&mut self, facts: &Facts, machine: MachineIx) -> Verdict {
        reaches_its_owners(facts, machine)
    }

    fn up_changed(&mut self, facts: &Facts, machine: MachineIx) -> Verdict {
        reaches_its_owners(facts, machine)
    }
}

fn reaches_its_owners(facts: &Facts, machine: MachineIx) -> Verdict {
    let Some(packets) = Packets::of(facts) else { return Ok(()) };
    for (from, to) in packets.pairs_with(machine) {
        let Some(holds) = facts.routers.get(&from.machine) else { continue };
        for own in from.addresses {
            for InstanceAddress { address, .. } in to.addresses {
                let owner = holds.plan.names.owners.get(address);
                let Some(owner) = owner.filter(|it| it.network == own.network) else { continue };
                let delivery = packets.send(from, own, *address);
                let Some(got) = packets.receiver(delivery, *address) else { continue };
                if !is_name_of(&owner.name, got.instance.replica.as_str()) {
                    let subject = format!(
                        "{address} is {} for machine {}, and packets of {} reach {} there",
                        owner.name, from.machine.0, from.instance, got.instance
                    );
                    return Err(InvariantViolation::OtherReached { subject });
                }
            }
        }
    }
    Ok(())
}

/// Whether a replica, as `shop-web-0`, has the name `web-0.shop`.
fn is_name_of(name: &str, replica: &str) -> bool {
    let parts = name.rsplit_once('.');
    parts.is_some_and(|(own, deployment)| replica.to_lowercase() == format!("{deployment}-{own}"))
}
