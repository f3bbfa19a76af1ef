//! Schedules of backups, without their keys.

use jaco_proto::v1::{BackupKeep, BackupScheduleInfo};
use serde_json::{Value, json};

use super::json::{non_empty, without_null};
use crate::format::quantity::size;
use crate::format::table::Table;
use crate::format::time;
use crate::output::Frame;

/// A schedule as JSON.
pub(crate) fn json(schedule: &BackupScheduleInfo) -> Value {
    let at = |ms: i64| time::rfc3339(ms).filter(|_| ms > 0);
    let last = at(schedule.last_at_ms).map(|at| {
        json!({
            "at": at,
            "raft_index": schedule.last_index,
            "bytes": schedule.last_bytes,
            "name": schedule.last_name,
            "node": schedule.last_node,
        })
    });
    let failing = at(schedule.failing_since_ms).map(|since| {
        json!({
            "since": since,
            "reason": schedule.failing_reason,
            "attempts": schedule.failing_attempts,
            "next_try": at(schedule.next_try_ms),
        })
    });
    let keep = schedule.keep.unwrap_or_default();
    let every = (schedule.every_ms > 0).then_some(schedule.every_ms / 1000);
    without_null(json!({
        "name": schedule.name,
        "every_seconds": every,
        "cron": non_empty(&schedule.cron),
        "time_zone": non_empty(&schedule.time_zone),
        "target": schedule.target,
        "endpoint": non_empty(&schedule.endpoint),
        "region": non_empty(&schedule.region),
        "address_style": non_empty(&schedule.address_style),
        "keep": {
            "newest": keep.newest,
            "daily": keep.daily,
            "weekly": keep.weekly,
            "monthly": keep.monthly,
        },
        "recipients": schedule.recipients,
        "next_due": at(schedule.next_due_ms),
        "running_since": at(schedule.run_begun_at_ms),
        "last": last,
        "failing": failing,
        "stored_at": time::rfc3339(schedule.stored_at_ms),
        "by": schedule.by,
    }))
}

/// When backups are due: `every 6h`, `30 3 * * * (UTC)`.
pub(crate) fn times_text(schedule: &BackupScheduleInfo) -> String {
    match schedule.every_ms {
        0 => format!("{} ({})", schedule.cron, schedule.time_zone),
        every => format!("every {}", time::length(every)),
    }
}

fn keep_text(keep: BackupKeep) -> String {
    let BackupKeep { newest, daily, weekly, monthly } = keep;
    let rules = [(newest, ""), (daily, "d"), (weekly, "w"), (monthly, "m")];
    let given = rules.into_iter().filter(|(number, _)| *number > 0);
    let words: Vec<String> = given.map(|(number, unit)| format!("{number}{unit}")).collect();
    if words.is_empty() { "all".to_owned() } else { words.join(" ") }
}

/// Schedules as a table, with a line for each that fails.
pub(crate) fn table(schedules: &[BackupScheduleInfo], frame: &Frame) -> String {
    let mut table =
        Table::new(&["NAME", "TIMES", "TO", "KEEP", "ENCRYPTED", "LAST", "SIZE", "NODE", "NEXT"]);
    for schedule in schedules {
        let (last, bytes) = match schedule.last_at_ms {
            0 => ("-".to_owned(), "-".to_owned()),
            at => (time::ago(at, frame.now_ms), size(schedule.last_bytes)),
        };
        let next = match (schedule.run, schedule.next_due_ms) {
            (1.., _) => "now".to_owned(),
            (_, 0) => "-".to_owned(),
            (_, at) => time::rfc3339(at).unwrap_or_default(),
        };
        table.row([
            schedule.name.clone(),
            times_text(schedule),
            schedule.target.clone(),
            keep_text(schedule.keep.unwrap_or_default()),
            if schedule.recipients.is_empty() { "no" } else { "yes" }.to_owned(),
            last,
            bytes,
            non_empty(&schedule.last_node).unwrap_or("-").to_owned(),
            next,
        ]);
    }
    let mut text = table.render();
    for schedule in schedules.iter().filter(|schedule| schedule.failing_since_ms > 0) {
        let since = time::ago(schedule.failing_since_ms, frame.now_ms);
        let (name, reason) = (&schedule.name, &schedule.failing_reason);
        text += &format!("{name}: failing for {since}: {reason}\n");
    }
    text
}
