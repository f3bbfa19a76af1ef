//! SIM-6: of one service, no more replicas stop serving because of us than are replaced at a time.
//! What the user removes or disables does not count, and neither does the run of a job that is over, nor what failed, was
//! lost, had to stop because its node was cut off, or has lost the namespaces that it shared. A plan is judged by
//! what the state said of its replicas: what a fault did meanwhile comes too late for it.

use std::collections::{BTreeMap, BTreeSet};

use jaco_agent::engine::{ContainerId, ObservedContainer};
use jaco_state::command::{Previous, ReplaceCause};
use jaco_state::view::is_running;
use jaco_state::{Change, ClusterState};
use jaco_types::{InstanceId, ReplicaId, ServiceKey, Slot, StateIndex};

use super::facts::{in_turn, serves, wanted_spec};
use super::{AgentEffect, Committed, Facts, Invariant, InvariantViolation, Verdict};
use crate::network::MachineIx;

#[derive(Debug, Default)]
pub(super) struct StoppedAtOnce {
    /// Instances that were given up for a reason that is not ours.
    excused: BTreeSet<InstanceId>,
    /// Slots that the user removed or disabled, or whose instance was seen to run: all instances that are older than this.
    excused_before: BTreeMap<ReplicaId, StateIndex>,
    /// Slots whose instance failed or was lost: what shared its namespaces has lost them.
    failed: BTreeSet<ReplicaId>,
    /// How many were replaced at a time when it was decided to replace the instance of a slot: users may ask for
    /// fewer while the agents are at it (harsh seed 408594).
    parallelism: BTreeMap<ReplicaId, usize>,
    /// Containers that an agent asked to stop or to remove.
    asked_to_end: BTreeSet<ContainerId>,
    /// Slots that stopped serving because an agent ended their container.
    stopped: BTreeMap<ReplicaId, ServiceKey>,
}

impl Invariant for StoppedAtOnce {
    fn committed(&mut self, facts: &Facts, step: &Committed<'_>) -> Verdict {
        if let Some((_, changes)) = step.plan() {
            in_turn(step.before, changes, |before, change| {
                self.excuse(before, change, step.entry.index);
                Ok(())
            })?;
        }
        self.excuse_runs(step.before, &facts.state, step.entry.index);
        self.excuse_replaced(&facts.state);
        let slots = &facts.state.slots;
        self.stopped.retain(|slot, _| slots.contains(slot));
        Ok(())
    }

    fn effect(&mut self, _facts: &Facts, effect: &AgentEffect<'_>) -> Verdict {
        if let Some((instance, container)) = effect.ends() {
            if effect.has_to_stop(instance) {
                self.excused.insert(instance.clone());
            }
            self.asked_to_end.insert(container.clone());
        }
        Ok(())
    }

    fn containers(
        &mut self,
        facts: &Facts,
        machine: MachineIx,
        before: &[ObservedContainer],
    ) -> Verdict {
        for seen in facts.on(machine).filter(|seen| serves(seen)) {
            self.stopped.remove(&seen.instance.replica);
        }
        let ended = |was: &&ObservedContainer| serves(was) && !facts.is_serving(&was.container);
        before.iter().filter(ended).try_for_each(|was| self.note_end(facts, was))
    }
}

impl StoppedAtOnce {
    /// The run of a job is replaced, or ended by a user, as a whole.
    fn excuse_runs(&mut self, before: &ClusterState, after: &ClusterState, index: StateIndex) {
        for (service, record) in before.jobs.iter().filter(|(_, record)| record.open.is_some()) {
            if after.jobs.get(service).is_some_and(|now| now.open == record.open) {
                continue;
            }
            for slot in before.slots.values().filter(|slot| slot.service == *service) {
                self.excused_before.insert(slot.id.clone(), index);
                self.stopped.remove(&slot.id);
            }
        }
    }

    /// What was dropped stops, wherever it is left, once its successor was seen to run: a node that could not be reached
    /// meanwhile may do so when that one has failed again (swarm seed 600452).
    fn excuse_replaced(&mut self, state: &ClusterState) {
        for slot in state.slots.values().filter(|slot| slot.retiring.is_none()) {
            let index = slot.current.raft_index;
            let known = self.excused_before.get(&slot.id).is_some_and(|before| *before >= index);
            if !known && is_running(state, &slot.current_id()) {
                self.excused_before.insert(slot.id.clone(), index);
            }
        }
    }

