//! The cluster, as `jaco status` shows it. The leader alone exposes this.

use std::collections::BTreeMap;
use std::fmt;

use jaco_proto::v1;
use jaco_state::ClusterState;
use jaco_state::view::{Convergence, undelivered_of};
use jaco_types::{NamedKind, NodeStatus, ReplicaState, RolloutState, Timestamp};

use super::exposition::Exposition;
use super::family::Family;
use crate::view;

static NODES: Family =
    Family::gauge("jaco_nodes", "Nodes by status").labels(&["status"]).of_leader();
static NODE_READY: Family =
    Family::gauge("jaco_node_is_ready", "Whether a node is ready, or would be but for a full disk")
        .labels(&["node"])
        .of_leader();
static NODE_REPLICAS: Family =
    Family::gauge("jaco_node_replicas", "Instances that a node should run")
        .labels(&["node"])
        .of_leader();
static DEPLOYMENTS: Family =
    Family::gauge("jaco_deployments", "Deployments by status").labels(&["status"]).of_leader();
static REPLICAS: Family =
    Family::gauge("jaco_replicas", "Replicas by state").labels(&["state"]).of_leader();
static EXHAUSTED: Family = Family::gauge(
    "jaco_replicas_exhausted",
    "Replicas that exhausted their restart budget and wait for an apply",
)
.of_leader();
static DESIRED: Family = Family::gauge(
    "jaco_service_desired_replicas",
    "Replicas that should run: without those that have completed or are disabled",
)
.labels(&["deployment", "service"])
.of_leader();
static RUNNING: Family =
    Family::gauge("jaco_service_running_replicas", "Replicas of a service that run")
        .labels(&["deployment", "service"])
        .of_leader();
static UNPLACED: Family =
    Family::gauge("jaco_unplaced_replicas", "Replicas that cannot be placed now, by reason")
        .labels(&["reason"])
        .of_leader();
static IN_PROGRESS: Family =
    Family::gauge("jaco_services_by_rollout", "Services by the state of their present rollout")
        .labels(&["state"])
        .of_leader();
static ROUTES: Family = Family::gauge("jaco_routes", "Routes of all deployments").of_leader();
static CERTIFICATE_ENDS: Family = Family::gauge(
    "jaco_route_certificate_not_after_timestamp",
    "Until when the certificate of a domain with routes, or one that a user stored, is valid, in Unix time",
)
.seconds()
.labels(&["kind", "name"])
.of_leader();
static ORDERS_FAILED: Family = Family::gauge(
    "jaco_route_certificate_failed_orders",
    "Orders of a domain's certificate that failed in a row",
)
.labels(&["domain"])
.of_leader();
static SECRET_EXPIRES: Family = Family::gauge(
    "jaco_secret_expires_timestamp",
    "Until when the newest version of a stored secret is good, in Unix time; of those without an expiry there is none",
)
.seconds()
.labels(&["name"])
.of_leader();
static TARGET_FAILING: Family = Family::gauge(
    "jaco_notify_target_is_failing",
    "Whether a notification target did not accept what it was sent last",
)
.labels(&["target"])
.of_leader();
static UNDELIVERED: Family = Family::gauge(
    "jaco_notify_undelivered_notifications",
    "Notifications to a target that were given up and are kept",
)
.labels(&["target"])
.of_leader();
static BACKUP_FAILING: Family = Family::gauge(
    "jaco_backup_schedule_is_failing",
    "Whether the last attempt of a backup schedule failed",
)
.labels(&["schedule"])
.of_leader();
static BACKUP_TAKEN: Family = Family::gauge(
    "jaco_backup_schedule_last_timestamp",
    "When the last backup of a schedule was taken, in Unix time; of one without a backup, when it was stored",
)
.seconds()
.labels(&["schedule"])
.of_leader();
static INDEX: Family =
    Family::gauge("jaco_state_index", "The entry that the exposed state of the cluster is of")
        .of_leader();

pub(super) const FAMILIES: &[&Family] = &[
    &NODES,
    &NODE_READY,
    &NODE_REPLICAS,
    &DEPLOYMENTS,
    &REPLICAS,
    &EXHAUSTED,
    &DESIRED,
    &RUNNING,
    &UNPLACED,
    &IN_PROGRESS,
    &ROUTES,
    &CERTIFICATE_ENDS,
    &ORDERS_FAILED,
    &SECRET_EXPIRES,
    &TARGET_FAILING,
    &UNDELIVERED,
    &BACKUP_FAILING,
    &BACKUP_TAKEN,
    &INDEX,
];

