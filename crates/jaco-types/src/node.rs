//! A machine that runs the daemon.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::num::NonZeroU32;

use crate::gpu::Gpu;
use crate::id::{Hostname, NodeId, StateIndex, VolumeClass};
use crate::machine::Machine;
use crate::router::{NodeEdge, NodeRouter};
use crate::time::{Millis, Timestamp};
use crate::unit::{Bytes, Resources};

/// A member of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The log index that admitted it; never reused.
    pub id: NodeId,
    /// Its name; unique among members.
    pub hostname: Hostname,
    /// `ip:port` where its peers reach it.
    pub address: String,
    /// Its own address in the mesh of routers; absent in a cluster whose networks are those of each node.
    pub mesh_address: Option<Ipv4Addr>,
    /// SHA-256 of the public key in its certificate.
    pub key_fingerprint: [u8; 32],
    /// Whether it takes part; written by the planner from the node's signals.
    pub status: NodeStatus,
    /// Why it has that status, for display; may be empty.
    pub status_reason: String,
    /// Whether it accepts new replicas; set by operators, and reset by the planner when a drain times
    /// out.
    pub availability: Availability,
    /// Why the planner reset it, for display; empty once an operator has set it again.
    pub availability_reason: String,
    /// The progress of its drain; only while it is draining, and absent without a timeout.
    pub drain: Option<Drain>,
    /// The facts that it reported.
    pub facts: NodeFacts,
    /// Labels set by operators; they override those of its own configuration.
    pub labels: BTreeMap<String, String>,
    /// When it was admitted.
    pub joined_at: Timestamp,
    /// The last entry that changed anything a placement depends on.
    pub modified: StateIndex,
}

/// The most labels that operators may set on a node.
pub const LABELS_MAX: usize = 64;

impl Node {
    /// The value of a label: set by an operator, else by its configuration.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).or_else(|| self.facts.labels.get(key)).map(String::as_str)
    }

    /// All its labels with the values that hold.
    #[must_use]
    pub fn all_labels(&self) -> BTreeMap<&str, &str> {
        let both = self.facts.labels.iter().chain(&self.labels);
        both.map(|(key, value)| (key.as_str(), value.as_str())).collect()
    }
}

/// Whether a node takes part in the cluster's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeStatus {
    /// Admitted; no heartbeat with a working engine yet.
    Joining,
    /// Recent heartbeats, with a working engine.
    Ready,
    /// No heartbeat for longer than the planner waits.
    Down,
    /// Recent heartbeats, but its engine does not answer.
    EngineDown,
    /// Ready but for a disk that is nearly full: it keeps what it has and takes nothing new.
    DiskFull,
}

impl NodeStatus {
    /// Whether it sends heartbeats and its engine answers.
    #[must_use]
    pub const fn is_working(self) -> bool {
        match self {
            Self::Ready | Self::DiskFull => true,
            Self::Joining | Self::Down | Self::EngineDown => false,
        }
    }

    /// The status as users see it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Joining => "joining",
            Self::Ready => "ready",
            Self::Down => "down",
            Self::EngineDown => "engine_down",
            Self::DiskFull => "disk_full",
        }
    }
}

/// Whether a node may take new replicas.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Availability {
    /// It may.
    #[default]
    Active,
    /// It keeps what it has and takes nothing new.
    Cordoned,
    /// What it has is being moved away.
    Draining,
}

impl Availability {
    /// The availability as users see it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Cordoned => "cordoned",
            Self::Draining => "draining",
        }
    }
}

/// The progress of a drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drain {
    /// The longest time without a replica leaving (R-NODE-2).
    pub timeout: Millis,
    /// When the last one left; when the drain began, before one has.
    pub progress_at: Timestamp,
    /// The availability that the node returns to at a timeout.
    pub before: Availability,
}

impl Drain {
    /// The timeout of one that is begun although data keeps some replicas on the node: they never leave, by choice. Ten years.
    pub const WITHOUT_DATA: Millis = Millis::from_secs(10 * 365 * 24 * 3600);

    /// When it times out, unless a replica leaves before.
    #[must_use]
    pub const fn due(&self) -> Timestamp {
        self.progress_at.after(self.timeout)
    }
}

/// The facts that a node reports; only that node writes them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// The daemon's version.
    pub version: String,
    /// Operating system, for example `linux`.
    pub os: String,
    /// Processor architecture as Docker names it, for example `amd64`.
    pub arch: String,
    /// The container engine and its version.
    pub engine: String,
    /// What replicas may take of it; zero where it declares nothing.
    pub capacity: Resources,
    /// The disk space that replicas may use; zero if unknown. Nothing of it is reserved.
    pub storage: Bytes,
    /// The GPUs that replicas may have, in the order of the machine.
    pub gpus: Vec<Gpu>,
    /// The classes of volumes that it offers, each with the space that sizes of volumes are counted against; zero is
    /// any amount.
    pub volume_classes: BTreeMap<VolumeClass, Bytes>,
    /// What the machine is, whatever of it replicas may take.
    pub machine: Machine,
    /// Labels from its configuration; every node also counts as carrying `worker`.
    pub labels: BTreeMap<String, String>,
    /// Its router; absent as long as networks are those of each node, and without one to report on.
    pub router: Option<NodeRouter>,
    /// Its edge; absent as long as there are no routes.
    pub edge: Option<NodeEdge>,
    /// Most instances that it has at a time, those that are being replaced included; any number without.
    pub instances_max: Option<NonZeroU32>,
}
