//! Who asked for a change.

use jaco_types::{Identity, NodeId};

use super::convert::Wire;
use super::error::Problem;
use super::wire::{self, identity::Kind};

impl Wire for Identity {
    type Message = wire::Identity;

    fn to_wire(&self) -> wire::Identity {
        let kind = match self {
            Self::Local { uid } => Kind::Local(wire::identity::Local { uid: *uid }),
            Self::Operator { token } => {
                Kind::Operator(wire::identity::Operator { token: token.to_wire() })
            }
            Self::Node { id } => Kind::Node(wire::identity::Member { id: id.0 }),
            Self::Scheduler => Kind::Scheduler(wire::Nothing {}),
            Self::Anonymous => Kind::Anonymous(wire::Nothing {}),
        };
        wire::Identity { kind: Some(kind) }
    }

    fn from_wire(message: wire::Identity) -> Result<Self, Problem> {
        Ok(match message.kind.ok_or(Problem::Missing("kind of identity"))? {
            Kind::Local(local) => Self::Local { uid: local.uid },
            Kind::Operator(operator) => Self::Operator { token: Wire::from_wire(operator.token)? },
            Kind::Node(node) => Self::Node { id: NodeId(node.id) },
            Kind::Scheduler(wire::Nothing {}) => Self::Scheduler,
            Kind::Anonymous(wire::Nothing {}) => Self::Anonymous,
        })
    }
}
