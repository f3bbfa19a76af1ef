//! From the state to the draft that a pass edits.

use std::iter::Peekable;

use jaco_state::Deployment;
use jaco_types::{
    Instance, InstanceId, InstanceObserved, Scheduling, ServiceKey, Slot, StateIndex,
};

use super::cluster::Draft;
use super::disabled::DisabledNodes;
use super::goal::ServiceRole;
use super::instance::InstanceDraft;
use super::pass::Pass;
use super::service::ServiceDraft;
use super::slot::{Search, SlotDraft};
use crate::input::PlanInput;
use crate::nodes::gpu::Held;

impl<'a> Draft<'a> {
    /// A draft of everything: one walk over slots and observations, which share their order. The nodes
    /// of the pass are judged.
    pub(crate) fn read(pass: Pass<'a>) -> Self {
        let input = pass.input;
        let services = read_services(&pass, input.state.deployments.values());
        let mut draft = Self::new(pass, services, input.state.scheduling.iter().collect());
        let mut observed = input.state.observed.iter().peekable();
        let mut service = None;
        for slot in input.state.slots.values() {
            let entry = draft.slot(slot, observed_of(slot, &mut observed));
            entry.count_in(&mut draft.pass.nodes);
            service = draft.add(entry, &slot.service, service);
        }
        draft
    }

    /// A draft of some deployments, with all their slots in the order of their ids, and all their
    /// records. The nodes of the pass are judged, and have what all slots take of them counted in.
    pub(crate) fn read_some(
        pass: Pass<'a>,
        deployments: impl Iterator<Item = &'a Deployment>,
        slots: impl Iterator<Item = &'a Slot>,
        records: Vec<(&'a ServiceKey, &'a Scheduling)>,
    ) -> Self {
        let services = read_services(&pass, deployments);
        let mut draft = Self::new(pass, services, records);
        let mut service = None;
        for slot in slots {
            let entry = draft.slot(slot, look_up(draft.pass.input, slot));
            service = draft.add(entry, &slot.service, service);
        }
        draft
    }

    fn slot(&self, slot: &'a Slot, observed: Observed<'a>) -> SlotDraft<'a> {
        let state = self.pass.input.state;
        let live = |instance: &'a Instance, observed| InstanceDraft {
            node: instance.node,
            at: self.pass.nodes.find(instance.node),
            since: Some(instance.raft_index),
            revision: instance.revision,
            hash: instance.spec_hash,
            spec: state
                .service_spec(&slot.service, instance.revision)
                .map(|spec| &**spec)
                .filter(|spec| spec.hash == instance.spec_hash),
            observed,
            gpus: Held::Known(&instance.gpus),
        };
        SlotDraft {
            id: slot.id.clone(),
            ordinal: slot.ordinal.clone(),
            desired_state: slot.desired_state,
            current: live(&slot.current, observed.current),
            retiring: slot
                .retiring
                .as_ref()
                .map(|instance| Box::new(live(instance, observed.retiring))),
            data: slot.data,
            restarts: slot.restarts,
            is_terminating: false,
            search: Search::Open,
        }
    }

    /// Adds a slot to its service, and gives that service's place; `guess` is where the last one was.
    fn add(
        &mut self,
        slot: SlotDraft<'a>,
        key: &ServiceKey,
        guess: Option<usize>,
    ) -> Option<usize> {
        let guess = guess.filter(|at| self.services[*at].key == *key);
        let at = guess.or_else(|| self.services.binary_search_by(|s| s.key.cmp(key)).ok());
        match at.filter(|_| !is_of_former_deployment(&slot)) {
            Some(at) => self.services[at].slots.push(slot),
            None => self.unwanted.push(slot),
        }
        at
    }
}

/// Whether a slot is of a deployment that was deleted before the one that has its name now. Revisions
/// are kept as long as a slot is at them, so only with the deployment a slot's spec is lost; and what
/// a replica reserves, and whether it has data, nobody knows without.
fn is_of_former_deployment(slot: &SlotDraft<'_>) -> bool {
    slot.current.spec.is_none()
}

/// What nodes reported of a slot's two instances.
#[derive(Clone, Copy, Default)]
struct Observed<'a> {
    current: Option<&'a InstanceObserved>,
    retiring: Option<&'a InstanceObserved>,
}

fn observed_of<'a>(
    slot: &Slot,
    rows: &mut Peekable<impl Iterator<Item = (&'a InstanceId, &'a InstanceObserved)>>,
) -> Observed<'a> {
    while rows.next_if(|(id, _)| id.replica < slot.id).is_some() {}
    let mut observed = Observed::default();
    let is_of = |instance: &Instance, index: StateIndex, row: &InstanceObserved| {
        instance.raft_index == index && instance.node == row.node
    };
    while let Some((id, row)) = rows.next_if(|(id, _)| id.replica == slot.id) {
        if is_of(&slot.current, id.raft_index, row) {
            observed.current = Some(row);
        } else if slot.retiring.as_ref().is_some_and(|old| is_of(old, id.raft_index, row)) {
            observed.retiring = Some(row);
        }
    }
    observed
}

/// What [`observed_of`] finds, for one slot by itself.
fn look_up<'a>(input: PlanInput<'a>, slot: &Slot) -> Observed<'a> {
    let observed = |instance: &Instance| {
        let id = InstanceId { replica: slot.id.clone(), raft_index: instance.raft_index };
        input.state.observed.get(&id).filter(|row| row.node == instance.node)
    };
    let current = observed(&slot.current);
    let retiring = slot.retiring.as_ref().filter(|old| {
        // One that is the same in all is the current one's.
        (old.raft_index, old.node) != (slot.current.raft_index, slot.current.node)
    });
    Observed { current, retiring: retiring.and_then(observed) }
}

fn read_services<'a>(
    pass: &Pass<'a>,
    deployments: impl Iterator<Item = &'a Deployment>,
) -> Vec<ServiceDraft<'a>> {
    let input = pass.input;
    let disabled = DisabledNodes::read(&input.state.disabled, &pass.nodes);
    let mut services = Vec::new();
    for deployment in deployments {
        let Some(wanted) = deployment.revisions.get(&deployment.revision) else { continue };
        let jobs = wanted.spec.jobs();
        for (name, spec) in &wanted.spec.services {
            let deployment_name = deployment.name.clone();
            let key = ServiceKey { deployment: deployment_name, service: name.clone() };
            let known = input.state.scheduling.get(&key);
            let role = if jobs.contains(name) { ServiceRole::Job } else { ServiceRole::Server };
            let disabled_on = disabled.of(&key);
            services.push(ServiceDraft::new(key, deployment, spec, known, role, disabled_on));
        }
    }
    services
}
