//! Events that the replicated state evicts are in the node's files by then, whatever happens to the node.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use jaco_proto::storage::{
    ArchiveBroken, ArchiveFile, ArchiveVerified, Kept, Payload, Place, encode_payload,
    verify_archive, write_snapshot,
};
use jaco_raft::StateMachine as _;
use jaco_server::ClusterMachine;
use jaco_server::archive::{ArchiveLimits, AuditArchive};
use jaco_state::Command;
use jaco_state::audit::{AuditKind, CUT_EVENTS, DEFAULT_AGE, KEPT_EVENTS};
use jaco_state::command::{AuditNote, AuditRetention};
use jaco_types::{Identity, Timestamp};
use tempfile::TempDir;

pub(crate) const SMALL: ArchiveLimits = ArchiveLimits { file_bytes: 50_000, total_bytes: u64::MAX };

/// A machine that archives into `folder`, at the beginning of its log.
pub(crate) fn machine(folder: &Path, limits: ArchiveLimits) -> ClusterMachine {
    ClusterMachine::archiving(AuditArchive::open(folder, limits).unwrap()).unwrap()
}

fn entry(n: u64) -> Vec<u8> {
    let command = match n {
        1 => Command::AuditBegin,
        2 => AuditRetention::new(DEFAULT_AGE).into(),
        n => {
            let payload = [("n".to_owned(), n.to_string())].into();
            AuditNote::new(AuditKind::NodeLabels, payload).into()
        }
    };
    let (at, by) = (Timestamp(1_000_000 + n), Identity::Scheduler);
    encode_payload(&Payload { at, by, origin: None, request: None, command }).to_vec()
}

pub(crate) fn apply(machine: &mut ClusterMachine, entries: std::ops::RangeInclusive<u64>) {
    for n in entries {
        machine.apply(n, &entry(n)).unwrap();
    }
}

fn paths(folder: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_of_events = |path: &PathBuf| path.extension().is_some_and(|it| it == "ndjson");
    let mut paths: Vec<_> = found.filter(is_of_events).collect();
    paths.sort();
    paths
}

pub(crate) fn verify(
    folder: &Path,
    machine: &ClusterMachine,
) -> Result<ArchiveVerified, ArchiveBroken> {
    machine.archived().unwrap().wait();
    verify_now(folder, machine)
}

/// As the files are at this moment.
pub(crate) fn verify_now(
    folder: &Path,
    machine: &ClusterMachine,
) -> Result<ArchiveVerified, ArchiveBroken> {
    let verified = machine.state().audit.verify().unwrap();
    let first = verified.span.map(|(key, _)| Place { index: key.index.0, number: key.number });
    let kept = Kept { first, follows: verified.follows.to_string() };
    let files = paths(folder).into_iter().rev().map(|path| ArchiveFile {
        name: path.display().to_string(),
        bytes: fs::read(&path).unwrap(),
    });
    verify_archive(files, &kept)
}

pub(crate) const FULL: u64 = KEPT_EVENTS as u64;
pub(crate) const BLOCK: u64 = CUT_EVENTS as u64;

