//! What came of a log entry.

use jaco_state::Outcome;
use jaco_state::command::SpecChange;
use jaco_types::{ErrorCode, NodeId, Rejection, Revision};

use super::convert::{Wire, wire_enum};
use super::error::Problem;
use super::wire::{self, outcome::Kind};

wire_enum!(SpecChange, "change of a spec", [Created, Updated, Unchanged]);

impl Wire for Outcome {
    type Message = wire::Outcome;

    fn to_wire(&self) -> wire::Outcome {
        let kind = match self {
            Self::Done => Kind::Done(wire::Nothing {}),
            Self::NodeAdmitted { id } => Kind::NodeAdmitted(wire::NodeAdmitted { id: id.0 }),
            Self::Deployed { revision, change } => {
                Kind::Deployed(wire::Deployed { revision: revision.0, change: change.to_wire() })
            }
            Self::Rejected(rejection) => Kind::Rejected(rejection.to_wire()),
        };
        wire::Outcome { kind: Some(kind) }
    }

    fn from_wire(message: wire::Outcome) -> Result<Self, Problem> {
        Ok(match message.kind.ok_or(Problem::Missing("kind of outcome"))? {
            Kind::Done(wire::Nothing {}) => Self::Done,
            Kind::NodeAdmitted(admitted) => Self::NodeAdmitted { id: NodeId(admitted.id) },
            Kind::Deployed(deployed) => Self::Deployed {
                revision: Revision(deployed.revision),
                change: Wire::from_wire(deployed.change)?,
            },
            Kind::Rejected(rejection) => Self::Rejected(Wire::from_wire(rejection)?),
        })
    }
}

impl Wire for Rejection {
    type Message = wire::Rejection;

    fn to_wire(&self) -> wire::Rejection {
        wire::Rejection {
            code: self.code.as_str().to_owned(),
            message: self.message.clone(),
            details: self.details.to_wire(),
        }
    }

    fn from_wire(message: wire::Rejection) -> Result<Self, Problem> {
        let code = message.code.parse::<ErrorCode>().map_err(|_| Problem::UnknownName {
            what: "error code",
            text: message.code.chars().take(80).collect(),
        })?;
        Ok(Self { code, message: message.message, details: Wire::from_wire(message.details)? })
    }
}
