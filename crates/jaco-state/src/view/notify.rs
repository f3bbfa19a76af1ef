//! Which events are for a target of notifications, and which of them it has not got yet.

use std::ops::Bound;

use jaco_types::{NotifyTargetName, ReplicaId, StateIndex};

use crate::audit::{AuditEvent, AuditKey};
use crate::notify::{NotifyFilter, NotifyTarget, Undelivered, UndeliveredKey};
use crate::state::ClusterState;

/// Whether an event is for whoever has this filter.
#[must_use]
pub fn is_notified(state: &ClusterState, filter: &NotifyFilter, event: &AuditEvent) -> bool {
    let NotifyFilter { groups, kinds, deployments, least } = filter;
    let is_of_all = groups.is_empty() && kinds.is_empty();
    event.severity() >= *least
        && (is_of_all || kinds.contains(&event.kind) || groups.iter().any(|group| group.has(event)))
        && (deployments.is_empty()
            || deployments.iter().any(|name| names_deployment(state, event, name.as_str())))
}

/// Whether an event names a deployment, a service of it (`shop/web`), or a replica of it.
#[must_use]
pub fn names_deployment(state: &ClusterState, event: &AuditEvent, name: &str) -> bool {
    let fact = |key| event.payload.get(key).map(String::as_str);
    if let Some(deployment) = fact("deployment") {
        return deployment == name;
    }
    if let Some((deployment, _)) = fact("service").and_then(|service| service.split_once('/')) {
        return deployment == name;
    }
    fact("replica").is_some_and(|replica| is_replica_of(state, replica, name))
}

/// Whether a replica belongs to a deployment. The id of one that is gone may begin with several names: then it
/// belongs to the deployment with the longest.
fn is_replica_of(state: &ClusterState, replica: &str, name: &str) -> bool {
    let slot = ReplicaId::parse(replica).ok().and_then(|id| state.slots.get(&id));
    if let Some(slot) = slot {
        return slot.service.deployment.as_str() == name;
    }
    let begins_with =
        |name: &str| replica.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'));
    let mut others = state.deployments.values().map(|deployment| deployment.name.as_str());
    begins_with(name) && !others.any(|other| other.len() > name.len() && begins_with(other))
}

/// What a target gets next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextNotification {
    /// A notification that was given up, and that a user has asked for again.
    Again {
        /// Its event.
        key: AuditKey,
        /// The entry by which it was asked for.
        asked: StateIndex,
        /// What it is.
        undelivered: Box<Undelivered>,
    },
    /// An event of the log.
    Event {
        /// Its place.
        key: AuditKey,
        /// What it is.
        event: Box<AuditEvent>,
    },
    /// Nothing now: all events up to this place are settled or none of its.
    Nothing {
        /// The last event that was looked at.
        seen: AuditKey,
    },
}

/// What a target gets next, after the event at `after`; nothing while it is paused. What users asked for again comes first, as it is older;
/// `is_done` says which of that was sent already and is not reported yet.
pub fn next_notification(
    state: &ClusterState,
    (name, target): (&NotifyTargetName, &NotifyTarget),
    after: AuditKey,
    is_done: impl Fn(AuditKey, StateIndex) -> bool,
) -> NextNotification {
    if target.paused_at.is_some() {
        return NextNotification::Nothing { seen: after };
    }
    for (key, row) in undelivered_of(state, name) {
        if let Some(asked) = row.retry.filter(|asked| !is_done(key.event, *asked)) {
            let undelivered = Box::new(row.clone());
            return NextNotification::Again { key: key.event, asked, undelivered };
        }
    }
    // A user that resumes a target may have it skip what is before.
    let mut seen = after.max(target.cursor);
    for (key, event) in state.audit.events.range((Bound::Excluded(seen), Bound::Unbounded)) {
        if is_notified(state, &target.filter, event) {
            return NextNotification::Event { key: *key, event: Box::new(event.clone()) };
        }
        seen = *key;
    }
    NextNotification::Nothing { seen }
}

/// How many events a target has still to get.
#[must_use]
pub fn notifications_behind(state: &ClusterState, target: &NotifyTarget) -> usize {
    let events = state.audit.events.range((Bound::Excluded(target.cursor), Bound::Unbounded));
    events.filter(|(_, event)| is_notified(state, &target.filter, event)).count()
}

/// What was given up of a target, the oldest event first.
pub fn undelivered_of<'s>(
    state: &'s ClusterState,
    name: &NotifyTargetName,
) -> impl Iterator<Item = (&'s UndeliveredKey, &'s Undelivered)> + use<'s> {
    let at = |event| UndeliveredKey { target: name.clone(), event };
    let newest = AuditKey { index: StateIndex(u64::MAX), number: u32::MAX };
    state.notify.undelivered.range(at(AuditKey::default())..=at(newest))
}
