//! What a user wants: the spec of a deployment, after compose and overlay were resolved.
//!
//! Only what a decision depends on has a field of its own. Everything that just reaches the
//! container stays in the canonical text, so that a new compose key costs no new format.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;

use crate::content::{ContentId, NamedKey};
use crate::gpu::GpuDemand;
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
    /// The environment's `jaco.services.toml` as the client sent it; empty when there is none.
    pub environment: Arc<str>,
    /// The contents of files that its containers need, all of them.
    pub contents: BTreeSet<ContentId>,
    /// The configs and secrets that it takes from the cluster by name. Their contents are among
    /// `contents`, as they were when this was applied.
    pub named: BTreeSet<NamedKey>,
    /// What its services reach of the nodes that they run on, by service; those that reach nothing
    /// are not in it. For people who ask who let it in: it decides nothing, and a change of it alone
    /// is no new revision.
    pub privileges: BTreeMap<ServiceName, BTreeSet<Privilege>>,
}

/// Something by which a container reaches its node, past what isolates it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Privilege {
    /// `privileged: true`.
    Privileged,
    /// `security_opt`.
    SecurityOpt,
    /// The engine's socket is mounted.
    EngineSocket,
    /// The node's network.
    HostNetwork,
    /// The node's processes.
    HostPid,
    /// The node's shared memory.
    HostIpc,
    /// The node's users.
    HostUsers,
    /// A directory or file of the node is mounted.
    HostPath,
    /// Devices of the node.
    Devices,
    /// Capabilities of the kernel that containers do not have by themselves.
    Capabilities,
}

impl Privilege {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::Privileged,
        Self::SecurityOpt,
        Self::EngineSocket,
        Self::HostNetwork,
        Self::HostPid,
        Self::HostIpc,
        Self::HostUsers,
        Self::HostPath,
        Self::Devices,
        Self::Capabilities,
    ];

    /// The privilege as users see it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Privileged => "privileged",
            Self::SecurityOpt => "security_opt",
            Self::EngineSocket => "engine_socket",
            Self::HostNetwork => "host_network",
            Self::HostPid => "host_pid",
            Self::HostIpc => "host_ipc",
            Self::HostUsers => "host_users",
            Self::HostPath => "host_path",
            Self::Devices => "devices",
            Self::Capabilities => "capabilities",
        }
    }
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
    /// The GPUs that each replica has for itself; none asks for none.
    pub gpus: Option<GpuDemand>,
    /// Whether data on the node belongs to a replica.
    pub storage: Storage,
    /// Whether `running` waits for a healthcheck.
    pub healthcheck: Healthcheck,
    /// How a change is rolled out.
    pub update: UpdatePolicy,
    /// What narrows and weighs the choice of nodes.
    pub scheduling: SchedulingPolicy,
    /// What becomes of its replicas whose node falls silent. An instance keeps the one that it was
    /// started under.
    pub on_node_loss: OnNodeLoss,
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

/// What becomes of a replica whose node falls silent (R-NODE-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OnNodeLoss {
    /// It is placed elsewhere after so much silence, and never before the node counts as down. The
    /// lost one may run on meanwhile, and until its node is back.
    Replace {
        /// The silence.
        after: Millis,
    },
    /// It waits for its node, however long.
    Wait,
    /// The node stops it by itself, and only then it is placed elsewhere.
    StopSelf {
        /// How long its node is without a leader before it begins to stop it.
        after: Millis,
        /// How long the container may take to stop.
        grace: Millis,
    },
}

impl Default for OnNodeLoss {
    /// As soon as the node counts as down.
    fn default() -> Self {
        Self::Replace { after: Millis(0) }
    }
}

impl OnNodeLoss {
    /// What may lie between a node's last contact and the moment that it counts from, and between
    /// the end of a container and the moment that its end is due: an answer of a leader that has just
    /// lost its quorum (4 s on a `wan`), a look every half second, the engine's own time for a kill.
    pub const SLACK: Millis = Millis::from_secs(10);

    /// How much faster the leader's clock may go than the node's: it counts at most this many
    /// tenths where the node's counts ten. A clock that is slewed goes wrong by less.
    const LEADER_TENTHS: u64 = 11;

    /// The silence, by the leader's clock, after which a replacement may start; none where it never
    /// may.
    #[must_use]
    pub fn replaced_after(self) -> Option<Millis> {
        match self {
            Self::Replace { after } => Some(after),
            Self::Wait => None,
            Self::StopSelf { after, grace } => {
                let by_node = after.0.saturating_add(grace.0).saturating_add(Self::SLACK.0);
                Some(Millis(by_node.saturating_mul(Self::LEADER_TENTHS).div_ceil(10)))
            }
        }
    }

