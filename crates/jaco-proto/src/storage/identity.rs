//! Who asked for a change, and from where.

use std::net::SocketAddr;

use jaco_types::{Author, Identity, NodeId, Origin};
use prost::Message;

use super::convert::{Wire, optional};
use super::error::Problem;
use super::wire::{self, identity::Kind, origin};

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
        wire::Identity { kind: Some(kind), origin: None }
    }

    fn from_wire(message: wire::Identity) -> Result<Self, Problem> {
        if let Some(origin) = message.origin {
            return Err(Problem::Unread { unread: origin.encoded_len() });
        }
        Ok(match message.kind.ok_or(Problem::Missing("kind of identity"))? {
            Kind::Local(local) => Self::Local { uid: local.uid },
            Kind::Operator(operator) => Self::Operator { token: Wire::from_wire(operator.token)? },
            Kind::Node(node) => Self::Node { id: NodeId(node.id) },
            Kind::Scheduler(wire::Nothing {}) => Self::Scheduler,
            Kind::Anonymous(wire::Nothing {}) => Self::Anonymous,
        })
    }
}

impl Wire for Author {
    type Message = wire::Identity;

    fn to_wire(&self) -> wire::Identity {
        wire::Identity { origin: self.origin.as_ref().map(Wire::to_wire), ..self.by.to_wire() }
    }

    fn from_wire(message: wire::Identity) -> Result<Self, Problem> {
        let wire::Identity { kind, origin } = message;
        let by = Identity::from_wire(wire::Identity { kind, origin: None })?;
        Ok(Self { by, origin: optional(origin)? })
    }
}

impl Wire for Origin {
    type Message = wire::Origin;

    fn to_wire(&self) -> wire::Origin {
        let kind = match self {
            Self::Socket { uid, node } => {
                origin::Kind::Socket(origin::Socket { uid: *uid, node: node.0 })
            }
            Self::Address { address, node } => {
                let address = address.to_string();
                origin::Kind::Address(origin::Address { address, node: node.0 })
            }
            Self::Member { node } => origin::Kind::Member(origin::Member { node: node.0 }),
        };
        wire::Origin { kind: Some(kind) }
    }

    fn from_wire(message: wire::Origin) -> Result<Self, Problem> {
        Ok(match message.kind.ok_or(Problem::Missing("kind of origin"))? {
            origin::Kind::Socket(socket) => {
                Self::Socket { uid: socket.uid, node: NodeId(socket.node) }
            }
            origin::Kind::Address(address) => {
                Self::Address { node: NodeId(address.node), address: to_address(&address.address)? }
            }
            origin::Kind::Member(member) => Self::Member { node: NodeId(member.node) },
        })
    }
}

/// An address has one text only: two would be two contents with the same hash.
fn to_address(text: &str) -> Result<SocketAddr, Problem> {
    let address = text.parse().ok().filter(|address: &SocketAddr| address.to_string() == text);
    address.ok_or_else(|| Problem::UnknownName {
        what: "address",
        text: text.chars().take(80).collect(),
    })
}
