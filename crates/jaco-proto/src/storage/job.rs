//! Runs of jobs, and their schedules.

use jaco_state::job::{EndedRun, JobRecord, JobRun, MissedReason, MissedRuns, RunEnd};
use jaco_types::spec::{Concurrency, Cron, HistoryLimit, Schedule, ZoneName};
use jaco_types::{Disablement, Millis, NodeId, Revision, ServiceKey, StateIndex, Timestamp};

use super::convert::{Wire, list, optional, required, to_list, wire_enum};
use super::error::Problem;
use super::wire;

wire_enum!(Concurrency, "concurrency of a schedule", [Forbid, Replace]);
wire_enum!(RunEnd, "end of a run", [Succeeded, Failed, Replaced, Disabled, Removed]);
wire_enum!(
    MissedReason,
    "reason of a missed run",
    [NoLeader, Deadline, StillRunning, Disabled, NoReplicas, ClockSetBack]
);

impl Wire for Schedule {
    type Message = wire::Schedule;

    fn to_wire(&self) -> wire::Schedule {
        let Self { cron, time_zone, concurrency, deadline, history } = self;
        wire::Schedule {
            cron: cron.as_str().to_owned(),
            time_zone: time_zone.as_str().to_owned(),
            concurrency: concurrency.to_wire(),
            deadline_ms: deadline.map(|deadline| deadline.0),
            history: history.count(),
        }
    }

    fn from_wire(message: wire::Schedule) -> Result<Self, Problem> {
        Ok(Self {
            cron: Cron::parse(&message.cron)?,
            time_zone: ZoneName::new(&message.time_zone)?,
            concurrency: Wire::from_wire(message.concurrency)?,
            deadline: message.deadline_ms.map(Millis),
            history: HistoryLimit::new(message.history)?,
        })
    }
}

impl Wire for JobRun {
    type Message = wire::JobRun;

    fn to_wire(&self) -> wire::JobRun {
        let Self { number, due, by, revision, begun_at, begun } = self;
        wire::JobRun {
            number: *number,
            due_ms: due.map(|due| due.0),
            by: Some(by.to_wire()),
            revision: revision.0,
            begun_at_ms: begun_at.0,
            begun: begun.0,
        }
    }

    fn from_wire(message: wire::JobRun) -> Result<Self, Problem> {
        Ok(Self {
            number: message.number,
            due: message.due_ms.map(Timestamp),
            by: required("author of a run", message.by)?,
            revision: Revision(message.revision),
            begun_at: Timestamp(message.begun_at_ms),
            begun: StateIndex(message.begun),
        })
    }
}

impl Wire for EndedRun {
    type Message = wire::EndedRun;

    fn to_wire(&self) -> wire::EndedRun {
        let Self { run, at, end, exit_code, node } = self;
        wire::EndedRun {
            run: Some(run.to_wire()),
            at_ms: at.0,
            end: end.to_wire(),
            exit_code: *exit_code,
            node: node.map(|node| node.0),
        }
    }

    fn from_wire(message: wire::EndedRun) -> Result<Self, Problem> {
        Ok(Self {
            run: required("run that ended", message.run)?,
            at: Timestamp(message.at_ms),
            end: Wire::from_wire(message.end)?,
            exit_code: message.exit_code,
            node: message.node.map(NodeId),
        })
    }
}

impl Wire for MissedRuns {
    type Message = wire::MissedRuns;

    fn to_wire(&self) -> wire::MissedRuns {
        let Self { first, last, count, at, reason } = self;
        wire::MissedRuns {
            first_ms: first.0,
            last_ms: last.0,
            count: *count,
            at_ms: at.0,
            reason: reason.to_wire(),
        }
    }

    fn from_wire(message: wire::MissedRuns) -> Result<Self, Problem> {
        Ok(Self {
            first: Timestamp(message.first_ms),
            last: Timestamp(message.last_ms),
            count: message.count,
            at: Timestamp(message.at_ms),
            reason: Wire::from_wire(message.reason)?,
        })
    }
}

pub(super) fn from_record(service: &ServiceKey, record: &JobRecord) -> wire::JobRow {
    let JobRecord { seen, runs, open, ended, missed, modified } = record;
    wire::JobRow {
        service: Some(service.to_wire()),
        seen_ms: seen.0,
        runs: *runs,
        open: open.as_ref().map(Wire::to_wire),
        ended: to_list(ended),
        missed: to_list(missed),
        modified: modified.0,
    }
}

pub(super) fn to_record(message: wire::JobRow) -> Result<(ServiceKey, JobRecord), Problem> {
    let record = JobRecord {
        seen: Timestamp(message.seen_ms),
        runs: message.runs,
        open: optional(message.open)?,
        ended: list(message.ended)?,
        missed: list(message.missed)?,
        modified: StateIndex(message.modified),
    };
    Ok((required("service", message.service)?, record))
}

pub(super) fn from_waiting(service: &ServiceKey, since: &Disablement) -> wire::WaitingJob {
    wire::WaitingJob {
        service: Some(service.to_wire()),
        by: Some(since.by.to_wire()),
        at_ms: since.at.0,
    }
}

pub(super) fn to_waiting(message: wire::WaitingJob) -> Result<(ServiceKey, Disablement), Problem> {
    let since = Disablement { by: required("author", message.by)?, at: Timestamp(message.at_ms) };
    Ok((required("service", message.service)?, since))
}
