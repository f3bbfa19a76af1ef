//! Jobs, their runs and when they run next.

use jaco_json::fields::non_empty;
use jaco_proto::v1::{JobInfo, RunInfo};

use crate::time;

/// What a service's line in `jaco status` says of its runs.
#[must_use]
pub fn note(job: &JobInfo, now_ms: i64) -> String {
    let last = job.runs.first().map(|run| match run.ended_at_ms {
        0 => format!("run {} goes on for {}", run.number, time::ago(run.begun_at_ms, now_ms)),
        ended => {
            format!("run {} {} {} ago", run.number, result(run), time::ago(ended, now_ms))
        }
    });
    let next = next(job, now_ms).map(|next| format!("next run {next}"));
    last.into_iter().chain(next).collect::<Vec<_>>().join(", ")
}

/// The expression with its time zone, unless that is UTC.
#[must_use]
pub fn schedule(job: &JobInfo) -> Option<String> {
    let cron = non_empty(&job.cron)?;
    Some(match job.time_zone.as_str() {
        "UTC" => cron.to_owned(),
        zone => format!("{cron} {zone}"),
    })
}

/// When its next run is due: `in 30s`; none if none is.
#[must_use]
pub fn next(job: &JobInfo, now_ms: i64) -> Option<String> {
    match job.next_due_ms {
        0 => None,
        due if due <= now_ms => Some("due".to_owned()),
        due => Some(time::left(due, now_ms)),
    }
}

/// The result of a run, with what its container exited with where that says more.
#[must_use]
pub fn result(run: &RunInfo) -> String {
    match run.exit_code {
        Some(code) if code != 0 => format!("{} (exit code {code})", run.result),
        Some(_) | None => run.result.clone(),
    }
}
