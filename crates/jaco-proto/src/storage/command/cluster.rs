//! Commands about members, their tokens and the cluster's defaults.

use jaco_state::command::{
    ClusterInit, ConstraintsSet, DataMove, DisabledSet, JoinTokenIssue, JoinTokenRevoke, NodeAdmit,
    NodeDrain, NodeRemove, NodeReport, NodeSetAvailability, NodeSetLabels, OperatorTokenIssue,
    OperatorTokenRevoke, OperatorTokenRotate, TokensUsed,
};
use jaco_types::{Millis, NodeId, ReplicaId, StateIndex, Timestamp, TokenId};

use crate::storage::convert::{Wire, ascending, required};
use crate::storage::disabled;
use crate::storage::error::Problem;
use crate::storage::wire;

impl Wire for ClusterInit {
    type Message = wire::ClusterInit;

    fn to_wire(&self) -> wire::ClusterInit {
        let Self { meta, node, token } = self;
        wire::ClusterInit {
            meta: Some(meta.to_wire()),
            node: Some(node.to_wire()),
            token: Some(token.to_wire()),
        }
    }

    fn from_wire(message: wire::ClusterInit) -> Result<Self, Problem> {
        Ok(Self {
            meta: required("cluster", message.meta)?,
            node: required("node", message.node)?,
            token: Box::new(required("token", message.token)?),
        })
    }
}

impl Wire for NodeAdmit {
    type Message = wire::NodeAdmit;

    fn to_wire(&self) -> wire::NodeAdmit {
        let Self { node, token } = self;
        wire::NodeAdmit { node: Some(node.to_wire()), token: token.to_wire() }
    }

    fn from_wire(message: wire::NodeAdmit) -> Result<Self, Problem> {
        Ok(Self { node: required("node", message.node)?, token: Wire::from_wire(message.token)? })
    }
}

impl Wire for NodeReport {
    type Message = wire::NodeReport;

    fn to_wire(&self) -> wire::NodeReport {
        let Self { node, address, facts } = self;
        wire::NodeReport { node: node.0, address: address.clone(), facts: Some(facts.to_wire()) }
    }

    fn from_wire(message: wire::NodeReport) -> Result<Self, Problem> {
        Ok(Self {
            node: NodeId(message.node),
            address: message.address,
            facts: required("facts", message.facts)?,
        })
    }
}

impl Wire for NodeSetAvailability {
    type Message = wire::NodeSetAvailability;

    fn to_wire(&self) -> wire::NodeSetAvailability {
        let Self { node, availability } = self;
        let availability = availability.to_wire();
        wire::NodeSetAvailability { node: node.0, availability }
    }

    fn from_wire(message: wire::NodeSetAvailability) -> Result<Self, Problem> {
        Ok(Self {
            node: NodeId(message.node),
            availability: Wire::from_wire(message.availability)?,
        })
    }
}

impl Wire for NodeDrain {
    type Message = wire::NodeDrain;

    fn to_wire(&self) -> wire::NodeDrain {
        let Self { node, timeout } = self;
        wire::NodeDrain { node: node.0, timeout_ms: timeout.0 }
    }

    fn from_wire(message: wire::NodeDrain) -> Result<Self, Problem> {
        Ok(Self { node: NodeId(message.node), timeout: Millis(message.timeout_ms) })
    }
}

impl Wire for NodeSetLabels {
    type Message = wire::NodeSetLabels;

    fn to_wire(&self) -> wire::NodeSetLabels {
        let Self { node, set, unset } = self;
        wire::NodeSetLabels {
            node: node.0,
            set: set.to_wire(),
            unset: unset.iter().cloned().collect(),
        }
    }

    fn from_wire(message: wire::NodeSetLabels) -> Result<Self, Problem> {
        Ok(Self {
            node: NodeId(message.node),
            set: Wire::from_wire(message.set)?,
            unset: message.unset.into_iter().collect(),
        })
    }
}

impl Wire for NodeRemove {
    type Message = wire::NodeRemove;

    fn to_wire(&self) -> wire::NodeRemove {
        let Self { node } = self;
        wire::NodeRemove { node: node.0 }
    }

    fn from_wire(message: wire::NodeRemove) -> Result<Self, Problem> {
        Ok(Self { node: NodeId(message.node) })
    }
}

impl Wire for ConstraintsSet {
    type Message = wire::ConstraintsSet;

    fn to_wire(&self) -> wire::ConstraintsSet {
        let Self { pairs } = self;
        wire::ConstraintsSet { pairs: pairs.to_wire() }
    }

    fn from_wire(message: wire::ConstraintsSet) -> Result<Self, Problem> {
        Ok(Self { pairs: Wire::from_wire(message.pairs)? })
    }
}

