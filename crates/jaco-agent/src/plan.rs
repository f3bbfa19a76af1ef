//! Compares what should run on the node with what is there. Touches nothing and chooses nothing:
//! whether an instance should run was decided by the planner.

use std::collections::BTreeMap;

use jaco_state::view::Role;
use jaco_types::InstanceId;

use crate::engine::{ContainerSeen, ContainerStatus, Owner};

/// What should become of an instance on this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wanted {
    /// Whether it is to be started, or only kept.
    pub role: Role,
    /// Whether it ever ran.
    pub history: History,
}

/// Whether an instance ever ran. It is started at most once: a restart is a new instance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum History {
    /// Nothing is known of a container of it.
    #[default]
    NeverRan,
    /// There was one, or the engine refused to start one.
    Ran,
}

/// What the container of an instance does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// It was made and never started.
    Created,
    /// Its process runs.
    Up,
    /// Its process ended.
    Ended,
}

impl From<&ContainerStatus> for Phase {
    fn from(status: &ContainerStatus) -> Self {
        match status {
            ContainerStatus::Created => Self::Created,
            ContainerStatus::Up { .. } => Self::Up,
            ContainerStatus::Ended { .. } => Self::Ended,
        }
    }
}

/// One step towards what should be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Start the instance.
    Start(InstanceId),
    /// Stop its container.
    Stop(InstanceId),
    /// Remove its container.
    Remove(InstanceId),
    /// Its container is gone though it should be there: say so, and leave it to the planner.
    Mourn(InstanceId),
}

/// The steps that lead from `actual` to `wanted`, one per instance at most.
///
/// - An instance starts only if it never ran, and only while the node holds nothing newer of its
///   slot and nothing older that still runs unwanted: where the planner dropped a predecessor
///   instead of retiring it, the two cannot run side by side.
/// - One that leaves the endpoints counts as dropped, and is kept until it is wanted no more.
/// - A container that ended stays while its instance is wanted, so that its log can be read.
#[must_use]
pub fn plan(
    wanted: &BTreeMap<InstanceId, Wanted>,
    actual: &BTreeMap<InstanceId, Phase>,
) -> Vec<Action> {
    let stray =
        actual.iter().filter(|(id, _)| !wanted.contains_key(id)).map(|(id, phase)| match phase {
            Phase::Up => Action::Stop(id.clone()),
            Phase::Created | Phase::Ended => Action::Remove(id.clone()),
        });
    let due = wanted.iter().filter_map(|(id, want)| step(id, *want, wanted, actual));
    stray.chain(due).collect()
}

fn step(
    id: &InstanceId,
    want: Wanted,
    wanted: &BTreeMap<InstanceId, Wanted>,
    actual: &BTreeMap<InstanceId, Phase>,
) -> Option<Action> {
    match (actual.get(id), want.history, want.role) {
        (Some(Phase::Up | Phase::Ended), _, _) => None,
        (None, History::Ran, _) => Some(Action::Mourn(id.clone())),
        // Refused by the engine when it was started: kept like one that ended.
        (Some(Phase::Created), History::Ran, _) => None,
        (_, History::NeverRan, Role::Retiring | Role::Leaving) => None,
        (_, History::NeverRan, Role::Current) => {
            may_start(id, wanted, actual).then(|| Action::Start(id.clone()))
        }
    }
}

fn may_start(
    id: &InstanceId,
    wanted: &BTreeMap<InstanceId, Wanted>,
    actual: &BTreeMap<InstanceId, Phase>,
) -> bool {
    let mut siblings = actual.iter().filter(|(other, _)| other.replica == id.replica);
    siblings.all(|(other, phase)| {
        let newer = other.raft_index > id.raft_index;
        let role = wanted.get(other).map(|wanted| wanted.role);
        let dropped = *phase == Phase::Up && matches!(role, None | Some(Role::Leaving));
        !newer && !dropped
    })
}

/// Of what an engine listed, the containers of `owner`. Nothing else is looked at any further.
#[must_use]
pub fn own(owner: &Owner, listed: Vec<ContainerSeen>) -> BTreeMap<InstanceId, ContainerSeen> {
    let own = listed.into_iter().filter(|seen| seen.owner == *owner);
    own.map(|seen| (seen.instance.clone(), seen)).collect()
}
