//! What the scheduler needs to know about a service, as plain data.
//!
//! Integers, ordered collections and closed enums only: the same input gives the same facts on
//! every machine. Changing a fact that is not part of the container never recreates one.

use std::collections::{BTreeMap, BTreeSet};

use jaco_types::spec::{OnNodeLoss, Privilege};
use jaco_types::unit::{Bytes, MilliCores, Resources};

/// Everything a decision about a service depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The image its containers run.
    pub image: String,
    /// The platform the image is pulled for, such as `linux/arm64`.
    pub platform: Option<String>,
    /// When a node pulls.
    pub pull: Pull,
    /// How nodes are chosen.
    pub placement: Placement,
    /// How many replicas; 1 and of no effect with [`Placement::Global`].
    pub replicas: u32,
    /// The fewest replicas an apply accepts.
    pub min_allocations: u32,
    /// Most replicas on one node; `None` is as many as fit.
    pub max_replicas_per_node: Option<u32>,
    /// Host ports that each replica takes.
    pub ports: Vec<PublishedPort>,
    /// What must be up before its replicas start, sorted by service.
    pub depends_on: Vec<Dependency>,
    /// Services whose replica must be on the same node, because a namespace is shared.
    pub beside: BTreeSet<String>,
    /// Services whose volumes are mounted, which are on the nodes that have one of their replicas.
    pub volumes_from: BTreeSet<String>,
    /// What each replica has reserved on its node; zero reserves nothing.
    pub reservation: Resources,
    /// Bounds within which the reservation may be set; zero is no bound.
    pub bounds: Bounds,
    /// What the engine lets each replica use at most.
    pub limits: Limits,
    /// Whether data on the node belongs to a replica.
    pub storage: Storage,
    /// Where health comes from.
    pub healthcheck: Healthcheck,
    /// What happens when a replica ends.
    pub restart: Restart,
    /// Time between stop signal and kill, in nanoseconds.
    pub stop_grace_period_nanos: u64,
    /// How a rollout goes.
    pub update: UpdatePolicy,
    /// How a failed rollout goes back.
    pub rollback: UpdatePolicy,
    /// What becomes of replicas whose node is lost.
    pub on_node_loss: OnNodeLoss,
    /// How replicas spread; the service's criteria, then the deployment's.
    pub spread: Vec<Spread>,
    /// What nodes must have.
    pub constraints: Constraints,
    /// The deployment's constraints, which the service's override per key.
    pub deployment_constraints: Constraints,
    /// What nodes should have.
    pub affinities: Vec<Affinity>,
    /// Labels a node must all have.
    pub selectors: Selectors,
    /// How nodes are compared.
    pub scoring: Scoring,
    /// GPUs and other devices that each replica requests.
    pub gpus: Vec<GpuRequest>,
    /// Networks in the order of attachment.
    pub networks: Vec<String>,
    /// What it reaches of its node.
    pub privileges: BTreeSet<Privilege>,
}

/// When a node pulls an image.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Pull {
    /// When it is missing.
    #[default]
    Missing,
    /// Before every start.
    Always,
    /// Never.
    Never,
}

/// How nodes are chosen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Placement {
    /// Evenly over the eligible nodes.
    #[default]
    Spread,
    /// One node after another.
    Pack,
    /// Only these hosts.
    Hosts(BTreeSet<String>),
    /// One replica on each eligible node.
    Global,
}

/// A host port, or a range from which the engine takes one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PublishedPort {
    /// First port; the same as `last` for one port; 0 to 0 lets the engine choose.
    pub first: u16,
    /// Last port.
    pub last: u16,
    /// Transport.
    pub protocol: Protocol,
    /// The node's address; `None` is every address.
    pub host_ip: Option<String>,
    /// The port in the container.
    pub target: u16,
}

impl PublishedPort {
    /// The one host port that is certainly taken, if it is one.
    #[must_use]
    pub fn fixed(&self) -> Option<u16> {
        (self.first == self.last && self.first != 0).then_some(self.first)
    }
}

/// A transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

/// A service that must have reached a condition first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dependency {
    /// The service waited for.
    pub service: String,
    /// What it must have reached.
    pub condition: Condition,
    /// Whether the service is waited for at all when it does not exist.
    pub required: Required,
}

/// What a dependency must have reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Condition {
    /// A replica is up.
    Started,
    /// A replica is running and healthy.
    Healthy,
    /// Its replicas ended without an error.
    CompletedSuccessfully,
}

