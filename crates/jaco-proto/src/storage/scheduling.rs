//! What the planner keeps about a service.

use jaco_types::{
    FirstWatch, NodeId, Prepull, Revision, RollbackProgress, Rollout, RolloutState, Scheduling,
    StateIndex, Timestamp, Unplaced,
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
            first_watch: self.first_watch == FirstWatch::Open,
        }
    }

    fn from_wire(message: wire::Scheduling) -> Result<Self, Problem> {
        Ok(Self {
            next_index: message.next_index,
            planned_revision: Revision(message.planned_revision),
            rollout: optional(message.rollout)?,
            unplaced: list(message.unplaced)?,
            modified: StateIndex(message.modified),
            first_watch: match message.first_watch {
                true => FirstWatch::Open,
                false => FirstWatch::Over,
            },
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
            prepull: self.prepull.as_ref().map(Wire::to_wire),
            rollback_progress: self.rollback_progress.as_ref().map(Wire::to_wire),
            in_flight: self.in_flight.iter().map(Wire::to_wire).collect(),
        }
    }

    fn from_wire(message: wire::Rollout) -> Result<Self, Problem> {
        let replica = |id| Ok((Wire::from_wire(id)?, ()));
        let in_flight = ascending("steps in flight", message.in_flight.into_iter().map(replica))?;
        Ok(Self {
            target_revision: Revision(message.target_revision),
            previous_revision: Revision(message.previous_revision),
            total_steps: message.total_steps,
            current_step: message.current_step,
            state: Wire::from_wire(message.state)?,
            failure_reason: message.failure_reason,
            started_at: Timestamp(message.started_at_ms),
            last_step_at: Timestamp(message.last_step_at_ms),
            prepull: optional(message.prepull)?,
            rollback_progress: optional(message.rollback_progress)?,
            in_flight: in_flight.into_keys().collect(),
        })
    }
}

impl Wire for RollbackProgress {
    type Message = wire::RollbackProgress;

    fn to_wire(&self) -> wire::RollbackProgress {
        wire::RollbackProgress { total_steps: self.total_steps, current_step: self.current_step }
    }

    fn from_wire(message: wire::RollbackProgress) -> Result<Self, Problem> {
        let wire::RollbackProgress { total_steps, current_step } = message;
        Ok(Self { total_steps, current_step })
    }
}

impl Wire for Prepull {
    type Message = wire::Prepull;

    fn to_wire(&self) -> wire::Prepull {
        let node = |(node, reason): (&NodeId, &String)| wire::UnpreparedNode {
            node: node.0,
            reason: reason.clone(),
        };
        wire::Prepull { due_ms: self.due.0, nodes: self.nodes.iter().map(node).collect() }
    }

    fn from_wire(message: wire::Prepull) -> Result<Self, Problem> {
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
