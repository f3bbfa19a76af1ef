//! What all services of a pass share: its input, the nodes, and the changes that it has decided.

use std::collections::BTreeMap;

use jaco_state::Change;
use jaco_types::spec::ServiceSpec;
use jaco_types::{
    Acknowledgement, ConsumerName, Revision, ServiceKey, TerminatingInstance, Timestamp,
};

use super::addresses::{Addresses, NoAddress};
use crate::input::PlanInput;
use crate::nodes::NodeTable;
use crate::report::Report;

/// What all services of a pass share.
pub(crate) struct Pass<'a> {
    pub(crate) input: PlanInput<'a>,
    pub(crate) nodes: NodeTable<'a>,
    pub(crate) changes: Vec<Change>,
    pub(crate) report: Report,
    pub(crate) wake_at: Option<Timestamp>,
    pub(crate) consumers: Consumers<'a>,
    addresses: Addresses,
}

/// The endpoint consumers whose leases hold, with what each has acknowledged; nothing, if it was not heard of.
#[derive(Debug, Default)]
pub(crate) struct Consumers<'a>(BTreeMap<&'a ConsumerName, Option<&'a Acknowledgement>>);

impl<'a> Consumers<'a> {
    pub(crate) fn insert(&mut self, name: &'a ConsumerName, said: Option<&'a Acknowledgement>) {
        self.0.insert(name, said);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an instance that has left the endpoints has nothing more to do for any of them.
    pub(crate) fn release(&self, left: &TerminatingInstance) -> bool {
        let releases = |said: &Acknowledgement| said.releases(&left.id, left.left_at);
        self.0.values().all(|said| said.is_some_and(releases))
    }
}

impl<'a> Pass<'a> {
    /// A pass that has decided nothing yet.
    pub(crate) fn begin(input: PlanInput<'a>, nodes: NodeTable<'a>) -> Self {
        let (changes, report) = (Vec::new(), Report::default());
        let (consumers, addresses) = (Consumers::default(), Addresses::default());
        Self { input, nodes, changes, report, wake_at: None, consumers, addresses }
    }

    /// Whether an instance of this revision can have an address in each of its networks (PL-24).
    pub(crate) fn has_addresses(
        &self,
        service: &ServiceKey,
        revision: Revision,
        spec: &ServiceSpec,
    ) -> bool {
        self.no_address(service, revision, spec).is_none()
    }

    /// Why it cannot have them.
    pub(crate) fn no_address(
        &self,
        service: &ServiceKey,
        revision: Revision,
        spec: &ServiceSpec,
    ) -> Option<NoAddress> {
        self.addresses.check(self.input, service, revision, spec).err()
    }

    /// Counts the addresses of an instance that the pass starts.
    pub(crate) fn take_addresses(
        &self,
        service: &ServiceKey,
        revision: Revision,
        spec: &ServiceSpec,
    ) {
        self.addresses.take(self.input, service, revision, spec);
    }

    /// Notes a future moment at which a decision may differ.
    pub(crate) fn wake(&mut self, at: Timestamp) {
        if at > self.input.now {
            self.wake_at = self.wake_at.into_iter().chain([at]).min();
        }
    }
}
