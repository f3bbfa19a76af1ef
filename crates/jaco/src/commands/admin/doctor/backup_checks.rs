//! Checks of the schedules of backups: that there is no backup is found out when one is needed.

use jaco_proto::v1::BackupScheduleInfo;

use super::finding::Findings;
use crate::format::time;

/// Checks that each schedule has what it should.
pub(super) fn schedules(schedules: &[BackupScheduleInfo], now_ms: i64, found: &mut Findings) {
    for schedule in schedules.iter().filter(|schedule| schedule.failing_since_ms > 0) {
        let since = time::ago(schedule.failing_since_ms, now_ms);
        let (name, target, reason) = (&schedule.name, &schedule.target, &schedule.failing_reason);
        let last = match schedule.last_at_ms {
            0 => "there is none yet".to_owned(),
            at => format!("the last one is {} old", time::ago(at, now_ms)),
        };
        let message = format!("backups to {target} have failed for {since}, {last}: {reason}");
        let help = format!("jaco backup schedule run {name} tries it now");
        found.warning("backup", name, message, help);
    }
}
