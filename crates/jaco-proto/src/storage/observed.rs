//! What nodes saw of their instances.

use jaco_types::{Exit, InstanceObserved, NodeId, ReasonCode, ReplicaState, Timestamp};

use super::convert::{Wire, ascending, optional, required, wire_enum};
use super::error::Problem;
use super::wire;

wire_enum!(
    ReplicaState,
    "replica state",
    [Pending, Pulling, Starting, Running, Degraded, Failed, Stopped, Completed]
);
wire_enum!(
    ReasonCode,
    "reason code",
    [
        Pulling,
        ImagePullFailed,
        HealthPending,
        Unhealthy,
        ContainerExited,
        ContainerMissing,
        EngineError,
        RestartExhausted,
        NodeIsolated,
        Disabled,
        NetworkConflict,
        NetworkNotReady,
    ]
);

/// What an absent reason is written as.
pub(super) const NO_REASON: i32 = wire::ReasonCode::Unspecified as i32;

impl Wire for InstanceObserved {
    type Message = wire::InstanceObserved;

    fn to_wire(&self) -> wire::InstanceObserved {
        let port = |(port, address): (&u16, &String)| wire::PublishedPort {
            container_port: (*port).into(),
            address: address.clone(),
        };
        wire::InstanceObserved {
            id: Some(self.id.to_wire()),
            service: Some(self.service.to_wire()),
            node: self.node.0,
            state: self.state.to_wire(),
            code: self.code.map_or(NO_REASON, |code| code.to_wire()),
            details: self.details.to_wire(),
            container_id: self.container_id.clone(),
            ports: self.ports.iter().map(port).collect(),
            started_at_ms: self.started_at.map(|at| at.0),
            since_ms: self.since.0,
            exit: self.exit.as_ref().map(Wire::to_wire),
        }
    }

    fn from_wire(message: wire::InstanceObserved) -> Result<Self, Problem> {
        let port = |port: wire::PublishedPort| {
            Ok((port_number("container port", port.container_port)?, port.address))
        };
        Ok(Self {
            id: required("instance id", message.id)?,
            service: required("service", message.service)?,
            node: NodeId(message.node),
            state: Wire::from_wire(message.state)?,
            code: optional((message.code != NO_REASON).then_some(message.code))?,
            details: Wire::from_wire(message.details)?,
            container_id: message.container_id,
            ports: ascending("ports", message.ports.into_iter().map(port))?,
            started_at: message.started_at_ms.map(Timestamp),
            since: Timestamp(message.since_ms),
            exit: optional(message.exit)?,
        })
    }
}

impl Wire for Exit {
    type Message = wire::Exit;

    fn to_wire(&self) -> wire::Exit {
        wire::Exit { code: self.code, out_of_memory: self.out_of_memory }
    }

    fn from_wire(message: wire::Exit) -> Result<Self, Problem> {
        Ok(Self { code: message.code, out_of_memory: message.out_of_memory })
    }
}

/// The number of a port, which the wire has no type for.
pub(super) fn port_number(what: &'static str, number: u32) -> Result<u16, Problem> {
    u16::try_from(number).map_err(|_| Problem::OutOfRange { what, value: number.into() })
}
