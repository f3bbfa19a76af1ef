//! NET-9: packets to an address reach nobody but the replica that it is the address of for those who send them: an
//! address that is used again is another replica's for everybody before it is reached.

use jaco_agent::engine::ObservedContainer;

use super::packets::Packets;
use super::{Facts, Invariant, InvariantViolation, Verdict};
use crate::network::MachineIx;

#[derive(Debug, Default)]
pub(super) struct Reached;

impl Invariant for Reached {
    fn routed(&mut self, facts: &Facts, _machine: MachineIx) -> Verdict {
        reaches_its_owners(facts)
    }

    fn containers(&mut self, facts: &Facts, _: MachineIx, _: &[ObservedContainer]) -> Verdict {
        reaches_its_owners(facts)
    }
}

fn reaches_its_owners(facts: &Facts) -> Verdict {
    let Some(packets) = Packets::of(facts) else { return Ok(()) };
    for from in &packets.attached {
        let Some(holds) = facts.routers.get(&from.machine) else { continue };
        for own in from.addresses {
            let owners = &holds.plan.names.owners;
            for (address, owner) in owners.iter().filter(|(_, it)| it.network == own.network) {
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
