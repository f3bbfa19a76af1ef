//! Why a node may not take a replica, each rule as a value of its own.

use std::fmt;
use std::num::NonZeroU32;

use jaco_types::spec::{HostPort, Protocol};
use jaco_types::unit::{Bytes, MilliCores, Resources};
use jaco_types::{GpuDemand, ServiceName, VolumeClass};

use crate::nodes::gpu::Shortage;

/// Why a node may not take a replica. The order is the order of the checks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ineligible {
    /// It has sent no heartbeat yet, or none for too long.
    NotReady,
    /// Its container engine does not answer.
    EngineDown,
    /// A disk of it is nearly full.
    DiskFull {
        /// Which one, and how full.
        reason: String,
    },
    /// The service is attached to networks of the cluster, and the node's router does not work.
    NoNetwork {
        /// Why.
        reason: String,
    },
    /// Operators cordoned it: it takes no new replicas.
    Cordoned,
    /// Operators drain it: its replicas are being moved away.
    Draining,
    /// Operators disabled the service there, or the whole node.
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
    /// It has less left than the minimum that the service asks for.
    BelowMinimum {
        /// What the service asks for.
        minimum: Resources,
    },
    /// It has no replica of a service that the replica is colocated with, or none that runs.
    PartnerMissing {
        /// The service.
        service: ServiceName,
    },
    /// A replica of the colocated service is about to run, here or elsewhere, and is reserved for this one.
    PartnerPending {
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
    /// It has as many instances as it takes.
    TooManyInstances {
        /// How many it has, of any service.
        instances: u32,
        /// How many it takes.
        max: NonZeroU32,
    },
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
    /// It does not offer the class of a volume.
    NoVolumeClass {
        /// The class.
        class: VolumeClass,
    },
    /// Too little of the space for volumes of a class is left unreserved.
    InsufficientVolumeSpace {
        /// The class.
        class: VolumeClass,
        /// What is left.
        available: Bytes,
        /// What the volumes of the replica take that are not there yet.
        required: Bytes,
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
            Self::NoNetwork { .. } => "no_network",
            Self::Cordoned => "cordoned",
            Self::Draining => "draining",
            Self::Disabled => "disabled",
            Self::NotPinned => "not_pinned",
            Self::MissingLabel { .. } => "missing_label",
            Self::ConstraintFails { .. } => "constraint_fails",
            Self::BelowMinimum { .. } => "below_minimum",
            Self::PartnerMissing { .. } => "not_beside",
            Self::PartnerPending { .. } => "partner_to_come",
            Self::MaxPerNode { .. } => "max_per_node",
            Self::DataElsewhere => "data_elsewhere",
            Self::OnePerNode => "one_per_node",
            Self::TooManyInstances { .. } => "too_many_instances",
            Self::HostPortTaken { .. } => "host_port_taken",
            Self::InsufficientCpu { .. } => "insufficient_cpu",
            Self::InsufficientMemory { .. } => "insufficient_memory",
            Self::InsufficientGpus { .. } => "insufficient_gpus",
            Self::NoVolumeClass { .. } => "no_volume_class",
            Self::InsufficientVolumeSpace { .. } => "insufficient_volume_space",
        }
    }
}

impl fmt::Display for Ineligible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotReady => f.write_str("not ready"),
            Self::EngineDown => f.write_str("its engine does not answer"),
            Self::DiskFull { reason } => f.write_str(reason),
            Self::NoNetwork { reason } => write!(f, "its router does not work: {reason}"),
            Self::Cordoned => f.write_str("cordoned"),
            Self::Draining => f.write_str("draining"),
            Self::Disabled => f.write_str("the service is disabled there"),
            Self::NotPinned => f.write_str("not among the pinned hosts"),
            Self::MissingLabel { label } => write!(f, "carries no label {label:?}"),
            Self::ConstraintFails { constraint } => write!(f, "does not satisfy {constraint}"),
            Self::BelowMinimum { minimum: Resources { cpu, memory } } => {
                write!(f, "has less left than {cpu} of cpu and {memory} of memory")
            }
            Self::PartnerMissing { service } => write!(f, "has no {service} that runs"),
            Self::PartnerPending { service } => {
                write!(f, "a {service} that is about to run is for it")
            }
            Self::MaxPerNode { max } => {
                write!(f, "has {max} of the service, the most that one node may have")
            }
            Self::DataElsewhere => f.write_str("the data is on another node"),
            Self::OnePerNode => f.write_str("has its replica already"),
            Self::TooManyInstances { instances, max } => {
                write!(f, "has {instances} instances and takes {max}")
            }
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
            Self::NoVolumeClass { class } => write!(f, "offers no volumes of class {class}"),
            Self::InsufficientVolumeSpace { class, available, required } => {
                write!(f, "{available} left for volumes of class {class}, {required} needed")
            }
        }
    }
}
