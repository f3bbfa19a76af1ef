//! The records of jobs (R-JOB-2): what is written into them, how a run ends, and what becomes of them as deployments change.
//! Between its runs a job with a schedule is held back as what operators disabled is (ST-24). Must never begin a run.

use std::sync::Arc;

use jaco_types::spec::{DeploymentSpec, HistoryLimit, Schedule, ServiceMode};
use jaco_types::{
    Completion, DeploymentName, DesiredState, Disablement, Identity, NodeId, ServiceKey,
    ServiceName, ServiceSpec, Slot, StateIndex, Timestamp,
};

use super::audit::Audit;
use crate::audit::AuditKind;
use crate::command::Entry;
use crate::job::{EndedRun, JobRecord, JobRun, MissedRuns, RunEnd};
use crate::state::ClusterState;
use crate::view::slots_of;

/// How a run ends, and which container decided that.
#[derive(Clone, Copy)]
pub(in crate::apply) struct RunResult {
    pub(in crate::apply) end: RunEnd,
    pub(in crate::apply) exit_code: Option<i64>,
    pub(in crate::apply) node: Option<NodeId>,
}

/// Changes the record of a job, and makes it if there is none.
pub(in crate::apply) fn edit(
    state: &mut ClusterState,
    index: StateIndex,
    service: &ServiceKey,
    edit: impl FnOnce(&mut JobRecord),
) {
    let limit = limit(state, service);
    let mut record = state.jobs.get(service).cloned().unwrap_or_default();
    edit(&mut record);
    let surplus = record.ended.len().saturating_sub(limit);
    record.ended.drain(..surplus);
    let surplus = record.missed.len().saturating_sub(limit);
    record.missed.drain(..surplus);
    record.modified = index;
    state.jobs.insert(service.clone(), record);
}

/// How many runs of a job are kept.
fn limit(state: &ClusterState, service: &ServiceKey) -> usize {
    let deployment = state.deployments.get(&service.deployment);
    let spec = deployment.and_then(|known| known.spec().services.get(&service.service));
    let schedule = spec.and_then(|spec| spec.schedule.as_ref());
    let limit = schedule.map_or(HistoryLimit::DEFAULT, |schedule| schedule.history);
    usize::try_from(limit.count()).unwrap_or(usize::MAX)
}

/// Records what was missed: together with what was missed before it for the same reason.
pub(in crate::apply) fn miss(
    state: &mut ClusterState,
    entry: &Entry,
    service: &ServiceKey,
    missed: MissedRuns,
    audit: &mut Audit<'_>,
) {
    audit.event(
        AuditKind::JobRunMissed,
        [
            ("service", service.to_string()),
            ("reason", missed.reason.as_str().to_owned()),
            ("count", missed.count.to_string()),
            ("first_due_ms", missed.first.0.to_string()),
            ("last_due_ms", missed.last.0.to_string()),
        ],
    );
    edit(state, entry.index, service, |record| {
        let begun = record.ended.last().map(|ended| ended.run.begun_at);
        let begun = record.open.as_ref().map(|open| open.begun_at).max(begun);
        match record.missed.last_mut() {
            // None began between the two.
            Some(before) if before.reason == missed.reason && begun <= Some(before.at) => {
                before.last = missed.last;
                before.count = before.count.saturating_add(missed.count);
                before.at = missed.at;
            }
            Some(_) | None => record.missed.push(missed),
        }
    });
}

/// Ends the run that goes on.
pub(in crate::apply) fn close(
    state: &mut ClusterState,
    entry: &Entry,
    service: &ServiceKey,
    result: RunResult,
    audit: &mut Audit<'_>,
) {
    let Some(run) = state.jobs.get(service).and_then(|record| record.open.clone()) else { return };
    let host = result.node.and_then(|node| state.nodes.get(&node));
    audit.event(
        AuditKind::JobRunEnded,
        [
            ("service", service.to_string()),
            ("run", run.number.to_string()),
            ("end", result.end.as_str().to_owned()),
            ("exit_code", result.exit_code.map(|code| code.to_string()).unwrap_or_default()),
            ("node", host.map(|node| node.hostname.to_string()).unwrap_or_default()),
        ],
    );
    edit(state, entry.index, service, |record| {
        record.open = None;
        let RunResult { end, exit_code, node } = result;
        record.ended.push(EndedRun { run, at: entry.at, end, exit_code, node });
    });
}

/// Ends the run of a job all of whose replicas have ended.
pub(in crate::apply) fn close_if_over(
    state: &mut ClusterState,
    entry: &Entry,
    service: &ServiceKey,
    audit: &mut Audit<'_>,
) {
    if state.jobs.get(service).is_none_or(|record| record.open.is_none()) {
        return;
    }
    let Some(result) = completion(state, service) else { return };
    close(state, entry, service, result, audit);
    if scheduled(state, service).is_some() {
        hold(state, entry, service);
    }
}

