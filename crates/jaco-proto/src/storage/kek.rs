//! The rotation of the key-encryption key.

use bytes::Bytes;
use jaco_state::kek::{KekPhase, KekRotation, KekStep};
use jaco_types::{KekId, NodeId, StateIndex, Timestamp};

use super::convert::{Wire, ascending, wire_enum};
use super::error::Problem;
use super::wire;

wire_enum!(KekPhase, "phase of a rotation", [HandingOut, Resealing, Settled, Abandoned]);
wire_enum!(KekStep, "step of a rotation", [Holds, Dropped]);

impl Wire for KekId {
    type Message = Bytes;

    fn to_wire(&self) -> Bytes {
        Bytes::copy_from_slice(&self.0)
    }

    fn from_wire(bytes: Bytes) -> Result<Self, Problem> {
        <[u8; 8]>::try_from(&*bytes).map(Self).map_err(|_| Problem::HashLength(bytes.len()))
    }
}

impl Wire for KekRotation {
    type Message = wire::KekRotation;

    fn to_wire(&self) -> wire::KekRotation {
        let Self { id, begun_at, phase, entered, since, old, new, reports } = self;
        let reports = reports.iter();
        let reports = reports
            .map(|(node, step)| wire::KekMemberReport { node: node.0, step: step.to_wire() });
        wire::KekRotation {
            id: id.0,
            begun_at_ms: begun_at.0,
            phase: phase.to_wire(),
            entered: entered.0,
            since_ms: since.0,
            old: old.to_wire(),
            new: new.to_wire(),
            reports: reports.collect(),
        }
    }

    fn from_wire(message: wire::KekRotation) -> Result<Self, Problem> {
        let reports = message.reports.into_iter();
        let reports =
            reports.map(|report| Ok((NodeId(report.node), Wire::from_wire(report.step)?)));
        Ok(Self {
            id: StateIndex(message.id),
            begun_at: Timestamp(message.begun_at_ms),
            phase: Wire::from_wire(message.phase)?,
            entered: StateIndex(message.entered),
            since: Timestamp(message.since_ms),
            old: Wire::from_wire(message.old)?,
            new: Wire::from_wire(message.new)?,
            reports: ascending("reports of a rotation", reports)?,
        })
    }
}
