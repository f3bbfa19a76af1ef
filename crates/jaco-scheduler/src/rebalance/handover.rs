//! The end of a move that does not complete: the replica stays where it still serves.
//!
//! A successor that can never start on its destination would stay beside its predecessor for ever. How
//! long it may take is the time that a step of a rollout may take (`step_timeout`), from when this
//! leader saw the handover first; a new leader begins anew.

use std::collections::BTreeMap;

use jaco_state::ClusterState;
use jaco_state::command::{Command, RebalanceRevert, RevertedMove};
use jaco_types::spec::{Placement, ServiceSpec};
use jaco_types::{
    Availability, InstanceId, Millis, Node, NodeId, NodeStatus, ReplicaId, ReplicaState, Slot,
    Timestamp,
};

use super::movable::can_hand_over;

/// When this leader saw each handover first, by the instance that is to take over.
#[derive(Debug, Clone, Default)]
pub(super) struct Handovers {
    since: BTreeMap<InstanceId, Timestamp>,
}

/// A move whose successor did not run in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overdue {
    /// The replica.
    pub replica: ReplicaId,
    /// Where its successor does not run.
    pub dst: NodeId,
    /// Where it still serves.
    pub src: NodeId,
    /// How long it was waited for.
    pub limit: Millis,
    /// What the successor was seen as last.
    pub state: Option<ReplicaState>,
}

impl Handovers {
    /// The moves that took too long. Each is named until it is over.
    pub(super) fn overdue(&mut self, state: &ClusterState, now: Timestamp) -> Vec<Overdue> {
        let in_progress: Vec<_> =
            state.slots.values().filter_map(|slot| moving(state, slot)).collect();
        let mut since = BTreeMap::new();
        for (slot, ..) in &in_progress {
            let id = slot.current_id();
            let first = self.since.get(&id).copied().unwrap_or(now);
            // A clock that went back must not make the wait longer than it is.
            since.insert(id, first.min(now));
        }
        self.since = since;
        let overdue = in_progress.into_iter().filter_map(|(slot, spec, src)| {
            let limit = spec.update.step_timeout;
            let first = self.since.get(&slot.current_id())?;
            (now.since(*first) >= limit).then(|| Overdue {
                replica: slot.id.clone(),
                dst: slot.current.node,
                src,
                limit,
                state: state.observed.get(&slot.current_id()).map(|seen| seen.state),
            })
        });
        overdue.collect()
    }
}

/// A replica that is on its way to another node though its own would keep it, and where that is. Whoever
/// runs a new spec is the rollout's to judge; what must leave its node goes on trying.
fn moving<'a>(
    state: &'a ClusterState,
    slot: &'a Slot,
) -> Option<(&'a Slot, &'a ServiceSpec, NodeId)> {
    let retiring = slot.retiring.as_ref()?;
    let is_move =
        retiring.spec_hash == slot.current.spec_hash && retiring.node != slot.current.node;
    let deployment = state.deployments.get(&slot.service.deployment)?;
    let spec = deployment.spec().services.get(&slot.service.service)?;
    let serves = slot.retiring_id().and_then(|id| state.observed.get(&id));
    let serves = serves.is_some_and(|seen| seen.state == ReplicaState::Running);
    let node = state.nodes.get(&retiring.node)?;
    (is_move && serves && can_hand_over(spec) && keeps(node, &spec.placement)).then_some((
        slot,
        spec,
        retiring.node,
    ))
}

fn keeps(node: &Node, placement: &Placement) -> bool {
    let is_there = match node.status {
        NodeStatus::Ready | NodeStatus::DiskFull => true,
        NodeStatus::Joining | NodeStatus::Down | NodeStatus::EngineDown => false,
    };
    let is_asked_for = match placement {
        Placement::Hosts(hosts) => hosts.contains(&node.hostname),
        Placement::Spread | Placement::Pack => true,
        Placement::Global => false,
    };
    is_there && is_asked_for && node.availability != Availability::Draining
}

impl Overdue {
    /// What the log gets; the reason is a fact of its event.
    #[must_use]
    pub fn command(overdue: &[Self], state: &ClusterState) -> Option<Command> {
        let hostname = |id: NodeId| {
            let node = state.nodes.get(&id);
            node.map_or_else(|| id.to_string(), |node| node.hostname.to_string())
        };
        let revert = |one: &Self| {
            let seen = one.state.map_or("nothing", ReplicaState::as_str);
            let facts = [
                ("replica_id", one.replica.to_string()),
                ("src", hostname(one.src)),
                ("dst", hostname(one.dst)),
                ("reason", "step_timeout".to_owned()),
                ("waited", one.limit.to_string()),
                ("state", seen.to_owned()),
            ];
            let facts = facts.map(|(name, fact)| (name.to_owned(), fact)).into();
            RevertedMove { id: one.replica.clone(), facts }
        };
        let reverts: Vec<_> = overdue.iter().map(revert).collect();
        let based_on = state.index;
        (!reverts.is_empty()).then_some(RebalanceRevert::new(based_on, reverts).into())
    }
}
