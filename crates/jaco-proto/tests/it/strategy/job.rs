//! Runs of jobs, and their schedules.

use jaco_state::command::{EarlierDues, JobDue, JobRewind, JobStart};
use jaco_state::job::{EndedRun, JobRecord, JobRun, MissedReason, MissedRuns, RunEnd};
use jaco_types::spec::{Concurrency, Cron, HistoryLimit, Schedule, ZoneName};

use super::*;

pub(crate) fn job_command() -> impl Strategy<Value = Command> {
    let earlier = (moment(), moment(), any::<u64>());
    let earlier = earlier.prop_map(|(first, last, count)| EarlierDues { first, last, count });
    prop_oneof![
        (service_key(), index(), moment(), option::of(earlier)).prop_map(
            |(service, based_on, due, earlier)| {
                JobDue::new(service, based_on, due).earlier(earlier).into()
            }
        ),
        (service_key(), moment()).prop_map(|(service, to)| JobRewind::new(service, to).into()),
        service_key().prop_map(|service| JobStart::new(service).into()),
    ]
}

pub(crate) fn schedule() -> impl Strategy<Value = Schedule> {
    let cron = select(vec!["* * * * *", "30 2 * * 1-5", "@daily", "0 0 29 2 *"]);
    let zone = select(vec!["UTC", "Europe/Berlin", "Etc/GMT+5"]);
    let concurrency = select(vec![Concurrency::Forbid, Concurrency::Replace]);
    let deadline = option::of(any::<u64>().prop_map(Millis));
    (cron, zone, concurrency, deadline, 1..=100_u32).prop_map(
        |(cron, zone, concurrency, deadline, history)| Schedule {
            cron: Cron::parse(cron).unwrap(),
            time_zone: ZoneName::new(zone).unwrap(),
            concurrency,
            deadline,
            history: HistoryLimit::new(history).unwrap(),
        },
    )
}

fn job_run() -> impl Strategy<Value = JobRun> {
    (any::<u64>(), option::of(moment()), identity(), revision(), moment(), index()).prop_map(
        |(number, due, by, revision, begun_at, begun)| JobRun {
            number,
            due,
            by,
            revision,
            begun_at,
            begun,
        },
    )
}

pub(crate) fn job_record() -> impl Strategy<Value = JobRecord> {
    let ended = (job_run(), moment(), select(RunEnd::ALL), option::of(any::<i64>()));
    let ended = (ended, option::of(node_id()))
        .prop_map(|((run, at, end, exit_code), node)| EndedRun { run, at, end, exit_code, node });
    let missed = (moment(), moment(), any::<u64>(), moment(), select(MissedReason::ALL));
    let missed = missed.prop_map(|(first, last, count, at, reason)| MissedRuns {
        first,
        last,
        count,
        at,
        reason,
    });
    let lists = (vec(ended, 0..3), vec(missed, 0..3));
    (moment(), any::<u64>(), option::of(job_run()), lists, index()).prop_map(
        |(seen, runs, open, (ended, missed), modified)| JobRecord {
            seen,
            runs,
            open,
            ended,
            missed,
            modified,
        },
    )
}
