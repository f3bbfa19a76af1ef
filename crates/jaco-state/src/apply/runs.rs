//! Begins runs of jobs (R-JOB-2): a due time is dealt with once, whoever proposes it (ST-23), and either begins a run or is
//! missed by a named reason.

use jaco_types::spec::{Concurrency, Schedule};
use jaco_types::{
    AllocationScope, DesiredState, ErrorCode, NodeStatus, Rejection, ServiceKey, ServiceSpec,
    Timestamp,
};

use super::audit::Audit;
use super::job::{RunResult, close, edit, hold, miss, of, open, release, scheduled};
use super::planner::batch;
use crate::audit::JUMP_MAX;
use crate::command::{Change, Entry, JobDue, JobRewind, JobStart, NewInstance, Outcome};
use crate::job::{MissedReason, MissedRuns, RunEnd};
use crate::state::ClusterState;

/// Law ST-23: a due time that is not newer than the last one that was dealt with is refused.
pub(super) fn due(
    state: &mut ClusterState,
    entry: &Entry,
    command: &JobDue,
    audit: &mut Audit<'_>,
) -> Outcome {
    let JobDue { service, based_on, due, earlier } = command;
    let Some((spec, schedule)) = scheduled(state, service) else {
        return stale(format!("{service} has no schedule any more"));
    };
    let changed = state.deployments.get(&service.deployment).map(|known| known.modified);
    if changed.is_some_and(|changed| changed > *based_on) {
        return stale(format!("the schedule of {service} may have changed since {based_on}"));
    }
    let record = state.jobs.get(service).cloned().unwrap_or_default();
    if *due <= record.seen {
        return stale(format!("what was due of {service} at {} ms was dealt with", due.0));
    }
    if *due > entry.at {
        return stale(format!("the run of {service} at {} ms is not due yet", due.0));
    }
    let reason = missed_reason(state, service, &spec, &schedule, (*due, entry.at));
    if reason.is_none() && record.open.is_some() {
        // It takes the place of the one that goes on, in an entry of its own: once that has stopped.
        end_open(state, entry, service, RunEnd::Replaced, audit);
        return Outcome::Done;
    }
    if reason.is_none() && is_stopping(state, service) {
        return stale(format!("the run of {service} before is still stopping"));
    }
    if let Some(earlier) = earlier {
        let (first, last, count) = (earlier.first, earlier.last, earlier.count);
        let reason = MissedReason::NoLeader;
        miss(state, entry, service, MissedRuns { first, last, count, at: entry.at, reason }, audit);
    }
    edit(state, entry.index, service, |record| record.seen = *due);
    match reason {
        Some(reason) => {
            let missed = MissedRuns { first: *due, last: *due, count: 1, at: entry.at, reason };
            miss(state, entry, service, missed, audit);
        }
        None => begin(state, entry, service, Some(*due), audit),
    }
    Outcome::Done
}

/// Why the run that is due cannot begin; `None` if it can, perhaps in place of another one.
fn missed_reason(
    state: &ClusterState,
    service: &ServiceKey,
    spec: &ServiceSpec,
    schedule: &Schedule,
    (due, now): (Timestamp, Timestamp),
) -> Option<MissedReason> {
    let is_open = state.jobs.get(service).is_some_and(|record| record.open.is_some());
    if state.disabled.scopes.contains(&AllocationScope::Service(service.clone())) {
        Some(MissedReason::Disabled)
    } else if spec.replicas == 0 {
        Some(MissedReason::NoReplicas)
    } else if schedule.deadline.is_some_and(|deadline| now.since(due) > deadline) {
        Some(MissedReason::Deadline)
    } else if is_open && schedule.concurrency == Concurrency::Forbid {
        Some(MissedReason::StillRunning)
    } else {
        None
    }
}

/// Begins a run for a user.
pub(super) fn start(
    state: &mut ClusterState,
    entry: &Entry,
    command: &JobStart,
    audit: &mut Audit<'_>,
) -> Outcome {
    match check_start(state, &command.service) {
        Err(rejection) => Outcome::Rejected(rejection),
        Ok(()) => {
            begin(state, entry, &command.service, None, audit);
            Outcome::Done
        }
    }
}

