//! Archives of audit events: one form, and no change that is not named.

use expect_test::expect;
use jaco_proto::storage::{
    ArchiveBroken, ArchiveFile, ArchiveVerified, Kept, LineProblem, Place, archive_line,
    read_archive_line, verify_archive,
};
use jaco_state::audit::Digest;
use jaco_state::audit::{AuditEvent, AuditKey, AuditKind, Evicted, KEPT_EVENTS};
use jaco_state::command::{AuditNote, AuditRetention};
use jaco_state::{ClusterState, Command, Entry, apply_evicting};
use jaco_types::{Identity, Millis, NodeId, Origin, RequestId, StateIndex, Timestamp};
use proptest::prelude::*;
use proptest::sample::Index;

const DAY: u64 = 86_400_000;

fn event() -> (AuditKey, AuditEvent) {
    let key = AuditKey { index: StateIndex(41), number: 1 };
    let address = "192.0.2.7:41234".parse().unwrap();
    let event = AuditEvent {
        kind: AuditKind::Apply,
        at: Timestamp(1_700_000_000_123),
        by: Identity::Local { uid: 1000 },
        origin: Some(Origin::Address { address, node: NodeId(7) }),
        request: Some(RequestId::new("r-1").unwrap()),
        payload: [("deployment".to_owned(), "\"s\"\n\u{1f}é".to_owned())].into(),
        previous: Some(Digest::start()),
    };
    (key, event)
}

