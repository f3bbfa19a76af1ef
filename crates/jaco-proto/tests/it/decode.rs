//! What reads stored bytes, as functions of bytes: for mutations, and for the fuzz target `storage`, which includes this
//! file, so that it may refer to no other.

use jaco_proto::storage::{
    ArchiveFile, Kept, decode_author, decode_outcome, decode_payload, decode_route, encode_author,
    encode_outcome, encode_payload, encode_route, read_archive_line, read_snapshot, verify_archive,
    write_snapshot,
};
use jaco_state::{ClusterState, invariants};
use jaco_types::StateIndex;

/// A log entry: what is read is written as itself, and can be applied.
pub(crate) fn log_entry(bytes: &[u8]) {
    let Ok(payload) = decode_payload(bytes) else { return };
    assert_eq!(decode_payload(&encode_payload(&payload)).ok(), Some(payload.clone()));
    // ST-1: whatever it says, a node that executes it goes on.
    let mut state = ClusterState::default();
    jaco_state::apply(&mut state, &payload.into_entry(StateIndex(1)));
}

pub(crate) fn outcome(bytes: &[u8]) {
    let Ok(outcome) = decode_outcome(bytes) else { return };
    assert_eq!(decode_outcome(&encode_outcome(&outcome)).ok(), Some(outcome));
}

pub(crate) fn author(bytes: &[u8]) {
    let Ok(author) = decode_author(bytes) else { return };
    assert_eq!(decode_author(&encode_author(&author)).ok(), Some(author));
}

pub(crate) fn route(bytes: &[u8]) {
    let Ok((key, route)) = decode_route(bytes) else { return };
    assert_eq!(decode_route(&encode_route(&key, &route)).ok(), Some((key, route)));
}

/// A snapshot: what is read is written as itself, and whether its laws hold can be asked.
pub(crate) fn snapshot(mut bytes: &[u8]) {
    let Ok(state) = read_snapshot(&mut bytes) else { return };
    std::hint::black_box(invariants::violations(&state));
    let mut written = Vec::new();
    write_snapshot(&state, &mut written).expect("what is read can be written");
    assert_eq!(read_snapshot(&mut written.as_slice()).ok(), Some(state));
}

/// A line of an archive, and a file of lines.
pub(crate) fn archive(bytes: &[u8]) {
    drop(read_archive_line(bytes));
    let file = ArchiveFile { name: "0.ndjson".to_owned(), bytes: bytes.to_vec() };
    let kept = Kept { first: None, follows: String::new() };
    std::hint::black_box(verify_archive([file], &kept).is_ok());
}
