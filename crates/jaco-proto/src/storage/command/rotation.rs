//! Commands about the rotation of the cluster's authority.

use jaco_state::command::{
    AuthorityAbandon, AuthorityContinue, AuthorityReport, AuthorityRotate, AuthoritySettle,
    OpenJoinTokens,
};
use jaco_types::{NodeId, StateIndex};

use crate::storage::convert::{Wire, required, wire_enum};
use crate::storage::error::Problem;
use crate::storage::wire;

wire_enum!(OpenJoinTokens, "what happens to join tokens", [Wait, Revoke]);

impl Wire for AuthorityRotate {
    type Message = wire::AuthorityRotate;

    fn to_wire(&self) -> wire::AuthorityRotate {
        let Self { replaces, new } = self;
        wire::AuthorityRotate { replaces: replaces.to_wire(), new: Some(new.to_wire()) }
    }

    fn from_wire(message: wire::AuthorityRotate) -> Result<Self, Problem> {
        let replaces = Wire::from_wire(message.replaces)?;
        Ok(Self { replaces, new: required("new authority", message.new)? })
    }
}

impl Wire for AuthorityReport {
    type Message = wire::AuthorityReport;

    fn to_wire(&self) -> wire::AuthorityReport {
        let Self { rotation, node, step } = self;
        wire::AuthorityReport { rotation: rotation.0, node: node.0, step: step.to_wire() }
    }

    fn from_wire(message: wire::AuthorityReport) -> Result<Self, Problem> {
        Ok(Self {
            rotation: StateIndex(message.rotation),
            node: NodeId(message.node),
            step: Wire::from_wire(message.step)?,
        })
    }
}

impl Wire for AuthorityContinue {
    type Message = wire::AuthorityContinue;

    fn to_wire(&self) -> wire::AuthorityContinue {
        let Self { rotation, join_tokens } = self;
        wire::AuthorityContinue { rotation: rotation.0, join_tokens: join_tokens.to_wire() }
    }

    fn from_wire(message: wire::AuthorityContinue) -> Result<Self, Problem> {
        let join_tokens = Wire::from_wire(message.join_tokens)?;
        Ok(Self { rotation: StateIndex(message.rotation), join_tokens })
    }
}

impl Wire for AuthoritySettle {
    type Message = wire::AuthoritySettle;

    fn to_wire(&self) -> wire::AuthoritySettle {
        wire::AuthoritySettle { rotation: self.rotation.0 }
    }

    fn from_wire(message: wire::AuthoritySettle) -> Result<Self, Problem> {
        Ok(Self { rotation: StateIndex(message.rotation) })
    }
}

impl Wire for AuthorityAbandon {
    type Message = wire::AuthorityAbandon;

    fn to_wire(&self) -> wire::AuthorityAbandon {
        wire::AuthorityAbandon { rotation: self.rotation.0 }
    }

    fn from_wire(message: wire::AuthorityAbandon) -> Result<Self, Problem> {
        Ok(Self { rotation: StateIndex(message.rotation) })
    }
}
