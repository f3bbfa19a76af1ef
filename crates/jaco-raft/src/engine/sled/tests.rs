//! Crashes, power cuts, damage, and records of every size.

use std::collections::VecDeque;
use std::path::PathBuf;

use proptest::prelude::*;

use super::folder::snapshots_of;
use super::*;

fn record(index: u64, size: usize) -> (u64, Bytes) {
    let byte = u8::try_from(index % 251).unwrap();
    (index, Bytes::from(vec![byte; size]))
}

fn mark(index: u64) -> Bytes {
    codec::encode_mark(Some(&crate::types::log_id(1, 1, index)), 7)
}

fn append_each(engine: &mut SledEngine, indices: RangeInclusive<u64>) {
    for index in indices {
        engine.commit(&[Op::Append(vec![record(index, 100)])]).unwrap();
    }
}

/// sled's files and their content.
fn files_of_sled(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let paths = snapshots_of(dir).unwrap().into_iter().chain([dir.join("db")]);
    paths.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// Restores sled's files.
fn restore(dir: &Path, files: &[(PathBuf, Vec<u8>)]) {
    for index in snapshots_of(dir).unwrap() {
        fs::remove_file(index).unwrap();
    }
    for (path, bytes) in files {
        fs::write(path, bytes).unwrap();
    }
}

/// Flips a bit at each place in the file that contains a record's bytes.
fn damage(path: &Path, index: u8) {
    let mut bytes = fs::read(path).unwrap();
    let places = bytes.windows(100).enumerate();
    let places: Vec<_> =
        places.filter(|(_, part)| *part == [index; 100]).map(|(place, _)| place).collect();
    assert!(!places.is_empty(), "the record is in the file");
    for place in places {
        bytes[place] ^= 1;
    }
    fs::write(path, bytes).unwrap();
}

/// R-FAULT-1: whatever a power cut leaves of sled's settings, which sled does not sync, the log opens with its records.
#[test]
fn settings_that_were_cut_short_are_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut engine = SledEngine::open(dir.path()).unwrap();
    append_each(&mut engine, 1..=5);
    drop(engine);
    let path = dir.path().join("conf");
    let whole = fs::read(&path).unwrap();
    for length in 0..=whole.len() {
        for left in [whole[..length].to_vec(), vec![0; length]] {
            fs::write(&path, &left).unwrap();
            let engine = SledEngine::open(dir.path());
            let engine = engine.unwrap_or_else(|error| panic!("{left:?}: {error}"));
            assert_eq!(engine.recovered.indices, Some(1..=5), "{left:?}");
            drop(engine);
            assert_eq!(fs::read(&path).unwrap(), whole, "{left:?}");
        }
    }
}

/// Damage in the middle of the journal truncates it, in sled's file it makes sled drop everything
/// behind it: both are detected.
#[test]
fn log_that_lost_its_end_is_refused() {
    for reopened in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let mut engine = SledEngine::open(dir.path()).unwrap();
        append_each(&mut engine, 1..=39);
        drop(engine);
        if reopened {
            drop(SledEngine::open(dir.path()).unwrap());
        }
        damage(&dir.path().join(if reopened { "db" } else { "journal" }), 20);
        let refused = SledEngine::open(dir.path()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData, "{refused}");
    }
}

