//! Commands of the planner and the rebalancer, reports of instances, and endpoint consumers.

use jaco_state::command::{
    Batch, ConsumerAttach, ConsumerDetach, Observe, Rebalance, RebalanceMove, RebalanceRevert,
    RevertedMove,
};
use jaco_types::{Millis, NodeId, StateIndex};

use crate::storage::convert::{Wire, list, required, to_list};
use crate::storage::error::Problem;
use crate::storage::wire;

impl Wire for Batch {
    type Message = wire::Batch;

    fn to_wire(&self) -> wire::Batch {
        let Self { based_on, changes } = self;
        wire::Batch { based_on: based_on.0, changes: to_list(changes) }
    }

    fn from_wire(message: wire::Batch) -> Result<Self, Problem> {
        Ok(Self { based_on: StateIndex(message.based_on), changes: list(message.changes)? })
    }
}

impl Wire for Rebalance {
    type Message = wire::Rebalance;

    fn to_wire(&self) -> wire::Rebalance {
        let Self { based_on, moves, kept } = self;
        wire::Rebalance {
            based_on: based_on.0,
            moves: moves.iter().map(Wire::to_wire).collect(),
            kept: kept.iter().map(|facts| wire::RebalanceKept { facts: facts.to_wire() }).collect(),
        }
    }

    fn from_wire(message: wire::Rebalance) -> Result<Self, Problem> {
        Ok(Self {
            based_on: StateIndex(message.based_on),
            moves: message.moves.into_iter().map(Wire::from_wire).collect::<Result<_, _>>()?,
            kept: message
                .kept
                .into_iter()
                .map(|kept| Wire::from_wire(kept.facts))
                .collect::<Result<_, _>>()?,
        })
    }
}

impl Wire for RebalanceRevert {
    type Message = wire::RebalanceRevert;

    fn to_wire(&self) -> wire::RebalanceRevert {
        let Self { based_on, reverts } = self;
        let back = |one: &RevertedMove| wire::RebalanceBack {
            id: one.id.to_wire(),
            facts: one.facts.to_wire(),
        };
        let reverts = reverts.iter().map(back).collect();
        wire::RebalanceRevert { based_on: based_on.0, reverts }
    }

    fn from_wire(message: wire::RebalanceRevert) -> Result<Self, Problem> {
        let read = |one: wire::RebalanceBack| {
            let (id, facts) = (Wire::from_wire(one.id)?, Wire::from_wire(one.facts)?);
            Ok(RevertedMove { id, facts })
        };
        Ok(Self {
            based_on: StateIndex(message.based_on),
            reverts: message.reverts.into_iter().map(read).collect::<Result<_, Problem>>()?,
        })
    }
}

impl Wire for Observe {
    type Message = wire::Observe;

    fn to_wire(&self) -> wire::Observe {
        let Self { node, observed, gone, joined } = self;
        let (observed, gone, joined) = (to_list(observed), to_list(gone), to_list(joined));
        wire::Observe { node: node.0, observed, gone, joined }
    }

    fn from_wire(message: wire::Observe) -> Result<Self, Problem> {
        Ok(Self {
            node: NodeId(message.node),
            observed: list(message.observed)?,
            gone: list(message.gone)?,
            joined: list(message.joined)?,
        })
    }
}

impl Wire for ConsumerAttach {
    type Message = wire::ConsumerAttach;

    fn to_wire(&self) -> wire::ConsumerAttach {
        let Self { name, node, lease } = self;
        wire::ConsumerAttach { name: name.to_wire(), node: node.0, lease_ms: lease.0 }
    }

    fn from_wire(message: wire::ConsumerAttach) -> Result<Self, Problem> {
        Ok(Self {
            name: Wire::from_wire(message.name)?,
            node: NodeId(message.node),
            lease: Millis(message.lease_ms),
        })
    }
}

impl Wire for ConsumerDetach {
    type Message = wire::ConsumerDetach;

    fn to_wire(&self) -> wire::ConsumerDetach {
        let Self { name, session } = self;
        wire::ConsumerDetach { name: name.to_wire(), session: session.0 }
    }

    fn from_wire(message: wire::ConsumerDetach) -> Result<Self, Problem> {
        Ok(Self { name: Wire::from_wire(message.name)?, session: StateIndex(message.session) })
    }
}

impl Wire for RebalanceMove {
    type Message = wire::RebalanceMove;

    fn to_wire(&self) -> wire::RebalanceMove {
        wire::RebalanceMove {
            id: self.id.to_wire(),
            instance: Some(self.instance.to_wire()),
            facts: self.facts.to_wire(),
        }
    }

    fn from_wire(message: wire::RebalanceMove) -> Result<Self, Problem> {
        Ok(Self {
            id: Wire::from_wire(message.id)?,
            instance: required("instance", message.instance)?,
            facts: Wire::from_wire(message.facts)?,
        })
    }
}
