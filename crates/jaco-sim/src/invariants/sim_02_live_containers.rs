//! SIM-2: a node has at most two live containers of one slot.

use std::collections::BTreeMap;

use jaco_agent::engine::ObservedContainer;
use jaco_types::ReplicaId;

use super::facts::is_up;
use super::{Facts, Invariant, InvariantViolation, Verdict};
use crate::network::MachineIx;

#[derive(Debug, Default)]
pub(super) struct LiveContainers;

impl Invariant for LiveContainers {
    fn containers(
        &mut self,
        facts: &Facts,
        machine: MachineIx,
        _before: &[ObservedContainer],
    ) -> Verdict {
        let mut live: BTreeMap<&ReplicaId, usize> = BTreeMap::new();
        for seen in facts.on(machine).filter(|seen| is_up(seen)) {
            *live.entry(&seen.instance.replica).or_default() += 1;
        }
        match live.into_iter().find(|(_, count)| *count > 2) {
            None => Ok(()),
            Some((slot, count)) => {
                let (slot, machine) = (slot.clone(), machine.0);
                Err(InvariantViolation::TooManyLive { slot, machine, count })
            }
        }
    }
}
