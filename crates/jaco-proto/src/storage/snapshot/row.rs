//! The rows that exist only in snapshots. All others are the entities themselves.

use std::collections::BTreeMap;
use std::sync::Arc;

use jaco_state::Outcome;
use jaco_state::audit::Digest;
use jaco_state::audit::RefusalCount;
use jaco_state::audit::{AuditClock, AuditEvent, AuditKey, Retention};
use jaco_state::deployment::{Deployment, RevisionRecord};
use jaco_types::{
    DeploymentName, Identity, Millis, RequestId, Revision, Scheduling, ServiceKey, StateIndex,
    Timestamp,
};

use crate::storage::Problem;
use crate::storage::convert::{Wire, required};
use crate::storage::event::{event_message, to_digest};
use crate::storage::wire::{self, snapshot_row::Kind};

pub(super) fn from_deployment(deployment: &Deployment) -> Kind {
    Kind::Deployment(wire::Deployment {
        name: deployment.name.to_wire(),
        revision: deployment.revision.0,
        modified: deployment.modified.0,
    })
}

/// A deployment that still lacks its revisions, whose rows follow.
pub(super) fn to_deployment(message: wire::Deployment) -> Result<Deployment, Problem> {
    Ok(Deployment {
        name: Wire::from_wire(message.name)?,
        revision: Revision(message.revision),
        revisions: BTreeMap::new(),
        modified: StateIndex(message.modified),
    })
}

pub(super) fn from_revision(
    deployment: &DeploymentName,
    revision: Revision,
    record: &RevisionRecord,
) -> Kind {
    Kind::Revision(wire::DeploymentRevision {
        deployment: deployment.to_wire(),
        revision: revision.0,
        spec: Some(record.spec.to_wire()),
        applied_at_ms: record.applied_at.0,
        applied_by: Some(record.applied_by.to_wire()),
        restores: record.restores.map(|revision| revision.0),
        pinned: record.pin.to_wire(),
        failure: record.failure.clone(),
        digests: record.digests.to_wire(),
        trace: record.trace.to_wire(),
    })
}

pub(super) fn to_revision(
    message: wire::DeploymentRevision,
) -> Result<(DeploymentName, Revision, Arc<RevisionRecord>), Problem> {
    let record = RevisionRecord {
        spec: required("spec", message.spec)?,
        applied_at: Timestamp(message.applied_at_ms),
        applied_by: required("author", message.applied_by)?,
        restores: message.restores.map(Revision),
        pin: Wire::from_wire(message.pinned)?,
        failure: message.failure,
        digests: Wire::from_wire(message.digests)?,
        trace: Wire::from_wire(message.trace)?,
    };
    Ok((Wire::from_wire(message.deployment)?, Revision(message.revision), Arc::new(record)))
}

pub(super) fn from_scheduling(service: &ServiceKey, record: &Scheduling) -> Kind {
    Kind::Scheduling(wire::ServiceScheduling {
        service: Some(service.to_wire()),
        record: Some(record.to_wire()),
    })
}

pub(super) fn to_scheduling(
    message: wire::ServiceScheduling,
) -> Result<(ServiceKey, Scheduling), Problem> {
    Ok((required("service", message.service)?, required("record", message.record)?))
}

pub(super) fn from_request(index: StateIndex, request: &RequestId, outcome: &Outcome) -> Kind {
    Kind::Request(wire::RequestOutcome {
        index: index.0,
        request_id: request.to_wire(),
        outcome: Some(outcome.to_wire()),
    })
}

pub(super) fn to_request(
    message: wire::RequestOutcome,
) -> Result<(StateIndex, RequestId, Outcome), Problem> {
    Ok((
        StateIndex(message.index),
        Wire::from_wire(message.request_id)?,
        required("outcome", message.outcome)?,
    ))
}

pub(super) fn from_event(key: AuditKey, event: &AuditEvent) -> Kind {
    Kind::Audit(event_message(key, event))
}

pub(super) fn from_head(head: Digest) -> Kind {
    Kind::AuditChain(wire::AuditChain { head: head.0.to_wire() })
}

pub(super) fn to_head(message: wire::AuditChain) -> Result<Digest, Problem> {
    to_digest(message.head)
}

pub(super) fn from_retention(retention: Retention) -> Kind {
    let place = |cut: AuditKey| wire::AuditPlace { index: cut.index.0, number: cut.number };
    let (age_ms, cut) = (retention.age.0, retention.cut.map(place));
    let clock = retention.clock.map(|clock| wire::AuditClock {
        believed_ms: clock.believed.0,
        jumped_ms: clock.jumped.map(|at| at.0),
    });
    Kind::AuditRetained(wire::AuditRetained { age_ms, cut, clock })
}

pub(super) fn to_retention(message: wire::AuditRetained) -> Retention {
    let place =
        |cut: wire::AuditPlace| AuditKey { index: StateIndex(cut.index), number: cut.number };
    let clock = message.clock.map(|clock| AuditClock {
        believed: Timestamp(clock.believed_ms),
        jumped: clock.jumped_ms.map(Timestamp),
    });
    Retention { age: Millis(message.age_ms), cut: message.cut.map(place), clock }
}

pub(super) fn from_refusals(by: &Identity, count: &RefusalCount) -> Kind {
    Kind::RefusalCount(wire::RefusalCount {
        by: Some(by.to_wire()),
        since_ms: count.since.0,
        written: count.written,
        unreported: count.unreported,
    })
}

pub(super) fn to_refusals(
    message: wire::RefusalCount,
) -> Result<(Identity, RefusalCount), Problem> {
    let count = RefusalCount {
        since: Timestamp(message.since_ms),
        written: message.written,
        unreported: message.unreported,
    };
    Ok((required("identity", message.by)?, count))
}
