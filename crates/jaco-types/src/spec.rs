//! What a user wants: the spec of a deployment, after compose and overlay were resolved.
//!
//! Only what a decision depends on has a field of its own. Everything that just reaches the
//! container stays in the canonical text, so that a new compose key costs no new format.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::id::{Hostname, ServiceName, SpecHash};
use crate::time::Millis;
use crate::unit::Resources;

/// The spec of one revision of a deployment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeploymentSpec {
    /// Its services by name.
    pub services: BTreeMap<ServiceName, Arc<ServiceSpec>>,
    /// The canonical compose model as the client sent it (JSON with sorted keys).
    pub compose: Arc<str>,
    /// The overlay (`jaco.yaml`) as the client sent it; empty when there is none.
    pub overlay: Arc<str>,
}

/// The spec of one service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceSpec {
    /// Its name in the deployment.
    pub name: ServiceName,
    /// The image its containers run.
    pub image: Arc<str>,
    /// How nodes are chosen.
    pub placement: Placement,
    /// How many replicas are wanted; of no effect with [`Placement::Global`].
    pub replicas: u32,
    /// Ports of the host that each replica takes for itself.
    pub host_ports: Vec<HostPort>,
    /// What must be up before its replicas start.
    pub depends_on: Vec<Dependency>,
    /// What each replica has reserved on its node.
    pub reservation: Resources,
    /// What the engine lets each replica use at most; zero is unlimited.
    pub limit: Resources,
    /// Whether data on the node belongs to a replica.
    pub storage: Storage,
    /// Whether `running` waits for a healthcheck.
    pub healthcheck: Healthcheck,
    /// How a change is rolled out.
    pub update: UpdatePolicy,
    /// Canonical JSON of all that changes the container.
    pub container: Arc<str>,
    /// SHA-256 of `container` (R-HASH-1).
    pub hash: SpecHash,
}

/// How nodes are chosen for a service's replicas.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Placement {
    /// Evenly over the eligible nodes (R-PLACE-1).
    #[default]
    Spread,
    /// One node after another (R-PLACE-2).
    Pack,
    /// Only these hosts (R-PLACE-3).
    Hosts(BTreeSet<Hostname>),
    /// One replica on each eligible node (R-PLACE-4).
    Global,
}

impl Placement {
    /// The mode as users write it.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Spread => "spread",
            Self::Pack => "pack",
            Self::Hosts(_) => "hosts",
            Self::Global => "global",
        }
    }
}

/// A port of the host that a container takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    /// The port's number on the host.
    pub port: u16,
    /// The transport it belongs to.
    pub protocol: Protocol,
}

/// A transport protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

/// A service that must have reached a condition first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    /// The service waited for, of the same deployment.
    pub service: ServiceName,
    /// What it must have reached.
    pub condition: Condition,
    /// Whether a service that is absent is waited for.
    pub required: Required,
}

/// What a dependency must have reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Condition {
    /// A replica of it is up.
    Started,
    /// A replica of it is running and healthy.
    Healthy,
    /// Its replicas ended without an error.
    CompletedSuccessfully,
}

/// Whether an absent dependency blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Required {
    /// It does.
    Yes,
    /// It does not.
    No,
}

/// Whether data on the node belongs to a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Storage {
    /// Nothing of it stays on the node.
    Stateless,
    /// It has a named volume or a bind mount: its data does not follow it.
    Stateful,
}

/// Whether `running` waits for a healthcheck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Healthcheck {
    /// A started container counts as running.
    None,
    /// The engine's health state decides.
    Declared,
}

/// How a change of a service is rolled out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpdatePolicy {
    /// Replicas replaced at the same time; at least 1.
    pub parallelism: u32,
    /// Which of the two instances is stopped or started first.
    pub order: UpdateOrder,
    /// How long one step may take.
    pub step_timeout: Millis,
    /// How long a started container must stay up to count as good, where it has no healthcheck.
    pub monitor: Millis,
    /// How long to wait between steps.
    pub delay: Millis,
}

impl Default for UpdatePolicy {
    /// One at a time, start-first, 60 s a step (R-ROLL-3).
    fn default() -> Self {
        Self {
            parallelism: 1,
            order: UpdateOrder::StartFirst,
            step_timeout: Millis::from_secs(60),
            monitor: Millis(0),
            delay: Millis(0),
        }
    }
}

/// Which of the two instances moves first in a handover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UpdateOrder {
    /// The successor starts before the old instance stops.
    StartFirst,
    /// The old instance stops first: forced by a host port or an exclusive volume.
    StopFirst,
}
