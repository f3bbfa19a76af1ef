//! Jobs with their schedules and their runs.

use jaco_proto::v1;
use jaco_scheduler::schedule::next_run;
use jaco_state::ClusterState;
use jaco_state::job::{EndedRun, JobRun, MissedRuns};
use jaco_types::ServiceKey;

use super::millis;

/// The jobs of the deployments that are asked for, with their runs.
pub(crate) fn list(state: &ClusterState, request: &v1::JobsRequest) -> v1::JobsResponse {
    let asked = |asked: &str, name: &str| asked.is_empty() || asked == name;
    let deployments = state.deployments.values();
    let deployments = deployments.filter(|known| asked(&request.deployment, known.name.as_str()));
    let jobs = deployments.flat_map(|known| {
        let jobs = known.spec().jobs().into_iter();
        jobs.map(|service| ServiceKey { deployment: known.name.clone(), service: service.clone() })
            .collect::<Vec<_>>()
    });
    let jobs = jobs.filter(|key| asked(&request.service, key.service.as_str()));
    v1::JobsResponse { jobs: jobs.map(|key| job(state, &key)).collect() }
}

/// A job that has a record, with its newest run alone.
pub(crate) fn summary(state: &ClusterState, key: &ServiceKey) -> Option<v1::JobInfo> {
    state.jobs.get(key)?;
    let mut job = job(state, key);
    job.runs.truncate(1);
    job.missed.clear();
    Some(job)
}

fn job(state: &ClusterState, key: &ServiceKey) -> v1::JobInfo {
    let deployment = state.deployments.get(&key.deployment);
    let spec = deployment.and_then(|known| known.spec().services.get(&key.service));
    let schedule = spec.and_then(|spec| spec.schedule.as_ref());
    let record = state.jobs.get(key).cloned().unwrap_or_default();
    let open = record.open.as_ref().map(info);
    let ended = record.ended.iter().rev().map(|run| ended(state, run));
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    v1::JobInfo {
        deployment: key.deployment.to_string(),
        service: key.service.to_string(),
        cron: text(schedule.map(|schedule| schedule.cron.as_str())),
        time_zone: text(schedule.map(|schedule| schedule.time_zone.as_str())),
        concurrency: text(schedule.map(|schedule| schedule.concurrency.as_str())),
        deadline_ms: schedule.and_then(|schedule| schedule.deadline).unwrap_or_default().0,
        history: schedule.map_or(0, |schedule| schedule.history.count()),
        next_due_ms: next_run(state, key).map_or(0, millis),
        runs: open.into_iter().chain(ended).collect(),
        missed: record.missed.iter().rev().map(missed).collect(),
    }
}

fn info(run: &JobRun) -> v1::RunInfo {
    v1::RunInfo {
        number: run.number,
        due_ms: run.due.map_or(0, millis),
        by: run.by.to_string(),
        revision: run.revision.0,
        begun_at_ms: millis(run.begun_at),
        result: "running".to_owned(),
        ..v1::RunInfo::default()
    }
}

fn ended(state: &ClusterState, ended: &EndedRun) -> v1::RunInfo {
    let host = |id| {
        let node = state.nodes.get(&id);
        node.map_or_else(|| id.to_string(), |node| node.hostname.to_string())
    };
    v1::RunInfo {
        ended_at_ms: millis(ended.at),
        result: ended.end.as_str().to_owned(),
        exit_code: ended.exit_code,
        node: ended.node.map(host).unwrap_or_default(),
        ..info(&ended.run)
    }
}

fn missed(missed: &MissedRuns) -> v1::MissedInfo {
    v1::MissedInfo {
        first_due_ms: millis(missed.first),
        last_due_ms: millis(missed.last),
        count: missed.count,
        reason: missed.reason.as_str().to_owned(),
        at_ms: millis(missed.at),
    }
}
