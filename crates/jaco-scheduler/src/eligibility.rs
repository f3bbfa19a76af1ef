//! Whether a node may take a replica, and if not, every rule that says so.

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroU32;

use jaco_types::spec::{
    HostPort, OnNodeLoss, Placement, Protocol, SchedulingPolicy, ServiceSpec, Storage,
};
use jaco_types::unit::{Bytes, MilliCores, Resources};
use jaco_types::{Availability, GpuDemand, NodeStatus, Ordinal, ServiceName, Timestamp};

use crate::asked::ClusterDemands;
use crate::attribute::{holds, missing_labels};
use crate::company::{Company, InCompany};
use crate::contradiction::describe;
use crate::draft::{Goal, Pass, SlotDraft};
use crate::gpu::Shortage;
use crate::node_table::{NodeIx, NodeRow, NodeTable};
use crate::placement::Limit;

/// Why a node may not take a replica. The order is the order of the checks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ineligible {
    /// It has not been heard of yet, or not for too long.
    NotReady,
    /// Its container engine does not answer.
    EngineDown,
    /// A disk of it is nearly full.
    DiskFull {
        /// Which one, and how full.
        reason: String,
    },
    /// It takes nothing new.
    Cordoned,
    /// What it has is being moved away.
    Draining,
    /// People disabled the service there, or all of the node.
    Disabled,
    /// The service is pinned to other hosts.
    NotPinned,
    /// It does not carry a label that the service selects by.
    MissingLabel {
        /// The label.
        label: String,
    },
    /// A constraint does not hold of it.
    ConstraintFails {
        /// The constraint, as `attribute operator value`.
        constraint: String,
    },
    /// It has less left than the service asks a node to have.
    BelowMinimum {
        /// What the service asks for.
        minimum: Resources,
    },
    /// It has no replica of a service that the replica goes with, or none that runs.
    NotBeside {
        /// The service.
        service: ServiceName,
    },
    /// A replica of the other service is about to run, here or elsewhere, that nobody shares with.
    PartnerToCome {
        /// The other service.
        service: ServiceName,
    },
    /// It has as many replicas of the service as one node may have.
    MaxPerNode {
        /// How many that is.
        max: NonZeroU32,
    },
    /// The replica's data is on another node.
    DataElsewhere,
    /// The service has its replica on this node already.
    OnePerNode,
    /// A port of the host that the replica needs is taken.
    HostPortTaken {
        /// The port.
        port: HostPort,
    },
    /// Too little of its processor is left unreserved.
    InsufficientCpu {
        /// What is left.
        available: MilliCores,
        /// What the replica reserves.
        required: MilliCores,
    },
    /// Too little of its memory is left unreserved.
    InsufficientMemory {
        /// What is left.
        available: Bytes,
        /// What the replica reserves.
        required: Bytes,
    },
    /// Too few of its GPUs are free.
    InsufficientGpus {
        /// What it has, and what of it is free.
        shortage: Shortage,
        /// What the replica has for itself.
        required: GpuDemand,
    },
}

impl Ineligible {
    /// The rule's stable name.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::NotReady => "not_ready",
            Self::EngineDown => "engine_down",
            Self::DiskFull { .. } => "disk_full",
            Self::Cordoned => "cordoned",
            Self::Draining => "draining",
            Self::Disabled => "disabled",
            Self::NotPinned => "not_pinned",
            Self::MissingLabel { .. } => "missing_label",
            Self::ConstraintFails { .. } => "constraint_fails",
            Self::BelowMinimum { .. } => "below_minimum",
            Self::NotBeside { .. } => "not_beside",
            Self::PartnerToCome { .. } => "partner_to_come",
            Self::MaxPerNode { .. } => "max_per_node",
            Self::DataElsewhere => "data_elsewhere",
            Self::OnePerNode => "one_per_node",
            Self::HostPortTaken { .. } => "host_port_taken",
            Self::InsufficientCpu { .. } => "insufficient_cpu",
            Self::InsufficientMemory { .. } => "insufficient_memory",
            Self::InsufficientGpus { .. } => "insufficient_gpus",
        }
    }
}

