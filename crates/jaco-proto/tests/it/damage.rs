//! Damaged, hostile and newer bytes: an error that says what is wrong, and never a panic, a guess
//! or an endless buffer.

use std::error::Error;

use expect_test::expect;
use jaco_proto::storage::{
    CodecError, MAX_ROW_BYTES, Problem, decode_author, decode_outcome, decode_payload,
    encode_author, encode_outcome, encode_payload, read_snapshot, write_snapshot,
};
use jaco_state::ClusterState;
use jaco_types::{RequestId, StateIndex};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::round_trip::snapshot;
use crate::{sample, strategy};

/// The error and its sources, as an operator reads them.
fn chain(error: &dyn Error) -> String {
    let first = error.to_string();
    std::iter::successors(error.source(), |&error| error.source())
        .fold(first, |text, error| format!("{text}: {error}"))
}

fn problem(error: CodecError) -> Problem {
    match error {
        CodecError::NotUnderstood { problem, .. } => problem,
        other @ (CodecError::UnknownFormat { .. }
        | CodecError::Inconsistent { .. }
        | CodecError::Io(_)) => panic!("{other}"),
    }
}

/// A message behind its length.
fn frame(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap();
    [&length.to_le_bytes(), message].concat()
}

/// The frames of a snapshot: header, rows, trailer.
fn frames(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let (message, rest) = rest.split_at(u32::from_le_bytes(*length).try_into().unwrap());
        frames.push(frame(message));
        bytes = rest;
    }
    frames
}

proptest! {
    #[test]
    fn random_bytes_are_never_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        drop(decode_payload(&bytes));
        drop(decode_outcome(&bytes));
        drop(decode_author(&bytes));
        prop_assert!(read_snapshot(&mut bytes.as_slice()).is_err());
    }

    #[test]
    fn a_cut_log_entry_is_refused(payload in strategy::payload(), cut in any::<Index>()) {
        let bytes = encode_payload(&payload);
        prop_assert!(decode_payload(&bytes[..cut.index(bytes.len())]).is_err());
    }

    #[test]
    fn a_cut_snapshot_is_refused(state in strategy::state(), cut in any::<Index>()) {
        let bytes = snapshot(&state);
        prop_assert!(read_snapshot(&mut &bytes[..cut.index(bytes.len())]).is_err());
    }

    /// Another value may come of a changed byte, but only one that is written and read as itself:
    /// nothing is half understood.
    #[test]
    fn a_changed_log_entry_is_refused_or_whole(
        payload in strategy::payload(), at in any::<Index>(), mask in 1..=255_u8,
    ) {
        let mut bytes = encode_payload(&payload).to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= mask;
        if let Ok(other) = decode_payload(&bytes) {
            prop_assert_eq!(decode_payload(&encode_payload(&other)).unwrap(), other);
        }
    }

    #[test]
    fn a_changed_outcome_or_identity_is_refused_or_whole(
        outcome in strategy::outcome(), author in strategy::author(),
        at in any::<Index>(), mask in 1..=255_u8,
    ) {
        let mut bytes = encode_outcome(&outcome).to_vec();
        let place = at.index(bytes.len());
        bytes[place] ^= mask;
        if let Ok(other) = decode_outcome(&bytes) {
            prop_assert_eq!(decode_outcome(&encode_outcome(&other)).unwrap(), other);
        }
        let mut bytes = encode_author(&author).to_vec();
        let place = at.index(bytes.len());
        bytes[place] ^= mask;
        if let Ok(other) = decode_author(&bytes) {
            prop_assert_eq!(decode_author(&encode_author(&other)).unwrap(), other);
        }
    }

    #[test]
    fn a_changed_snapshot_is_refused_or_whole(
        state in strategy::state(), at in any::<Index>(), mask in 1..=255_u8,
    ) {
        let mut bytes = snapshot(&state);
        let at = at.index(bytes.len());
        bytes[at] ^= mask;
        if let Ok(other) = read_snapshot(&mut bytes.as_slice()) {
            prop_assert_eq!(read_snapshot(&mut snapshot(&other).as_slice()).unwrap(), other);
        }
    }

    /// No row can go missing, come twice or change its place unseen.
    #[test]
    fn rows_are_all_there_once_and_in_order(
        state in strategy::state(), one in any::<Index>(), other in any::<Index>(),
    ) {
        let frames = frames(&snapshot(&state));
        let (one, other) = (one.index(frames.len()), other.index(frames.len()));
        let mut without = frames.clone();
        without.remove(one);
        prop_assert!(read_snapshot(&mut without.concat().as_slice()).is_err());
        let mut twice = frames.clone();
        twice.insert(one, frames[one].clone());
        prop_assert!(read_snapshot(&mut twice.concat().as_slice()).is_err());
        let mut swapped = frames.clone();
        swapped.swap(one, other);
        if let Ok(read) = read_snapshot(&mut swapped.concat().as_slice()) {
            prop_assert_eq!(read, state);
        }
    }

    /// What a newer program adds at the end of a log entry is not skipped.
    #[test]
    fn an_unknown_field_is_not_skipped(payload in strategy::payload()) {
        let mut bytes = encode_payload(&payload).to_vec();
        // Field 15, a number, 1.
        bytes.extend([0x78, 0x01]);
        prop_assert_eq!(problem(decode_payload(&bytes).unwrap_err()), Problem::Unread { unread: 2 });
    }
}

