//! The laws of a whole cluster (SIM-1 to SIM-21, ARCHITECTURE.md §4), each in a file of its own: a
//! type that keeps what its law needs, and says at each event whether the law still holds. The laws
//! of the replicated state (ST-…, NET-1 and those after it) are asked after every entry, too; those of the dataplane after
//! every step of a router and every change of a machine's containers.

mod event;
mod facts;
mod net_03_quarantined;
mod net_07_delivered;
mod net_08_named;
mod net_09_reached;
mod net_12_held;
mod net_14_released;
mod packets;
mod sim_01_equal_states;
mod sim_02_live_containers;
mod sim_03_started_once;
mod sim_04_foreign_containers;
mod sim_05_serving_dropped;
mod sim_06_stopped_at_once;
mod sim_07_wanted_removed;
mod sim_08_leader_plans;
mod sim_09_acknowledged_kept;
mod sim_10_request_once;
mod sim_11_converged;
mod sim_12_idle_silent;
mod sim_13_wanted_ended;
mod sim_14_time_passes;
mod sim_15_isolated_stopped;
mod sim_16_disabled_started;
mod sim_17_routed_ended;
mod sim_18_pinned_image;
mod sim_19_finished_once;
mod sim_20_due_once;
mod sim_21_full_disk;
mod violation;

use std::collections::BTreeMap;
use std::fmt::Debug;

use jaco_agent::engine::{ContainerId, ObservedContainer};
use jaco_state::{ClusterState, Command, Entry, Outcome, apply};
use jaco_types::{Hostname, InstanceAddress, InstanceId, StateIndex, Timestamp};

use crate::coverage::Coverage;
use crate::network::MachineIx;
use crate::sabotage::Sabotage;

pub(crate) use event::{AgentEffect, Committed, Process, Started};
use facts::is_up;
pub(crate) use facts::{Facts, RouterHolds};
pub use violation::{InvariantViolation, Violation};

/// Whether a law still holds.
pub(crate) type Verdict = Result<(), InvariantViolation>;

/// A law. Each hook is called at one kind of event, after the facts were brought up to date.
pub(crate) trait Invariant: Debug {
    /// An entry was agreed on.
    fn committed(&mut self, _facts: &Facts, _step: &Committed<'_>) -> Verdict {
        Ok(())
    }
    /// A plan of this machine was agreed on while that one leads.
    fn plan_written(&mut self, _by: MachineIx, _leader: MachineIx, _at: StateIndex) -> Verdict {
        Ok(())
    }
    /// A node executed the log up to an entry. A law may only put an equal state in the place of its state.
    fn applied(&mut self, _host: &Hostname, _state: &mut ClusterState) -> Verdict {
        Ok(())
    }
    /// An agent asks its engine for something.
    fn effect(&mut self, _facts: &Facts, _effect: &AgentEffect<'_>) -> Verdict {
        Ok(())
    }
    /// An engine made a container, or found the one that it had made.
    fn started(&mut self, _facts: &Facts, _started: &Started<'_>) -> Verdict {
        Ok(())
    }
    /// The containers of a machine changed from these to what the facts say.
    fn containers(
        &mut self,
        _facts: &Facts,
        _machine: MachineIx,
        _before: &[ObservedContainer],
    ) -> Verdict {
        Ok(())
    }
    /// Others of the containers of a machine are up than before.
    fn up_changed(&mut self, _facts: &Facts, _machine: MachineIx) -> Verdict {
        Ok(())
    }
    /// The router of a machine took a step.
    fn routed(&mut self, _facts: &Facts, _machine: MachineIx) -> Verdict {
        Ok(())
    }
    /// A daemon on this machine is in contact with a leader.
    fn attended(&mut self, _facts: &Facts, _machine: MachineIx) {}
    /// Nothing can stop containers on this machine until there is contact again.
    fn unattended(&mut self, _machine: MachineIx) {}
    /// A leader was elected that has no cluster's time but that of its own clock: no member is left that knew it.
    fn time_begins_anew(&mut self) {}
    /// A client was told of an outcome.
    fn acknowledged(&mut self, _command: &Command, _outcome: &Outcome) {}
    /// So many events happened at one moment; what comes next is described.
    fn at_once(&mut self, _events: u32, _next: &str) -> Verdict {
        Ok(())
    }
    /// So many entries were written in a time in which nothing happened.
    fn idle(&mut self, _entries: usize) -> Verdict {
        Ok(())
    }
    /// A leader has been there for some minutes.
    fn punctual(&mut self, _facts: &Facts) -> Verdict {
        Ok(())
    }
    /// All faults have been over for long enough.
    fn converged(&mut self, _facts: &Facts) -> Verdict {
        Ok(())
    }
}