/// After a power cut sled's file may be as of the last checkpoint: later confirmed records are in
/// the journal. Without the journal their loss is detected.
#[test]
fn confirmed_appends_survive_loss_of_unsynced_sled_data() {
    for journal_lost in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let mut engine = SledEngine::open(dir.path()).unwrap();
        append_each(&mut engine, 1..=9);
        engine.commit(&[Op::TruncateFrom(6), Op::Append(vec![record(6, 100)])]).unwrap();
        let synced = files_of_sled(dir.path());
        append_each(&mut engine, 7..=39);
        engine.commit(&[Op::Append(vec![record(40, 9_000), record(41, 0)])]).unwrap();
        drop(engine);
        restore(dir.path(), &synced);
        if journal_lost {
            fs::write(dir.path().join("journal"), b"").unwrap();
            assert!(SledEngine::open(dir.path()).is_err(), "41 confirmed records, 6 are there");
            continue;
        }
        let engine = SledEngine::open(dir.path()).unwrap();
        assert_eq!(engine.recovered().indices, Some(1..=41));
        let read = engine.reader().read(1..=41, usize::MAX).unwrap();
        let written = (1..=39).map(|index| record(index, 100));
        let written = written.chain([record(40, 9_000), record(41, 0)]);
        assert_eq!(read, written.collect::<Vec<_>>());
    }
}

/// Truncated records do not come back from the journal.
#[test]
fn truncated_records_do_not_come_back_from_the_journal() {
    let dir = tempfile::tempdir().unwrap();
    let mut engine = SledEngine::open(dir.path()).unwrap();
    append_each(&mut engine, 1..=9);
    engine.commit(&[Op::TruncateFrom(4)]).unwrap();
    drop(engine);
    assert_eq!(SledEngine::open(dir.path()).unwrap().recovered().indices, Some(1..=3));
}

/// A full journal is emptied by a checkpoint; a group larger than the journal bypasses it.
#[test]
fn more_records_than_the_journal_holds_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let mut engine = SledEngine::open(dir.path()).unwrap();
    let first = engine.extent_file.recorded.checkpoints;
    let sizes = (1..=200_u64).map(|index| if index == 50 { 600_000 } else { 5_000 });
    let records: Vec<_> = (1..=200).zip(sizes).map(|(i, size)| record(i, size)).collect();
    for one in &records {
        engine.commit(&[Op::Append(vec![one.clone()])]).unwrap();
    }
    let checkpoints = engine.extent_file.recorded.checkpoints - first;
    assert!((2..=4).contains(&checkpoints), "{checkpoints}");
    drop(engine);
    let engine = SledEngine::open(dir.path()).unwrap();
    assert_eq!(engine.reader().read(1..=200, usize::MAX).unwrap(), records);
}

/// An intended truncation is not reported as loss, also at the end of the log.
#[test]
fn truncated_log_opens() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..3 {
        let mut engine = SledEngine::open(dir.path()).unwrap();
        engine.commit(&[Op::Append((1..=9).map(|i| record(i, 8)).collect())]).unwrap();
        engine.commit(&[Op::TruncateFrom(4), Op::Append(vec![record(4, 8)])]).unwrap();
        engine.commit(&[Op::TruncateFrom(3 - round)]).unwrap();
    }
    assert_eq!(SledEngine::open(dir.path()).unwrap().recovered().indices, None);
}

/// A lost vote would let a node vote twice in a term.
#[test]
fn lost_vote_is_detected() {
    let dir = tempfile::tempdir().unwrap();
    let mut engine = SledEngine::open(dir.path()).unwrap();
    engine.commit(&[Op::Vote(Bytes::from_static(b"v"))]).unwrap();
    engine.meta.insert(CHECKPOINT, &0_u64.to_be_bytes()).unwrap();
    engine.db.flush().unwrap();
    drop(engine);
    assert!(SledEngine::open(dir.path()).is_err());
}

#[test]
fn committed_operations_survive_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let records = vec![record(1, 10), record(2, 200_000), record(3, 0)];
    {
        let mut engine = SledEngine::open(dir.path()).unwrap();
        let ops = [
            Op::Vote(Bytes::from_static(b"v")),
            Op::Append(records.clone()),
            Op::Committed(Bytes::from_static(b"c")),
        ];
        engine.commit(&ops).unwrap();
    }
    let engine = SledEngine::open(dir.path()).unwrap();
    let recovered = engine.recovered();
    assert_eq!(recovered.vote.as_deref(), Some(b"v".as_slice()));
    assert_eq!(recovered.committed.as_deref(), Some(b"c".as_slice()));
    assert_eq!(recovered.indices, Some(1..=3));
    assert_eq!(engine.reader().read(1..=3, usize::MAX).unwrap(), records);
}

