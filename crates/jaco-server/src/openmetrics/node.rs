//! The machine of this node: its engine, agent, disks, certificates and process.

use std::fmt;

use jaco_agent::service::EngineStatus;
use jaco_agent::{AgentStatus, EngineTally};
use jaco_state::ClusterState;
use jaco_types::Timestamp;

use super::exposition::Exposition;
use super::family::Family;
use crate::member::Member;
use crate::metrics::{ProcessReading, Readings};

static BUILD: Family =
    Family::info("jaco_build", "The version of this daemon").labels(&["version"]);
static ENGINE_UP: Family =
    Family::gauge("jaco_engine_is_up", "Whether the container engine answers");
static OPERATIONS: Family = Family::durations(
    "jaco_engine_operation_duration",
    "How long the engine took for an operation, whatever came of it; start and pull are containers and images",
)
.labels(&["operation"]);
static FAILURES: Family =
    Family::counter("jaco_engine_operation_failures", "Operations of the engine that failed")
        .labels(&["operation"]);
static CONTAINERS: Family =
    Family::gauge("jaco_agent_containers", "Containers of replicas on this node");
static DESIRED: Family = Family::gauge(
    "jaco_agent_desired_instances",
    "Instances that this node should run, as it knows",
);
static PULLS: Family = Family::gauge(
    "jaco_agent_pulls",
    "Images that are being pulled, or whose pull failed and is tried again",
);
static USAGE: Family = Family::gauge(
    "jaco_node_usage_ratio",
    "Share of the node's capacity that is used, as rebalancing measures it",
)
.labels(&["resource"]);
static DISK_SIZE: Family =
    Family::gauge("jaco_disk_size", "Size of a disk that the node depends on")
        .bytes()
        .labels(&["path"]);
static DISK_FREE: Family =
    Family::gauge("jaco_disk_free", "What users may still take of such a disk")
        .bytes()
        .labels(&["path"]);
static DISK_USED: Family = Family::gauge(
    "jaco_disk_used_ratio",
    "Used part of such a disk, as df counts it; at the limit the node takes no new replicas",
)
.labels(&["path"]);
static DISK_LIMIT: Family =
    Family::gauge("jaco_disk_full_ratio", "From which part on a disk counts as full");
static CERTIFICATE: Family = Family::gauge(
    "jaco_certificate_not_after_timestamp",
    "Until when a certificate of this node (node), or the first of the authorities that it trusts (authority), is valid, \
     in Unix time",
)
.seconds()
.labels(&["kind"]);
static AUDIT: Family = Family::gauge("jaco_audit_events", "Audit events in the replicated state");
static CONTENTS: Family =
    Family::gauge("jaco_contents_size", "Bytes of configs and secrets in the replicated state")
        .bytes();

pub(super) const FAMILIES: &[&Family] = &[
    &BUILD,
    &ENGINE_UP,
    &OPERATIONS,
    &FAILURES,
    &CONTAINERS,
    &DESIRED,
    &PULLS,
    &USAGE,
    &DISK_SIZE,
    &DISK_FREE,
    &DISK_USED,
    &DISK_LIMIT,
    &CERTIFICATE,
    &AUDIT,
    &CONTENTS,
];

static CPU: Family = Family::counter("process_cpu", "Processor time of the daemon").seconds();
static RESIDENT: Family = Family::gauge("process_resident_memory", "Memory of the daemon").bytes();
static VIRTUAL: Family =
    Family::gauge("process_virtual_memory", "Address space of the daemon").bytes();
static OPEN: Family = Family::gauge("process_open_fds", "Open file descriptors of the daemon");
static OPEN_MAX: Family =
    Family::gauge("process_max_fds", "File descriptors that the daemon may open");
static THREADS: Family = Family::gauge("process_threads", "Threads of the daemon");
static STARTED: Family =
    Family::gauge("process_start_time", "When the daemon started, in Unix time").seconds();

pub(super) const PROCESS_FAMILIES: &[&Family] =
    &[&CPU, &RESIDENT, &VIRTUAL, &OPEN, &OPEN_MAX, &THREADS, &STARTED];

#[derive(Debug)]
pub(super) struct Seen {
    agent: AgentStatus,
    desired: usize,
    audit_events: usize,
    contents_bytes: usize,
}

impl Seen {
    pub(super) fn of(member: &Member, state: &ClusterState, audit_events: usize) -> Self {
        let instances = state.slots.values().flat_map(|slot| slot.instances());
        Self {
            agent: member.agent.status().borrow().clone(),
            desired: instances.filter(|(_, instance)| instance.node == member.id).count(),
            audit_events,
            contents_bytes: state.contents.values().map(|content| content.bytes.0.len()).sum(),
        }
    }
}

pub(super) fn write(
    out: &mut Exposition<'_>,
    seen: &Seen,
    readings: &Readings,
    engine: &EngineTally,
) -> fmt::Result {
    out.info(&BUILD, [("version", env!("CARGO_PKG_VERSION"))])?;
    out.gauge(&ENGINE_UP, seen.agent.engine == EngineStatus::Up)?;
    let operations = engine.operations();
    out.histograms(&OPERATIONS, operations.map(|(one, tally)| ([one.as_str()], &tally.seconds)))?;
    let operations = engine.operations();
    out.counters(&FAILURES, operations.map(|(one, tally)| ([one.as_str()], tally.failed.get())))?;
    out.gauge(&CONTAINERS, seen.agent.containers.len())?;
    out.gauge(&DESIRED, seen.desired)?;
    out.gauge(&PULLS, seen.agent.pull_attempts.len())?;
    let usage = readings.usage.iter();
    out.gauges(&USAGE, usage.flat_map(|one| [(["cpu"], one.cpu), (["memory"], one.memory)]))?;
    let disks = || readings.disks.iter();
    out.gauges(&DISK_SIZE, disks().map(|disk| ([&disk.path], disk.size_bytes)))?;
    out.gauges(&DISK_FREE, disks().map(|disk| ([&disk.path], disk.free_bytes)))?;
    let percent =
        |percent: u64| u32::try_from(percent).map_or(1.0, |percent| f64::from(percent) / 100.0);
    out.gauges(&DISK_USED, disks().map(|disk| ([&disk.path], percent(disk.used_percent))))?;
    out.gauges(&DISK_LIMIT, readings.disk_full.map(|limit| ([""; 0], limit)))?;
    let seconds = |at: Timestamp| at.0 / 1000;
    let authority = readings.authorities_end.iter().min();
    let own = [(["node"], seconds(readings.certificate_ends))];
    let ends = own.into_iter().chain(authority.map(|at| (["authority"], seconds(*at))));
    out.gauges(&CERTIFICATE, ends)?;
    out.gauge(&AUDIT, seen.audit_events)?;
    out.gauge(&CONTENTS, seen.contents_bytes)
}

pub(super) fn write_process(out: &mut Exposition<'_>, process: &ProcessReading) -> fmt::Result {
    out.real_counter(&CPU, process.cpu.as_secs_f64())?;
    out.gauge(&RESIDENT, process.resident_bytes)?;
    out.gauge(&VIRTUAL, process.virtual_bytes)?;
    out.gauges(&OPEN, process.open_descriptors.map(|open| ([""; 0], open)))?;
    out.gauge(&OPEN_MAX, process.descriptors_max)?;
    out.gauge(&THREADS, process.threads)?;
    out.gauge(&STARTED, process.started.as_secs_f64())
}
