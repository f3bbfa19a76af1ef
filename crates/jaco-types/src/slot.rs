//! A slot and the instances that fill it.
//!
//! A slot is what users call a replica: a stable name. An instance is one container attempt of it,
//! numbered by the log index that caused it. During a handover a slot has two live instances: the
//! `retiring` one serves until its successor, the `current` one, does.

use std::sync::Arc;

use crate::id::{
    InstanceId, NodeId, Ordinal, ReplicaId, Revision, ServiceKey, SpecHash, StateIndex,
};
use crate::network::InstanceAddress;
use crate::termination::Termination;
use crate::time::{Millis, Timestamp};

/// A replica: a stable name and what should fill it. Only the planner writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Its stable name.
    pub id: ReplicaId,
    /// The service it belongs to.
    pub service: ServiceKey,
    /// Its ordinal within the service.
    pub ordinal: Ordinal,
    /// Whether it runs anything.
    pub desired_state: DesiredState,
    /// The instance that should run; of a disabled slot, what it would run.
    pub current: Instance,
    /// The instance that serves until `current` does, during a handover.
    pub retiring: Option<Instance>,
    /// Whether data binds it to the node of `current` while it is disabled.
    pub data: SlotData,
    /// How often it failed in a row.
    pub restarts: RestartCount,
    /// How its last failed instances ended, the newest last; at most
    /// [`crate::termination::TERMINATIONS_MAX`].
    pub terminations: Vec<Termination>,
    /// The last entry that changed it.
    pub modified: StateIndex,
}

impl Slot {
    /// The id of the current instance.
    #[must_use]
    pub fn current_id(&self) -> InstanceId {
        InstanceId { replica: self.id.clone(), raft_index: self.current.raft_index }
    }

    /// The id of the retiring instance, during a handover.
    #[must_use]
    pub fn retiring_id(&self) -> Option<InstanceId> {
        let retiring = self.retiring.as_ref()?;
        Some(InstanceId { replica: self.id.clone(), raft_index: retiring.raft_index })
    }

    /// Its live instances with their ids, the current one first. A disabled slot has none: what it
    /// names is its definition. A finished one has none either: its instance ended, and takes no room.
    pub fn instances(&self) -> impl Iterator<Item = (InstanceId, &Instance)> {
        let current = match self.desired_state {
            DesiredState::Active => Some(&self.current),
            DesiredState::Disabled | DesiredState::Finished(_) => None,
        };
        self.with_ids(current)
    }

    /// The instances whose containers its nodes keep, the current one first: the live ones, and that of a
    /// finished slot, for its log.
    pub fn kept_instances(&self) -> impl Iterator<Item = (InstanceId, &Instance)> {
        let current = match self.desired_state {
            DesiredState::Active | DesiredState::Finished(_) => Some(&self.current),
            DesiredState::Disabled => None,
        };
        self.with_ids(current)
    }

    fn with_ids<'a>(
        &'a self,
        current: Option<&'a Instance>,
    ) -> impl Iterator<Item = (InstanceId, &'a Instance)> {
        current.into_iter().chain(&self.retiring).map(|instance| {
            let id = InstanceId { replica: self.id.clone(), raft_index: instance.raft_index };
            (id, instance)
        })
    }
}

/// Whether a slot runs anything (R-SEL-3, R-JOB-1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DesiredState {
    /// Its instance runs.
    #[default]
    Active,
    /// It keeps its name, placement and definition, and nothing of it is started.
    Disabled,
    /// Its instance ran to its end, and only another spec runs it again. Its node keeps the container.
    Finished(Completion),
}

/// How an instance that ran to its end did so (R-JOB-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Completion {
    /// It exited with 0.
    Succeeded,
    /// It failed, and so did all its retries.
    Failed,
}

impl Completion {
    /// Every one of them.
    pub const ALL: &[Self] = &[Self::Succeeded, Self::Failed];
}

/// Whether a disabled slot may have data on its node. Of an active one the spec of its instance says that.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SlotData {
    /// Its last instance had data, or that is not known.
    #[default]
    Possible,
    /// It was created disabled, or its last instance had no data: it may start on any node.
    None,
}

/// One container attempt: where, and of what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// The log index that asked for it; stamped by `apply`.
    pub raft_index: StateIndex,
    /// The node that runs it.
    pub node: NodeId,
    /// The revision whose spec it runs.
    pub revision: Revision,
    /// The hash of that spec.
    pub spec_hash: SpecHash,
    /// The ids of the GPUs that it has for itself.
    pub gpus: Vec<Arc<str>>,
    /// Its addresses, in the order in which it is attached; chosen by `apply`.
    pub addresses: Vec<InstanceAddress>,
    /// Since when its container, which runs, is to be attached to the networks of these addresses; absent once it is,
    /// and where it was created in them.
    pub joining_since: Option<Timestamp>,
}

/// Failures in a row without a steady run between them (R-HEAL-1, R-HEAL-2).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RestartCount {
    /// How many instances failed one after another.
    pub consecutive: u32,
    /// Whether the restart budget is exhausted: it is not restarted before the next apply.
    pub exhausted: Exhausted,
}

impl RestartCount {
    /// Of a replica that did not run within the time of its rollout step, and is not tried any more: it
    /// did not fail.
    pub const TIMED_OUT: Self = Self { consecutive: 0, exhausted: Exhausted::Yes };

    /// Whether it was the time of a rollout step that ended, not the budget.
    #[must_use]
    pub fn is_timeout(self) -> bool {
        self == Self::TIMED_OUT
    }

    /// The crash loop back-off after so many failures in a row: a restart follows the first at once, the
    /// second after 1 s, and then after twice the time, 30 s at most.
    #[must_use]
    pub const fn back_off(consecutive: u32) -> Millis {
        match consecutive {
            0 | 1 => Millis(0),
            2..=6 => Millis(1000 << (consecutive - 2)),
            _ => Millis(30_000),
        }
    }
}

/// Whether a slot's restart budget is exhausted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Exhausted {
    /// It may still be restarted.
    #[default]
    No,
    /// It stays as it is until the next apply.
    Yes,
}
