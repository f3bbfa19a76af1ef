//! What the daemon reads of its machine and of its other processes when a scraper asks for metrics. Plain values.

use std::time::Duration;

use async_trait::async_trait;
use jaco_types::Timestamp;

/// Reads it. Implemented by the daemon.
#[async_trait]
pub trait ReadNode: Send + Sync + 'static {
    /// What there is to read now. What does not answer at once is left out.
    async fn read(&self) -> Readings;
}

/// What was read.
#[derive(Debug, Clone, Default)]
pub struct Readings {
    /// The disks that the node depends on.
    pub disks: Vec<DiskReading>,
    /// When a disk counts as full, as a part of it; absent if that is not checked.
    pub disk_full: Option<f64>,
    /// The end of this node's certificate.
    pub certificate_ends: Timestamp,
    /// The end of each authority that it trusts, the first to end first.
    pub authorities_end: Vec<Timestamp>,
    /// This process.
    pub process: ProcessReading,
    /// The usage of the node as shares of its capacity, if it was measured.
    pub usage: Option<UsageReading>,
    /// The edge, if this node speaks for one and it answered.
    pub edge: Option<EdgeReading>,
    /// The router, if there is one.
    pub router: Option<RouterReading>,
}

/// A disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskReading {
    /// A path on it.
    pub path: String,
    /// Its size.
    pub size_bytes: u64,
    /// What users may still take.
    pub free_bytes: u64,
    /// As `df` counts it.
    pub used_percent: u64,
}

/// A process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessReading {
    /// Processor time since its start.
    pub cpu: Duration,
    /// Memory in use.
    pub resident_bytes: u64,
    /// Address space.
    pub virtual_bytes: u64,
    /// Open file descriptors, if it may count them.
    pub open_descriptors: Option<u64>,
    /// How many it may open.
    pub descriptors_max: u64,
    /// Threads.
    pub threads: u64,
    /// When it started, since the epoch of Unix.
    pub started: Duration,
}

/// Shares of a node's capacity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UsageReading {
    /// Of its processors.
    pub cpu: f64,
    /// Of its memory.
    pub memory: f64,
}

/// What an edge has counted since its start.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EdgeReading {
    /// Open connections.
    pub connections: u64,
    /// Whether its plan is older than it should be.
    pub is_stale: bool,
    /// By route, in their order.
    pub routes: Vec<RouteReading>,
}

/// The requests of a route.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RouteReading {
    /// Its domain.
    pub domain: String,
    /// Its path.
    pub path: String,
    /// Responses by class of status, 1xx to 5xx.
    pub by_class: [u64; 5],
    /// Of those, the ones that the edge refused by itself.
    pub refused: u64,
    /// Of the refused, those with a status of 500 or above.
    pub refused_5xx: u64,
    /// Requests that were sent to another instance after the first.
    pub retried: u64,
    /// The sum of all latencies.
    pub latency: Duration,
    /// Responses by the upper bound of their latency, in microseconds; the last bucket is unbounded.
    pub buckets: Vec<(Option<u64>, u64)>,
}

/// A router.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RouterReading {
    /// Whether it answers and holds its plan.
    pub works: bool,
    /// Networks that it has no port in.
    pub failed_networks: u64,
    /// The state that its plan is of.
    pub planned: Option<u64>,
    /// The state that it holds.
    pub applied: Option<u64>,
    /// The other routers that it has a tunnel to.
    pub peers: Vec<PeerReading>,
    /// Questions of its resolver, by what became of them; none if it did not say.
    pub questions: Vec<(&'static str, u64)>,
}

/// The tunnel to another router.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PeerReading {
    /// Since the last handshake; absent before the first.
    pub handshake_age: Option<Duration>,
    /// Bytes that came.
    pub received_bytes: u64,
    /// Bytes that were sent.
    pub sent_bytes: u64,
}