fn check_start(state: &ClusterState, service: &ServiceKey) -> Result<(), Rejection> {
    let refuse = |code, message| Err(Rejection::new(code, message));
    let Some(deployment) = state.deployments.get(&service.deployment) else {
        let message = format!("there is no deployment {}", service.deployment);
        return refuse(ErrorCode::DeploymentNotFound, message);
    };
    let Some(spec) = deployment.spec().services.get(&service.service) else {
        let message = format!("{} has no service {}", service.deployment, service.service);
        return refuse(ErrorCode::ServiceNotFound, message);
    };
    if !deployment.spec().jobs().contains(&service.service) {
        let message = format!(
            "{service} is no job: only what runs to its end can be run again. Set `deploy: {{mode: replicated-job}}`"
        );
        return refuse(ErrorCode::InvalidRequest, message);
    }
    if state.disabled.scopes.contains(&AllocationScope::Service(service.clone())) {
        let message = format!("{service} is disabled: `jaco enable {service}` first");
        return refuse(ErrorCode::InvalidRequest, message);
    }
    if spec.replicas == 0 {
        let message = format!("{service} has no replicas: `jaco scale {service}=1` first");
        return refuse(ErrorCode::InvalidRequest, message);
    }
    let goes_on = state.jobs.get(service).and_then(|record| record.open.as_ref());
    let runs = || of(state, service).any(|slot| slot.desired_state == DesiredState::Active);
    if let Some(open) = goes_on {
        let message = format!(
            "run {} of {service} goes on: wait for its end, or end it with `jaco disable {service}`",
            open.number
        );
        return refuse(ErrorCode::InvalidRequest, message);
    }
    if runs() {
        let message = format!("{service} runs since it was applied: wait for its end");
        return refuse(ErrorCode::InvalidRequest, message);
    }
    if is_stopping(state, service) {
        let message =
            format!("the run of {service} before is still stopping: try again in a moment");
        return refuse(ErrorCode::InvalidRequest, message);
    }
    Ok(())
}

/// Due times that a wrong clock dealt with too early count anew.
pub(super) fn rewind(
    state: &mut ClusterState,
    entry: &Entry,
    command: &JobRewind,
    audit: &mut Audit<'_>,
) -> Outcome {
    let JobRewind { service, to } = command;
    let seen = state.jobs.get(service).map(|record| record.seen).unwrap_or_default();
    let is_ahead = seen > to.after(JUMP_MAX) && *to <= entry.at;
    if scheduled(state, service).is_none() || !is_ahead {
        return stale(format!("{service} is not ahead of the clock by more than a day"));
    }
    let reason = MissedReason::ClockSetBack;
    let missed = MissedRuns { first: *to, last: seen, count: 0, at: entry.at, reason };
    miss(state, entry, service, missed, audit);
    edit(state, entry.index, service, |record| record.seen = *to);
    Outcome::Done
}

/// Begins a run: its replicas get new instances, wherever the former ones ended.
fn begin(
    state: &mut ClusterState,
    entry: &Entry,
    service: &ServiceKey,
    due: Option<Timestamp>,
    audit: &mut Audit<'_>,
) {
    open(state, entry, service, due, audit);
    rearm(state, entry, service, audit);
    release(state, entry, service);
}

/// Ends the run that goes on, and stops what runs of it.
fn end_open(
    state: &mut ClusterState,
    entry: &Entry,
    service: &ServiceKey,
    end: RunEnd,
    audit: &mut Audit<'_>,
) {
    close(state, entry, service, RunResult { end, exit_code: None, node: None }, audit);
    rearm(state, entry, service, audit);
    if scheduled(state, service).is_some() {
        hold(state, entry, service);
    }
}

/// Slots of a job run nothing until the planner starts them: those that ended as well as those that run.
fn rearm(state: &mut ClusterState, entry: &Entry, service: &ServiceKey, audit: &mut Audit<'_>) {
    let slots: Vec<Change> = of(state, service)
        .filter(|slot| slot.desired_state != DesiredState::Disabled)
        .map(|slot| Change::SlotDisable {
            id: slot.id.clone(),
            instance: NewInstance {
                node: slot.current.node,
                revision: slot.current.revision,
                spec_hash: slot.current.spec_hash,
                gpus: Vec::new(),
            },
        })
        .collect();
    for change in &slots {
        batch::execute(state, entry, change, audit);
    }
}

/// Whether a container of an earlier run may still be there. Of a node that does not answer, or whose engine does not, nobody
/// can know, and nothing waits for it.
fn is_stopping(state: &ClusterState, service: &ServiceKey) -> bool {
    let answers = |node| {
        let node = state.nodes.get(&node);
        node.is_some_and(|node| !matches!(node.status, NodeStatus::Down | NodeStatus::EngineDown))
    };
    let observed = state.observed.values();
    let mut live = observed.filter(|seen| seen.service == *service && !seen.state.is_over());
    live.any(|seen| {
        let slot = state.slots.get(&seen.id.replica);
        let is_kept = slot.is_some_and(|slot| slot.kept_instances().any(|(id, _)| id == seen.id));
        !is_kept && answers(seen.node)
    })
}

fn stale(message: String) -> Outcome {
    Outcome::Rejected(Rejection::new(ErrorCode::StalePlan, message))
}
