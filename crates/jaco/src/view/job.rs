//! Jobs with their schedules and their runs.

pub(crate) use jaco_json::job::{json, run_json};
use jaco_proto::v1::JobInfo;
pub(crate) use jaco_sentences::job::{next, result, schedule};
use serde_json::Value;

use super::json::non_empty;
use crate::format::quantity::count;
use crate::format::table::Table;
use crate::format::time;
use crate::output::{Frame, Show};

/// Jobs as a table.
pub(crate) fn table(jobs: &[JobInfo], frame: &Frame) -> String {
    if jobs.is_empty() {
        return "No jobs. `deploy: {mode: replicated-job}` makes a service one.\n".to_owned();
    }
    let mut table = Table::new(&["JOB", "SCHEDULE", "LAST RUN", "RESULT", "NEXT RUN", "MISSED"]);
    for job in jobs {
        let last = job.runs.first();
        table.row([
            format!("{}/{}", job.deployment, job.service),
            schedule(job).unwrap_or_else(|| "-".to_owned()),
            last.map_or_else(|| "-".to_owned(), |run| time::ago(run.begun_at_ms, frame.now_ms)),
            last.map_or_else(|| "-".to_owned(), result),
            next(job, frame.now_ms).unwrap_or_else(|| "-".to_owned()),
            job.missed.iter().map(|missed| missed.count).sum::<u64>().to_string(),
        ]);
    }
    table.render()
}

/// One job with its runs.
#[derive(Debug)]
pub(crate) struct Job<'a>(pub(crate) &'a JobInfo);

impl Show for Job<'_> {
    fn json(&self) -> Value {
        json(self.0)
    }

    fn text(&self, frame: &Frame) -> String {
        let job = self.0;
        let mut parts = vec![head(job, frame.now_ms)];
        if job.runs.is_empty() {
            parts.push("It has not run yet.\n".to_owned());
        } else {
            parts.push(runs(job, frame.now_ms));
        }
        if !job.missed.is_empty() {
            parts.push(missed(job, frame.now_ms));
        }
        parts.join("\n")
    }
}

fn head(job: &JobInfo, now_ms: i64) -> String {
    let name = format!("{}/{}", job.deployment, job.service);
    let Some(schedule) = schedule(job) else { return format!("{name}: no schedule\n") };
    let deadline = match job.deadline_ms {
        0 => String::new(),
        deadline => format!(", at most {} late", time::length(deadline)),
    };
    let next = match (next(job, now_ms), time::rfc3339(job.next_due_ms)) {
        (Some(next), Some(at)) => format!("next run {next} ({at})"),
        _ => "no next run: this node does not know the time zone".to_owned(),
    };
    format!("{name}: {schedule}, {}{deadline}; {next}\n", job.concurrency)
}

fn runs(job: &JobInfo, now_ms: i64) -> String {
    let mut table = Table::new(&["RUN", "DUE", "BEGAN", "TOOK", "RESULT", "EXIT", "NODE", "BY"]);
    for run in &job.runs {
        let until = if run.ended_at_ms > 0 { run.ended_at_ms } else { now_ms };
        table.row([
            run.number.to_string(),
            time::rfc3339(run.due_ms).unwrap_or_else(|| "-".to_owned()),
            time::rfc3339(run.begun_at_ms).unwrap_or_default(),
            time::ago(run.begun_at_ms, until),
            run.result.clone(),
            run.exit_code.map_or_else(|| "-".to_owned(), |code| code.to_string()),
            non_empty(&run.node).unwrap_or("-").to_owned(),
            run.by.clone(),
        ]);
    }
    table.render()
}