    /// The silence, by the node's clock, after which the node stops it.
    #[must_use]
    pub fn stops_after(self) -> Option<Millis> {
        match self {
            Self::StopSelf { after, .. } => Some(after),
            Self::Replace { .. } | Self::Wait => None,
        }
    }

    /// The policy as users write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Replace { .. } => "replace",
            Self::Wait => "wait",
            Self::StopSelf { .. } => "stop_self",
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
    /// How long a replica must have been up, and healthy where there is a healthcheck, before its
    /// step is over and its predecessor stops. None where nothing is said: then the next step begins
    /// at once, and a failure within [`UpdatePolicy::WATCH`] is still a failure of the rollout.
    pub monitor: Option<Millis>,
    /// How long to wait between steps.
    pub delay: Millis,
    /// What follows when more steps fail than may.
    pub failure_action: FailureAction,
    /// How many of a rollout's steps may fail, in thousandths of all.
    pub max_failure_permille: u32,
    /// How an aborted rollout goes back.
    pub back: BackPolicy,
}

/// What follows when more steps of a rollout fail than may.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureAction {
    /// The previous revision comes back (R-ROLL-3).
    #[default]
    Rollback,
    /// Nothing more is replaced until the next apply or rollback.
    Pause,
    /// The replica is left alone, its predecessor serving where it still can, and the rest goes on.
    Continue,
}

/// How an aborted rollout goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackPolicy {
    /// Replicas replaced at the same time; at least 1.
    pub parallelism: u32,
    /// Which of the two instances is stopped or started first.
    pub order: UpdateOrder,
    /// How long to wait between steps.
    pub delay: Millis,
    /// How long a replica must have been up before its step is over; none is as the revision that
    /// comes back says.
    pub monitor: Option<Millis>,
    /// What follows when more steps fail than may.
    pub failure_action: BackFailureAction,
    /// How many of the steps may fail, in thousandths of all.
    pub max_failure_permille: u32,
}

/// What follows when more steps of the way back fail than may.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BackFailureAction {
    /// The replica is left alone, and the rest goes back.
    #[default]
    Continue,
    /// Nothing more is replaced until the next apply or rollback.
    Pause,
}

impl Default for BackPolicy {
    /// One at a time, start-first, without a pause, whatever fails.
    fn default() -> Self {
        Self {
            parallelism: 1,
            order: UpdateOrder::StartFirst,
            delay: Millis(0),
            monitor: None,
            failure_action: BackFailureAction::default(),
            max_failure_permille: 0,
        }
    }
}

impl UpdatePolicy {
    /// How long a failure of a replica counts as one of its step where `monitor` says nothing: as
    /// long as Swarm's `--update-monitor` without a value.
    pub const WATCH: Millis = Millis::from_secs(5);
}

impl Default for UpdatePolicy {
    /// One at a time, start-first, 60 s a step (R-ROLL-3).
    fn default() -> Self {
        Self {
            parallelism: 1,
            order: UpdateOrder::StartFirst,
            step_timeout: Millis::from_secs(60),
            monitor: None,
            delay: Millis(0),
            failure_action: FailureAction::default(),
            max_failure_permille: 0,
            back: BackPolicy::default(),
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
/// (R-CONS-4): it is asked when a replica gets a node; `beside` alone is asked for as long as there is
/// a replica.
///
/// An attribute is what every node has, as `node.hostname` or `node.kernel` (all of them are in
/// `jaco_scheduler::attribute`), or the key of a label, which may be written as `node.<key>`,
/// `meta.<key>` or `<key>`; with or without `${…}` around it.
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
    /// The keys of constraints that the service or its deployment said something about, be it to ask
    /// for nothing: what the cluster says about them does not count (R-CONS-1).
    pub own_keys: BTreeSet<String>,
    /// Most replicas of the service on one node; none is as many as fit (R-CONS-6).
    pub max_per_node: Option<NonZeroU32>,
    /// Services of the deployment: a new replica goes on a node that has one of each of them.
    pub place_with: BTreeSet<ServiceName>,
    /// Services of the deployment that a replica cannot do without: it is on a node that has one of
    /// each of them, goes where they go, and starts anew when they do. With [`Placement::Global`] it
    /// is on every such node.
    pub beside: BTreeSet<ServiceName>,
    /// How nodes that may take a replica are compared.
    pub scoring: Scoring,
}

/// How nodes that may take a replica are compared (R-SPREAD-6).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scoring {
    /// By JACO's own order of preference.
    #[default]
    Jaco,
    /// By Nomad's formulas.
    Nomad,
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
    /// `semver`: likewise, for versions as Semantic Versioning 2.0 writes and orders them.
    Semver,
    /// `regexp`: the value, a regular expression, matches somewhere in the attribute.
    Regexp,
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
        Self::Semver,
        Self::Regexp,
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
            Self::Semver => "semver",
            Self::Regexp => "regexp",
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