/// Whether an absent dependency blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Required {
    /// It does.
    Yes,
    /// It does not.
    No,
}

/// Bounds of a reservation; zero is no bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Least memory.
    pub memory_min: Bytes,
    /// Most memory.
    pub memory_max: Bytes,
    /// Least processor time.
    pub cpu_min: MilliCores,
    /// Most processor time.
    pub cpu_max: MilliCores,
}

/// What the engine enforces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Processor time.
    pub cpu: Option<MilliCores>,
    /// Memory.
    pub memory: Option<Bytes>,
    /// Processes; -1 is unlimited.
    pub pids: Option<i64>,
}

/// Whether data on the node belongs to a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    /// Nothing of it stays on the node.
    Stateless,
    /// It has a named volume or a bind of the node.
    Stateful,
}

/// Where a replica's health comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Healthcheck {
    /// The service declares a test.
    Declared,
    /// The service says nothing; the image may have a test.
    Image,
    /// The service switches every test off.
    Disabled,
}

/// What happens when a replica ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// It starts again.
    Always,
    /// It starts again if it failed, at most so many times.
    OnFailure {
        /// `None` is without a limit.
        max_retries: Option<u32>,
    },
    /// It has ended.
    Never,
}

/// How a rollout goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpdatePolicy {
    /// How many replicas one step replaces; 0 is all at once.
    pub parallelism: u32,
    /// Waited between steps.
    pub delay_nanos: u64,
    /// How long a new replica is watched; `None` where nothing is said.
    pub monitor_nanos: Option<u64>,
    /// How long a step may take; `None` is the cluster's default.
    pub step_timeout_nanos: Option<u64>,
    /// Which share of steps may fail, in thousandths.
    pub max_failure_permille: u32,
    /// What a failed step leads to.
    pub failure_action: FailureAction,
    /// What comes first.
    pub order: Order,
}

impl Default for UpdatePolicy {
    /// One replica at a time, start first, back to the old revision if it fails (R-ROLL-3, 4).
    fn default() -> Self {
        Self {
            parallelism: 1,
            delay_nanos: 0,
            monitor_nanos: None,
            step_timeout_nanos: None,
            max_failure_permille: 0,
            failure_action: FailureAction::Rollback,
            order: Order::StartFirst,
        }
    }
}

/// What a failed step leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureAction {
    /// The rollout waits for a person.
    Pause,
    /// The rollout goes on.
    Continue,
    /// The old revision comes back; of a rollback, that nothing was said.
    Rollback,
}

/// Whether the successor starts before the old replica stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// It does, unless a port or a volume forbids it.
    StartFirst,
    /// The old one stops first.
    StopFirst,
}

/// Nomad's spread criterion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spread {
    /// The attribute, without `${}`.
    pub attribute: String,
    /// From 0 to 100.
    pub weight: u8,
    /// Percent per value; empty is an equal share for each.
    pub targets: BTreeMap<String, u8>,
}

/// What nodes must have: Juju's pairs and Nomad's rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Constraints {
    /// `cpu=2`, `ram=3G`, `zone=a`. An empty value goes back to the built-in default.
    pub pairs: BTreeMap<String, String>,
    /// Rules over attributes and labels.
    pub rules: Vec<Rule>,
}

/// A condition on an attribute of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The attribute, without `${}`.
    pub attribute: String,
    /// One of Nomad's operators; `==` is written as `=`.
    pub operator: String,
    /// What it is compared with.
    pub value: String,
}

/// A rule that nodes should meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Affinity {
    /// The rule.
    pub rule: Rule,
    /// From -100 to 100.
    pub weight: i8,
}

/// Labels a node must all have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Selectors {
    /// Every node.
    #[default]
    Any,
    /// Nodes with all of these.
    All(BTreeSet<String>),
    /// Nodes with the service's own name.
    Auto,
}

/// How nodes are compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Scoring {
    /// By JACO's own order.
    #[default]
    Jaco,
    /// By Nomad's formulas.
    Nomad,
}

/// A request for devices, as the engine takes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuRequest {
    /// How many; `None` is all, or the ones in `device_ids`.
    pub count: Option<u32>,
    /// Which ones.
    pub device_ids: Vec<String>,
    /// The driver.
    pub driver: Option<String>,
    /// What they must be able to do.
    pub capabilities: Vec<String>,
}

/// TLS of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tls {
    /// A certificate is ordered.
    Auto,
    /// Answers in clear.
    Off,
}
