//! The audit events of a rollout, from the difference of two records of its service: its start and end,
//! those of its steps, and what blocks it. A record without a difference leaves no event.

use std::collections::{BTreeMap, BTreeSet};

use jaco_types::slot::Exhausted;
use jaco_types::{
    DesiredState, ReplicaId, Revision, RollbackProgress, Rollout, RolloutState, Scheduling,
    ServiceKey,
};

use crate::apply::audit::Audit;
use crate::apply::cluster::hostname;
use crate::audit::AuditKind;
use crate::state::ClusterState;

/// Adds the events. Must run before the record is replaced, and after the slots are.
pub(in crate::apply) fn record(
    state: &ClusterState,
    audit: &mut Audit<'_>,
    service: &ServiceKey,
    record: &Scheduling,
) {
    let known = state.scheduling.get(service);
    let before = known.and_then(|record| record.rollout.as_ref());
    let Some(now) = &record.rollout else { return };
    record_finished_steps(state, audit, service, (before, now));
    record_state(audit, service, (before, now));
    if state.audit.records_steps() {
        record_started_steps(state, audit, service, (before, now));
        record_block(state, audit, service, (known, record));
    }
}

/// The start or end of a rollout.
fn record_state(
    audit: &mut Audit<'_>,
    service: &ServiceKey,
    (before, now): (Option<&Rollout>, &Rollout),
) {
    let was = before
        .filter(|before| before.target_revision == now.target_revision)
        .map(|before| before.state);
    if was == Some(now.state) {
        return;
    }
    let kind = match now.state {
        RolloutState::InProgress => AuditKind::RolloutStarted,
        RolloutState::Completed => AuditKind::RolloutCompleted,
        RolloutState::Aborted => AuditKind::RolloutAborted,
        RolloutState::Paused | RolloutState::RollbackPaused => AuditKind::RolloutPaused,
    };
    audit.event(
        kind,
        [
            ("service", service.to_string()),
            ("revision", now.target_revision.to_string()),
            ("steps", now.total_steps.to_string()),
            ("reason", now.failure_reason.clone()),
        ],
    );
}

/// Which way replicas are replaced, and by which rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Forward(Revision),
    Back(Revision),
    Nowhere,
}

impl Way {
    fn of(rollout: &Rollout) -> Self {
        match rollout.state {
            RolloutState::InProgress => Self::Forward(rollout.target_revision),
            RolloutState::Aborted if rollout.rollback_progress.is_some() => {
                Self::Back(rollout.target_revision)
            }
            RolloutState::Completed
            | RolloutState::Aborted
            | RolloutState::Paused
            | RolloutState::RollbackPaused => Self::Nowhere,
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Forward(_) => "forward",
            Self::Back(_) => "back",
            Self::Nowhere => "",
        }
    }
}

/// The steps that were in flight in the record before and are not any more. Those of a rollout that is
/// completed, superseded or aborted end with it.
fn record_finished_steps(
    state: &ClusterState,
    audit: &mut Audit<'_>,
    service: &ServiceKey,
    (before, now): (Option<&Rollout>, &Rollout),
) {
    let Some(before) = before else { return };
    let goes_on = Way::of(before) == Way::of(now);
    let is_over = |id: &&ReplicaId| !goes_on || !now.in_flight.contains(*id);
    for id in before.in_flight.iter().filter(is_over) {
        let result = result(state, id, before, now);
        let done = if goes_on { done(now) } else { done_at_end(before, now) };
        let [replica, node, revision, way, service] = step_facts(state, service, id, before);
        let (result, done) = (("result", result.to_owned()), ("done", done));
        let facts = [replica, node, revision, way, service, result, done];
        audit.event(AuditKind::RolloutStepFinished, facts);
    }
}

/// How many of how many steps are finished, those that replace no instance among them.
fn done(rollout: &Rollout) -> String {
    let Rollout { current_step, total_steps, rollback_progress, .. } = rollout;
    let (current, total) = rollback_progress
        .map_or((*current_step, *total_steps), |back| (back.current_step, back.total_steps));
    format!("{current} of {total}")
}

/// Likewise of one that is over: of a finished rollback nothing is kept to count by.
fn done_at_end(before: &Rollout, now: &Rollout) -> String {
    match before.rollback_progress {
        Some(RollbackProgress { total_steps, .. }) if now.state == before.state => {
            format!("{total_steps} of {total_steps}")
        }
        None if now.state == RolloutState::Completed => done(now),
        Some(_) | None => done(before),
    }
}