/// How many services, or domains, have series of their own.
const SERIES_MAX: usize = 128;

/// The name of all others together.
const OTHER: &str = "other";

/// The reason that a replica gives which exhausted its restart budget.
const RESTART_EXHAUSTED: &str = "restart_exhausted";

#[derive(Debug)]
pub(super) struct Seen {
    pub(super) state: ClusterState,
}

pub(super) fn write(out: &mut Exposition<'_>, seen: &Seen) -> fmt::Result {
    let state = &seen.state;
    let all = v1::StatusRequest::default();
    let shown = view::Shown::of(state, &all);
    let shown_deployments: Vec<_> = shown.deployments().collect();
    nodes(out, &view::node_infos(state, &view::Suffrage::new()))?;
    deployments(out, &shown_deployments)?;
    replicas(out, &shown.states().collect::<Vec<_>>())?;
    services(out, &shown_deployments)?;
    out.gauge(&ROUTES, state.edges.claims.len())?;
    certificates(out, state)?;
    secrets(out, state)?;
    notifications(out, state)?;
    backups(out, state)?;
    out.gauge(&INDEX, state.index.0)
}

fn nodes(out: &mut Exposition<'_>, nodes: &[v1::NodeInfo]) -> fmt::Result {
    let statuses = [
        NodeStatus::Joining,
        NodeStatus::Ready,
        NodeStatus::Down,
        NodeStatus::EngineDown,
        NodeStatus::DiskFull,
    ]
    .map(NodeStatus::as_str);
    counted(out, &NODES, &statuses, nodes.iter().map(|node| (node.status.as_str(), 1)))?;
    let works = [NodeStatus::Ready, NodeStatus::DiskFull].map(NodeStatus::as_str);
    let ready = nodes.iter().map(|node| ([&node.hostname], works.contains(&node.status.as_str())));
    out.gauges(&NODE_READY, ready)?;
    let held = nodes.iter().map(|node| ([&node.hostname], u64::from(node.replicas)));
    out.gauges(&NODE_REPLICAS, held)
}

fn deployments(out: &mut Exposition<'_>, deployments: &[v1::DeploymentInfo]) -> fmt::Result {
    let statuses = [
        Convergence::Converged,
        Convergence::Progressing,
        Convergence::CannotPlace,
        Convergence::Exhausted,
        Convergence::Paused,
        Convergence::RolledBack,
    ]
    .map(Convergence::as_str);
    let each = deployments.iter().map(|deployment| (deployment.status.as_str(), 1));
    counted(out, &DEPLOYMENTS, &statuses, each)?;
    let states = [
        RolloutState::InProgress,
        RolloutState::Completed,
        RolloutState::Aborted,
        RolloutState::Paused,
        RolloutState::RollbackPaused,
    ]
    .map(RolloutState::as_str);
    let services = deployments.iter().flat_map(|deployment| &deployment.services);
    let rollouts = services.clone().filter_map(|service| service.rollout.as_ref());
    counted(out, &IN_PROGRESS, &states, rollouts.map(|rollout| (rollout.state.as_str(), 1)))?;
    let unplaced = services.flat_map(|service| &service.unplaced);
    let unplaced = unplaced.map(|one| (one.reason.as_str(), u64::from(one.count)));
    counted(out, &UNPLACED, &[], unplaced)
}

/// Of each replica its state and code.
fn replicas(out: &mut Exposition<'_>, replicas: &[(String, String)]) -> fmt::Result {
    let states = [
        ReplicaState::Pending,
        ReplicaState::Pulling,
        ReplicaState::Starting,
        ReplicaState::Running,
        ReplicaState::Degraded,
        ReplicaState::Failed,
        ReplicaState::Stopped,
        ReplicaState::Completed,
    ]
    .map(ReplicaState::as_str);
    counted(out, &REPLICAS, &states, replicas.iter().map(|(state, _)| (state.as_str(), 1)))?;
    let exhausted = replicas.iter().filter(|(_, code)| code == RESTART_EXHAUSTED);
    out.gauge(&EXHAUSTED, exhausted.count())
}

