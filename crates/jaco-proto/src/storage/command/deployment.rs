//! Commands about deployments and their revisions.

use bytes::Bytes;
use jaco_state::command::{
    DeploymentApply, DeploymentDelete, DeploymentRollback, RevisionPin, Running,
};
use jaco_state::deployment::Pin;
use jaco_types::{Revision, TraceContext};

use crate::storage::convert::{Wire, ascending, required};
use crate::storage::error::Problem;
use crate::storage::spec::{reaches_from_wire, reaches_to_wire};
use crate::storage::wire;

impl Wire for DeploymentApply {
    type Message = wire::DeploymentApply;

    fn to_wire(&self) -> wire::DeploymentApply {
        let Self { name, spec, based_on, reaches, replicas_max, trace, running } = self;
        wire::DeploymentApply {
            name: name.to_wire(),
            spec: Some(spec.to_wire()),
            based_on: based_on.map(|revision| revision.0),
            reaches: reaches.iter().map(reaches_to_wire).collect(),
            replicas_max: *replicas_max,
            trace: trace.to_wire(),
            joins_networks: *running == Running::JoinNetworks,
        }
    }

    fn from_wire(message: wire::DeploymentApply) -> Result<Self, Problem> {
        Ok(Self {
            name: Wire::from_wire(message.name)?,
            spec: required("spec", message.spec)?,
            based_on: message.based_on.map(Revision),
            reaches: ascending(
                "reaches of services",
                message.reaches.into_iter().map(reaches_from_wire),
            )?,
            replicas_max: message.replicas_max,
            trace: Wire::from_wire(message.trace)?,
            running: match message.joins_networks {
                true => Running::JoinNetworks,
                false => Running::Stay,
            },
        })
    }
}

impl Wire for DeploymentRollback {
    type Message = wire::DeploymentRollback;

    fn to_wire(&self) -> wire::DeploymentRollback {
        let Self { name, to, reaches, replicas_max } = self;
        wire::DeploymentRollback {
            name: name.to_wire(),
            to: to.map(|revision| revision.0),
            reaches: reaches.iter().map(reaches_to_wire).collect(),
            replicas_max: *replicas_max,
        }
    }

    fn from_wire(message: wire::DeploymentRollback) -> Result<Self, Problem> {
        Ok(Self {
            name: Wire::from_wire(message.name)?,
            to: message.to.map(Revision),
            reaches: ascending(
                "reaches of services",
                message.reaches.into_iter().map(reaches_from_wire),
            )?,
            replicas_max: message.replicas_max,
        })
    }
}

impl Wire for RevisionPin {
    type Message = wire::RevisionPin;

    fn to_wire(&self) -> wire::RevisionPin {
        let Self { name, revision, pin } = self;
        wire::RevisionPin { name: name.to_wire(), revision: revision.0, pinned: pin.to_wire() }
    }

    fn from_wire(message: wire::RevisionPin) -> Result<Self, Problem> {
        Ok(Self {
            name: Wire::from_wire(message.name)?,
            revision: Revision(message.revision),
            pin: Wire::from_wire(message.pinned)?,
        })
    }
}

impl Wire for DeploymentDelete {
    type Message = wire::DeploymentDelete;

    fn to_wire(&self) -> wire::DeploymentDelete {
        let Self { name } = self;
        wire::DeploymentDelete { name: name.to_wire() }
    }

    fn from_wire(message: wire::DeploymentDelete) -> Result<Self, Problem> {
        Ok(Self { name: Wire::from_wire(message.name)? })
    }
}

/// The trace of a request: empty for none.
impl Wire for Option<TraceContext> {
    type Message = Bytes;

    fn to_wire(&self) -> Bytes {
        self.map(|trace| Bytes::copy_from_slice(&trace.to_bytes())).unwrap_or_default()
    }

    fn from_wire(bytes: Bytes) -> Result<Self, Problem> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let trace = TraceContext::from_bytes(&bytes);
        trace.map(Some).ok_or(Problem::Missing("trace of 25 bytes"))
    }
}

/// Whether a revision is pinned.
impl Wire for Pin {
    type Message = bool;

    fn to_wire(&self) -> bool {
        match self {
            Self::No => false,
            Self::Yes => true,
        }
    }

    fn from_wire(pinned: bool) -> Result<Self, Problem> {
        Ok(if pinned { Self::Yes } else { Self::No })
    }
}
