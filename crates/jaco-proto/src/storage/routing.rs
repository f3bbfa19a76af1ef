//! Endpoint consumers, and terminating instances.

use jaco_types::{Consumer, Millis, NodeId, Revision, StateIndex, TerminatingInstance, Timestamp};

use super::convert::{Wire, list, required, to_list};
use super::error::Problem;
use super::slot::{shared, texts};
use super::wire;

impl Wire for Consumer {
    type Message = wire::Consumer;

    fn to_wire(&self) -> wire::Consumer {
        wire::Consumer {
            name: self.name.to_wire(),
            node: self.node.0,
            lease_ms: self.lease.0,
            session: self.session.0,
            attached_at_ms: self.attached_at.0,
        }
    }

    fn from_wire(message: wire::Consumer) -> Result<Self, Problem> {
        Ok(Self {
            name: Wire::from_wire(message.name)?,
            node: NodeId(message.node),
            lease: Millis(message.lease_ms),
            session: StateIndex(message.session),
            attached_at: Timestamp(message.attached_at_ms),
        })
    }
}

impl Wire for TerminatingInstance {
    type Message = wire::TerminatingInstance;

    fn to_wire(&self) -> wire::TerminatingInstance {
        wire::TerminatingInstance {
            id: Some(self.id.to_wire()),
            service: Some(self.service.to_wire()),
            node: self.node.0,
            revision: self.revision.0,
            spec_hash: self.spec_hash.to_wire(),
            gpus: texts(&self.gpus),
            addresses: to_list(&self.addresses),
            left_at: self.left_at.0,
            since_ms: self.since.0,
        }
    }

    fn from_wire(message: wire::TerminatingInstance) -> Result<Self, Problem> {
        Ok(Self {
            id: required("instance id", message.id)?,
            service: required("service", message.service)?,
            node: NodeId(message.node),
            revision: Revision(message.revision),
            spec_hash: Wire::from_wire(message.spec_hash)?,
            gpus: shared(message.gpus),
            addresses: list(message.addresses)?,
            left_at: StateIndex(message.left_at),
            since: Timestamp(message.since_ms),
        })
    }
}