impl fmt::Display for Ineligible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotReady => f.write_str("not ready"),
            Self::EngineDown => f.write_str("its engine does not answer"),
            Self::DiskFull { reason } => f.write_str(reason),
            Self::Cordoned => f.write_str("cordoned"),
            Self::Draining => f.write_str("draining"),
            Self::Disabled => f.write_str("the service is disabled there"),
            Self::NotPinned => f.write_str("not among the pinned hosts"),
            Self::MissingLabel { label } => write!(f, "carries no label {label:?}"),
            Self::ConstraintFails { constraint } => write!(f, "does not satisfy {constraint}"),
            Self::BelowMinimum { minimum: Resources { cpu, memory } } => {
                write!(f, "has less left than {cpu} of cpu and {memory} of memory")
            }
            Self::NotBeside { service } => write!(f, "has no {service} that runs"),
            Self::PartnerToCome { service } => {
                write!(f, "a {service} that is about to run is for it")
            }
            Self::MaxPerNode { max } => {
                write!(f, "has {max} of the service, the most that one node may have")
            }
            Self::DataElsewhere => f.write_str("the data is on another node"),
            Self::OnePerNode => f.write_str("has its replica already"),
            Self::HostPortTaken { port } => {
                let protocol = match port.protocol {
                    Protocol::Tcp => "tcp",
                    Protocol::Udp => "udp",
                    Protocol::Sctp => "sctp",
                };
                write!(f, "host port {}/{protocol} is taken", port.port)
            }
            Self::InsufficientCpu { available, required } => {
                write!(f, "{available} of cpu left, {required} needed")
            }
            Self::InsufficientMemory { available, required } => {
                write!(f, "{available} of memory left, {required} needed")
            }
            Self::InsufficientGpus { shortage, required } => {
                write!(f, "GPUs: {shortage}, {required} needed")
            }
        }
    }
}

/// What becomes of a replica where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stay {
    /// It stays.
    Keeps,
    /// Its node cannot keep it any more: silent, without an engine, or no member.
    Lost,
    /// Its node may have lost it, and its policy does not let it be placed elsewhere, or not yet.
    Waits,
    /// Its node can keep it, and should not.
    Leaves,
}

/// Whether a replica stays where it is. Weaker than being eligible: a cordoned node keeps what it
/// has (R-PLACE-6). What it runs says what becomes of it when its node falls silent.
pub(crate) fn where_it_is(slot: &SlotDraft<'_>, goal: &Goal<'_>, pass: &Pass<'_>) -> Stay {
    let Some(row) = slot.current.at.map(|at| pass.nodes.row(at)) else { return Stay::Lost };
    match row.status {
        NodeStatus::Down => {
            let now = pass.input.now;
            let may_go = lost_at(slot, goal, row).is_some_and(|at| at <= now);
            return if may_go { Stay::Lost } else { Stay::Waits };
        }
        // It lives and can stop nothing: what must not run twice waits for the engine.
        NodeStatus::EngineDown => {
            return match loss_policy(slot, goal) {
                OnNodeLoss::Replace { .. } => Stay::Lost,
                OnNodeLoss::Wait | OnNodeLoss::StopSelf { .. } => Stay::Waits,
            };
        }
        NodeStatus::Joining | NodeStatus::Ready | NodeStatus::DiskFull => {}
    }
    if row.availability == Availability::Draining || !is_pinned(row, &goal.spec.placement) {
        return Stay::Leaves;
    }
    match slot.company {
        InCompany::No => Stay::Leaves,
        InCompany::Yes | InCompany::Soon | InCompany::OfTheOld => Stay::Keeps,
    }
}

/// Whether a replica is on a node that the placement does not name, and can go to one that it does.
/// People asked for that, so it is a step of a rollout; a node that is drained is left at once.
pub(crate) fn is_misplaced(slot: &SlotDraft<'_>, goal: &Goal<'_>, nodes: &NodeTable<'_>) -> bool {
    let Placement::Hosts(_) = &goal.spec.placement else { return false };
    let Ordinal::Index(_) = slot.ordinal else { return false };
    let Some(row) = slot.current.at.map(|at| nodes.row(at)) else { return false };
    goal.spec.storage == Storage::Stateless
        && row.status.is_working()
        && row.node.availability != Availability::Draining
        && !is_pinned(row, &goal.spec.placement)
}

