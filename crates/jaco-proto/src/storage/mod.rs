//! The format on disk and between daemons: log entries, outcomes and snapshots of the replicated
//! state, as bytes. Nothing here may be lenient: bytes that are not understood whole are an error,
//! because a node that skips part of an entry has another state than the others from then on (ST-3).
//!
//! # Formats
//! Every envelope begins with the number of its format, [`FORMAT`] at present. Bytes are forever:
//! what one release wrote, all later ones read, and `tests/frozen` holds an instance of each kind.
//!
//! # Adding something
//! - A field of a domain type: the struct expressions of `from_wire` stop compiling. Add the field
//!   to the message under a new number, to both directions of the file that has the type's subject,
//!   and to `tests/it/strategy.rs`. Bytes of before read as the wire's default, so that must mean
//!   what was true before there was the field.
//! - A variant: its match in `to_wire` stops compiling. Add it to the message and both directions.
//!   A program that does not know it refuses the entry and stops.
//! - A table of the state: a row in `snapshot.proto`, in `snapshot/write.rs` and `snapshot/read.rs`.
//! - Then add a frozen instance. Only a change that old bytes cannot be read under raises [`FORMAT`].

mod acme;
mod archive;
mod backup;
mod change;
mod command;
mod content;
mod convert;
mod disabled;
mod edge;
mod envelope;
mod error;
mod event;
mod identity;
mod images;
mod job;
mod kek;
mod network;
mod node;
mod notify;
mod observed;
mod outcome;
mod port;
mod registry;
mod rotation;
mod route;
mod routing;
mod scheduling;
mod slot;
mod snapshot;
mod spec;
mod token;

pub use archive::{
    ArchiveBroken, ArchiveFile, ArchiveVerified, Kept, LineProblem, Link, Place, archive_line,
    read_archive_line, verify_archive,
};
pub use envelope::{
    Payload, decode_author, decode_outcome, decode_payload, encode_author, encode_outcome,
    encode_payload,
};
pub use error::{CodecError, Problem};
pub use route::{decode_route, encode_route};
pub use snapshot::{MAX_ROW_BYTES, read_snapshot, write_snapshot};

/// The format that this program writes, and the newest that it reads.
pub const FORMAT: u32 = 1;

/// The generated messages, `jaco.storage.v1`.
#[allow(
    clippy::all,
    clippy::pedantic,
    clippy::clone_on_ref_ptr,
    clippy::use_self,
    clippy::allow_attributes_without_reason,
    clippy::wildcard_enum_match_arm,
    missing_debug_implementations,
    unreachable_pub,
    unused_qualifications,
    dead_code,
    reason = "generated from proto/jaco/storage/v1"
)]
mod wire {
    tonic::include_proto!("jaco.storage.v1");
}
