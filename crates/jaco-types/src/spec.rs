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
    /// When a node fetches it.
    pub pull: Pull,
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
    /// What narrows and weighs the choice of nodes.
    pub scheduling: SchedulingPolicy,
    /// Canonical JSON of all that changes the container.
    pub container: Arc<str>,
    /// SHA-256 of `container` (R-HASH-1).
    pub hash: SpecHash,
}

/// When a node fetches an image. No part of the container: a change of it recreates nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pull {
    /// When the node does not have it.
    #[default]
    Missing,
    /// Before each start.
    Always,
    /// Never: the node has it, or the replica does not start.
    Never,
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

/// What narrows and weighs the choice of nodes, beyond the placement. A change of it moves nobody
/// (R-CONS-4): it is asked when a replica gets a node.
///
/// An attribute is `node.hostname`, `node.arch`, `node.os`, or the key of a label, which may be
/// written as `node.<key>`, `meta.<key>` or `<key>`, with or without `${…}` around it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SchedulingPolicy {
    /// Labels that a node must all carry (R-SEL-1).
    pub selectors: BTreeSet<String>,
    /// What must hold of a node, all of it (R-CONS-7).
    pub constraints: Vec<Constraint>,
    /// What had better hold of a node, or not.
    pub affinities: Vec<Affinity>,
    /// What replicas are spread over; the deployment's first, then the service's (R-SPREAD-3).
    pub spread: Vec<SpreadCriterion>,
    /// What a node must have left; the node that has the least of it left is taken (R-CONS-3).
    pub minimum: Resources,
}

/// What must hold of a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Constraint {
    /// The attribute that is looked at.
    pub attribute: String,
    /// How it is compared.
    pub operator: Operator,
    /// With what; of no effect with [`Operator::IsSet`] and [`Operator::IsNotSet`].
    pub value: String,
}

/// How an attribute is compared with a value. A node without the attribute satisfies only `!=` and
/// `is_not_set`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operator {
    /// `=`.
    Equal,
    /// `!=`.
    NotEqual,
    /// `<`: as integers where both are, else as text; likewise the three below.
    Less,
    /// `<=`.
    LessOrEqual,
    /// `>`.
    Greater,
    /// `>=`.
    GreaterOrEqual,
    /// `is_set`: the node has the attribute.
    IsSet,
    /// `is_not_set`: it has not.
    IsNotSet,
    /// `version`: the attribute is a version in the ranges of the value, as `>= 1.2, < 2`.
    Version,
    /// `set_contains`: the attribute, a list with commas, has all of the value's members.
    SetContains,
    /// `set_contains_any`: it has one of them.
    SetContainsAny,
}

impl Operator {
    /// Every operator.
    pub const ALL: &[Self] = &[
        Self::Equal,
        Self::NotEqual,
        Self::Less,
        Self::LessOrEqual,
        Self::Greater,
        Self::GreaterOrEqual,
        Self::IsSet,
        Self::IsNotSet,
        Self::Version,
        Self::SetContains,
        Self::SetContainsAny,
    ];

    /// The operator as users write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::IsSet => "is_set",
            Self::IsNotSet => "is_not_set",
            Self::Version => "version",
            Self::SetContains => "set_contains",
            Self::SetContainsAny => "set_contains_any",
        }
    }
}

/// What had better hold of a node, or not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Affinity {
    /// What is looked at.
    pub constraint: Constraint,
    /// How much it counts, -100 to 100; below zero it had better not hold.
    pub weight: i8,
}

/// What replicas are spread over.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpreadCriterion {
    /// The attribute whose values share the replicas.
    pub attribute: String,
    /// Which of several criteria comes first, 0 to 100: the heaviest is met first, and the others
    /// inside each of its shares.
    pub weight: u8,
    /// The share of some values; the others share what remains. Empty: all share equally.
    pub targets: Vec<SpreadTarget>,
}

/// The share of one value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpreadTarget {
    /// The attribute's value.
    pub value: String,
    /// How much of all replicas, 0 to 100.
    pub percent: u8,
}
