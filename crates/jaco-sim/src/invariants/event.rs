//! What the laws are told of.

use jaco_agent::Effect;
use jaco_agent::engine::ContainerId;
use jaco_state::command::Batch;
use jaco_state::{Change, ClusterState, Command, Entry, Outcome};
use jaco_types::{InstanceId, Millis, NodeId, StateIndex, Timestamp};

use crate::machine::Membership;
use crate::network::MachineIx;

/// An entry of the log, executed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Committed<'a> {
    pub(crate) entry: &'a Entry,
    /// When a leader appended it, in truth.
    pub(crate) appended: Timestamp,
    /// The state that it met. The facts hold the one that it left.
    pub(crate) before: &'a ClusterState,
    pub(crate) outcome: &'a Outcome,
}

impl<'a> Committed<'a> {
    /// The changes of a plan that was carried out, and the index that the plan is based on.
    pub(crate) fn plan(&self) -> Option<(StateIndex, &'a [Change])> {
        match (&self.entry.command, self.outcome) {
            (Command::Batch(Batch { based_on, changes }), Outcome::Done) => {
                Some((*based_on, changes))
            }
            _ => None,
        }
    }
}

/// What an agent asks its engine for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AgentEffect<'a> {
    pub(crate) effect: &'a Effect,
    /// The state that its node holds.
    pub(crate) state: &'a ClusterState,
    pub(crate) node: NodeId,
    pub(crate) membership: Membership,
    /// For how long it was without contact to a leader, as it was told last.
    pub(crate) silence: Millis,
}

impl<'a> AgentEffect<'a> {
    /// The instance and container that are to be stopped or removed.
    pub(crate) fn ends(&self) -> Option<(&'a InstanceId, &'a ContainerId)> {
        if let Effect::Stop { instance, container } | Effect::Remove { instance, container } =
            self.effect
        {
            return Some((instance, container));
        }
        None
    }

    /// Whether this instance has to stop, whatever the slots say: its node is cut off, or was removed, as it was told or as
    /// its own state says.
    pub(crate) fn has_to_stop(&self, instance: &InstanceId) -> bool {
        let is_removed =
            self.membership == Membership::Dismissed || !self.state.nodes.contains(&self.node);
        is_removed || self.is_isolated(instance)
    }

    fn is_isolated(&self, instance: &InstanceId) -> bool {
        let slot = self.state.slots.get(&instance.replica);
        let of_slot = slot.and_then(|slot| {
            let mut live = slot.instances().filter(|(id, _)| id == instance);
            live.next().map(|(_, live)| (&slot.service, live.revision))
        });
        let left = self.state.terminating.get(instance).map(|left| (&left.service, left.revision));
        of_slot.or(left).is_some_and(|(service, revision)| {
            let limit = super::facts::stops_after(self.state, service, revision);
            limit.is_some_and(|limit| self.silence >= limit)
        })
    }
}

/// One run of a daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) machine: MachineIx,
    /// The how manieth daemon of the machine it is.
    pub(crate) life: u64,
}

/// A container that an engine made for an instance, or found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Started<'a> {
    pub(crate) instance: &'a InstanceId,
    pub(crate) container: &'a ContainerId,
    pub(crate) by: Process,
    /// The state that the daemon holds.
    pub(crate) state: &'a ClusterState,
}