/// Every law, in the order of their numbers.
fn all() -> Vec<Box<dyn Invariant>> {
    vec![
        Box::<sim_01_equal_states::EqualStates>::default(),
        Box::<sim_02_live_containers::LiveContainers>::default(),
        Box::<sim_03_started_once::StartedOnce>::default(),
        Box::<sim_04_foreign_containers::ForeignContainers>::default(),
        Box::<sim_05_serving_dropped::ServingDropped>::default(),
        Box::<sim_06_stopped_at_once::StoppedAtOnce>::default(),
        Box::<sim_07_wanted_removed::WantedRemoved>::default(),
        Box::<sim_08_leader_plans::LeaderPlans>::default(),
        Box::<sim_09_acknowledged_kept::AcknowledgedKept>::default(),
        Box::<sim_10_request_once::RequestOnce>::default(),
        Box::<sim_11_converged::Converged>::default(),
        Box::<sim_12_idle_silent::IdleSilent>::default(),
        Box::<sim_13_wanted_ended::WantedEnded>::default(),
        Box::<sim_14_time_passes::TimePasses>::default(),
        Box::<sim_15_isolated_stopped::IsolatedStopped>::default(),
        Box::<sim_16_disabled_started::DisabledStarted>::default(),
        Box::<sim_17_routed_ended::RoutedEnded>::default(),
        Box::<sim_18_pinned_image::PinnedImage>::default(),
        Box::<sim_19_finished_once::FinishedOnce>::default(),
        Box::<sim_20_due_once::DueOnce>::default(),
        Box::<sim_21_full_disk::FullDisk>::default(),
        Box::<net_03_quarantined::Quarantined>::default(),
        Box::<net_07_delivered::Delivered>::default(),
        Box::<net_08_named::Named>::default(),
        Box::<net_09_reached::Reached>::default(),
        Box::<net_12_held::Held>::default(),
        Box::<net_14_released::Released>::default(),
    ]
}

/// Tells every law what happens, and keeps what they find.
#[derive(Debug)]
pub(crate) struct Checker {
    facts: Facts,
    laws: Vec<Box<dyn Invariant>>,
    violations: Vec<Violation>,
    coverage: Coverage,
    /// A defect of the nodes' states, which that of the checker has too.
    sabotage: Option<Sabotage>,
}

impl Checker {
    pub(crate) fn new() -> Self {
        Self {
            facts: Facts::new(),
            laws: all(),
            violations: Vec::new(),
            coverage: Coverage::default(),
            sabotage: None,
        }
    }

    /// Puts a defect in.
    pub(crate) fn sabotage(&mut self, sabotage: Sabotage) {
        self.sabotage = Some(sabotage);
    }

    pub(crate) fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// What plans decided in which states.
    pub(crate) fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    /// What is agreed on, and what is on the machines.
    pub(crate) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The log executed up to its end.
    pub(crate) fn reference(&self) -> &ClusterState {
        &self.facts.state
    }

    fn ask(&mut self, mut hook: impl FnMut(&mut dyn Invariant, &Facts) -> Verdict) {
        for law in &mut self.laws {
            if let Err(broken) = hook(&mut **law, &self.facts) {
                self.violations.push(Violation { at: self.facts.now, broken });
            }
        }
    }

    /// A leader was elected that has no cluster's time but that of its own clock.
    pub(crate) fn time_begins_anew(&mut self) {
        self.laws.iter_mut().for_each(|law| law.time_begins_anew());
    }