/// The first services by name, and all others together.
pub(super) fn services(
    out: &mut Exposition<'_>,
    deployments: &[v1::DeploymentInfo],
) -> fmt::Result {
    let each = deployments.iter().flat_map(|deployment| {
        let of = |service| (deployment.name.as_str(), service);
        deployment.services.iter().map(of)
    });
    let mut each: Vec<(&str, &v1::ServiceInfo)> = each.collect();
    each.sort_by_key(|(deployment, service)| (*deployment, service.name.as_str()));
    let of = |count: fn(&v1::ServiceInfo) -> u32| {
        let named = each.iter().take(SERIES_MAX);
        let mut samples: Vec<_> = named
            .map(|(deployment, service)| ([*deployment, &service.name], u64::from(count(service))))
            .collect();
        if let Some(others) = each.get(SERIES_MAX..).filter(|others| !others.is_empty()) {
            let sum = others.iter().map(|(_, service)| u64::from(count(service))).sum();
            samples.push(([OTHER, OTHER], sum));
        }
        samples
    };
    // What has completed, or is disabled, is not to run.
    let to_run = |service: &v1::ServiceInfo| {
        service.desired.saturating_sub(service.completed).saturating_sub(service.disabled)
    };
    out.gauges(&DESIRED, of(to_run))?;
    out.gauges(&RUNNING, of(|service| service.running))
}

/// Those of most domains that end first: what is about to end must not be lost among many.
fn certificates(out: &mut Exposition<'_>, state: &ClusterState) -> fmt::Result {
    let stored = state.edges.certificates.iter();
    let stored = stored.map(|(name, one)| (one.not_after, "stored", name.to_string()));
    let issued = state.edges.acme.issued.iter();
    let issued = issued.map(|(domain, one)| (one.not_after, "issued", domain.to_string()));
    let mut ends: Vec<_> = stored.chain(issued).collect();
    ends.sort();
    let ends = ends.into_iter().take(SERIES_MAX);
    let seconds = |at: Timestamp| at.0 / 1000;
    out.gauges(
        &CERTIFICATE_ENDS,
        ends.map(|(at, kind, name)| ([kind.to_owned(), name], seconds(at))),
    )?;
    let failed = state.edges.acme.attempts.iter().filter(|(_, attempt)| attempt.failures > 0);
    let failed = failed.take(SERIES_MAX);
    out.gauges(
        &ORDERS_FAILED,
        failed.map(|(domain, attempt)| ([domain.to_string()], u64::from(attempt.failures))),
    )
}

/// Of each target; there are few.
fn notifications(out: &mut Exposition<'_>, state: &ClusterState) -> fmt::Result {
    let targets = state.notify.targets.iter();
    let failing = targets.map(|(name, target)| ([name.to_string()], target.failing.is_some()));
    out.gauges(&TARGET_FAILING, failing)?;
    let undelivered = state.notify.targets.keys();
    let undelivered = undelivered.map(|name| {
        let count = undelivered_of(state, name).count();
        ([name.to_string()], u64::try_from(count).unwrap_or(u64::MAX))
    });
    out.gauges(&UNDELIVERED, undelivered)
}

/// Of each schedule; there are few.
fn backups(out: &mut Exposition<'_>, state: &ClusterState) -> fmt::Result {
    let failing = state.backups.iter();
    let failing = failing.map(|(name, one)| ([name.to_string()], one.failing.is_some()));
    out.gauges(&BACKUP_FAILING, failing)?;
    let taken = state.backups.iter().map(|(name, one)| {
        let at = one.last.as_ref().map_or(one.stored_at, |last| last.at);
        ([name.to_string()], at.0 / 1000)
    });
    out.gauges(&BACKUP_TAKEN, taken)
}

/// Those of most secrets that expire first.
fn secrets(out: &mut Exposition<'_>, state: &ClusterState) -> fmt::Result {
    let secrets = state.named.iter().filter(|(key, _)| key.kind == NamedKind::Secret);
    let mut ends: Vec<_> = secrets
        .filter_map(|(key, named)| Some((named.expires_at?, key.name.to_string())))
        .collect();
    ends.sort();
    let ends = ends.into_iter().take(SERIES_MAX);
    out.gauges(&SECRET_EXPIRES, ends.map(|(at, name)| ([name], at.0 / 1000)))
}

/// Sums by a label whose values are a closed set: those of `always` have a series even if there is nothing to count, so
/// that an alert does not have to tell nothing from no answer.
fn counted<'a>(
    out: &mut Exposition<'_>,
    family: &Family,
    always: &[&'a str],
    each: impl Iterator<Item = (&'a str, u64)>,
) -> fmt::Result {
    let mut sums: BTreeMap<&str, u64> = always.iter().map(|value| (*value, 0)).collect();
    for (value, count) in each {
        *sums.entry(value).or_default() += count;
    }
    out.gauges(family, sums.into_iter().map(|(value, sum)| ([value], sum)))
}
