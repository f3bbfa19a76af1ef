//! What must be once nothing happens any more.

use std::collections::BTreeMap;

use jaco_state::view::{Convergence, convergence, is_running, replica};
use jaco_types::spec::Storage;
use jaco_types::{DeploymentName, InstanceId, ReplicaId, ServiceKey, Slot, Standing};

use super::Checker;

impl Checker {
    /// SIM-11: to be asked when all faults have been over for long enough. Every slot runs its one
    /// wanted instance, and no machine has anything else of ours.
    pub(crate) fn check_rest(&mut self) {
        let mut wrong = self.unfinished();
        wrong.extend(self.leftovers());
        for what in wrong {
            self.broken("SIM-11", what);
        }
        self.check_acknowledged();
    }

    /// Why the cluster is not where it should be; empty when it is.
    pub(crate) fn unfinished(&self) -> Vec<String> {
        let state = &self.reference;
        let mut wrong = Vec::new();
        for deployment in state.deployments.values() {
            let reached = convergence(state, deployment);
            match reached {
                Convergence::Converged | Convergence::Paused | Convergence::RolledBack => {}
                Convergence::CannotPlace if self.waits_for_people(&deployment.name) => {}
                Convergence::Progressing | Convergence::CannotPlace | Convergence::Exhausted => {
                    wrong.push(format!("{} is {}", deployment.name, reached.as_str()));
                }
            }
        }
        for slot in state.slots.values() {
            let rests = state.disabled.of_slot(slot).is_some() || self.is_kept_by_data(slot);
            if slot.standing == Standing::Disabled && rests {
                continue;
            }
            if !is_running(state, &slot.current_id()) {
                let view = replica(state, slot);
                let code = view.code.map(jaco_types::ReasonCode::as_str).unwrap_or_default();
                wrong.push(format!("{} is {} {code}", slot.id, view.state.as_str()));
            }
            if slot.retiring.is_some() {
                wrong.push(format!("{} is still being replaced", slot.id));
            }
        }
        wrong
    }

    /// Data stays on its node, and its replica with it, also where the placement does not want it
    /// or where two replicas on a node want the same port, until somebody changes one of them.
    fn waits_for_people(&self, name: &DeploymentName) -> bool {
        let records = self.reference.scheduling.iter().filter(|(key, _)| key.deployment == *name);
        let is_stateful = |key: &ServiceKey| {
            let deployment = self.reference.deployments.get(name);
            let services = deployment.map(|deployment| &deployment.spec().services);
            services
                .and_then(|services| services.get(&key.service))
                .is_some_and(|spec| spec.storage == Storage::Stateful)
        };
        let mut waits =
            records.flat_map(|(key, record)| record.unplaced.iter().map(move |u| (key, u)));
        waits.all(|(key, unplaced)| match unplaced.reason.as_str() {
            "data_stays_on_node" => true,
            "no_room_to_roll" => is_stateful(key),
            _ => false,
        })
    }

    /// Whether people want a replica to run, and not where its data is.
    fn is_kept_by_data(&self, slot: &Slot) -> bool {
        let record = self.reference.scheduling.get(&slot.service);
        let mut unplaced = record.into_iter().flat_map(|record| &record.unplaced);
        unplaced.any(|one| {
            let names_it = one.details.get("replica").is_some_and(|id| id == slot.id.as_str());
            one.reason == "data_stays_on_node" && names_it
        })
    }

    fn leftovers(&self) -> Vec<String> {
        let wanted: BTreeMap<InstanceId, ()> = self
            .reference
            .slots
            .values()
            .flat_map(Slot::instances)
            .map(|(id, _)| (id, ()))
            .collect();
        let mut wrong = Vec::new();
        let mut live: BTreeMap<&ReplicaId, usize> = BTreeMap::new();
        for seen in self.machines.values().flat_map(BTreeMap::values) {
            if !wanted.contains_key(&seen.instance) {
                wrong.push(format!("{} is left of {}", seen.container, seen.instance));
            }
        }
        for seen in self.live() {
            *live.entry(&seen.instance.replica).or_default() += 1;
        }
        for Slot { id, standing, .. } in self.reference.slots.values() {
            let count = live.get(id).copied().unwrap_or_default();
            let wanted = match standing {
                Standing::Active => 1,
                Standing::Disabled => 0,
            };
            if count != wanted {
                wrong.push(format!("{id} has {count} live containers"));
            }
        }
        wrong
    }

    /// SIM-12: nothing was written although nothing happened.
    pub(crate) fn check_idle(&mut self, commits_before: usize, commits_after: usize) {
        if commits_before != commits_after {
            let what = format!(
                "{} entries were written while nothing happened",
                commits_after - commits_before
            );
            self.broken("SIM-12", what);
        }
    }

    /// SIM-14.
    pub(crate) fn stands_still(&mut self, what: String) {
        self.broken("SIM-14", what);
    }

    /// SIM-8.
    pub(crate) fn foreign_plan(&mut self, what: String) {
        self.broken("SIM-8", what);
    }
}
