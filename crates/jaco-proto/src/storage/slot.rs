//! Slots and the instances that fill them.

use std::sync::Arc;

use jaco_state::NewInstance;
use jaco_types::slot::{Exhausted, SlotData};
use jaco_types::{
    Completion, DesiredState, Instance, NodeId, Ordinal, RestartCount, Revision, Slot, StateIndex,
    Termination, TerminationOutcome, Timestamp,
};

use super::convert::{Wire, list, optional, required, to_list, wire_enum};
use super::error::Problem;
use super::observed::NO_REASON;
use super::wire::{self, ordinal::Kind};

wire_enum!(
    TerminationOutcome,
    "outcome of an instance",
    [Restarted, Rolled, NodeLost, Moved, Reverted, Succeeded, Disabled]
);
wire_enum!(Exhausted, "state of a restart budget", [No, Yes]);
wire_enum!(Completion, "completion of an instance", [Succeeded, Failed]);

impl Wire for Slot {
    type Message = wire::Slot;

    fn to_wire(&self) -> wire::Slot {
        wire::Slot {
            id: self.id.to_wire(),
            service: Some(self.service.to_wire()),
            ordinal: Some(self.ordinal.to_wire()),
            current: Some(self.current.to_wire()),
            retiring: self.retiring.as_ref().map(Wire::to_wire),
            consecutive_failures: self.restarts.consecutive,
            exhausted: self.restarts.exhausted.to_wire(),
            modified: self.modified.0,
            disabled: self.desired_state == DesiredState::Disabled,
            completion: match self.desired_state {
                DesiredState::Finished(completion) => completion.to_wire(),
                DesiredState::Active | DesiredState::Disabled => NO_COMPLETION,
            },
            has_no_data: self.data == SlotData::None,
            terminations: self.terminations.iter().map(Wire::to_wire).collect(),
        }
    }

    fn from_wire(message: wire::Slot) -> Result<Self, Problem> {
        Ok(Self {
            id: Wire::from_wire(message.id)?,
            service: required("service", message.service)?,
            ordinal: required("ordinal", message.ordinal)?,
            current: required("current instance", message.current)?,
            retiring: optional(message.retiring)?,
            restarts: RestartCount {
                consecutive: message.consecutive_failures,
                exhausted: Wire::from_wire(message.exhausted)?,
            },
            modified: StateIndex(message.modified),
            desired_state: desired_state(message.disabled, message.completion)?,
            data: match message.has_no_data {
                true => SlotData::None,
                false => SlotData::Possible,
            },
            terminations: message
                .terminations
                .into_iter()
                .map(Wire::from_wire)
                .collect::<Result<_, _>>()?,
        })
    }
}

/// The number of the absent completion.
const NO_COMPLETION: i32 = 0;

/// A disabled slot has not run to its end: what it names is only its definition.
fn desired_state(disabled: bool, completion: i32) -> Result<DesiredState, Problem> {
    match (disabled, completion) {
        (false, NO_COMPLETION) => Ok(DesiredState::Active),
        (true, NO_COMPLETION) => Ok(DesiredState::Disabled),
        (false, completion) => Ok(DesiredState::Finished(Wire::from_wire(completion)?)),
        (true, _) => Err(Problem::Missing("slot that is either disabled or finished")),
    }
}

impl Wire for Termination {
    type Message = wire::Termination;

    fn to_wire(&self) -> wire::Termination {
        wire::Termination {
            raft_index: self.raft_index.0,
            node: self.node.0,
            revision: self.revision.0,
            at_ms: self.at.0,
            outcome: self.outcome.to_wire(),
            state: self.state.to_wire(),
            code: self.code.map_or(NO_REASON, |code| code.to_wire()),
            details: self.details.to_wire(),
            exit: self.exit.as_ref().map(Wire::to_wire),
        }
    }

    fn from_wire(message: wire::Termination) -> Result<Self, Problem> {
        Ok(Self {
            raft_index: StateIndex(message.raft_index),
            node: NodeId(message.node),
            revision: Revision(message.revision),
            at: Timestamp(message.at_ms),
            outcome: Wire::from_wire(message.outcome)?,
            state: Wire::from_wire(message.state)?,
            code: optional((message.code != NO_REASON).then_some(message.code))?,
            details: Wire::from_wire(message.details)?,
            exit: optional(message.exit)?,
        })
    }
}

impl Wire for Ordinal {
    type Message = wire::Ordinal;

    fn to_wire(&self) -> wire::Ordinal {
        let kind = match self {
            Self::Index(index) => Kind::Index(*index),
            Self::Host(host) => Kind::Host(host.to_wire()),
        };
        wire::Ordinal { kind: Some(kind) }
    }

    fn from_wire(message: wire::Ordinal) -> Result<Self, Problem> {
        Ok(match message.kind.ok_or(Problem::Missing("kind of ordinal"))? {
            Kind::Index(index) => Self::Index(index),
            Kind::Host(host) => Self::Host(Wire::from_wire(host)?),
        })
    }
}

impl Wire for Instance {
    type Message = wire::Instance;

    fn to_wire(&self) -> wire::Instance {
        wire::Instance {
            raft_index: self.raft_index.0,
            node: self.node.0,
            revision: self.revision.0,
            spec_hash: self.spec_hash.to_wire(),
            gpus: texts(&self.gpus),
            addresses: to_list(&self.addresses),
            joining_since: self.joining_since.map(|since| since.0),
        }
    }

    fn from_wire(message: wire::Instance) -> Result<Self, Problem> {
        Ok(Self {
            raft_index: StateIndex(message.raft_index),
            node: NodeId(message.node),
            revision: Revision(message.revision),
            spec_hash: Wire::from_wire(message.spec_hash)?,
            gpus: shared(message.gpus),
            addresses: list(message.addresses)?,
            joining_since: message.joining_since.map(Timestamp),
        })
    }
}

impl Wire for NewInstance {
    type Message = wire::NewInstance;

    fn to_wire(&self) -> wire::NewInstance {
        wire::NewInstance {
            node: self.node.0,
            revision: self.revision.0,
            spec_hash: self.spec_hash.to_wire(),
            gpus: texts(&self.gpus),
        }
    }

    fn from_wire(message: wire::NewInstance) -> Result<Self, Problem> {
        Ok(Self {
            node: NodeId(message.node),
            revision: Revision(message.revision),
            spec_hash: Wire::from_wire(message.spec_hash)?,
            gpus: shared(message.gpus),
        })
    }
}

/// Ids of GPUs.
pub(super) fn texts(ids: &[Arc<str>]) -> Vec<String> {
    ids.iter().map(|id| id.to_string()).collect()
}

/// The same, read.
pub(super) fn shared(ids: Vec<String>) -> Vec<Arc<str>> {
    ids.into_iter().map(Arc::from).collect()
}
