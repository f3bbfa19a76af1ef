//! What must never be on the machines.

use std::collections::BTreeMap;

use jaco_agent::engine::{ContainerId, ContainerSeen, ContainerStatus, Health};
use jaco_state::ClusterState;
use jaco_types::{InstanceId, ReplicaId, ReplicaState, ServiceKey, Slot, Standing, Timestamp};

use super::{Checker, Started, Starter};
use crate::network::MachineIx;

impl Checker {
    /// An engine made a container, or found the one that it had made, for a daemon that holds this
    /// state: SIM-3. A container that was removed by somebody, before its node could tell anybody
    /// that it ever ran, and whose daemon died since, has left no trace; it may be made again.
    pub(crate) fn started(
        &mut self,
        instance: &InstanceId,
        container: &ContainerId,
        by: Starter,
        state: &ClusterState,
    ) {
        let slot = state.slots.get(&instance.replica);
        let is_disabled = |slot: &Slot| slot.standing == Standing::Disabled;
        if slot.is_some_and(|slot| is_disabled(slot) && slot.current_id() == *instance) {
            self.broken("SIM-16", format!("{instance} was started, and is disabled"));
        }
        let start = Started { container: container.clone(), by };
        let Some(first) = self.started.insert(instance.clone(), start) else { return };
        if first.container == *container {
            return;
        }
        let is_there = self
            .machines
            .get(&by.machine)
            .is_some_and(|there| there.contains_key(&first.container));
        let is_known = state.observed.get(instance).is_some_and(|seen| match seen.state {
            ReplicaState::Pending | ReplicaState::Pulling => false,
            ReplicaState::Starting
            | ReplicaState::Running
            | ReplicaState::Degraded
            | ReplicaState::Failed
            | ReplicaState::Stopped => true,
        });
        if is_there || is_known || first.by == by {
            let what =
                format!("{instance} was started as {} and again as {container}", first.container);
            self.broken("SIM-3", what);
        }
    }

    /// A machine's containers as they are now.
    pub(crate) fn containers(
        &mut self,
        machine: MachineIx,
        containers: Vec<ContainerSeen>,
        now: Timestamp,
    ) {
        self.now = now;
        let now_there: BTreeMap<ContainerId, ContainerSeen> =
            containers.into_iter().map(|seen| (seen.container.clone(), seen)).collect();
        self.check_live(machine, &now_there);
        let before = self.machines.insert(machine, now_there.clone()).unwrap_or_default();
        self.check_given_up();
        for seen in now_there.values().filter(|seen| serves(seen)) {
            self.ended_by_us.remove(&seen.instance.replica);
        }
        let ended: Vec<ContainerSeen> = before
            .into_values()
            .filter(|was| serves(was) && !now_there.get(&was.container).is_some_and(serves))
            .collect();
        for was in ended {
            self.note_end(&was);
        }
    }

    /// SIM-2.
    fn check_live(&mut self, machine: MachineIx, there: &BTreeMap<ContainerId, ContainerSeen>) {
        let mut live: BTreeMap<&ReplicaId, usize> = BTreeMap::new();
        for seen in there.values().filter(|seen| is_up(seen)) {
            *live.entry(&seen.instance.replica).or_default() += 1;
        }
        if let Some((slot, count)) = live.into_iter().find(|(_, count)| *count > 2) {
            let what = format!("{count} containers of {slot} run on machine {}", machine.0);
            self.broken("SIM-2", what);
        }
    }

    /// SIM-15. One whose machine nobody looks after cannot be stopped; people are told so.
    fn check_given_up(&mut self) {
        let up = |machine: &MachineIx, seen: &&ContainerSeen| {
            is_up(seen) && !self.unattended.contains(machine)
        };
        let lost = self.machines.iter().flat_map(|(machine, there)| {
            let there = there.values().filter(move |seen| up(machine, seen));
            there.filter(|seen| self.given_up.contains(&seen.instance)).map(move |it| (machine, it))
        });
        let runs_elsewhere = |(machine, lost): &(&MachineIx, &ContainerSeen)| {
            self.machines.iter().filter(|(other, _)| other != machine).any(|(_, there)| {
                let newer =
                    |seen: &ContainerSeen| seen.instance.raft_index > lost.instance.raft_index;
                let same = |seen: &ContainerSeen| seen.instance.replica == lost.instance.replica;
                there.values().any(|seen| is_up(seen) && same(seen) && newer(seen))
            })
        };
        let found = lost.into_iter().find(runs_elsewhere);
        if let Some((machine, lost)) = found {
            let what = format!(
                "{} runs on machine {} beside the instance that replaced it",
                lost.instance, machine.0
            );
            self.broken("SIM-15", what);
        }
    }

    /// SIM-6: a container stopped serving; was it the last of its slot, and was it us?
    fn note_end(&mut self, was: &ContainerSeen) {
        let slot = &was.instance.replica;
        let somebody_serves = self
            .machines
            .values()
            .flat_map(BTreeMap::values)
            .any(|seen| seen.instance.replica == *slot && serves(seen));
        if somebody_serves || !self.asked_to_end.contains(&was.container) {
            return;
        }
        if self.excused.contains(&was.instance) || !self.reference.slots.contains(slot) {
            return;
        }
        self.ended_by_us.insert(slot.clone(), was.service.clone());
        self.check_floor(&was.service);
    }

    fn check_floor(&mut self, service: &ServiceKey) {
        let parallelism = self
            .reference
            .deployments
            .get(&service.deployment)
            .and_then(|deployment| deployment.spec().services.get(&service.service))
            .map_or(1, |spec| spec.update.parallelism.max(1));
        let ended: Vec<String> = self
            .ended_by_us
            .iter()
            .filter(|(_, of)| *of == service)
            .map(|(slot, _)| slot.to_string())
            .collect();
        if ended.len() > usize::try_from(parallelism).unwrap_or(usize::MAX) {
            let what = format!("we ended {} and nothing serves in their place", ended.join(", "));
            self.broken("SIM-6", what);
        }
    }

    /// Whether a container serves as far as its engine can tell.
    pub(super) fn is_serving(&self, container: &ContainerId) -> bool {
        self.machines.values().any(|there| there.get(container).is_some_and(serves))
    }

    /// A daemon starts: its engine has what it has.
    pub(crate) fn restarted(&mut self, machine: MachineIx) {
        self.machines.entry(machine).or_default();
    }

    /// The live containers of all machines.
    pub(crate) fn live(&self) -> impl Iterator<Item = &ContainerSeen> {
        self.machines.values().flat_map(BTreeMap::values).filter(|seen| is_up(seen))
    }
}

fn is_up(seen: &ContainerSeen) -> bool {
    matches!(seen.status, ContainerStatus::Up { .. })
}

fn serves(seen: &ContainerSeen) -> bool {
    match &seen.status {
        ContainerStatus::Up { health: Health::None | Health::Healthy, .. } => true,
        ContainerStatus::Up { health: Health::Starting | Health::Unhealthy { .. }, .. }
        | ContainerStatus::Created
        | ContainerStatus::Ended { .. } => false,
    }
}