impl Wire for DisabledSet {
    type Message = wire::DisabledSet;

    fn to_wire(&self) -> wire::DisabledSet {
        let Self { change, scopes } = self;
        wire::DisabledSet {
            change: change.to_wire(),
            scopes: scopes.iter().map(Wire::to_wire).collect(),
        }
    }

    fn from_wire(message: wire::DisabledSet) -> Result<Self, Problem> {
        Ok(Self {
            change: Wire::from_wire(message.change)?,
            scopes: disabled::scopes(message.scopes)?,
        })
    }
}

impl Wire for DataMove {
    type Message = wire::DataMove;

    fn to_wire(&self) -> wire::DataMove {
        let Self { replicas, to } = self;
        let replica = |(id, index): (&ReplicaId, &StateIndex)| wire::MovedReplica {
            replica: id.to_wire(),
            raft_index: index.0,
        };
        wire::DataMove { replicas: replicas.iter().map(replica).collect(), to: to.0 }
    }

    fn from_wire(message: wire::DataMove) -> Result<Self, Problem> {
        let replica = |moved: wire::MovedReplica| {
            Ok((Wire::from_wire(moved.replica)?, StateIndex(moved.raft_index)))
        };
        let replicas = ascending("moved replicas", message.replicas.into_iter().map(replica))?;
        Ok(Self { replicas, to: NodeId(message.to) })
    }
}

impl Wire for OperatorTokenIssue {
    type Message = wire::OperatorTokenIssue;

    fn to_wire(&self) -> wire::OperatorTokenIssue {
        let Self { token } = self;
        wire::OperatorTokenIssue { token: Some(token.to_wire()) }
    }

    fn from_wire(message: wire::OperatorTokenIssue) -> Result<Self, Problem> {
        Ok(Self { token: required("token", message.token)? })
    }
}

impl Wire for OperatorTokenRevoke {
    type Message = wire::OperatorTokenRevoke;

    fn to_wire(&self) -> wire::OperatorTokenRevoke {
        let Self { id } = self;
        wire::OperatorTokenRevoke { id: id.to_wire() }
    }

    fn from_wire(message: wire::OperatorTokenRevoke) -> Result<Self, Problem> {
        Ok(Self { id: Wire::from_wire(message.id)? })
    }
}

impl Wire for OperatorTokenRotate {
    type Message = wire::OperatorTokenRotate;

    fn to_wire(&self) -> wire::OperatorTokenRotate {
        let Self { id, secret_hash, former_until } = self;
        wire::OperatorTokenRotate {
            id: id.to_wire(),
            secret_hash: secret_hash.to_wire(),
            former_until_ms: former_until.map(|at| at.0),
        }
    }

    fn from_wire(message: wire::OperatorTokenRotate) -> Result<Self, Problem> {
        let rotate = Self::new(Wire::from_wire(message.id)?, Wire::from_wire(message.secret_hash)?);
        Ok(rotate.former_until(message.former_until_ms.map(Timestamp)))
    }
}

impl Wire for TokensUsed {
    type Message = wire::TokensUsed;

    fn to_wire(&self) -> wire::TokensUsed {
        let Self { uses } = self;
        let used = |(token, at): (&TokenId, &Timestamp)| wire::TokenUse {
            token: token.to_wire(),
            at_ms: at.0,
        };
        wire::TokensUsed { uses: uses.iter().map(used).collect() }
    }

    fn from_wire(message: wire::TokensUsed) -> Result<Self, Problem> {
        let used = |used: wire::TokenUse| Ok((Wire::from_wire(used.token)?, Timestamp(used.at_ms)));
        Ok(Self { uses: ascending("uses of tokens", message.uses.into_iter().map(used))? })
    }
}

impl Wire for JoinTokenIssue {
    type Message = wire::JoinTokenIssue;

    fn to_wire(&self) -> wire::JoinTokenIssue {
        let Self { token } = self;
        wire::JoinTokenIssue { token: Some(token.to_wire()) }
    }

    fn from_wire(message: wire::JoinTokenIssue) -> Result<Self, Problem> {
        Ok(Self { token: required("token", message.token)? })
    }
}

impl Wire for JoinTokenRevoke {
    type Message = wire::JoinTokenRevoke;

    fn to_wire(&self) -> wire::JoinTokenRevoke {
        let Self { id } = self;
        wire::JoinTokenRevoke { id: id.to_wire() }
    }

    fn from_wire(message: wire::JoinTokenRevoke) -> Result<Self, Problem> {
        Ok(Self { id: Wire::from_wire(message.id)? })
    }
}
