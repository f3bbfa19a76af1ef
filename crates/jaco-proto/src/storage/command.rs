//! What a log entry asks for.

use jaco_state::Command;
use jaco_state::audit::AuditKind;
use jaco_types::{NodeId, StateIndex};

use super::convert::{Wire, list, required, to_list};
use super::error::Problem;
use super::wire::{self, command::Kind};

impl Wire for Command {
    type Message = wire::Command;

    fn to_wire(&self) -> wire::Command {
        let kind = match self {
            Self::ClusterInit { meta, node, token } => Kind::ClusterInit(wire::ClusterInit {
                meta: Some(meta.to_wire()),
                node: Some(node.to_wire()),
                token: Some(token.to_wire()),
            }),
            Self::NodeAdmit { node, token } => Kind::NodeAdmit(wire::NodeAdmit {
                node: Some(node.to_wire()),
                token: token.to_wire(),
            }),
            Self::NodeReport { node, address, facts } => Kind::NodeReport(wire::NodeReport {
                node: node.0,
                address: address.clone(),
                facts: Some(facts.to_wire()),
            }),
            Self::NodeSetAvailability { node, availability } => {
                let availability = availability.to_wire();
                Kind::NodeSetAvailability(wire::NodeSetAvailability { node: node.0, availability })
            }
            Self::NodeRemove { node } => Kind::NodeRemove(wire::NodeRemove { node: node.0 }),
            Self::DeploymentApply { name, spec } => Kind::DeploymentApply(wire::DeploymentApply {
                name: name.to_wire(),
                spec: Some(spec.to_wire()),
            }),
            Self::DeploymentDelete { name } => {
                Kind::DeploymentDelete(wire::DeploymentDelete { name: name.to_wire() })
            }
            Self::Batch { based_on, changes } => {
                Kind::Batch(wire::Batch { based_on: based_on.0, changes: to_list(changes) })
            }
            Self::Observe { node, observed, gone } => Kind::Observe(wire::Observe {
                node: node.0,
                observed: to_list(observed),
                gone: to_list(gone),
            }),
            Self::OperatorTokenIssue { token } => {
                Kind::OperatorTokenIssue(wire::OperatorTokenIssue { token: Some(token.to_wire()) })
            }
            Self::OperatorTokenRevoke { id } => {
                Kind::OperatorTokenRevoke(wire::OperatorTokenRevoke { id: id.to_wire() })
            }
            Self::JoinTokenIssue { token } => {
                Kind::JoinTokenIssue(wire::JoinTokenIssue { token: Some(token.to_wire()) })
            }
            Self::AuditNote { kind, payload } => Kind::AuditNote(wire::AuditNote {
                kind: kind.to_wire(),
                payload: payload.to_wire(),
            }),
        };
        wire::Command { kind: Some(kind) }
    }

    fn from_wire(message: wire::Command) -> Result<Self, Problem> {
        Ok(match message.kind.ok_or(Problem::Missing("kind of command"))? {
            Kind::ClusterInit(init) => Self::ClusterInit {
                meta: required("cluster", init.meta)?,
                node: required("node", init.node)?,
                token: required("token", init.token)?,
            },
            Kind::NodeAdmit(admit) => Self::NodeAdmit {
                node: required("node", admit.node)?,
                token: Wire::from_wire(admit.token)?,
            },
            Kind::NodeReport(report) => Self::NodeReport {
                node: NodeId(report.node),
                address: report.address,
                facts: required("facts", report.facts)?,
            },
            Kind::NodeSetAvailability(set) => Self::NodeSetAvailability {
                node: NodeId(set.node),
                availability: Wire::from_wire(set.availability)?,
            },
            Kind::NodeRemove(remove) => Self::NodeRemove { node: NodeId(remove.node) },
            Kind::DeploymentApply(apply) => Self::DeploymentApply {
                name: Wire::from_wire(apply.name)?,
                spec: required("spec", apply.spec)?,
            },
            Kind::DeploymentDelete(delete) => {
                Self::DeploymentDelete { name: Wire::from_wire(delete.name)? }
            }
            Kind::Batch(batch) => {
                Self::Batch { based_on: StateIndex(batch.based_on), changes: list(batch.changes)? }
            }
            Kind::Observe(observe) => Self::Observe {
                node: NodeId(observe.node),
                observed: list(observe.observed)?,
                gone: list(observe.gone)?,
            },
            Kind::OperatorTokenIssue(issue) => {
                Self::OperatorTokenIssue { token: required("token", issue.token)? }
            }
            Kind::OperatorTokenRevoke(revoke) => {
                Self::OperatorTokenRevoke { id: Wire::from_wire(revoke.id)? }
            }
            Kind::JoinTokenIssue(issue) => {
                Self::JoinTokenIssue { token: required("token", issue.token)? }
            }
            Kind::AuditNote(note) => Self::AuditNote {
                kind: Wire::from_wire(note.kind)?,
                payload: Wire::from_wire(note.payload)?,
            },
        })
    }
}

/// The kinds carry their own numbers, which are part of the interface.
impl Wire for AuditKind {
    type Message = u32;

    fn to_wire(&self) -> u32 {
        self.number()
    }

    fn from_wire(number: u32) -> Result<Self, Problem> {
        let unknown = Problem::UnknownValue { what: "audit kind", number: number.into() };
        Self::from_number(number).ok_or(unknown)
    }
}
