//! Compares the desired instances of a node with its containers. Pure; whether an instance should
//! run was decided by the planner.

use std::collections::BTreeMap;

use jaco_state::view::Role;
use jaco_types::InstanceId;

use crate::engine::{ContainerStatus, ObservedContainer, Owner};

/// Desired instance on this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Desired {
    /// Whether to start it or only keep it.
    pub role: Role,
    /// Whether it ever ran.
    pub history: History,
}

/// Whether an instance ever ran. It is started at most once: a restart is a new instance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum History {
    /// No container of it is known.
    #[default]
    NeverRan,
    /// It had a container, or the engine refused to start one.
    Ran,
}

/// Status of an instance's container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Created and never started.
    Created,
    /// Running.
    Up,
    /// Exited.
    Exited,
}

impl From<&ContainerStatus> for Phase {
    fn from(status: &ContainerStatus) -> Self {
        match status {
            ContainerStatus::Created => Self::Created,
            ContainerStatus::Up { .. } => Self::Up,
            ContainerStatus::Exited { .. } => Self::Exited,
        }
    }
}

/// One action.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Start the instance.
    Start(InstanceId),
    /// Stop its container.
    Stop(InstanceId),
    /// Remove its container.
    Remove(InstanceId),
    /// Its container does not exist although it should: report it; the planner decides what
    /// follows.
    ReportMissing(InstanceId),
}

/// The actions that lead from `actual` to `desired`, at most one per instance.
///
/// - An instance starts only if it never ran, and only while the node has no newer instance of its
///   slot and no older one that still runs without being desired: where the planner removed a
///   predecessor instead of retiring it, the two cannot run side by side.
/// - One that leaves the endpoints counts as dropped, and is kept until it is desired no more.
/// - An exited container stays while its instance is desired, so that its log can be read; that of what ran
///   to its end is not missed.
#[must_use]
pub fn plan(
    desired: &BTreeMap<InstanceId, Desired>,
    actual: &BTreeMap<InstanceId, Phase>,
) -> Vec<Action> {
    let stray =
        actual.iter().filter(|(id, _)| !desired.contains_key(id)).map(|(id, phase)| match phase {
            Phase::Up => Action::Stop(id.clone()),
            Phase::Created | Phase::Exited => Action::Remove(id.clone()),
        });
    let due = desired.iter().filter_map(|(id, target)| step(id, *target, desired, actual));
    stray.chain(due).collect()
}

fn step(
    id: &InstanceId,
    target: Desired,
    desired: &BTreeMap<InstanceId, Desired>,
    actual: &BTreeMap<InstanceId, Phase>,
) -> Option<Action> {
    match (actual.get(id), target.history, target.role) {
        (Some(Phase::Up | Phase::Exited), _, _) => None,
        // What ran to its end needs no container.
        (None, _, Role::Finished) => None,
        (None, History::Ran, _) => Some(Action::ReportMissing(id.clone())),
        // The engine refused to start it: kept like an exited one.
        (Some(Phase::Created), History::Ran, _) => None,
        (_, History::NeverRan, Role::Retiring | Role::Terminating | Role::Finished) => None,
        (_, History::NeverRan, Role::Current) => {
            may_start(id, desired, actual).then(|| Action::Start(id.clone()))
        }
    }
}

fn may_start(
    id: &InstanceId,
    desired: &BTreeMap<InstanceId, Desired>,
    actual: &BTreeMap<InstanceId, Phase>,
) -> bool {
    let mut siblings = actual.iter().filter(|(other, _)| other.replica == id.replica);
    siblings.all(|(other, phase)| {
        let newer = other.raft_index > id.raft_index;
        let role = desired.get(other).map(|desired| desired.role);
        let dropped = *phase == Phase::Up && matches!(role, None | Some(Role::Terminating));
        !newer && !dropped
    })
}

/// The containers of `owner` among those listed.
#[must_use]
pub fn own(
    owner: &Owner,
    listed: Vec<ObservedContainer>,
) -> BTreeMap<InstanceId, ObservedContainer> {
    let own = listed.into_iter().filter(|seen| seen.owner == *owner);
    own.map(|seen| (seen.instance.clone(), seen)).collect()
}