/// What becomes of a slot when its node falls silent: what its current instance was started under.
pub(crate) fn loss_policy(slot: &SlotDraft<'_>, goal: &Goal<'_>) -> OnNodeLoss {
    slot.current.spec.unwrap_or(goal.spec).on_node_loss
}

/// When a slot may be placed elsewhere, if its node goes on being silent; none where it waits for it.
pub(crate) fn lost_at(
    slot: &SlotDraft<'_>,
    goal: &Goal<'_>,
    row: &NodeRow<'_>,
) -> Option<Timestamp> {
    loss_policy(slot, goal).replaced_after().map(|silence| row.silent_since.after(silence))
}

/// Whether the placement allows this node at all.
pub(crate) fn is_pinned(row: &NodeRow<'_>, placement: &Placement) -> bool {
    match placement {
        Placement::Hosts(hosts) => hosts.contains(&row.node.hostname),
        Placement::Spread | Placement::Pack | Placement::Global => true,
    }
}

/// Whether a node takes new replicas of anybody.
pub(crate) fn is_open(row: &NodeRow<'_>) -> bool {
    row.status == NodeStatus::Ready && row.availability == Availability::Active
}

/// What stands on the nodes already and has a say.
#[derive(Clone, Copy)]
pub(crate) struct Others<'c> {
    /// The services that the replica goes with.
    pub(crate) company: &'c Company<'c>,
    /// Its siblings, where a node may not have any number of them.
    pub(crate) limit: Option<&'c Limit>,
    /// The nodes where the service rests.
    pub(crate) resting: &'c BTreeSet<NodeIx>,
}

/// Every rule that keeps a new replica of `spec`, placed as `goal` says, off the node `at`.
pub(crate) fn verdict(
    demands: &ClusterDemands,
    (at, row): (NodeIx, &NodeRow<'_>),
    goal: &ServiceSpec,
    spec: &ServiceSpec,
    others: Others<'_>,
) -> Vec<Ineligible> {
    let mut failed = Vec::new();
    match row.status {
        NodeStatus::Joining | NodeStatus::Down => failed.push(Ineligible::NotReady),
        NodeStatus::EngineDown => failed.push(Ineligible::EngineDown),
        NodeStatus::DiskFull => {
            failed.push(Ineligible::DiskFull { reason: row.status_reason().to_owned() });
        }
        NodeStatus::Ready => {}
    }
    match row.availability {
        Availability::Active => {}
        Availability::Cordoned => failed.push(Ineligible::Cordoned),
        Availability::Draining => failed.push(Ineligible::Draining),
    }
    if others.resting.contains(&at) {
        failed.push(Ineligible::Disabled);
    }
    if !is_pinned(row, &goal.placement) {
        failed.push(Ineligible::NotPinned);
    }
    failed.extend(refused_by(demands, row, &goal.scheduling));
    failed.extend(others.company.missing(at));
    failed.extend(others.limit.and_then(|limit| limit.refuses(at)));
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
    failed
}

/// What the policy has against a node.
fn refused_by(
    demands: &ClusterDemands,
    row: &NodeRow<'_>,
    policy: &SchedulingPolicy,
) -> Vec<Ineligible> {
    let labels = missing_labels(row.node, policy)
        .map(|label| Ineligible::MissingLabel { label: label.to_owned() });
    let failing = demands.constraints(policy).filter(|constraint| !holds(row.node, constraint));
    let failing =
        failing.map(|constraint| Ineligible::ConstraintFails { constraint: describe(constraint) });
    let minimum = demands.minimum(policy);
    let below = (!row.has_left(minimum)).then_some(Ineligible::BelowMinimum { minimum });
    labels.chain(failing).chain(below).collect()
}