/// R-CLI-5: after any entry, what is kept and what is in the files are all there ever was; the files are
/// nobody else's to read, and begin anew when they are large.
#[test]
fn what_is_cut_is_in_the_files() {
    let folder = TempDir::new().unwrap();
    let mut node = machine(folder.path(), SMALL);
    apply(&mut node, 1..=FULL);
    assert_eq!(paths(folder.path()), Vec::<PathBuf>::new(), "there is room");
    let mut files = 0;
    for n in FULL + 1..=FULL + 3 * BLOCK {
        let before = node.state().audit.events.len();
        apply(&mut node, n..=n);
        if node.state().audit.events.len() < before {
            let verified = verify(folder.path(), &node).unwrap();
            assert!(verified.complete);
            let kept = u64::try_from(node.state().audit.events.len()).unwrap();
            assert_eq!(verified.events + kept, n);
            files += 1;
        }
    }
    assert_eq!(files, 3, "they go in blocks");
    let paths = paths(folder.path());
    assert!(paths.len() > 1, "{paths:?}");
    for path in paths {
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

/// R-CLI-5: a node that dies at any moment and applies its log again has each event once; what it was
/// writing then is written anew.
#[test]
fn a_restart_repeats_nothing_and_loses_nothing() {
    let folder = TempDir::new().unwrap();
    let last = FULL + 2 * BLOCK + 7;
    let mut node = machine(folder.path(), SMALL);
    apply(&mut node, 1..=last);
    let whole = verify(folder.path(), &node).unwrap();
    drop(node);
    for torn in [0, 1, 40, 500, 9_000, 120_000] {
        let newest = paths(folder.path()).pop().unwrap();
        let bytes = fs::read(&newest).unwrap();
        fs::write(&newest, &bytes[..bytes.len().saturating_sub(torn)]).unwrap();
        let mut node = machine(folder.path(), SMALL);
        apply(&mut node, 1..=last);
        assert_eq!(verify(folder.path(), &node), Ok(whole), "{torn}");
    }
}

/// R-CLI-5, R-FAULT-1: a damaged mark keeps no node from starting, whatever bytes it has; the archive is used as it is.
#[test]
fn a_damaged_mark_is_passed_over() {
    let folder = TempDir::new().unwrap();
    let last = FULL + 2 * BLOCK + 7;
    let mut node = machine(folder.path(), SMALL);
    apply(&mut node, 1..=last);
    let whole = verify(folder.path(), &node).unwrap();
    drop(node);
    for damaged in [&b""[..], b"\xff\xfe\x00", b"12", b"twelve name.ndjson"] {
        let mark = folder.path().join("durable");
        assert!(mark.exists(), "it is this file");
        fs::write(&mark, damaged).unwrap();
        let mut node = machine(folder.path(), SMALL);
        apply(&mut node, 1..=last);
        assert_eq!(verify(folder.path(), &node), Ok(whole), "{damaged:?}");
    }
}

/// R-CLI-5: a power cut may lose any of what was written since it was last durable, also from the middle:
/// all of that is written anew, and what was durable before stays.
#[test]
fn what_was_not_durable_is_written_anew() {
    let folder = TempDir::new().unwrap();
    let mut node = machine(folder.path(), SMALL);
    apply(&mut node, 1..=FULL + BLOCK);
    verify(folder.path(), &node).unwrap();
    let [mark, durable] = ["durable", "elsewhere"].map(|name| folder.path().join(name));
    fs::copy(&mark, &durable).unwrap();
    let last = FULL + 6 * BLOCK;
    for block in 1..6 {
        apply(&mut node, FULL + block * BLOCK + 1..=FULL + (block + 1) * BLOCK);
        node.archived().unwrap().wait();
    }
    let whole = verify(folder.path(), &node).unwrap();
    drop(node);
    // As if nobody had asked for it since: the middle of it and the end of a file are lost.
    fs::rename(&durable, &mark).unwrap();
    let mut written = paths(folder.path()).into_iter().skip(2);
    let (hole, end) = (written.next().unwrap(), written.next().unwrap());
    let mut bytes = fs::read(&hole).unwrap();
    bytes[4_096..8_192].fill(0);
    fs::write(&hole, &bytes).unwrap();
    fs::write(&end, &fs::read(&end).unwrap()[..9_000]).unwrap();
    let mut node = machine(folder.path(), SMALL);
    apply(&mut node, 1..=last);
    assert_eq!(verify(folder.path(), &node), Ok(whole));
}

/// R-CLI-5: the log is cut once a snapshot stands, so the files are whole before it does.
#[test]
fn a_snapshot_waits_for_the_files() {
    let folder = TempDir::new().unwrap();
    let mut node = machine(folder.path(), SMALL);
    apply(&mut node, 1..=FULL + 1);
    assert!(node.state().audit.events.len() < CUT_EVENTS * 20, "some have gone");
    node.snapshot().write(&mut Vec::new()).unwrap();
    assert!(verify_now(folder.path(), &node).unwrap().complete);
    let mut snapshot = Vec::new();
    write_snapshot(node.state(), &mut snapshot).unwrap();
    let other = TempDir::new().unwrap();
    let mut behind = machine(other.path(), SMALL);
    apply(&mut behind, 1..=FULL);
    behind.restore(&mut snapshot.as_slice()).unwrap();
    assert!(verify_now(other.path(), &behind).unwrap().complete);
}

/// R-CLI-5: a snapshot of another node takes this one past events that it still has: they go to its files
/// first, and those it never had are a gap that is named.
#[test]
fn a_snapshot_puts_away_what_it_replaces() {
    let folders = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let [mut ahead, mut behind] = folders.each_ref().map(|folder| machine(folder.path(), SMALL));
    apply(&mut behind, 1..=FULL / 2);
    apply(&mut ahead, 1..=FULL + BLOCK);
    let mut snapshot = Vec::new();
    write_snapshot(ahead.state(), &mut snapshot).unwrap();
    behind.restore(&mut snapshot.as_slice()).unwrap();
    let [whole, other] = [(&folders[0], &ahead), (&folders[1], &behind)]
        .map(|(folder, node)| verify(folder.path(), node).unwrap());
    assert_eq!((whole.events, other.events), (whole.events, whole.events));
    apply(&mut ahead, FULL + BLOCK + 1..=3 * FULL);
    let mut snapshot = Vec::new();
    write_snapshot(ahead.state(), &mut snapshot).unwrap();
    behind.restore(&mut snapshot.as_slice()).unwrap();
    assert!(matches!(verify(folders[1].path(), &behind), Err(ArchiveBroken::NotJoined { .. })));
    apply(&mut behind, 3 * FULL + 1..=4 * FULL);
    let gap = verify(folders[1].path(), &behind);
    let Err(ArchiveBroken::Gap { after, before }) = gap else { panic!("{gap:?}") };
    assert!(after.index < before.index && before.index < 3 * FULL, "{after} {before}");
}

/// R-CLI-5: the files have an end: the oldest go first, and what is left still joins.
#[test]
fn the_oldest_files_go_first() {
    let folder = TempDir::new().unwrap();
    let limits = ArchiveLimits { file_bytes: 50_000, total_bytes: 700_000 };
    let mut node = machine(folder.path(), limits);
    // A block at a time, so that a file is no longer than that.
    let apply_blocks = |node: &mut ClusterMachine, blocks: std::ops::Range<u64>| {
        for block in blocks {
            apply(node, FULL + block * BLOCK + 1..=FULL + (block + 1) * BLOCK);
            node.archived().unwrap().wait();
        }
    };
    apply(&mut node, 1..=FULL);
    apply_blocks(&mut node, 0..10);
    // What was there before a start counts.
    drop(node);
    let mut node = machine(folder.path(), limits);
    apply(&mut node, 1..=FULL + 10 * BLOCK);
    apply_blocks(&mut node, 10..12);
    let size: u64 = paths(folder.path()).iter().map(|path| fs::metadata(path).unwrap().len()).sum();
    assert!(size <= limits.total_bytes, "{size}");
    let verified = verify(folder.path(), &node).unwrap();
    assert!(!verified.complete && verified.events > 1000, "{verified:?}");
}

/// R-CLI-5: what cannot be written is kept and written later, and nothing is missing then.
#[test]
fn a_disk_that_fails_for_a_while_loses_nothing() {
    let folder = TempDir::new().unwrap();
    let inner = folder.path().join("audit");
    let mut node = machine(&inner, SMALL);
    apply(&mut node, 1..=FULL);
    // A file in the place of the folder: nothing can be made in it, whoever asks.
    fs::remove_dir_all(&inner).unwrap();
    fs::write(&inner, "in the way").unwrap();
    apply(&mut node, FULL + 1..=FULL + 2 * BLOCK + 5);
    fs::remove_file(&inner).unwrap();
    fs::create_dir(&inner).unwrap();
    apply(&mut node, FULL + 2 * BLOCK + 6..=FULL + 4 * BLOCK);
    let verified = verify(&inner, &node).unwrap();
    assert!(verified.complete, "{verified:?}");
}
