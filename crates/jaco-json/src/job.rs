//! Jobs with their schedules and their runs.

use jaco_proto::v1::{JobInfo, MissedInfo, RunInfo};
use serde_json::{Value, json};

use crate::fields::{non_empty, without_null};
use crate::time::rfc3339;

/// A job as JSON, with its runs and what was missed, the newest first.
#[must_use]
pub fn json(job: &JobInfo) -> Value {
    without_null(json!({
        "deployment": job.deployment,
        "service": job.service,
        "schedule": schedule_json(job),
        "next_due": rfc3339(job.next_due_ms),
        "runs": job.runs.iter().map(run_json).collect::<Value>(),
        "missed": job.missed.iter().map(missed_json).collect::<Value>(),
    }))
}

/// What the status of a service shows of its runs.
#[must_use]
pub fn summary_json(job: &JobInfo) -> Value {
    without_null(json!({
        "schedule": schedule_json(job),
        "next_due": rfc3339(job.next_due_ms),
        "last_run": job.runs.first().map(run_json),
    }))
}

fn schedule_json(job: &JobInfo) -> Option<Value> {
    non_empty(&job.cron).map(|cron| {
        without_null(json!({
            "cron": cron,
            "time_zone": job.time_zone,
            "concurrency": job.concurrency,
            "deadline_ms": (job.deadline_ms > 0).then_some(job.deadline_ms),
            "history": job.history,
        }))
    })
}

/// A run as JSON.
#[must_use]
pub fn run_json(run: &RunInfo) -> Value {
    without_null(json!({
        "number": run.number,
        "due": rfc3339(run.due_ms),
        "by": run.by,
        "revision": run.revision,
        "begun_at": rfc3339(run.begun_at_ms),
        "ended_at": rfc3339(run.ended_at_ms),
        "result": run.result,
        "exit_code": run.exit_code,
        "node": non_empty(&run.node),
    }))
}

fn missed_json(missed: &MissedInfo) -> Value {
    without_null(json!({
        "first_due": rfc3339(missed.first_due_ms),
        "last_due": rfc3339(missed.last_due_ms),
        "count": missed.count,
        "reason": missed.reason,
        "recorded_at": rfc3339(missed.at_ms),
    }))
}
