//! Events of the audit log, in snapshots and where one is kept elsewhere.

use bytes::Bytes;
use jaco_state::audit::{AuditEvent, AuditKey, Digest};
use jaco_types::{Author, StateIndex, Timestamp};

use super::convert::{Wire, optional, required};
use super::error::Problem;
use super::wire;

pub(super) fn event_message(key: AuditKey, event: &AuditEvent) -> wire::AuditEvent {
    wire::AuditEvent {
        index: key.index.0,
        number: key.number,
        kind: event.kind.to_wire(),
        at_ms: event.at.0,
        by: Some(Author { by: event.by.clone(), origin: event.origin }.to_wire()),
        request_id: event.request.as_ref().map(Wire::to_wire),
        payload: event.payload.to_wire(),
        previous: event.previous.map(|previous| previous.0.to_wire()),
    }
}

pub(super) fn to_event(message: wire::AuditEvent) -> Result<(AuditKey, AuditEvent), Problem> {
    let key = AuditKey { index: StateIndex(message.index), number: message.number };
    let Author { by, origin } = required("author", message.by)?;
    let event = AuditEvent {
        kind: Wire::from_wire(message.kind)?,
        at: Timestamp(message.at_ms),
        by,
        origin,
        request: optional(message.request_id)?,
        payload: Wire::from_wire(message.payload)?,
        previous: message.previous.map(to_digest).transpose()?,
    };
    Ok((key, event))
}

pub(super) fn to_digest(bytes: Bytes) -> Result<Digest, Problem> {
    Wire::from_wire(bytes).map(Digest)
}
