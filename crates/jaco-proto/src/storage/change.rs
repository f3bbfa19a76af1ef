//! The planner's changes, as a batch carries them.

use jaco_state::Change;
use jaco_state::command::{Previous, ReplaceCause};
use jaco_types::{DesiredState, NodeId, Revision};

use super::convert::{Wire, required, wire_enum};
use super::error::Problem;
use super::wire::{self, change::Kind};

wire_enum!(Previous, "fate of an instance", [Retire, Drop]);
wire_enum!(
    ReplaceCause,
    "cause of a new instance",
    [SpecChanged, Failed, NodeLost, Moved, ColocatedReplaced, Enabled]
);

impl Wire for Change {
    type Message = wire::Change;

    fn to_wire(&self) -> wire::Change {
        let kind = match self {
            Self::SlotCreate { id, service, ordinal, instance, desired_state } => {
                Kind::SlotCreate(wire::SlotCreate {
                    id: id.to_wire(),
                    service: Some(service.to_wire()),
                    ordinal: Some(ordinal.to_wire()),
                    instance: Some(instance.to_wire()),
                    disabled: *desired_state == DesiredState::Disabled,
                })
            }
            Self::SlotReplace { id, instance, previous, cause, consecutive_failures } => {
                Kind::SlotReplace(wire::SlotReplace {
                    id: id.to_wire(),
                    instance: Some(instance.to_wire()),
                    previous: previous.to_wire(),
                    cause: cause.to_wire(),
                    consecutive_failures: *consecutive_failures,
                })
            }
            Self::SlotDisable { id, instance } => Kind::SlotDisable(wire::SlotDisable {
                id: id.to_wire(),
                instance: Some(instance.to_wire()),
            }),
            Self::SlotFinish { id, completion, consecutive_failures } => {
                Kind::SlotFinish(wire::SlotFinish {
                    id: id.to_wire(),
                    completion: completion.to_wire(),
                    consecutive_failures: *consecutive_failures,
                })
            }
            Self::SlotSettle { id } => Kind::SlotSettle(wire::SlotSettle { id: id.to_wire() }),
            Self::SlotRevert { id } => Kind::SlotRevert(wire::SlotRevert { id: id.to_wire() }),
            Self::SlotSetRestarts { id, consecutive, exhausted } => {
                Kind::SlotSetRestarts(wire::SlotSetRestarts {
                    id: id.to_wire(),
                    consecutive: *consecutive,
                    exhausted: exhausted.to_wire(),
                })
            }
            Self::SlotRemove { id } => Kind::SlotRemove(wire::SlotRemove { id: id.to_wire() }),
            Self::SchedulingSet { service, record } => Kind::SchedulingSet(wire::SchedulingSet {
                service: Some(service.to_wire()),
                record: Some(record.to_wire()),
            }),
            Self::TerminatingRemove { id } => {
                Kind::TerminatingRemove(wire::TerminatingRemove { id: Some(id.to_wire()) })
            }
            Self::ConsumerExpire { name } => {
                Kind::ConsumerExpire(wire::ConsumerExpire { name: name.to_wire() })
            }
            Self::NodeStatusSet { node, status, reason } => {
                Kind::NodeStatusSet(wire::NodeStatusSet {
                    node: node.0,
                    status: status.to_wire(),
                    reason: reason.clone(),
                })
            }
            Self::ImageResolve { service, revision, digest } => {
                Kind::ImageResolve(wire::ImageResolve {
                    service: Some(service.to_wire()),
                    revision: revision.0,
                    digest: digest.to_wire(),
                })
            }
            Self::DrainTimeout { node, left } => {
                Kind::DrainTimeout(wire::DrainTimeout { node: node.0, left: left.clone() })
            }
        };
        wire::Change { kind: Some(kind) }
    }

    fn from_wire(message: wire::Change) -> Result<Self, Problem> {
        Ok(match message.kind.ok_or(Problem::Missing("kind of change"))? {
            Kind::SlotCreate(create) => Self::SlotCreate {
                id: Wire::from_wire(create.id)?,
                service: required("service", create.service)?,
                ordinal: required("ordinal", create.ordinal)?,
                instance: required("instance", create.instance)?,
                desired_state: match create.disabled {
                    true => DesiredState::Disabled,
                    false => DesiredState::Active,
                },
            },
            Kind::SlotReplace(replace) => Self::SlotReplace {
                id: Wire::from_wire(replace.id)?,
                instance: required("instance", replace.instance)?,
                previous: Wire::from_wire(replace.previous)?,
                cause: Wire::from_wire(replace.cause)?,
                consecutive_failures: replace.consecutive_failures,
            },
            Kind::SlotDisable(disable) => Self::SlotDisable {
                id: Wire::from_wire(disable.id)?,
                instance: required("instance", disable.instance)?,
            },
            Kind::SlotFinish(finish) => Self::SlotFinish {
                id: Wire::from_wire(finish.id)?,
                completion: Wire::from_wire(finish.completion)?,
                consecutive_failures: finish.consecutive_failures,
            },
            Kind::SlotSettle(settle) => Self::SlotSettle { id: Wire::from_wire(settle.id)? },
            Kind::SlotRevert(revert) => Self::SlotRevert { id: Wire::from_wire(revert.id)? },
            Kind::SlotSetRestarts(set) => Self::SlotSetRestarts {
                id: Wire::from_wire(set.id)?,
                consecutive: set.consecutive,
                exhausted: Wire::from_wire(set.exhausted)?,
            },
            Kind::SlotRemove(remove) => Self::SlotRemove { id: Wire::from_wire(remove.id)? },
            Kind::SchedulingSet(set) => Self::SchedulingSet {
                service: required("service", set.service)?,
                record: Box::new(required("record", set.record)?),
            },
            Kind::TerminatingRemove(end) => {
                Self::TerminatingRemove { id: required("instance id", end.id)? }
            }
            Kind::ConsumerExpire(expire) => {
                Self::ConsumerExpire { name: Wire::from_wire(expire.name)? }
            }
            Kind::NodeStatusSet(set) => Self::NodeStatusSet {
                node: NodeId(set.node),
                status: Wire::from_wire(set.status)?,
                reason: set.reason,
            },
            Kind::ImageResolve(resolve) => Self::ImageResolve {
                service: required("service", resolve.service)?,
                revision: Revision(resolve.revision),
                digest: Wire::from_wire(resolve.digest)?,
            },
            Kind::DrainTimeout(drain) => {
                Self::DrainTimeout { node: NodeId(drain.node), left: drain.left }
            }
        })
    }
}
