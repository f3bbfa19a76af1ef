//! How long audit events are kept.

use jaco_types::{ErrorCode, Rejection};

use super::audit::Audit;
use crate::audit::{AGE_MAX, AGE_MIN, AuditKind};
use crate::command::{AuditRetention, Entry, Jumps, Outcome};
use crate::state::ClusterState;

/// Sets the age; older events are evicted with this entry.
pub(super) fn set(
    state: &mut ClusterState,
    entry: &Entry,
    command: &AuditRetention,
    audit: &mut Audit<'_>,
) -> Outcome {
    let AuditRetention { age, jumps } = command;
    let age = *age;
    if !(AGE_MIN..=AGE_MAX).contains(&age) {
        let message = format!("audit events are kept for {AGE_MIN} to {AGE_MAX}, not for {age}");
        return Outcome::Rejected(Rejection::new(ErrorCode::InvalidRequest, message));
    }
    let before = state.audit.set_age(age);
    match jumps {
        Jumps::AsBefore => {}
        Jumps::Doubted => state.audit.start_clock(entry.at),
    }
    if before != Some(age) {
        let from = before.map_or_else(|| "-".to_owned(), |before| before.to_string());
        audit.event(AuditKind::AuditRetentionSet, [("from", from), ("to", age.to_string())]);
    }
    Outcome::Done
}
