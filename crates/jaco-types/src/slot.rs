//! A slot and the instances that fill it.
//!
//! A slot is what users call a replica: a stable name. An instance is one container attempt of it,
//! numbered by the log index that caused it. During a handover a slot has two live instances: the
//! `retiring` one serves until its successor, the `current` one, does.

use std::fmt;
use std::sync::Arc;

use crate::ending::Ending;
use crate::id::{
    Hostname, InstanceId, NodeId, ReplicaId, Revision, ServiceKey, SpecHash, StateIndex,
};
use crate::time::Millis;

/// A replica: a stable name and what should fill it. Only the planner writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Its stable name.
    pub id: ReplicaId,
    /// The service it belongs to.
    pub service: ServiceKey,
    /// What tells it apart from its siblings.
    pub ordinal: Ordinal,
    /// Whether it runs anything.
    pub standing: Standing,
    /// The instance that should run; of a disabled slot, what it would run.
    pub current: Instance,
    /// The instance that serves until `current` does, during a handover.
    pub retiring: Option<Instance>,
    /// How often it failed in a row.
    pub restarts: RestartCount,
    /// How its last instances ended that were not well, the newest last; at most
    /// [`crate::ending::ENDINGS_MAX`].
    pub endings: Vec<Ending>,
    /// The last entry that changed it.
    pub modified: StateIndex,
}

impl Slot {
    /// The id of the current instance.
    #[must_use]
    pub fn current_id(&self) -> InstanceId {
        InstanceId { replica: self.id.clone(), raft_index: self.current.raft_index }
    }

    /// The id of the retiring instance, if a handover is under way.
    #[must_use]
    pub fn retiring_id(&self) -> Option<InstanceId> {
        let retiring = self.retiring.as_ref()?;
        Some(InstanceId { replica: self.id.clone(), raft_index: retiring.raft_index })
    }

    /// Its live instances with their ids, the current one first. A disabled slot has none: what it
    /// names is its definition.
    pub fn instances(&self) -> impl Iterator<Item = (InstanceId, &Instance)> {
        let current = match self.standing {
            Standing::Active => Some(&self.current),
            Standing::Disabled => None,
        };
        current.into_iter().chain(&self.retiring).map(|instance| {
            let id = InstanceId { replica: self.id.clone(), raft_index: instance.raft_index };
            (id, instance)
        })
    }
}

/// Whether a slot runs anything (R-SEL-3).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
    /// Its instance runs.
    #[default]
    Active,
    /// It keeps its name, place and definition, and nothing of it is started: people want it to
    /// rest.
    Disabled,
}

/// What tells a slot apart from the others of its service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ordinal {
    /// A number from the service's counter; never reused.
    Index(u64),
    /// The host, for services that run once per node.
    Host(Hostname),
}

impl fmt::Display for Ordinal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(index) => fmt::Display::fmt(index, f),
            Self::Host(host) => fmt::Display::fmt(host, f),
        }
    }
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
}

/// Failures in a row without a steady run between them (R-HEAL-1, R-HEAL-2).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RestartCount {
    /// How many instances failed one after another.
    pub consecutive: u32,
    /// Whether the budget is spent: nothing more is tried until the next apply.
    pub exhausted: Exhausted,
}

impl RestartCount {
    /// How long the failure that made it so many in a row is left alone before a restart: the first
    /// is answered at once, the second after 1 s, and then twice as long each time, 30 s at most.
    #[must_use]
    pub const fn back_off(consecutive: u32) -> Millis {
        match consecutive {
            0 | 1 => Millis(0),
            2..=6 => Millis(1000 << (consecutive - 2)),
            _ => Millis(30_000),
        }
    }
}

/// Whether a slot's restart budget is spent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Exhausted {
    /// It may still be restarted.
    #[default]
    No,
    /// It stays as it is until the next apply.
    Yes,
}
