//! The draft that a pass edits: the services that are wanted, and what is left of others.

use std::rc::Rc;

use jaco_types::{Scheduling, ServiceKey, ServiceName, TerminatingInstance};

use super::colocate;
use super::pass::Pass;
use super::service::ServiceDraft;
use super::slot::SlotDraft;

/// What a pass works on.
pub(crate) struct Draft<'a> {
    pub(crate) pass: Pass<'a>,
    /// The services that are wanted, in the order of their keys. Who edits one opens it first
    /// ([`Draft::open`]).
    pub(super) services: Vec<ServiceDraft<'a>>,
    /// Slots of services that are not wanted any more.
    pub(super) unwanted: Vec<SlotDraft<'a>>,
    /// The records of services, wanted or not, in the order of their keys.
    pub(crate) records: Vec<(&'a ServiceKey, &'a Scheduling)>,
    /// The order in which phases take the services, and the sum of the goals that it was made for.
    order: Option<Rc<[usize]>>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(
        pass: Pass<'a>,
        services: Vec<ServiceDraft<'a>>,
        records: Vec<(&'a ServiceKey, &'a Scheduling)>,
    ) -> Self {
        Self { pass, services, unwanted: Vec::new(), records, order: None }
    }

    /// All services, in the order of their keys.
    pub(crate) fn services(&self) -> &[ServiceDraft<'a>] {
        &self.services
    }

    /// One service to be edited, with its colocation as its partners are now. As long as it is open
    /// no other can be edited, so the picture stays true.
    pub(crate) fn open(&mut self, at: usize) -> (&mut ServiceDraft<'a>, &mut Pass<'a>) {
        colocate::refresh(&mut self.services, at);
        (&mut self.services[at], &mut self.pass)
    }

    /// The place of a service.
    pub(crate) fn find(&self, key: &ServiceKey) -> Option<usize> {
        self.services.binary_search_by(|known| known.key.cmp(key)).ok()
    }

    /// The services in an order in which each comes after those that it is colocated with; else that
    /// of their keys.
    pub(crate) fn order(&mut self) -> Rc<[usize]> {
        let services = &self.services;
        Rc::clone(self.order.get_or_insert_with(|| colocate::order(services).into()))
    }

    /// Sets the goal of each service. Goals name the partners, so the order may be another one.
    pub(crate) fn set_goals(&mut self, set: impl FnMut(&mut ServiceDraft<'a>)) {
        self.services.iter_mut().for_each(set);
        self.order = None;
    }

    /// How often anything was edited.
    pub(crate) fn version(&self) -> u64 {
        self.services.iter().map(|service| u64::from(service.version())).sum()
    }

    /// Lets the next round look for nodes again where this one found none.
    pub(crate) fn search_again(&mut self) {
        self.services.iter_mut().for_each(ServiceDraft::search_again);
        self.order = None;
    }

    /// Counts in an instance that left the endpoints and still runs.
    pub(crate) fn note_terminating(&mut self, terminating: &TerminatingInstance) {
        let spec = self.pass.input.state.service_spec(&terminating.service, terminating.revision);
        let spec = spec.filter(|spec| spec.hash == terminating.spec_hash);
        if let (Some(spec), Some(at)) = (spec, self.pass.nodes.find(terminating.node)) {
            self.pass.nodes.row_mut(at).usage.take(spec, &terminating.gpus);
        }
        let Some(service) = self.find(&terminating.service) else { return };
        let slots = &mut self.services[service].slots;
        if let Ok(at) = slots.binary_search_by(|slot| slot.id.cmp(&terminating.id.replica)) {
            slots.set_terminating(at);
        }
    }

    /// Removes the slots of services that are not wanted any more.
    pub(crate) fn remove_unwanted(&mut self) {
        for mut slot in std::mem::take(&mut self.unwanted) {
            slot.remove(&mut self.pass);
        }
    }

    /// The service of this name in the deployment of `services[at]`.
    pub(crate) fn sibling(&self, at: usize, name: &ServiceName) -> Option<&ServiceDraft<'a>> {
        colocate::find(&self.services, at, name).map(|other| &self.services[other])
    }
}
