//! Runs of jobs, and their schedules.

use jaco_state::command::{EarlierDues, JobDue, JobRewind, JobStart};
use jaco_state::job::{EndedRun, JobRecord, JobRun, MissedReason, MissedRuns, RunEnd};
use jaco_types::spec::{Concurrency, Cron, HistoryLimit, Schedule, ZoneName};

use super::*;

const DUE: Timestamp = Timestamp(1_700_000_040_000);

/// One of each command.
pub(crate) fn job_commands() -> Vec<Command> {
    vec![
        JobDue::new(service_key(), StateIndex(40), DUE).into(),
        JobRewind::new(service_key(), DUE).into(),
        JobStart::new(service_key()).into(),
    ]
}

/// Due times that were overtaken, and specs with schedules.
pub(crate) fn commands_of_schedules() -> Vec<Command> {
    let earlier = EarlierDues {
        first: Timestamp(1_699_999_920_000),
        last: Timestamp(1_699_999_980_000),
        count: 2,
    };
    let due = JobDue::new(service_key(), StateIndex(40), DUE).earlier(Some(earlier));
    let apply = |schedule| DeploymentApply::new(deployment_name(), scheduled(schedule)).into();
    vec![
        due.into(),
        apply(schedule(Concurrency::Forbid, Some(Millis(600_000)))),
        apply(schedule(Concurrency::Replace, None)),
    ]
}

fn schedule(concurrency: Concurrency, deadline: Option<Millis>) -> Schedule {
    Schedule {
        cron: Cron::parse("30 2 * * 1-5").unwrap(),
        time_zone: ZoneName::new("Europe/Berlin").unwrap(),
        concurrency,
        deadline,
        history: HistoryLimit::new(7).unwrap(),
    }
}

fn scheduled(schedule: Schedule) -> DeploymentSpec {
    let spec = spec();
    let one = spec.services.values().next().unwrap();
    let job =
        ServiceSpec { mode: ServiceMode::Job, schedule: Some(schedule), ..one.as_ref().clone() };
    DeploymentSpec {
        services: [(job.name.clone(), Arc::new(job))].into(),
        ..DeploymentSpec::default()
    }
}

/// A job that runs and one that waits, with every end and every reason.
pub(crate) fn state_of_jobs() -> ClusterState {
    let run = |number, due| JobRun {
        number,
        due,
        by: Identity::Scheduler,
        revision: Revision(3),
        begun_at: Timestamp(1_700_000_041_000),
        begun: StateIndex(30 + number),
    };
    let ended = RunEnd::ALL.iter().zip(1..).map(|(end, number)| EndedRun {
        run: run(number, Some(DUE)),
        at: Timestamp(1_700_000_050_000),
        end: *end,
        exit_code: (*end == RunEnd::Failed).then_some(-3),
        node: (*end == RunEnd::Failed).then_some(NodeId(7)),
    });
    let missed = MissedReason::ALL.iter().zip(1..).map(|(reason, count)| MissedRuns {
        first: Timestamp(1_699_999_920_000),
        last: DUE,
        count,
        at: Timestamp(1_700_000_041_000),
        reason: *reason,
    });
    let record = JobRecord {
        seen: DUE,
        runs: 6,
        open: Some(run(6, None)),
        ended: ended.collect(),
        missed: missed.collect(),
        modified: StateIndex(41),
    };
    let other = ServiceKey { service: ServiceName::new("other").unwrap(), ..service_key() };
    let since = Disablement { by: Identity::Scheduler, at: Timestamp(1_700_000_000_000) };
    let waiting = [(other.clone(), since)].into_iter().collect();
    ClusterState {
        index: StateIndex(42),
        jobs: [(service_key(), record), (other, JobRecord::default())].into_iter().collect(),
        disabled: DisabledAllocations {
            waiting,
            modified: StateIndex(41),
            ..DisabledAllocations::default()
        },
        ..ClusterState::default()
    }
}
