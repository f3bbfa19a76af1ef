//! Disabled replicas whose volumes were copied to another node, and that start there from now on.

use jaco_types::{
    DesiredState, ErrorCode, InstanceId, Ordinal, Rejection, ReplicaId, ReplicaState, StateIndex,
};

use super::hostname;
use crate::apply::audit::Audit;
use crate::audit::AuditKind;
use crate::command::{DataMove, Entry, Outcome};
use crate::state::ClusterState;

pub(in crate::apply) fn carry_out(
    state: &mut ClusterState,
    entry: &Entry,
    command: &DataMove,
    audit: &mut Audit<'_>,
) -> Outcome {
    let DataMove { replicas, to } = command;
    let Some(target) = state.nodes.get(to) else {
        let message = format!("the cluster has no node {to}");
        return Outcome::Rejected(Rejection::new(ErrorCode::NodeNotFound, message));
    };
    let target = target.hostname.to_string();
    let mut may_move = replicas.iter().map(|(id, index)| check(state, id, *index));
    if let Some(rejection) = may_move.find_map(Result::err) {
        return Outcome::Rejected(rejection);
    }
    for id in replicas.keys() {
        let Some(slot) = state.slots.get_mut(id) else { continue };
        let from = std::mem::replace(&mut slot.current.node, *to);
        slot.current.raft_index = entry.index;
        // They were those of the other node.
        slot.current.gpus.clear();
        slot.modified = entry.index;
        let facts = [
            ("replica", id.to_string()),
            ("from", hostname(state, from)),
            ("node", target.clone()),
        ];
        audit.event(AuditKind::DataMoved, facts);
    }
    Outcome::Done
}

/// Whether the data of this replica is still what was copied.
fn check(state: &ClusterState, id: &ReplicaId, index: StateIndex) -> Result<(), Rejection> {
    let Some(slot) = state.slots.get(id) else {
        let message = format!("the cluster has no replica {id}");
        return Err(Rejection::new(ErrorCode::ReplicaNotFound, message));
    };
    if let Ordinal::Host(_) = slot.ordinal {
        let message = format!("replica {id} is that of its node, and has its data there");
        return Err(Rejection::new(ErrorCode::InvalidRequest, message));
    }
    if slot.desired_state != DesiredState::Disabled {
        let message = format!("replica {id} is not disabled: it may change its data meanwhile");
        return Err(Rejection::new(ErrorCode::VolumeInUse, message));
    }
    if is_up(state, id) {
        let message = format!("replica {id} is still being stopped");
        return Err(Rejection::new(ErrorCode::VolumeInUse, message));
    }
    let copied = InstanceId { replica: id.clone(), raft_index: index };
    if slot.current_id() != copied {
        let message =
            format!("replica {id} has changed since the copy began, and may have other data");
        return Err(Rejection::new(ErrorCode::VolumeInUse, message));
    }
    Ok(())
}

/// Whether an instance of it is up, though none should be.
fn is_up(state: &ClusterState, id: &ReplicaId) -> bool {
    let is_terminating = state.terminating.values().any(|ending| ending.id.replica == *id);
    let mut observed = state.observed.values().filter(|seen| seen.id.replica == *id);
    is_terminating
        || observed.any(|seen| match seen.state {
            ReplicaState::Starting | ReplicaState::Running | ReplicaState::Degraded => true,
            ReplicaState::Pending
            | ReplicaState::Pulling
            | ReplicaState::Failed
            | ReplicaState::Stopped
            | ReplicaState::Completed => false,
        })
}