    /// An entry was agreed on, which a leader had `appended` then, in truth.
    pub(crate) fn committed(&mut self, entry: &Entry, appended: Timestamp, now: Timestamp) {
        self.facts.now = now;
        let before = self.facts.state.clone();
        let outcome = apply(&mut self.facts.state, entry);
        if let Some(sabotage) = self.sabotage {
            sabotage.state(&mut self.facts.state);
        }
        for violation in jaco_state::invariants::violations(&self.facts.state) {
            let broken = InvariantViolation::State(violation);
            self.violations.push(Violation { at: now, broken });
        }
        let step = Committed { entry, appended, before: &before, outcome: &outcome };
        if let Some((_, changes)) = step.plan() {
            self.coverage.note(&before, changes);
        }
        self.ask(|law, facts| law.committed(facts, &step));
    }

    pub(crate) fn plan_written(&mut self, by: MachineIx, leader: MachineIx, at: StateIndex) {
        self.ask(|law, _| law.plan_written(by, leader, at));
    }

    pub(crate) fn applied(&mut self, host: &Hostname, state: &mut ClusterState) {
        self.ask(|law, _| law.applied(host, state));
    }

    pub(crate) fn effect(&mut self, effect: &AgentEffect<'_>, now: Timestamp) {
        self.facts.now = now;
        self.ask(|law, facts| law.effect(facts, effect));
    }

    pub(crate) fn started(&mut self, started: &Started<'_>) {
        let slot = started.state.slots.get(&started.instance.replica);
        let instance = slot.and_then(|slot| {
            let mut instances = slot.instances();
            instances.find(|(id, _)| id == started.instance).map(|(_, instance)| instance)
        });
        if let Some(instance) = instance {
            let addresses = instance.addresses.clone();
            self.facts.addresses.insert(started.instance.clone(), addresses);
        }
        self.ask(|law, facts| law.started(facts, started));
    }

    /// A machine's containers as they are now.
    pub(crate) fn containers(
        &mut self,
        machine: MachineIx,
        containers: Vec<ObservedContainer>,
        now: Timestamp,
    ) {
        self.facts.now = now;
        let key = |seen: ObservedContainer| (seen.container.clone(), seen);
        let there = containers.into_iter().map(key).collect();
        let before = self.facts.machines.insert(machine, there).unwrap_or_default();
        let before: Vec<ObservedContainer> = before.into_values().collect();
        self.ask(|law, facts| law.containers(facts, machine, &before));
        let up = |seen: &&ObservedContainer| is_up(seen);
        let now_up = self.facts.on(machine).filter(up).map(|seen| &seen.instance);
        let are_others_up = !before.iter().filter(up).map(|seen| &seen.instance).eq(now_up);
        if are_others_up {
            self.ask(|law, facts| law.up_changed(facts, machine));
        }
    }

    /// What a router holds now.
    pub(crate) fn routed(&mut self, machine: MachineIx, holds: RouterHolds, now: Timestamp) {
        self.facts.now = now;
        self.facts.routers.insert(machine, holds);
        self.ask(|law, facts| law.routed(facts, machine));
    }

    pub(crate) fn attended(&mut self, machine: MachineIx) {
        for law in &mut self.laws {
            law.attended(&self.facts, machine);
        }
    }

    pub(crate) fn unattended(&mut self, machine: MachineIx) {
        for law in &mut self.laws {
            law.unattended(machine);
        }
    }

    pub(crate) fn acknowledged(&mut self, command: &Command, outcome: &Outcome) {
        for law in &mut self.laws {
            law.acknowledged(command, outcome);
        }
    }

    /// Running containers were attached to networks: the containers of a machine have these addresses now.
    pub(crate) fn attached(&mut self, addresses: BTreeMap<InstanceId, Vec<InstanceAddress>>) {
        self.facts.addresses.extend(addresses);
    }

    pub(crate) fn at_once(&mut self, events: u32, next: &str) {
        self.ask(|law, _| law.at_once(events, next));
    }

    pub(crate) fn idle(&mut self, entries: usize) {
        self.ask(|law, _| law.idle(entries));
    }

    /// To be called when a leader has been there for some minutes.
    pub(crate) fn punctual(&mut self) {
        self.ask(|law, facts| law.punctual(facts));
    }

    /// To be called when all faults have been over for long enough.
    pub(crate) fn converged(&mut self) {
        self.ask(|law, facts| law.converged(facts));
    }
}

/// Whether this container belongs to another owner of the same engine.
fn is_foreign(container: &ContainerId) -> bool {
    container.0.starts_with("foreign-")
}