/// How a step ended.
fn result(state: &ClusterState, id: &ReplicaId, before: &Rollout, now: &Rollout) -> &'static str {
    let Some(slot) = state.slots.get(id) else { return "removed" };
    if before.target_revision != now.target_revision {
        return "overtaken";
    }
    if now.state != before.state && now.state != RolloutState::Completed {
        return "given_up";
    }
    if slot.restarts.exhausted == Exhausted::Yes {
        return "restarts_exhausted";
    }
    if slot.desired_state == DesiredState::Disabled {
        return "disabled";
    }
    match state.nodes.get(&slot.current.node) {
        Some(node) if node.status.is_working() => "proven",
        Some(_) | None => "node_lost",
    }
}

/// The steps that were not in flight in the record before.
fn record_started_steps(
    state: &ClusterState,
    audit: &mut Audit<'_>,
    service: &ServiceKey,
    (before, now): (Option<&Rollout>, &Rollout),
) {
    let before = before.filter(|before| Way::of(before) == Way::of(now));
    let is_new = |id: &&ReplicaId| before.is_none_or(|before| !before.in_flight.contains(*id));
    for id in now.in_flight.iter().filter(is_new) {
        let facts = step_facts(state, service, id, now);
        audit.event(AuditKind::RolloutStepStarted, facts);
    }
}

/// What both events of a step say: the replica, and where it is now and as what.
fn step_facts(
    state: &ClusterState,
    service: &ServiceKey,
    id: &ReplicaId,
    rollout: &Rollout,
) -> [(&'static str, String); 5] {
    let current = state.slots.get(id).map(|slot| &slot.current);
    let revision = current.map(|current| current.revision.to_string());
    [
        ("replica", id.to_string()),
        ("node", current.map_or_else(String::new, |current| hostname(state, current.node))),
        ("revision", revision.unwrap_or_default()),
        ("way", Way::of(rollout).as_str().to_owned()),
        ("service", service.to_string()),
    ]
}

/// What the rollout waits for, where that is not what it waited for before.
fn record_block(
    state: &ClusterState,
    audit: &mut Audit<'_>,
    service: &ServiceKey,
    (known, record): (Option<&Scheduling>, &Scheduling),
) {
    let held_before = known.map(holds).unwrap_or_default();
    let held = holds(record);
    let Some(rollout) = record.rollout.as_ref().filter(|_| !held.is_empty()) else { return };
    if held == held_before {
        return;
    }
    let reasons: Vec<_> = held.into_iter().collect();
    audit.event(
        AuditKind::RolloutHeld,
        [
            ("service", service.to_string()),
            ("revision", rollout.target_revision.to_string()),
            ("way", Way::of(rollout).as_str().to_owned()),
            ("reason", reasons.join(", ")),
            ("details", details(state, record)),
        ],
    );
}

/// The names of what holds a rollout in progress. Names only: who is waited for may change with
/// every look, and is no other reason.
fn holds(record: &Scheduling) -> BTreeSet<&str> {
    let Some(rollout) = &record.rollout else { return BTreeSet::new() };
    if Way::of(rollout) == Way::Nowhere {
        return BTreeSet::new();
    }
    let preparing = rollout.prepull.iter().map(|_| "prepull");
    let unplaced = record.unplaced.iter().map(|unplaced| unplaced.reason.as_str());
    preparing.chain(unplaced).collect()
}

/// What the rollout waits for at this moment, for display.
fn details(state: &ClusterState, record: &Scheduling) -> String {
    let preparing = record.rollout.iter().filter_map(|rollout| rollout.prepull.as_ref());
    let nodes = preparing.flat_map(|preparing| &preparing.nodes);
    let nodes = nodes.map(|(node, reason)| format!("{}: {reason}", hostname(state, *node)));
    let pairs = |details: &BTreeMap<String, String>| {
        let pairs = details.iter().map(|(key, value)| format!("{key}={value}"));
        pairs.collect::<Vec<_>>().join(" ")
    };
    let unplaced = record.unplaced.iter().map(|one| {
        format!("{} {} {}", one.count, one.reason, pairs(&one.details)).trim_end().to_owned()
    });
    nodes.chain(unplaced).collect::<Vec<_>>().join("; ")
}