#[test]
fn a_newer_format_is_named() {
    let mut bytes = encode_payload(&sample::payload(sample::commands().remove(0))).to_vec();
    assert_eq!(bytes[..2], [0x08, 0x01]);
    bytes[1] = 9;
    let error = decode_payload(&bytes).unwrap_err();
    expect!["log entry was written in format 9, and this program reads format 1 at most"]
        .assert_eq(&chain(&error));
    let error = decode_outcome(&[]).unwrap_err();
    expect!["outcome was written in format 0, and this program reads format 1 at most"]
        .assert_eq(&chain(&error));
    let error = read_snapshot(&mut frame(&[0x08, 0x09]).as_slice()).unwrap_err();
    expect!["snapshot was written in format 9, and this program reads format 1 at most"]
        .assert_eq(&chain(&error));
}

/// A command of a newer program in a format that is known: field 999 of `Command`.
#[test]
fn an_unknown_command_is_not_skipped() {
    let command = [0xba, 0x3e, 0x00];
    let entry = [&[0x08, 0x01, 0x1a, 0x03, 0xc2, 0x02, 0x00, 0x2a, 0x03][..], &command].concat();
    expect![[r#"
        log entry of format 1 is not understood: 3 of its bytes mean nothing to this program: a newer one wrote it"#]]
    .assert_eq(&chain(&decode_payload(&entry).unwrap_err()));
}

/// Zero is what an absent value reads as, so it never stands for one.
#[test]
fn a_value_that_was_not_written_is_refused() {
    // An outcome `deployed` with a revision and no change.
    let bytes = [0x08, 0x01, 0x12, 0x05, 0xf2, 0x01, 0x02, 0x08, 0x01];
    expect!["outcome of format 1 is not understood: 0 is no change of a spec"]
        .assert_eq(&chain(&decode_outcome(&bytes).unwrap_err()));
}

/// A name goes through its own constructor, whoever wrote it.
#[test]
fn a_name_that_breaks_its_rule_is_refused() {
    // The operator whose token is named "A".
    let bytes = [0x08, 0x01, 0x12, 0x06, 0xa2, 0x01, 0x03, 0x0a, 0x01, b'A'];
    expect![[
        r#"identity of format 1 is not understood: invalid token id "A": use 1 to 32 of a-z, 0-9 and '-'"#
    ]]
    .assert_eq(&chain(&decode_author(&bytes).unwrap_err()));
}

/// A length is no reason to take memory.
#[test]
fn an_announced_length_is_not_believed() {
    let too_large = u32::MAX.to_le_bytes();
    let error = read_snapshot(&mut &too_large[..]).unwrap_err();
    let size = usize::try_from(u32::MAX).unwrap();
    assert_eq!(problem(error), Problem::RowTooLarge { size, limit: MAX_ROW_BYTES });
    let largest = u32::try_from(MAX_ROW_BYTES).unwrap().to_le_bytes();
    let error = read_snapshot(&mut &largest[..]).unwrap_err();
    assert!(
        matches!(error, CodecError::Io(error) if error.kind() == std::io::ErrorKind::UnexpectedEof)
    );
}

#[test]
fn nothing_may_follow_the_trailer() {
    let mut bytes = snapshot(&sample::state());
    bytes.push(0);
    assert_eq!(problem(read_snapshot(&mut bytes.as_slice()).unwrap_err()), Problem::AfterTheEnd);
}

/// ST-5 holds of what is read, because the state's own code relies on it.
#[test]
fn a_deployment_without_its_wanted_revision_is_refused() {
    let mut state = sample::state();
    let name = sample::deployment_name();
    state.deployments.get_mut(&name).unwrap().revision.0 += 1;
    let read = read_snapshot(&mut snapshot(&state).as_slice());
    let missing = Problem::Missing("record of a wanted revision");
    assert_eq!(problem(read.unwrap_err()), missing);
}

/// What cannot be written whole is not written at all.
#[test]
fn a_torn_log_of_requests_is_refused() {
    let mut state = ClusterState::default();
    state.requests.order.insert(StateIndex(1), RequestId::new("a").unwrap());
    let error = write_snapshot(&state, &mut Vec::new()).unwrap_err();
    expect!["the state cannot be written: each request is known by its age and by its id"]
        .assert_eq(&chain(&error));
}

/// A snapshot that could not be read again is not written.
#[test]
fn a_row_that_is_too_large_is_refused() {
    let mut state = sample::state();
    state.meta.as_mut().unwrap().name = "a".repeat(MAX_ROW_BYTES);
    let error = write_snapshot(&state, &mut Vec::new()).unwrap_err();
    expect!["the state cannot be written: no row is larger than a row may be"]
        .assert_eq(&chain(&error));
}
