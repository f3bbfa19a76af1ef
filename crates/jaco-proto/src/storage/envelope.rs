//! Log entries, outcomes and identities as bytes, each behind the number of its format.

use bytes::Bytes;
use jaco_state::{Command, Entry, Outcome};
use jaco_types::{Author, Identity, Origin, RequestId, StateIndex, Timestamp};
use prost::Message;

use super::convert::{Wire, optional, required, whole};
use super::error::{CodecError, Problem};
use super::{FORMAT, wire};

/// A log entry without its index, which only the log can give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// When its leader proposed it, by that leader's clock.
    pub at: Timestamp,
    /// Who asked for it.
    pub by: Identity,
    /// From where; absent as long as members of other versions may be about.
    pub origin: Option<Origin>,
    /// The sender's name for it.
    pub request: Option<RequestId>,
    /// What to do.
    pub command: Command,
}

impl Payload {
    /// The entry that this is at `index`.
    #[must_use]
    pub fn into_entry(self, index: StateIndex) -> Entry {
        let Self { at, by, origin, request, command } = self;
        Entry { index, at, by, origin, request, command }
    }
}

/// The bytes of a log entry.
#[must_use]
pub fn encode_payload(payload: &Payload) -> Bytes {
    encode(&payload.to_wire())
}

/// The log entry that [`encode_payload`] wrote.
///
/// # Errors
/// If any part of it is not understood. The node must stop then, and not skip it.
pub fn decode_payload(bytes: &[u8]) -> Result<Payload, CodecError> {
    decode("log entry", bytes, Payload::from_wire)
}

/// The bytes of an outcome.
#[must_use]
pub fn encode_outcome(outcome: &Outcome) -> Bytes {
    encode(&wire::OutcomeEnvelope { format: FORMAT, outcome: Some(outcome.to_wire()) })
}

/// The outcome that [`encode_outcome`] wrote.
///
/// # Errors
/// If any part of it is not understood.
pub fn decode_outcome(bytes: &[u8]) -> Result<Outcome, CodecError> {
    let read = |message: wire::OutcomeEnvelope| required("outcome", message.outcome);
    decode("outcome", bytes, read)
}

/// The bytes of who asks for something, and from where.
#[must_use]
pub fn encode_author(author: &Author) -> Bytes {
    encode(&wire::IdentityEnvelope { format: FORMAT, identity: Some(author.to_wire()) })
}

/// The author that [`encode_author`] wrote.
///
/// # Errors
/// If any part of it is not understood.
pub fn decode_author(bytes: &[u8]) -> Result<Author, CodecError> {
    let read = |message: wire::IdentityEnvelope| required("identity", message.identity);
    decode("identity", bytes, read)
}

impl Wire for Payload {
    type Message = wire::Payload;

    fn to_wire(&self) -> wire::Payload {
        wire::Payload {
            format: FORMAT,
            at_ms: self.at.0,
            by: Some(Author { by: self.by.clone(), origin: self.origin }.to_wire()),
            request_id: self.request.as_ref().map(Wire::to_wire),
            command: Some(self.command.to_wire()),
        }
    }

    fn from_wire(message: wire::Payload) -> Result<Self, Problem> {
        let Author { by, origin } = required("author", message.by)?;
        Ok(Self {
            at: Timestamp(message.at_ms),
            by,
            origin,
            request: optional(message.request_id)?,
            command: required("command", message.command)?,
        })
    }
}

fn encode(envelope: &impl Message) -> Bytes {
    envelope.encode_to_vec().into()
}

fn decode<M: Message + Default, T>(
    what: &'static str,
    bytes: &[u8],
    read: impl FnOnce(M) -> Result<T, Problem>,
) -> Result<T, CodecError> {
    let format = known_format(what, bytes)?;
    let message = whole(bytes).and_then(read);
    message.map_err(|problem| CodecError::NotUnderstood { what, format, problem })
}

/// The format of an envelope. Looks at nothing else, so it can also name the one of an envelope that
/// cannot be read.
pub(super) fn known_format(what: &'static str, bytes: &[u8]) -> Result<u32, CodecError> {
    let envelope = wire::Format::decode(bytes).map_err(|error| CodecError::NotUnderstood {
        what,
        format: 0,
        problem: error.into(),
    })?;
    match envelope.format {
        FORMAT => Ok(FORMAT),
        found => Err(CodecError::UnknownFormat { what, found }),
    }
}