fn missed(job: &JobInfo, now_ms: i64) -> String {
    let mut table = Table::new(&["MISSED", "FIRST DUE", "LAST DUE", "REASON", "RECORDED"]);
    for missed in &job.missed {
        table.row([
            count(usize::try_from(missed.count).unwrap_or(usize::MAX), "run"),
            time::rfc3339(missed.first_due_ms).unwrap_or_default(),
            time::rfc3339(missed.last_due_ms).unwrap_or_default(),
            missed.reason.clone(),
            time::ago(missed.at_ms, now_ms),
        ]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use jaco_proto::v1::{MissedInfo, RunInfo};
    use jaco_sentences::job::note;

    use super::*;
    use crate::output::Detail;

    const NOW: i64 = 1_700_000_100_000;

    fn report() -> JobInfo {
        let run = |number, ended_at_ms, result: &str, exit_code| RunInfo {
            number,
            due_ms: NOW - 60_000,
            by: "scheduler".to_owned(),
            revision: 1,
            begun_at_ms: NOW - 59_000,
            ended_at_ms,
            result: result.to_owned(),
            exit_code,
            node: "n1".to_owned(),
        };
        JobInfo {
            deployment: "shop".to_owned(),
            service: "report".to_owned(),
            cron: "* * * * *".to_owned(),
            time_zone: "Europe/Berlin".to_owned(),
            concurrency: "forbid".to_owned(),
            deadline_ms: 600_000,
            history: 10,
            next_due_ms: NOW + 30_000,
            runs: vec![
                run(2, NOW - 40_000, "failed", Some(3)),
                run(1, NOW - 50_000, "succeeded", Some(0)),
            ],
            missed: vec![MissedInfo {
                first_due_ms: NOW - 600_000,
                last_due_ms: NOW - 120_000,
                count: 9,
                reason: "no_leader".to_owned(),
                at_ms: NOW - 60_000,
            }],
        }
    }

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    /// R-JOB-2: lists and notes say when it ran last, how that ended, when it runs next and how much was missed.
    #[test]
    fn jobs_are_shown_with_their_last_and_next_run() {
        let frame = Frame { detail: Detail::Short, now_ms: NOW };
        let plain = JobInfo { service: "once".to_owned(), ..JobInfo::default() };
        let shown = lines(&table(&[report(), plain.clone()], &frame));
        assert_eq!(shown[0], "JOB SCHEDULE LAST RUN RESULT NEXT RUN MISSED");
        assert_eq!(
            shown[1],
            "shop/report * * * * * Europe/Berlin 59s failed (exit code 3) in 30s 9"
        );
        assert_eq!(shown[2], "/once - - - - 0");
        assert_eq!(note(&report(), NOW), "run 2 failed (exit code 3) 40s ago, next run in 30s");
        assert_eq!(note(&plain, NOW), "");
        let mut running = report();
        running.runs[0].ended_at_ms = 0;
        running.next_due_ms = NOW;
        assert_eq!(note(&running, NOW), "run 2 goes on for 59s, next run due");
    }

    /// R-JOB-2: one job is shown with each run, and with what was missed and why.
    #[test]
    fn job_is_shown_with_its_runs() {
        let frame = Frame { detail: Detail::Short, now_ms: NOW };
        let shown = lines(&Job(&report()).text(&frame));
        assert_eq!(
            shown[0],
            "shop/report: * * * * * Europe/Berlin, forbid, at most 10m late; next run in 30s \
             (2023-11-14T22:15:30Z)"
        );
        assert_eq!(shown[2], "RUN DUE BEGAN TOOK RESULT EXIT NODE BY");
        assert_eq!(
            shown[3],
            "2 2023-11-14T22:14:00Z 2023-11-14T22:14:01Z 19s failed 3 n1 scheduler"
        );
        assert_eq!(shown[6], "MISSED FIRST DUE LAST DUE REASON RECORDED");
        assert_eq!(shown[7], "9 runs 2023-11-14T22:05:00Z 2023-11-14T22:13:00Z no_leader 1m");
        let json = json(&report());
        assert_eq!(json["runs"][0]["exit_code"], 3);
        assert_eq!(json["missed"][0]["reason"], "no_leader");
        assert_eq!(json["schedule"]["deadline_ms"], 600_000);
        let none = JobInfo {
            deployment: "shop".to_owned(),
            service: "once".to_owned(),
            ..JobInfo::default()
        };
        assert_eq!(Job(&none).text(&frame), "shop/once: no schedule\n\nIt has not run yet.\n");
    }
}
