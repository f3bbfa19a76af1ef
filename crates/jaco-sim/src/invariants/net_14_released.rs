//! NET-14: an instance that leaves the endpoints keeps running while the router of a node leads a client to it, or
//! a client remembers that it did, for as long as that router's lease and the patience of the planner last.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use jaco_scheduler::PlannerConfig;
use jaco_state::Change;
use jaco_types::{StateIndex, TerminatingInstance, Timestamp};

use super::facts::is_lost;
use super::{Committed, Facts, Invariant, InvariantViolation, Verdict};
use crate::network::MachineIx;
use crate::router::{REMEMBERED, named};

#[derive(Debug, Default)]
pub(super) struct Released {
    /// The addresses that the names of each router lead to.
    named: BTreeMap<MachineIx, BTreeSet<Ipv4Addr>>,
    /// When one led there last that does not any more.
    last_named: BTreeMap<(MachineIx, Ipv4Addr), Timestamp>,
}

impl Invariant for Released {
    fn routed(&mut self, facts: &Facts, machine: MachineIx) -> Verdict {
        let Some(holds) = facts.routers.get(&machine) else { return Ok(()) };
        let now_named = named(&holds.seen.names);
        let before = self.named.insert(machine, now_named.clone()).unwrap_or_default();
        let lost = before.difference(&now_named).map(|address| ((machine, *address), facts.now));
        self.last_named.extend(lost);
        Ok(())
    }

    fn committed(&mut self, facts: &Facts, step: &Committed<'_>) -> Verdict {
        let Some((based_on, changes)) = step.plan() else { return Ok(()) };
        let released = changes.iter().filter_map(|change| {
            let Change::TerminatingRemove { id } = change else { return None };
            step.before.terminating.get(id)
        });
        let patience = PlannerConfig::default().routing_patience;
        let runs = |left: &TerminatingInstance| {
            let seen = step.before.observed.get(&left.id);
            seen.is_some_and(|seen| !seen.state.is_over()) && !is_lost(&facts.state, left.node)
        };
        let released = released.filter(|left| step.entry.at < left.since.after(patience));
        for left in released.filter(|left| runs(left)) {
            self.is_forgotten(facts, based_on, left)?;
        }
        Ok(())
    }
}

impl Released {
    fn is_forgotten(
        &self,
        facts: &Facts,
        based_on: StateIndex,
        left: &TerminatingInstance,
    ) -> Verdict {
        let addresses = facts.addresses.get(&left.id).into_iter().flatten();
        for address in addresses.map(|own| own.address) {
            for (machine, _) in facts.routers.iter().filter(|(_, holds)| {
                let mut attached = facts.state.consumers.values();
                attached.any(|it| it.node == holds.node && it.session <= based_on)
            }) {
                let leads = self.named.get(machine).is_some_and(|it| it.contains(&address));
                let last = self.last_named.get(&(*machine, address));
                if leads || last.is_some_and(|at| at.after(REMEMBERED) > facts.now) {
                    let (instance, machine) = (left.id.clone(), machine.0);
                    return Err(InvariantViolation::ReleasedWhileNamed { instance, machine });
                }
            }
        }
        Ok(())
    }
}
