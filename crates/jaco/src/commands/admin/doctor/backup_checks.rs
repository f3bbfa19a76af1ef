//! Checks of the schedules of backups.

use jaco_proto::v1::BackupScheduleInfo;
use jaco_sentences::attention;

use super::finding::Findings;

/// Checks that each schedule has what it should.
pub(super) fn schedules(schedules: &[BackupScheduleInfo], now_ms: i64, found: &mut Findings) {
    for failing in attention::backups(schedules, now_ms) {
        let name = failing.subject.to_string();
        found.warning(failing.check, &name, failing.message, failing.help);
    }
}