    fn excuse(&mut self, before: &ClusterState, change: &Change, index: StateIndex) {
        if let Change::SlotRemove { id } | Change::SlotDisable { id, .. } = change {
            self.excused_before.insert(id.clone(), index);
            self.stopped.remove(id);
        }
        if let Change::SlotReplace { id, previous: Previous::Drop, .. } = change
            && let Some(slot) = before.slots.get(id)
        {
            self.parallelism.insert(id.clone(), parallelism(before, &slot.service));
        }
        if let Change::SlotReplace { id, previous: Previous::Drop, cause, .. } = change
            && matches!(cause, ReplaceCause::Failed | ReplaceCause::NodeLost)
        {
            self.excused.extend(before.slots.get(id).map(Slot::current_id));
            self.failed.insert(id.clone());
        }
        // It was on its way, as far as its node had reported (harsh seed 207050).
        if let Change::SlotReplace { id, previous: Previous::Drop, .. } = change
            && let Some(slot) = before.slots.get(id)
            && !is_running(before, &slot.current_id())
        {
            self.excused.insert(slot.current_id());
        }
        // What its node could not be told to stop before it was lost stops once that is back (harsh seed 406578).
        // What still retires elsewhere is not excused.
        if let Change::SlotReplace { id, cause: ReplaceCause::NodeLost, .. } = change
            && let Some(slot) = before.slots.get(id)
        {
            let oldest = slot.retiring.as_ref().map_or(index, |retiring| retiring.raft_index);
            self.excused_before.insert(id.clone(), oldest);
        }
        if let Change::SlotReplace { id, cause: ReplaceCause::ColocatedReplaced, .. } = change
            && let Some(slot) = before.slots.get(id)
            && self.has_lost_namespaces(before, slot)
        {
            self.excused.insert(slot.current_id());
        }
        // The old instance goes because the new one serves. If that ends before the old one has
        // stopped, it was not us.
        if let Change::SlotSettle { id } = change
            && let Some(slot) = before.slots.get(id)
            && is_running(before, &slot.current_id())
        {
            self.excused.extend(slot.retiring_id());
        }
        // The successor goes, or is replaced by another one, while the old instance serves, as far as its node
        // reported: what a node that is cut off stopped meanwhile is not known (seed 302688, harsh seed 603360).
        if let Change::SlotRevert { id } | Change::SlotReplace { id, previous: Previous::Drop, .. } =
            change
            && let Some(slot) = before.slots.get(id)
            && slot.retiring_id().is_some_and(|old| is_running(before, &old))
        {
            self.excused.insert(slot.current_id());
        }
    }

    /// Whether a replica whose namespaces this one shares failed on the same node (harsh seed 402752), or was
    /// replaced there and its former instance is gone: all that share its namespaces have lost them at once
    /// (harsh seed 428252).
    fn has_lost_namespaces(&self, state: &ClusterState, slot: &Slot) -> bool {
        let Some(spec) = state.service_spec(&slot.service, slot.current.revision) else {
            return false;
        };
        let is_partner = |other: &&Slot| {
            other.service.deployment == slot.service.deployment
                && spec.scheduling.shares_namespaces_with.contains(&other.service.service)
                && other.current.node == slot.current.node
        };
        let mut partners = state.slots.values().filter(is_partner);
        partners.any(|partner| {
            let is_newer = partner.current.raft_index > slot.current.raft_index;
            self.failed.contains(&partner.id) || (is_newer && partner.retiring.is_none())
        })
    }

    /// A container stopped serving: was it the last of its slot, and was it us?
    fn note_end(&mut self, facts: &Facts, was: &ObservedContainer) -> Verdict {
        let slot = &was.instance.replica;
        if facts.slot_serves(slot) || !self.asked_to_end.contains(&was.container) {
            return Ok(());
        }
        let is_excused = self.excused.contains(&was.instance)
            || self.excused_before.get(slot).is_some_and(|index| was.instance.raft_index < *index);
        // Its successor was up before this one stopped; if it is not now, a fault came between (harsh seed 408093).
        let is_taken_over = facts.state.slots.get(slot).is_some_and(|slot| {
            slot.current_id() != was.instance && is_running(&facts.state, &slot.current_id())
        });
        if is_excused || is_taken_over || !facts.state.slots.contains(slot) {
            return Ok(());
        }
        self.stopped.insert(slot.clone(), was.service.clone());
        self.check(facts, &was.service)
    }

    fn check(&self, facts: &Facts, service: &ServiceKey) -> Verdict {
        // What the user deleted may stop, and its slots are removed in a moment.
        if wanted_spec(&facts.state, service).is_none() {
            return Ok(());
        }
        let of_service = self.stopped.iter().filter(|(_, of)| *of == service);
        let slots: Vec<ReplicaId> = of_service.map(|(slot, _)| slot.clone()).collect();
        let at_decision = slots.iter().filter_map(|slot| self.parallelism.get(slot)).copied();
        let allowed = at_decision.chain([parallelism(&facts.state, service)]).max().unwrap_or(1);
        match slots.len() > allowed {
            true => Err(InvariantViolation::StoppedAtOnce { slots }),
            false => Ok(()),
        }
    }
}

/// How many replicas of a service are replaced at a time.
fn parallelism(state: &ClusterState, service: &ServiceKey) -> usize {
    let wanted = wanted_spec(state, service).map_or(1, |spec| spec.update.parallelism.max(1));
    usize::try_from(wanted).unwrap_or(usize::MAX)
}
