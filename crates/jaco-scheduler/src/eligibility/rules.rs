//! Every rule that keeps a new replica off a node.

use std::collections::BTreeSet;

use jaco_types::spec::{SchedulingPolicy, ServiceSpec};
use jaco_types::{Availability, NodeStatus};

use super::colocation::ColocationView;
use super::ineligible::Ineligible;
use super::limit::Limit;
use crate::attribute::contradiction::describe;
use crate::attribute::missing_labels;
use crate::nodes::volume::Lack;
use crate::nodes::{NodeIx, NodeTable};

/// What is on the nodes already and has a say.
#[derive(Clone, Copy)]
pub(crate) struct Others<'c> {
    /// Where the services are that the replica is colocated with.
    pub(crate) colocation: &'c ColocationView<'c>,
    /// Its siblings, where a node may not have any number of them.
    pub(crate) limit: Option<&'c Limit>,
    /// The nodes on which the service is disabled.
    pub(crate) disabled: &'c BTreeSet<NodeIx>,
}

/// Every rule that keeps a new replica of `spec`, placed as `goal` says, off the node `at`.
pub(crate) fn refusals(
    nodes: &NodeTable<'_>,
    at: NodeIx,
    goal: &ServiceSpec,
    spec: &ServiceSpec,
    others: Others<'_>,
) -> Vec<Ineligible> {
    let row = nodes.row(at);
    let mut failed = Vec::new();
    match row.status {
        NodeStatus::Joining | NodeStatus::Down => failed.push(Ineligible::NotReady),
        NodeStatus::EngineDown => failed.push(Ineligible::EngineDown),
        NodeStatus::DiskFull => {
            failed.push(Ineligible::DiskFull { reason: row.status_reason().to_owned() });
        }
        NodeStatus::Ready => {}
    }
    failed.extend(row.lacks_network(spec).map(|reason| Ineligible::NoNetwork { reason }));
    match row.availability {
        Availability::Active => {}
        Availability::Cordoned => failed.push(Ineligible::Cordoned),
        Availability::Draining => failed.push(Ineligible::Draining),
    }
    if others.disabled.contains(&at) {
        failed.push(Ineligible::Disabled);
    }
    if !row.is_named_by(&goal.placement) {
        failed.push(Ineligible::NotPinned);
    }
    failed.extend(refused_by(nodes, at, &goal.scheduling));
    let minimum = nodes.demands.minimum(&goal.scheduling);
    if !row.has_left(minimum) {
        failed.push(Ineligible::BelowMinimum { minimum });
    }
    failed.extend(others.colocation.missing(at));
    failed.extend(others.limit.and_then(|limit| limit.refuses(at)));
    failed.extend(row.too_many_instances().map(|max| {
        let instances = row.usage.instances;
        Ineligible::TooManyInstances { instances, max }
    }));
    let taken = spec.host_ports.iter().filter(|port| row.usage.has_port(**port));
    failed.extend(taken.map(|port| Ineligible::HostPortTaken { port: *port }));
    let (left, needs) = (row.left(), spec.reservation);
    if let Some(available) = left.cpu.filter(|available| needs.cpu > *available) {
        failed.push(Ineligible::InsufficientCpu { available, required: needs.cpu });
    }
    if let Some(available) = left.memory.filter(|available| needs.memory > *available) {
        failed.push(Ineligible::InsufficientMemory { available, required: needs.memory });
    }
    if let (Some(shortage), Some(required)) = (row.lacks_gpus(spec), spec.gpus.clone()) {
        failed.push(Ineligible::InsufficientGpus { shortage, required });
    }
    failed.extend(row.lacks_volumes(spec).into_iter().map(Ineligible::from));
    failed
}

/// Every rule about where a replica may be that keeps one of `goal` off the node `at`, whatever room and state the
/// node has.
pub(crate) fn place_refusals(
    nodes: &NodeTable<'_>,
    at: NodeIx,
    goal: &ServiceSpec,
    others: Others<'_>,
) -> Vec<Ineligible> {
    let not_pinned = !nodes.row(at).is_named_by(&goal.placement);
    let mut failed: Vec<_> = not_pinned.then_some(Ineligible::NotPinned).into_iter().collect();
    failed.extend(refused_by(nodes, at, &goal.scheduling));
    failed.extend(others.colocation.missing(at));
    failed.extend(offers_no_class(nodes, at, goal));
    failed
}

/// The classes of volumes that a node does not offer, whatever space it has.
fn offers_no_class(nodes: &NodeTable<'_>, at: NodeIx, goal: &ServiceSpec) -> Vec<Ineligible> {
    let lacks = nodes.row(at).lacks_volumes(goal).into_iter();
    lacks.filter(|lack| matches!(lack, Lack::NoClass(_))).map(Ineligible::from).collect()
}

impl From<Lack<'_>> for Ineligible {
    fn from(lack: Lack<'_>) -> Self {
        match lack {
            Lack::NoClass(class) => Self::NoVolumeClass { class: class.clone() },
            Lack::NoSpace { class, available, required } => {
                Self::InsufficientVolumeSpace { class: class.clone(), available, required }
            }
        }
    }
}

/// What the policy has against a node.
fn refused_by(nodes: &NodeTable<'_>, at: NodeIx, policy: &SchedulingPolicy) -> Vec<Ineligible> {
    let (row, gate) = (nodes.row(at), nodes.gate(policy));
    let labels = missing_labels(row.node, policy)
        .map(|label| Ineligible::MissingLabel { label: label.to_owned() });
    let failing = gate.failing(row.node).map(describe);
    let failing = failing.map(|constraint| Ineligible::ConstraintFails { constraint });
    labels.chain(failing).collect()
}