/// Pages of large values must not become blob files, which sled never syncs.
#[test]
fn no_record_size_creates_blob_files() {
    let dir = tempfile::tempdir().unwrap();
    let mut engine = SledEngine::open(dir.path()).unwrap();
    let mut next = 1;
    for size in [3_900, 4_096, 4_097, 60_000, 65_536, 300_000, 2 << 20] {
        for _ in 0..40 {
            engine.commit(&[Op::Append(vec![record(next, size)])]).unwrap();
            next += 1;
        }
        engine.commit(&[Op::TruncateFrom(next - 10)]).unwrap();
        next -= 10;
        refuse_blobs(dir.path()).unwrap();
    }
    engine.commit(&[Op::Purge { upto: next / 2, mark: mark(next / 2) }]).unwrap();
    while engine.reclaim().unwrap() == Reclaim::More {}
    refuse_blobs(dir.path()).unwrap();
}

#[test]
fn truncated_and_purged_records_are_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let mut engine = SledEngine::open(dir.path()).unwrap();
    engine.commit(&[Op::Append((1..=3000).map(|i| record(i, 8)).collect())]).unwrap();
    engine.commit(&[Op::TruncateFrom(2901)]).unwrap();
    engine.commit(&[Op::Purge { upto: 2500, mark: mark(2500) }]).unwrap();
    while engine.reclaim().unwrap() == Reclaim::More {}
    assert_eq!(engine.log.len(), 2, "409 of these records fill a block");
    drop(engine);
    let engine = SledEngine::open(dir.path()).unwrap();
    assert_eq!(engine.recovered().indices, Some(2501..=2900));
    let kept: Vec<_> = (2501..=2900).map(|index| record(index, 8)).collect();
    assert_eq!(engine.reader().read(2501..=2900, usize::MAX).unwrap(), kept);
}

#[test]
fn records_purged_but_not_yet_deleted_do_not_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut engine = SledEngine::open(dir.path()).unwrap();
    engine.commit(&[Op::Append((1..=9).map(|i| record(i, 8)).collect())]).unwrap();
    engine.commit(&[Op::Purge { upto: 9, mark: mark(9) }]).unwrap();
    drop(engine);
    assert_eq!(SledEngine::open(dir.path()).unwrap().recovered().indices, None);
}

#[test]
fn read_stops_at_the_byte_limit_after_the_first_record() {
    let dir = tempfile::tempdir().unwrap();
    let mut engine = SledEngine::open(dir.path()).unwrap();
    engine.commit(&[Op::Append((1..=9).map(|i| record(i, 100)).collect())]).unwrap();
    let reader = engine.reader();
    assert_eq!(reader.read(1..=9, 1).unwrap().len(), 1);
    assert_eq!(reader.read(1..=9, 250).unwrap().len(), 3);
}

/// Both leftovers make sled refuse the next open.
#[test]
fn leftovers_of_a_crash_in_sled_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    SledEngine::open(dir.path()).unwrap().commit(&[Op::Append(vec![record(1, 8)])]).unwrap();
    fs::write(dir.path().join("snap.00000000000000FF.generating"), b"half").unwrap();
    fs::write(dir.path().join("snap.00000000000000FF"), b"").unwrap();
    let engine = SledEngine::open(dir.path()).unwrap();
    assert_eq!(engine.recovered().indices, Some(1..=1));
}

#[test]
fn unreadable_index_is_rebuilt_from_the_log() {
    let dir = tempfile::tempdir().unwrap();
    SledEngine::open(dir.path()).unwrap().commit(&[Op::Append(vec![record(1, 8)])]).unwrap();
    fs::write(dir.path().join("snap.7FFFFFFFFFFFFFFF"), b"not an index at all").unwrap();
    let engine = SledEngine::open(dir.path()).unwrap();
    assert_eq!(engine.recovered().indices, Some(1..=1));
}