/// Bytes are for ever: what a line looks like.
#[test]
fn lines_are_as_they_were() {
    let (key, event) = event();
    let line = archive_line(key, &event).unwrap();
    expect![[r#"
        {"index":41,"number":1,"kind":"apply","at_ms":1700000000123,"by":"local:1000","origin":"192.0.2.7:41234@node:7","request_id":"r-1","payload":{"deployment":"\"s\"\n\u001fé"},"previous":"8ad3b4c77260d28d50384f1d3f628461c27d8ad7f98a7816484d23ff6bfcdb8b","hash":"79667be8d2b93e238a6e5ad90cb97ff1103d865ae18b57e0c768c59012c35ee6"}
    "#]]
    .assert_eq(&line);
    let link = read_archive_line(line.trim_end().as_bytes()).unwrap();
    assert_eq!(link.place, Place { index: 41, number: 1 });
    assert_eq!((link.previous, link.hash), (Digest::start(), Digest::of(key, &event)));
    let bare = AuditEvent { origin: None, request: None, ..event.clone() };
    assert!(read_archive_line(archive_line(key, &bare).unwrap().trim_end().as_bytes()).is_ok());
    assert_eq!(archive_line(key, &AuditEvent { previous: None, ..event }), None, "no chain yet");
}

/// A history of so many events whose older half is archived in files of three lines, newest first.
fn archived(events: u64) -> (Vec<ArchiveFile>, ClusterState) {
    let mut state = ClusterState::default();
    let mut gone = Evicted::new();
    let mut index = 0;
    let mut write = |at, command| {
        index += 1;
        let (by, origin) = (Identity::Local { uid: 7 }, Some(Origin::Member { node: NodeId(3) }));
        let request = Some(RequestId::new(&format!("r-{index}")).unwrap());
        let entry = Entry { index: StateIndex(index), at, by, origin, request, command };
        apply_evicting(&mut state, &entry, &mut gone);
    };
    write(Timestamp(0), Command::AuditBegin);
    write(Timestamp(0), AuditRetention::new(Millis(DAY)).into());
    for n in 0..events {
        let payload = [("n".to_owned(), n.to_string())].into();
        let late = if n < events / 2 { 0 } else { 2 * DAY };
        let command = AuditNote::new(AuditKind::NodeLabels, payload).into();
        write(Timestamp(late), command);
    }
    let lines: Vec<String> =
        gone.iter().map(|(key, event)| archive_line(*key, event).unwrap()).collect();
    let files = lines.chunks(3).enumerate().map(|(n, lines)| ArchiveFile {
        name: format!("{n}.ndjson"),
        bytes: lines.concat().into_bytes(),
    });
    let mut files: Vec<_> = files.collect();
    files.reverse();
    (files, state)
}

fn kept(state: &ClusterState) -> Kept {
    let verified = state.audit.verify().unwrap();
    let first = verified.span.map(|(first, _)| first);
    let place = |key: AuditKey| Place { index: key.index.0, number: key.number };
    Kept { first: first.map(place), follows: verified.follows.to_string() }
}

/// R-CLI-5: evicted events join those that are kept, back to the first event there ever was.
#[test]
fn an_archive_joins_what_is_kept() {
    let (files, state) = archived(20);
    let verified = verify_archive(files.clone(), &kept(&state)).unwrap();
    let span = Some((Place { index: 1, number: 0 }, Place { index: 12, number: 0 }));
    assert_eq!(verified, ArchiveVerified { events: 12, span, complete: true });
    let without_oldest = files[..files.len() - 1].to_vec();
    assert!(!verify_archive(without_oldest, &kept(&state)).unwrap().complete);
    assert_eq!(files.len(), 4);
    assert!(state.audit.events.len() < KEPT_EVENTS);
}

/// R-CLI-5: the archive may have grown since the cluster was asked, even beyond all that was kept then.
#[test]
fn an_archive_that_has_grown_still_joins() {
    let (files, _) = archived(20);
    for (asked, left) in [(5, 4), (8, 4), (11, 4), (11, 1)] {
        let lines: Vec<_> =
            files.iter().rev().flat_map(|file| file.bytes.split(|b| *b == b'\n')).collect();
        let lines: Vec<_> = lines.into_iter().filter(|line| !line.is_empty()).collect();
        let link = read_archive_line(lines[asked]).unwrap();
        let then = Kept { first: Some(link.place), follows: link.previous.to_string() };
        let files: Vec<_> = files.iter().take(left).cloned().collect();
        assert!(verify_archive(files, &then).is_ok() || left == 1, "{asked} {left}");
    }
}

/// R-CLI-5: an archive without its newest events does not join, nor does another cluster's, nor does
/// nothing join where something went.
#[test]
fn an_archive_that_does_not_meet_what_is_kept_is_named() {
    let (files, state) = archived(20);
    let kept = kept(&state);
    let first = kept.first;
    let cut = verify_archive(files[1..].to_vec(), &kept);
    let last = Some(Place { index: 9, number: 0 });
    assert_eq!(cut, Err(ArchiveBroken::NotJoined { last, first }));
    assert_eq!(verify_archive([], &kept), Err(ArchiveBroken::NotJoined { last: None, first }));
    let fresh = Kept { first, follows: Digest::start().to_string() };
    assert_eq!(verify_archive([], &fresh).map(|verified| verified.events), Ok(0));
    let other = Kept { first, follows: Digest([9; 32]).to_string() };
    assert!(matches!(verify_archive(files, &other), Err(ArchiveBroken::NotJoined { .. })));
}

proptest! {
    /// R-CLI-5: flip any byte of an archive, and the line is named that it is in.
    #[test]
    fn a_flipped_byte_is_named(at in any::<Index>(), file in any::<Index>(), mask in 1..=255_u8) {
        let (mut files, state) = archived(20);
        let file = file.index(files.len());
        let at = at.index(files[file].bytes.len());
        let ends = files[file].bytes[..at].iter().filter(|byte| **byte == b'\n').count();
        let is_end = files[file].bytes[at] == b'\n';
        let lines = files[file].bytes.iter().filter(|byte| **byte == b'\n').count();
        files[file].bytes[at] ^= mask;
        let name = files[file].name.clone();
        match verify_archive(files, &kept(&state)) {
            // A byte that becomes an end of a line makes two of it, both of which are no event.
            Err(ArchiveBroken::Altered { file, line, .. }) => {
                prop_assert_eq!(file, name);
                prop_assert!(line == ends + 1 || line == ends + 2, "{} {}", line, ends);
            }
            // A last line without its end is one that was being written: what it said is missing.
            Err(ArchiveBroken::NotJoined { .. }) => prop_assert!(is_end && file == 0),
            Err(ArchiveBroken::Gap { .. }) => prop_assert!(is_end && ends + 1 == lines),
            Ok(_) => prop_assert!(false, "nobody noticed"),
        }
    }

    /// R-CLI-5: take any lines out, and the gap is named.
    #[test]
    fn a_gap_is_named(at in any::<Index>(), count in 1..4usize) {
        let (files, state) = archived(20);
        let all: Vec<u8> = files.iter().rev().flat_map(|file| file.bytes.clone()).collect();
        let lines: Vec<&[u8]> = all.split_inclusive(|byte| *byte == b'\n').collect();
        let at = 1 + at.index(lines.len() - 1 - count);
        let left: Vec<u8> = [&lines[..at], &lines[at + count..]].concat().concat();
        let place = |line: &[u8]| read_archive_line(&line[..line.len() - 1]).unwrap().place;
        let (after, before) = (place(lines[at - 1]), place(lines[at + count]));
        let file = ArchiveFile { name: "all".to_owned(), bytes: left };
        let broken = verify_archive([file], &kept(&state));
        prop_assert_eq!(broken, Err(ArchiveBroken::Gap { after, before }));
    }
}

/// What is not written as it would be is refused, with what is wrong.
#[test]
fn a_line_has_one_form() {
    let (key, event) = event();
    let line = archive_line(key, &event).unwrap();
    let line = line.trim_end();
    let changed = |from: &str, to: &str| {
        assert!(line.contains(from), "{line}");
        read_archive_line(line.replacen(from, to, 1).as_bytes()).unwrap_err()
    };
    assert_eq!(changed("{\"index\"", "{ \"index\""), LineProblem::Form);
    assert_eq!(changed("\"apply\"", "\"applied\""), LineProblem::Kind("applied".to_owned()));
    assert_eq!(changed("local:1000", "local:1001"), LineProblem::Hash);
    assert_eq!(changed("node:7", "node:8"), LineProblem::Hash);
    assert!(matches!(changed("\"by\"", "\"By\""), LineProblem::Malformed(_)));
}

/// What people read names the place and what may be done.
#[test]
fn what_is_wrong_reads_well() {
    let (after, before) = (Place { index: 9, number: 0 }, Place { index: 12, number: 1 });
    let (file, problem) = ("a.ndjson".to_owned(), LineProblem::Hash);
    let altered = ArchiveBroken::Altered { file, line: 3, before: Some(before), problem };
    let gap = ArchiveBroken::Gap { after, before };
    let apart = ArchiveBroken::NotJoined { last: Some(after), first: Some(before) };
    expect![[r#"
        line 3 of a.ndjson is not as it was written: its hash does not match its content; it is the event before 12/1
        events between 9/0 and 12/1 are missing: they were removed, or the node was away when they went; another node may have them
        the archive ends with 9/0, and that is not what comes before 12/1, the oldest event that is kept
    "#]]
    .assert_eq(&[altered, gap, apart].map(|broken| format!("{broken}\n")).concat());
}
