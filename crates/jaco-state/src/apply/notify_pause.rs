//! Pauses of targets of notifications (R-OPS-1): while one is paused its events wait where they are, in the audit log.

use jaco_types::{ErrorCode, Rejection};

use super::audit::Audit;
use crate::audit::{AuditKey, AuditKind};
use crate::command::{Entry, NotifyPause, Outcome, PauseChange};
use crate::state::ClusterState;
use crate::view::notifications_behind;

/// Pauses a target or resumes it. One that is as it should be stays so, without an event.
pub(super) fn change(
    state: &mut ClusterState,
    entry: &Entry,
    command: &NotifyPause,
    audit: &mut Audit<'_>,
) -> Outcome {
    let NotifyPause { name, change } = command;
    let Some(target) = state.notify.targets.get(name) else {
        let message = format!("there is no notification target {name}");
        return Outcome::Rejected(Rejection::new(ErrorCode::InvalidRequest, message));
    };
    if target.paused_at.is_some() == (*change == PauseChange::Pause) {
        return Outcome::Done;
    }
    let waiting = notifications_behind(state, target).to_string();
    let Some(target) = state.notify.targets.get_mut(name) else { return Outcome::Done };
    let fact = ("target", name.to_string());
    match change {
        PauseChange::Pause => {
            target.paused_at = Some(entry.at);
            audit.event(AuditKind::NotifyPaused, [fact]);
        }
        PauseChange::Resume => {
            target.paused_at = None;
            let before = AuditKey { index: entry.index, number: u32::MAX };
            target.cursor = target.cursor.max(before);
            audit.event(AuditKind::NotifyResumed, [fact, ("skipped", waiting)]);
        }
        PauseChange::CatchUp => {
            target.paused_at = None;
            audit.event(AuditKind::NotifyResumed, [fact, ("skipped", "0".to_owned())]);
        }
    }
    Outcome::Done
}
