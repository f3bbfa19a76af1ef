//! Targets of notifications, and how far they are (R-OPS-1). Must never reveal anything of an address but what is shown of
//! it; what only the leader reports leaves no event, so that deliveries do not cause others.

use std::collections::BTreeSet;
use std::sync::Arc;

use jaco_types::{ErrorCode, NotifyTargetName, Rejection, StateIndex};

use super::audit::Audit;
use crate::audit::{AuditEvent, AuditKey, AuditKind, Evicted};
use crate::command::{
    Beginning, Entry, Existing, GivenUp, NotifyProgress, NotifyRemove, NotifyStore, Outcome,
    Retried, RetryEnd, TargetProgress, UndeliveredChange, UndeliveredSettle,
};
use crate::notify::{
    ENDPOINT_BYTES_MAX, FILTER_MAX, Failing, NotifyTarget, REASON_BYTES_MAX, SHOWN_BYTES_MAX,
    TARGETS_MAX, UNDELIVERED_MAX, Undelivered, UndeliveredKey,
};
use crate::state::ClusterState;
use crate::view::{is_notified, undelivered_of};

/// Adds a target, or replaces it.
pub(super) fn store(
    state: &mut ClusterState,
    entry: &Entry,
    command: &NotifyStore,
    audit: &mut Audit<'_>,
) -> Outcome {
    let NotifyStore { name, form, shown, endpoint, filter, existing: _, beginning } = command;
    let before = state.notify.targets.get(name);
    if let Some(rejection) = refusal(state, command) {
        return Outcome::Rejected(rejection);
    }
    let paused_at = match beginning {
        Beginning::Now => before.and_then(|before| before.paused_at),
        Beginning::Paused => Some(entry.at),
    };
    // Nobody has to learn what was before there was a target.
    let begins_at = AuditKey { index: entry.index, number: u32::MAX };
    let target = NotifyTarget {
        id: entry.index,
        form: *form,
        shown: Arc::clone(shown),
        endpoint: endpoint.clone(),
        filter: filter.clone(),
        stored_at: entry.at,
        by: entry.by.clone(),
        cursor: before.map_or(begins_at, |before| before.cursor),
        delivered: before.and_then(|before| before.delivered),
        failing: None,
        pruned: before.map_or(0, |before| before.pruned),
        discarded: before.map_or(0, |before| before.discarded),
        paused_at,
    };
    audit.event(
        AuditKind::NotifyStored,
        [
            ("target", name.to_string()),
            ("form", form.as_str().to_owned()),
            ("address", shown.to_string()),
            ("filter", filter.to_string()),
        ],
    );
    if *beginning == Beginning::Paused {
        audit.event(AuditKind::NotifyPaused, [("target", name.to_string())]);
    }
    state.notify.targets.insert(name.clone(), target);
    Outcome::Done
}

fn refusal(state: &ClusterState, command: &NotifyStore) -> Option<Rejection> {
    let NotifyStore { name, form: _, shown, endpoint, filter, existing, beginning: _ } = command;
    let too_large = |message| Some(Rejection::new(ErrorCode::TooLarge, message));
    if !endpoint.fits() || shown.len() > SHOWN_BYTES_MAX {
        return too_large(format!(
            "an address and its secret have {ENDPOINT_BYTES_MAX} bytes at most, and scheme and host {SHOWN_BYTES_MAX}"
        ));
    }
    if !filter.fits() {
        return too_large(format!(
            "a filter has at most {FILTER_MAX} types and {FILTER_MAX} deployments"
        ));
    }
    let is_there = state.notify.targets.contains(name);
    if is_there && *existing == Existing::Refuse {
        let message =
            format!("there is a notification target {name} already: replace or remove it");
        return Some(Rejection::new(ErrorCode::InvalidRequest, message));
    }
    if !is_there && state.notify.targets.len() >= TARGETS_MAX {
        return too_large(format!(
            "there are {TARGETS_MAX} notification targets, and these are the most: remove one that is not used any more"
        ));
    }
    None
}

/// Removes a target with what was not delivered to it. Without one there is nothing to do.
pub(super) fn remove(
    state: &mut ClusterState,
    command: &NotifyRemove,
    audit: &mut Audit<'_>,
) -> Outcome {
    let NotifyRemove { name } = command;
    if let Some(target) = state.notify.targets.remove(name) {
        state.notify.undelivered.retain(|key, _| key.target != *name);
        let facts = [("target", name.to_string()), ("address", target.shown.to_string())];
        audit.event(AuditKind::NotifyRemoved, facts);
    }
    Outcome::Done
}

/// Records how far the targets are. What is about a target that is gone or was replaced is skipped.
pub(super) fn progress(
    state: &mut ClusterState,
    entry: &Entry,
    command: &NotifyProgress,
    audit: &mut Audit<'_>,
) -> Outcome {
    for of_target in &command.targets {
        let target = state.notify.targets.get(&of_target.name);
        if target.is_some_and(|target| target.id == of_target.id) {
            record(state, entry, of_target, audit);
        }
    }
    Outcome::Done
}

