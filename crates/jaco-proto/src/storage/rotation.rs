//! The rotation of the cluster's authority.

use jaco_state::rotation::{AuthorityRotation, RotatedAuthority, RotationPhase, RotationStep};
use jaco_types::{NodeId, StateIndex, Timestamp};

use super::convert::{Wire, ascending, required, wire_enum};
use super::error::Problem;
use super::wire;

wire_enum!(RotationPhase, "phase of a rotation", [Trusting, Renewing, Settled, Abandoned]);
wire_enum!(RotationStep, "step of a rotation", [Trusts, Renewed, Reconnected, Dropped]);

impl Wire for RotatedAuthority {
    type Message = wire::RotatedAuthority;

    fn to_wire(&self) -> wire::RotatedAuthority {
        let Self { certificate, fingerprint, sealed_key } = self;
        wire::RotatedAuthority {
            certificate: certificate.clone(),
            fingerprint: fingerprint.to_wire(),
            sealed_key: sealed_key.clone().into(),
        }
    }

    fn from_wire(message: wire::RotatedAuthority) -> Result<Self, Problem> {
        Ok(Self {
            certificate: message.certificate,
            fingerprint: Wire::from_wire(message.fingerprint)?,
            sealed_key: message.sealed_key.into(),
        })
    }
}

impl Wire for AuthorityRotation {
    type Message = wire::AuthorityRotation;

    fn to_wire(&self) -> wire::AuthorityRotation {
        let Self { id, begun_at, phase, since, old, new, reports } = self;
        let reports = reports.iter();
        let reports =
            reports.map(|(node, step)| wire::MemberReport { node: node.0, step: step.to_wire() });
        wire::AuthorityRotation {
            id: id.0,
            begun_at_ms: begun_at.0,
            phase: phase.to_wire(),
            since_ms: since.0,
            old: Some(old.to_wire()),
            new: Some(new.to_wire()),
            reports: reports.collect(),
        }
    }

    fn from_wire(message: wire::AuthorityRotation) -> Result<Self, Problem> {
        let reports = message.reports.into_iter();
        let reports =
            reports.map(|report| Ok((NodeId(report.node), Wire::from_wire(report.step)?)));
        Ok(Self {
            id: StateIndex(message.id),
            begun_at: Timestamp(message.begun_at_ms),
            phase: Wire::from_wire(message.phase)?,
            since: Timestamp(message.since_ms),
            old: required("old authority", message.old)?,
            new: required("new authority", message.new)?,
            reports: ascending("reports of a rotation", reports)?,
        })
    }
}
