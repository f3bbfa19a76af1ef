//! What the metrics of this node need of the machine and of the processes beside this one.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use jaco_agent::measure::Usage;
use jaco_edge::service::EdgeCounters;
use jaco_edge::{LATENCY_BOUNDS_MICROS, RouteCounts};
use jaco_pki::CertificateStore;
use jaco_server::Member;
use jaco_server::metrics::{
    DiskReading, EdgeReading, ProcessReading, ReadNode, Readings, RouteReading, RouterReading,
    UsageReading,
};
use jaco_types::{RouteKey, Timestamp};
use nix::sys::resource::{Resource, getrlimit};
use rustix::fs::statvfs;
use rustix::time::{ClockId, clock_gettime};
use tokio::time::timeout;

use crate::disk::{Disks, used_percent};
use crate::edge::EdgeHandle;
use crate::pressure::Measured;
use crate::router::RouterHandle;

/// How long the edge may take to answer: a scraper waits for it.
const PATIENCE: Duration = Duration::from_millis(500);

/// Reads it.
pub(crate) struct NodeReader {
    certificates: Arc<CertificateStore>,
    disks: Disks,
    started: Timestamp,
    router: Option<RouterHandle>,
    edge: Option<EdgeHandle>,
    /// What is there only once the member is.
    later: OnceLock<Later>,
}

struct Later {
    member: std::sync::Weak<Member>,
    measured: Measured,
}

impl NodeReader {
    /// Of this machine, since the daemon started.
    pub(crate) fn new(
        certificates: Arc<CertificateStore>,
        disks: Disks,
        started: Timestamp,
        router: Option<RouterHandle>,
        edge: Option<EdgeHandle>,
    ) -> Arc<Self> {
        Arc::new(Self { certificates, disks, started, router, edge, later: OnceLock::new() })
    }

    /// From now on also what `member` knows and what is `measured`.
    pub(crate) fn follow(&self, member: &Arc<Member>, measured: Measured) {
        let later = Later { member: Arc::downgrade(member), measured };
        drop(self.later.set(later));
    }

    fn usage(&self) -> Option<UsageReading> {
        let measured = self.later.get()?.measured.borrow().clone()?;
        let Usage { cpu, memory } = measured.node;
        Some(UsageReading { cpu: of_millionths(cpu), memory: of_millionths(memory) })
    }

    async fn edge(&self) -> Option<EdgeReading> {
        let member = self.later.get()?.member.upgrade()?;
        let counted = timeout(PATIENCE, self.edge.as_ref()?.counted(&member)).await.ok()??;
        Some(edge(counted))
    }

    async fn router(&self) -> Option<RouterReading> {
        self.router.as_ref()?.reading().await
    }
}

#[async_trait]
impl ReadNode for NodeReader {
    async fn read(&self) -> Readings {
        let (edge, router) = futures::future::join(self.edge(), self.router()).await;
        let certificates = &self.certificates;
        let authorities = certificates.trust();
        let ends = authorities.authorities().iter().map(|one| one.validity().not_after);
        let full = u32::try_from(self.disks.full_percent).ok().filter(|percent| *percent > 0);
        Readings {
            disks: self.disks.paths.iter().filter_map(disk).collect(),
            disk_full: full.map(|percent| f64::from(percent) / 100.0),
            certificate_ends: certificates.certificate().validity().not_after,
            authorities_end: ends.collect(),
            process: process(self.started),
            usage: self.usage(),
            edge,
            router,
        }
    }
}

/// A path that is not there is on no disk.
fn disk(path: &PathBuf) -> Option<DiskReading> {
    let found = statvfs(path).ok()?;
    Some(DiskReading {
        path: path.display().to_string(),
        size_bytes: found.f_blocks.saturating_mul(found.f_frsize),
        free_bytes: found.f_bavail.saturating_mul(found.f_frsize),
        used_percent: used_percent(&found),
    })
}

fn process(started: Timestamp) -> ProcessReading {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    let nanos = u32::try_from(spent.tv_nsec).unwrap_or_default();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let figure = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        let figure = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        figure.unwrap_or(0_u64)
    };
    // Who may not look into this process, itself included, cannot count them.
    let open = fs::read_dir("/proc/self/fd").ok().map(Iterator::count);
    ProcessReading {
        cpu: Duration::new(u64::try_from(spent.tv_sec).unwrap_or_default(), nanos),
        resident_bytes: figure("VmRSS").saturating_mul(1024),
        virtual_bytes: figure("VmSize").saturating_mul(1024),
        open_descriptors: open.and_then(|count| u64::try_from(count).ok()),
        descriptors_max: getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(now, _)| now),
        threads: figure("Threads"),
        started: Duration::from_millis(started.0),
    }
}

fn of_millionths(share: u64) -> f64 {
    u32::try_from(share).map_or(1.0, |share| f64::from(share) / 1e6)
}

fn edge(counters: EdgeCounters) -> EdgeReading {
    EdgeReading {
        connections: u64::try_from(counters.connections).unwrap_or(u64::MAX),
        is_stale: counters.is_stale,
        routes: counters.routes.iter().map(|(key, counts)| route(key, counts)).collect(),
    }
}

fn route(key: &RouteKey, counts: &RouteCounts) -> RouteReading {
    let bounds = LATENCY_BOUNDS_MICROS.map(Some).into_iter().chain([None]);
    RouteReading {
        domain: key.domain.to_string(),
        path: key.path.to_string(),
        by_class: counts.by_class,
        refused: counts.refused,
        refused_5xx: counts.refused_5xx,
        retried: counts.retried,
        latency: Duration::from_micros(counts.latency_micros),
        buckets: bounds.zip(counts.latency).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-OPS-1: a real process has figures, and they are its own.
    #[test]
    fn this_process_is_read() {
        let before = process(Timestamp(1_000));
        let opened: Vec<_> = (0..8).map(|_| fs::File::open("/proc/self/stat").unwrap()).collect();
        let block = vec![7_u8; 32 << 20];
        let sum = block.iter().map(|byte| u64::from(*byte)).sum::<u64>();
        let after = process(Timestamp(1_000));
        assert_eq!(sum, 7 * (32 << 20));
        assert_eq!(after.started, Duration::from_secs(1));
        assert!(after.cpu > before.cpu);
        assert!(after.resident_bytes > before.resident_bytes + (24 << 20), "{before:?} {after:?}");
        assert!(after.threads > 0 && after.virtual_bytes > after.resident_bytes);
        let (was, is) = (before.open_descriptors.unwrap(), after.open_descriptors.unwrap());
        assert!(is >= was.min(3) + 8 && is < after.descriptors_max, "{was} {is} {}", opened.len());
    }

    #[test]
    fn a_real_disk_is_read() {
        let root = disk(&PathBuf::from("/")).unwrap();
        assert!(root.size_bytes > root.free_bytes && root.used_percent <= 100, "{root:?}");
        assert_eq!(disk(&PathBuf::from("/no/such/place")), None);
    }
}