fn record(state: &mut ClusterState, entry: &Entry, of: &TargetProgress, audit: &mut Audit<'_>) {
    let TargetProgress { name, id: _, cursor, delivered, failing, given_up, retried } = of;
    for retried in retried {
        end_retry(state, entry, name, retried);
    }
    for given_up in given_up {
        give_up(state, entry, name, given_up, audit);
    }
    let Some(target) = state.notify.targets.get_mut(name) else { return };
    // Never back, and never beyond what a leader can have seen.
    let before = StateIndex(entry.index.0.saturating_sub(1));
    let newest = AuditKey { index: before, number: u32::MAX };
    let settled = given_up.iter().map(|given_up| given_up.event).fold(*cursor, AuditKey::max);
    target.cursor = target.cursor.max(settled.min(newest));
    target.delivered = delivered.or(target.delivered);
    target.failing = failing
        .as_ref()
        .map(|Failing { since, reason }| Failing { since: *since, reason: bounded(reason) });
}

/// Keeps an event that was given up. One that was settled before, or that is evicted and counted as that, is not.
fn give_up(
    state: &mut ClusterState,
    entry: &Entry,
    name: &NotifyTargetName,
    GivenUp { event: at, attempts, reason }: &GivenUp,
    audit: &mut Audit<'_>,
) {
    let is_settled = state.notify.targets.get(name).is_none_or(|target| *at <= target.cursor);
    let Some(event) = state.audit.events.get(at).filter(|_| !is_settled) else { return };
    let row = Undelivered {
        event: event.clone(),
        attempts: *attempts,
        reason: bounded(reason),
        given_up_at: entry.at,
        retry: None,
    };
    let before = undelivered_of(state, name).count();
    if before == 0 {
        audit.event(
            AuditKind::NotifyUndelivered,
            [("target", name.to_string()), ("reason", row.reason.clone())],
        );
    }
    let key = UndeliveredKey { target: name.clone(), event: *at };
    state.notify.undelivered.insert(key, row);
    let oldest = undelivered_of(state, name).map(|(key, _)| key.clone()).next();
    if before >= UNDELIVERED_MAX
        && let Some(oldest) = oldest
    {
        state.notify.undelivered.remove(&oldest);
        if let Some(target) = state.notify.targets.get_mut(name) {
            target.discarded = target.discarded.saturating_add(1);
        }
    }
}

fn end_retry(
    state: &mut ClusterState,
    entry: &Entry,
    name: &NotifyTargetName,
    Retried { event, asked, end }: &Retried,
) {
    let key = UndeliveredKey { target: name.clone(), event: *event };
    match end {
        RetryEnd::Delivered => {
            state.notify.undelivered.remove(&key);
        }
        RetryEnd::Failed { reason } => {
            let row = state.notify.undelivered.get_mut(&key);
            if let Some(row) = row.filter(|row| row.retry == Some(*asked)) {
                row.retry = None;
                row.attempts = row.attempts.saturating_add(1);
                row.reason = bounded(reason);
                row.given_up_at = entry.at;
            }
        }
    }
}

/// Has undelivered notifications sent again, or forgets them.
pub(super) fn settle(
    state: &mut ClusterState,
    entry: &Entry,
    command: &UndeliveredSettle,
    audit: &mut Audit<'_>,
) -> Outcome {
    let UndeliveredSettle { target, events, change } = command;
    let is_meant = |event: &AuditKey| events.is_empty() || events.contains(event);
    let meant: BTreeSet<UndeliveredKey> = undelivered_of(state, target)
        .filter(|(key, _)| is_meant(&key.event))
        .map(|(key, _)| key.clone())
        .collect();
    if meant.is_empty() {
        return Outcome::Done;
    }
    for key in &meant {
        match change {
            UndeliveredChange::Clear => {
                state.notify.undelivered.remove(key);
            }
            UndeliveredChange::Retry => {
                if let Some(row) = state.notify.undelivered.get_mut(key) {
                    row.retry = Some(entry.index);
                }
            }
        }
    }
    audit.event(
        AuditKind::NotifySettled,
        [
            ("target", target.to_string()),
            ("change", change.as_str().to_owned()),
            ("count", meant.len().to_string()),
        ],
    );
    Outcome::Done
}

/// Counts events that were evicted from the log before a target got them. One that was delivered shortly before, and is
/// not reported yet, counts as well: that takes more than 9,000 events within two seconds.
pub(super) fn count_pruned(state: &mut ClusterState, evicted: &[<Evicted as IntoIterator>::Item]) {
    if evicted.is_empty() || state.notify.targets.is_empty() {
        return;
    }
    let missed = |target: &NotifyTarget| {
        let is_missed = |key: AuditKey, event: &AuditEvent| {
            key > target.cursor && is_notified(state, &target.filter, event)
        };
        evicted.iter().filter(|(key, event)| is_missed(*key, event)).count()
    };
    let counts = state.notify.targets.iter().map(|(name, target)| (name.clone(), missed(target)));
    let counts: Vec<_> = counts.filter(|(_, count)| *count > 0).collect();
    for (name, count) in counts {
        if let Some(target) = state.notify.targets.get_mut(&name) {
            let count = u64::try_from(count).unwrap_or(u64::MAX);
            target.pruned = target.pruned.saturating_add(count);
        }
    }
}

pub(super) fn bounded(reason: &str) -> String {
    let mut end = reason.len().min(REASON_BYTES_MAX);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    reason[..end].to_owned()
}