/// An operation or fault.
#[derive(Debug, Clone)]
enum Step {
    Append(Vec<usize>),
    /// Truncates this many records off the end, and appends one in the same group or not.
    Truncate(u64, Option<usize>),
    /// Purges this many records off the front.
    Purge(u64),
    Reclaim,
    Reopen,
    /// Everything sled wrote since the last checkpoint is lost.
    PowerCut,
}

fn step() -> impl Strategy<Value = Step> {
    let size = prop_oneof![8 => 0..40_usize, 8 => 300..900_usize, 3 => 3_000..9_000_usize];
    let large = prop_oneof![40 => size, 1 => 530_000..540_000_usize];
    prop_oneof![
        12 => proptest::collection::vec(large, 1..12).prop_map(Step::Append),
        2 => (1..30_u64, proptest::option::of(0..400_usize))
            .prop_map(|(count, append)| Step::Truncate(count, append)),
        2 => (1..40_u64).prop_map(Step::Purge),
        1 => Just(Step::Reclaim),
        1 => Just(Step::Reopen),
        2 => Just(Step::PowerCut),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// After any sequence of operations and faults the log holds exactly the confirmed records.
    #[test]
    fn log_holds_the_confirmed_records(steps in proptest::collection::vec(step(), 1..40)) {
        let dir = tempfile::tempdir().unwrap();
        let mut engine = SledEngine::open(dir.path()).unwrap();
        let mut synced = (engine.extent_file.recorded.checkpoints, files_of_sled(dir.path()));
        let mut expected: VecDeque<(u64, Bytes)> = VecDeque::new();
        let mut next = 1;
        for step in steps {
            match step {
                Step::Append(sizes) => {
                    let sizes = sizes.into_iter().zip(next..);
                    let records: Vec<_> = sizes.map(|(size, i)| record(i, size)).collect();
                    engine.commit(&[Op::Append(records.clone())]).unwrap();
                    next += records.len() as u64;
                    expected.extend(records);
                }
                Step::Truncate(count, append) => {
                    let count = count.min(expected.len() as u64);
                    next -= count;
                    expected.retain(|(index, _)| *index < next);
                    let mut ops = vec![Op::TruncateFrom(next)];
                    if let Some(size) = append {
                        expected.push_back(record(next, size));
                        ops.push(Op::Append(vec![record(next, size)]));
                        next += 1;
                    }
                    engine.commit(&ops).unwrap();
                }
                Step::Purge(count) => {
                    // At least one remains.
                    let upto = (next.saturating_sub(1 + expected.len() as u64) + count).min(next.saturating_sub(2));
                    if upto > 0 && expected.front().is_some_and(|(first, _)| *first <= upto) {
                        engine.commit(&[Op::Purge { upto, mark: mark(upto) }]).unwrap();
                        expected.retain(|(index, _)| *index > upto);
                    }
                }
                Step::Reclaim => {
                    engine.reclaim().unwrap();
                }
                Step::Reopen | Step::PowerCut => {
                    drop(engine);
                    if matches!(step, Step::PowerCut) {
                        restore(dir.path(), &synced.1);
                    }
                    engine = SledEngine::open(dir.path()).unwrap();
                    let ends = expected.front().zip(expected.back());
                    let indices = ends.map(|((first, _), (last, _))| *first..=*last);
                    prop_assert_eq!(engine.recovered().indices, indices);
                }
            }
            if engine.extent_file.recorded.checkpoints != synced.0 {
                synced = (engine.extent_file.recorded.checkpoints, files_of_sled(dir.path()));
            }
            if let Some((first, _)) = expected.front() {
                let read = engine.reader().read(*first..=next, usize::MAX).unwrap();
                prop_assert_eq!(read, Vec::from(expected.clone()));
            }
        }
    }
}
