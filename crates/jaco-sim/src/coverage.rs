//! Which decisions of the planner were seen in which states: what no history reaches, no law was asked about.

use std::collections::BTreeMap;
use std::fmt;

use jaco_state::command::{Previous, ReplaceCause};
use jaco_state::{Change, ClusterState};
use jaco_types::{Completion, DesiredState, NodeStatus, ReplicaId, ReplicaState};

/// What the planner decided about a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decision {
    /// Another instance takes the place of the one that it has.
    Replace(ReplaceCause, Previous),
    /// The successor serves: what it replaces may stop.
    Settle,
    /// The successor does not serve: what it should replace goes on.
    Revert,
    /// It counts failures, or those that are too many.
    SetRestarts,
    /// It runs nothing any more.
    Disable,
    /// It has run to its end.
    Finish(Completion),
    /// It is surplus.
    Remove,
}

/// What was known of the slot's current instance then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Met {
    /// Its node is not ready.
    NodeAway,
    /// It has none: the slot is disabled or has finished.
    AtRest,
    /// Its node has reported nothing of it yet.
    Unseen,
    /// Its node has reported this.
    Seen(ReplicaState),
}

/// How often each decision was made in each state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coverage(BTreeMap<(Decision, Met), u64>);

impl Decision {
    /// Every one of them.
    pub fn all() -> impl Iterator<Item = Self> {
        let replace = |cause| [Previous::Retire, Previous::Drop].map(|of| Self::Replace(cause, of));
        let finish = [Completion::Succeeded, Completion::Failed].map(Self::Finish);
        let others = [Self::Settle, Self::Revert, Self::SetRestarts, Self::Disable, Self::Remove];
        ReplaceCause::ALL.into_iter().flat_map(replace).chain(finish).chain(others)
    }

    /// What a change decides, and about which slot; `None` where it is about none that there was.
    fn of(change: &Change) -> Option<(Self, &ReplicaId)> {
        match change {
            Change::SlotReplace { id, previous, cause, .. } => {
                Some((Self::Replace(*cause, *previous), id))
            }
            Change::SlotSettle { id } => Some((Self::Settle, id)),
            Change::SlotRevert { id } => Some((Self::Revert, id)),
            Change::SlotSetRestarts { id, .. } => Some((Self::SetRestarts, id)),
            Change::SlotDisable { id, .. } => Some((Self::Disable, id)),
            Change::SlotFinish { id, completion, .. } => Some((Self::Finish(*completion), id)),
            Change::SlotRemove { id } => Some((Self::Remove, id)),
            Change::SlotCreate { .. }
            | Change::SchedulingSet { .. }
            | Change::TerminatingRemove { .. }
            | Change::ConsumerExpire { .. }
            | Change::NodeStatusSet { .. }
            | Change::ImageResolve { .. }
            | Change::DrainTimeout { .. } => None,
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Replace(cause, Previous::Retire) => write!(f, "retire, {}", cause.as_str()),
            Self::Replace(cause, Previous::Drop) => write!(f, "drop, {}", cause.as_str()),
            Self::Settle => f.write_str("settle"),
            Self::Revert => f.write_str("revert"),
            Self::SetRestarts => f.write_str("set restarts"),
            Self::Disable => f.write_str("disable"),
            Self::Finish(Completion::Succeeded) => f.write_str("finish, succeeded"),
            Self::Finish(Completion::Failed) => f.write_str("finish, failed"),
            Self::Remove => f.write_str("remove"),
        }
    }
}

impl Met {
    /// Every one of them that a node can report, or fail to.
    pub fn all() -> impl Iterator<Item = Self> {
        let seen = [
            ReplicaState::Pending,
            ReplicaState::Pulling,
            ReplicaState::Starting,
            ReplicaState::Running,
            ReplicaState::Degraded,
            ReplicaState::Failed,
            ReplicaState::Stopped,
        ];
        [Self::NodeAway, Self::AtRest, Self::Unseen].into_iter().chain(seen.map(Self::Seen))
    }

    fn of(state: &ClusterState, slot: &ReplicaId) -> Option<Self> {
        let slot = state.slots.get(slot)?;
        let is_away = |status| match status {
            NodeStatus::Down | NodeStatus::EngineDown => true,
            NodeStatus::Joining | NodeStatus::Ready | NodeStatus::DiskFull => false,
        };
        match slot.desired_state {
            DesiredState::Disabled | DesiredState::Finished(_) => return Some(Self::AtRest),
            DesiredState::Active => {}
        }
        if state.nodes.get(&slot.current.node).is_none_or(|node| is_away(node.status)) {
            return Some(Self::NodeAway);
        }
        let seen = state.observed.get(&slot.current_id());
        Some(seen.map_or(Self::Unseen, |seen| Self::Seen(seen.state)))
    }
}

impl fmt::Display for Met {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NodeAway => f.pad("away"),
            Self::AtRest => f.pad("at rest"),
            Self::Unseen => f.pad("unseen"),
            Self::Seen(state) => f.pad(state.as_str()),
        }
    }
}

impl Coverage {
    /// Counts the decisions of a plan that met this state. Of a slot that it decides about twice, both met what it was.
    pub(crate) fn note(&mut self, before: &ClusterState, changes: &[Change]) {
        let decisions = changes.iter().filter_map(Decision::of);
        let met = |(decision, slot)| Some((decision, Met::of(before, slot)?));
        for pair in decisions.filter_map(met) {
            *self.0.entry(pair).or_default() += 1;
        }
    }

    /// Adds what other histories have seen.
    pub fn add(&mut self, other: &Self) {
        for (pair, count) in &other.0 {
            *self.0.entry(*pair).or_default() += count;
        }
    }

    /// The pairs that were seen, of all that can be named.
    #[must_use]
    pub fn visited(&self) -> (usize, usize) {
        (self.0.len(), Decision::all().count() * Met::all().count())
    }

    /// How often a decision was made in a state.
    #[must_use]
    pub fn count(&self, decision: Decision, met: Met) -> u64 {
        self.0.get(&(decision, met)).copied().unwrap_or_default()
    }
}

/// A table: a line for each decision, a column for each state, a dot for what was never seen.
impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<28}", "")?;
        for met in Met::all() {
            write!(f, "{met:>9}")?;
        }
        for decision in Decision::all() {
            write!(f, "\n{:<28}", decision.to_string())?;
            for met in Met::all() {
                match self.count(decision, met) {
                    0 => write!(f, "{:>9}", "·")?,
                    count => write!(f, "{count:>9}")?,
                }
            }
        }
        Ok(())
    }
}