/// Brings the records of a deployment in line with its new spec; with none where it was deleted. A schedule that is new or
/// another one runs nothing that was due before.
pub(in crate::apply) fn follow(
    state: &mut ClusterState,
    entry: &Entry,
    name: &DeploymentName,
    before: Option<&DeploymentSpec>,
    audit: &mut Audit<'_>,
) {
    let spec = state.deployments.get(name).map(|known| known.spec().clone());
    let known = state.jobs.keys().filter(|key| key.deployment == *name);
    let known: Vec<ServiceKey> = known.cloned().collect();
    for service in known {
        let spec = spec.as_ref().and_then(|spec| spec.services.get(&service.service));
        match spec.map(|spec| spec.schedule.is_some()) {
            None => {
                state.jobs.remove(&service);
                release(state, entry, &service);
            }
            Some(false) => release(state, entry, &service),
            Some(true) => {}
        }
    }
    for (service, wanted) in spec.iter().flat_map(|spec| &spec.services) {
        let Some(schedule) = &wanted.schedule else { continue };
        let service = key(name, service);
        let was = before.and_then(|before| before.services.get(&service.service));
        if was.and_then(|was| was.schedule.as_ref()) != Some(schedule) {
            edit(state, entry.index, &service, |record| record.seen = record.seen.max(entry.at));
        }
        let is_open = state.jobs.get(&service).is_some_and(|record| record.open.is_some());
        let runs = is_same_job(before, &service, wanted)
            && of(state, &service).any(|slot| slot.desired_state == DesiredState::Active);
        if !is_open && runs && was.is_some_and(|was| was.schedule.is_none()) {
            open(state, entry, &service, None, audit);
        } else if !is_open {
            hold(state, entry, &service);
        }
        close_if_over(state, entry, &service, audit);
    }
}

/// Records that a run begins. A job that runs as it gets its schedule runs on, as its first run.
pub(in crate::apply) fn open(
    state: &mut ClusterState,
    entry: &Entry,
    service: &ServiceKey,
    due: Option<Timestamp>,
    audit: &mut Audit<'_>,
) {
    let revision = state.deployments.get(&service.deployment).map(|known| known.revision);
    let number = state.jobs.get(service).map_or(0, |record| record.runs) + 1;
    let run = JobRun {
        number,
        due,
        by: entry.by.clone(),
        revision: revision.unwrap_or_default(),
        begun_at: entry.at,
        begun: entry.index,
    };
    audit.event(
        AuditKind::JobRunBegun,
        [
            ("service", service.to_string()),
            ("run", number.to_string()),
            ("revision", run.revision.to_string()),
            ("due_ms", due.map(|due| due.0.to_string()).unwrap_or_default()),
        ],
    );
    edit(state, entry.index, service, |record| {
        record.runs = number;
        record.open = Some(run);
    });
}

/// A user disabled the job: the run that goes on is over, and does not begin again with the job.
pub(in crate::apply) fn stop(
    state: &mut ClusterState,
    entry: &Entry,
    service: &ServiceKey,
    audit: &mut Audit<'_>,
) {
    if state.jobs.get(service).is_some_and(|record| record.open.is_some()) {
        let result = RunResult { end: RunEnd::Disabled, exit_code: None, node: None };
        close(state, entry, service, result, audit);
        if scheduled(state, service).is_some() {
            hold(state, entry, service);
        }
    }
}

/// Law ST-24: holds a scheduled job back until its next run.
pub(in crate::apply) fn hold(state: &mut ClusterState, entry: &Entry, service: &ServiceKey) {
    if !state.disabled.waiting.contains(service) {
        let since = Disablement { by: Identity::Scheduler, at: entry.at };
        state.disabled.waiting.insert(service.clone(), since);
        state.disabled.modified = entry.index;
    }
}

/// Law ST-24: a run begins, or the service has no schedule any more.
pub(in crate::apply) fn release(state: &mut ClusterState, entry: &Entry, service: &ServiceKey) {
    if state.disabled.waiting.remove(service).is_some() {
        state.disabled.modified = entry.index;
    }
}

/// The spec of a job with its schedule, if it is wanted and has one.
pub(in crate::apply) fn scheduled(
    state: &ClusterState,
    service: &ServiceKey,
) -> Option<(Arc<ServiceSpec>, Schedule)> {
    let spec = state.deployments.get(&service.deployment)?.spec().services.get(&service.service)?;
    Some((Arc::clone(spec), spec.schedule.clone()?))
}

pub(in crate::apply) fn of<'a>(
    state: &'a ClusterState,
    service: &'a ServiceKey,
) -> impl Iterator<Item = &'a Slot> {
    slots_of(state, &service.deployment).filter(move |slot| slot.service == *service)
}

/// How a run ended whose replicas all ended; `None` as long as one has not, or there are too few.
fn completion(state: &ClusterState, service: &ServiceKey) -> Option<RunResult> {
    let wanted = state.deployments.get(&service.deployment)?.spec();
    let wanted = wanted.services.get(&service.service)?.replicas;
    let mut ended = 0;
    let mut result = RunResult { end: RunEnd::Succeeded, exit_code: None, node: None };
    for slot in of(state, service) {
        let DesiredState::Finished(completion) = slot.desired_state else { return None };
        ended += 1;
        let exit = state.observed.get(&slot.current_id()).and_then(|seen| seen.exit);
        let is_first = result.node.is_none();
        let is_worse = completion == Completion::Failed && result.end == RunEnd::Succeeded;
        if is_first || is_worse {
            result = RunResult {
                end: completion.into(),
                exit_code: exit.map(|exit| exit.code),
                node: Some(slot.current.node),
            };
        }
    }
    match (wanted, ended) {
        (0, 0) => Some(RunResult { end: RunEnd::Removed, ..result }),
        (wanted, ended) => (ended >= wanted).then_some(result),
    }
}

/// Whether the job of a spec is one whose replicas may run on when it gets a schedule.
fn is_same_job(before: Option<&DeploymentSpec>, service: &ServiceKey, now: &ServiceSpec) -> bool {
    let before = before.and_then(|before| before.services.get(&service.service));
    before.is_some_and(|before| before.mode == ServiceMode::Job && before.hash == now.hash)
}

fn key(deployment: &DeploymentName, service: &ServiceName) -> ServiceKey {
    ServiceKey { deployment: deployment.clone(), service: service.clone() }
}
