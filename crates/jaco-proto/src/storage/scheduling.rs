//! What the planner keeps about a service.

use jaco_types::{
    GoingBack, NodeId, Preparing, Revision, Rollout, RolloutState, Scheduling, StateIndex,
    Timestamp, Unplaced,
};

use super::convert::{Wire, ascending, list, optional, to_list, wire_enum};
use super::error::Problem;
use super::wire;

wire_enum!(RolloutState, "rollout state", [InProgress, Completed, Aborted, Paused, RollbackPaused]);

impl Wire for Scheduling {
    type Message = wire::Scheduling;

    fn to_wire(&self) -> wire::Scheduling {
        wire::Scheduling {
            next_index: self.next_index,
            planned_revision: self.planned_revision.0,
            rollout: self.rollout.as_ref().map(Wire::to_wire),
            unplaced: to_list(&self.unplaced),
            modified: self.modified.0,
        }
    }

    fn from_wire(message: wire::Scheduling) -> Result<Self, Problem> {
        Ok(Self {
            next_index: message.next_index,
            planned_revision: Revision(message.planned_revision),
            rollout: optional(message.rollout)?,
            unplaced: list(message.unplaced)?,
            modified: StateIndex(message.modified),
        })
    }
}

impl Wire for Rollout {
    type Message = wire::Rollout;

    fn to_wire(&self) -> wire::Rollout {
        wire::Rollout {
            target_revision: self.target_revision.0,
            previous_revision: self.previous_revision.0,
            total_steps: self.total_steps,
            current_step: self.current_step,
            state: self.state.to_wire(),
            failure_reason: self.failure_reason.clone(),
            started_at_ms: self.started_at.0,
            last_step_at_ms: self.last_step_at.0,
            preparing: self.preparing.as_ref().map(Wire::to_wire),
            going_back: self.going_back.as_ref().map(Wire::to_wire),
            under_way: self.under_way.iter().map(Wire::to_wire).collect(),
        }
    }

    fn from_wire(message: wire::Rollout) -> Result<Self, Problem> {
        let replica = |id| Ok((Wire::from_wire(id)?, ()));
        let under_way = ascending("steps under way", message.under_way.into_iter().map(replica))?;
        Ok(Self {
            target_revision: Revision(message.target_revision),
            previous_revision: Revision(message.previous_revision),
            total_steps: message.total_steps,
            current_step: message.current_step,
            state: Wire::from_wire(message.state)?,
            failure_reason: message.failure_reason,
            started_at: Timestamp(message.started_at_ms),
            last_step_at: Timestamp(message.last_step_at_ms),
            preparing: optional(message.preparing)?,
            going_back: optional(message.going_back)?,
            under_way: under_way.into_keys().collect(),
        })
    }
}

impl Wire for GoingBack {
    type Message = wire::GoingBack;

    fn to_wire(&self) -> wire::GoingBack {
        wire::GoingBack { total_steps: self.total_steps, current_step: self.current_step }
    }

    fn from_wire(message: wire::GoingBack) -> Result<Self, Problem> {
        let wire::GoingBack { total_steps, current_step } = message;
        Ok(Self { total_steps, current_step })
    }
}

impl Wire for Preparing {
    type Message = wire::Preparing;

    fn to_wire(&self) -> wire::Preparing {
        let node = |(node, reason): (&NodeId, &String)| wire::UnpreparedNode {
            node: node.0,
            reason: reason.clone(),
        };
        wire::Preparing { due_ms: self.due.0, nodes: self.nodes.iter().map(node).collect() }
    }

    fn from_wire(message: wire::Preparing) -> Result<Self, Problem> {
        let node = |node: wire::UnpreparedNode| Ok((NodeId(node.node), node.reason));
        let nodes = ascending("nodes", message.nodes.into_iter().map(node))?;
        Ok(Self { due: Timestamp(message.due_ms), nodes })
    }
}

impl Wire for Unplaced {
    type Message = wire::Unplaced;

    fn to_wire(&self) -> wire::Unplaced {
        wire::Unplaced {
            count: self.count,
            reason: self.reason.clone(),
            details: self.details.to_wire(),
        }
    }

    fn from_wire(message: wire::Unplaced) -> Result<Self, Problem> {
        Ok(Self {
            count: message.count,
            reason: message.reason,
            details: Wire::from_wire(message.details)?,
        })
    }
}
