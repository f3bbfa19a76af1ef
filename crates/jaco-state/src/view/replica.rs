//! The state of a replica: desired and observed state in one.

use std::collections::BTreeMap;

use jaco_types::slot::Exhausted;
use jaco_types::{
    Completion, DeploymentName, DesiredState, InstanceId, ReasonCode, ReplicaId, ReplicaState,
    RestartCount, Slot, Timestamp,
};

use super::disabled;
use crate::state::ClusterState;

/// A replica as users see it: its desired and observed state in one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaView {
    /// Its state.
    pub state: ReplicaState,
    /// Why, where there is a reason to give.
    pub code: Option<ReasonCode>,
    /// Facts that belong to the reason.
    pub details: BTreeMap<String, String>,
}

/// The state of a slot: its current instance's observation, or `pending` while there is none. A
/// slot whose restart budget is exhausted is `failed/restart_exhausted`, whatever its container did last, with
/// `reason: step_timeout` where it did not run within the time of its rollout step instead; one that ran to its
/// end is `completed`; one that is disabled is `stopped/disabled`, with who disabled it, and when, and `pending` once it
/// is enabled again and waits for its instance.
#[must_use]
pub fn replica(state: &ClusterState, slot: &Slot) -> ReplicaView {
    let seen = state.observed.get(&slot.current_id());
    let details = || seen.map(|seen| seen.details.clone()).unwrap_or_default();
    let mut view = match (slot.desired_state, seen) {
        (DesiredState::Disabled, _) => return disabled_replica(state, slot),
        (DesiredState::Finished(Completion::Succeeded), _) => {
            return ReplicaView { state: ReplicaState::Completed, code: None, details: details() };
        }
        (DesiredState::Finished(Completion::Failed), _) => ReplicaView {
            state: ReplicaState::Failed,
            code: Some(ReasonCode::RestartExhausted),
            details: details(),
        },
        (DesiredState::Active, Some(seen)) => {
            ReplicaView { state: seen.state, code: seen.code, details: details() }
        }
        (DesiredState::Active, None) => {
            ReplicaView { state: ReplicaState::Pending, code: None, details: BTreeMap::new() }
        }
    };
    if slot.restarts.exhausted == Exhausted::Yes {
        view.state = ReplicaState::Failed;
        view.code = Some(ReasonCode::RestartExhausted);
        let (name, value) = match slot.restarts.is_timeout() {
            true => ("reason", "step_timeout".to_owned()),
            false => ("consecutive_failures", slot.restarts.consecutive.to_string()),
        };
        view.details.insert(name.to_owned(), value);
    }
    view
}

fn disabled_replica(state: &ClusterState, slot: &Slot) -> ReplicaView {
    let by_users = state.disabled.by_users(&slot.service, Some(&slot.id), slot.current.node);
    let Some((scope, disablement)) = by_users else {
        let waits = state.disabled.waiting.contains(&slot.service);
        let waits = waits.then(|| ("waits_for".to_owned(), "schedule".to_owned()));
        let details = waits.into_iter().collect();
        return ReplicaView { state: ReplicaState::Pending, code: None, details };
    };
    let details = BTreeMap::from([
        ("disabled".to_owned(), disabled::describe(state, &scope)),
        ("by".to_owned(), disablement.by.to_string()),
        ("at_ms".to_owned(), disablement.at.0.to_string()),
    ]);
    ReplicaView { state: ReplicaState::Stopped, code: Some(ReasonCode::Disabled), details }
}

/// When a failed replica is restarted after its crash loop back-off; `None` if it does not wait for that.
#[must_use]
pub fn restart_at(state: &ClusterState, slot: &Slot) -> Option<Timestamp> {
    let seen = state.observed.get(&slot.current_id())?;
    let has_failed = match seen.state {
        ReplicaState::Failed | ReplicaState::Degraded | ReplicaState::Stopped => true,
        // The next pass finishes what completed.
        ReplicaState::Completed => false,
        ReplicaState::Pending
        | ReplicaState::Pulling
        | ReplicaState::Starting
        | ReplicaState::Running => false,
    };
    let back_off = RestartCount::back_off(slot.restarts.consecutive.saturating_add(1));
    let is_active = slot.desired_state == DesiredState::Active;
    let waits =
        is_active && has_failed && slot.restarts.exhausted == Exhausted::No && back_off.0 > 0;
    waits.then(|| seen.since.after(back_off))
}

/// Whether an instance is up, and healthy where there is a healthcheck.
#[must_use]
pub fn is_running(state: &ClusterState, id: &InstanceId) -> bool {
    state.observed.get(id).is_some_and(|seen| seen.state == ReplicaState::Running)
}

/// The slots of one deployment, in the order of their names.
pub fn slots_of<'a>(
    state: &'a ClusterState,
    deployment: &DeploymentName,
) -> impl Iterator<Item = &'a Slot> + use<'a> {
    // The ids of a deployment are those between these two, because `.` follows `-`; another deployment's may
    // lie among them, such as those of `shop-eu` among those of `shop`.
    let bound = |end: char| ReplicaId::parse(&format!("{deployment}{end}"));
    let range = bound('-').ok().zip(bound('.').ok());
    let slots = range.map(|(from, to)| state.slots.range(from..to));
    let slots = slots.into_iter().flatten().map(|(_, slot)| slot);
    let deployment = deployment.clone();
    slots.filter(move |slot| slot.service.deployment == deployment)
}
