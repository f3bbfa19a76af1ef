//! Folders of backups: what is removed, and above all what is not.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use jaco_proto::v1::backup_part::Kind;
use jaco_proto::v1::{BackupEnd, BackupHeader, BackupPart};

use super::age::tests::{IDENTITY, RECIPIENT};
use super::{
    Folder, Identities, Pruned, Recipient, Recipients, Retention, Summary, Unlock, Writer,
};

const DAY_MS: i64 = 24 * 3_600_000;

/// The header of a backup of cluster `sun` that was taken on this day.
fn header(day: i64) -> BackupHeader {
    BackupHeader {
        format: 1,
        cluster_id: "c1".repeat(16),
        cluster_name: "sun".to_owned(),
        raft_index: u64::try_from(day).unwrap() * 10,
        taken_at_ms: day * DAY_MS,
        version: "0.1.0".to_owned(),
    }
}

/// What is known of a backup that was written without a key.
fn summary(header: &BackupHeader) -> Summary {
    Summary { header: header.clone(), end: BackupEnd::default(), bytes: 0, key: None }
}

fn bytes(header: &BackupHeader) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes).unwrap();
    for kind in [Kind::Header(header.clone()), Kind::End(BackupEnd::default())] {
        writer.part(&BackupPart { kind: Some(kind) }).unwrap();
    }
    writer.finish().unwrap();
    bytes
}

/// Writes a backup to the folder as the command does; returns its path.
fn add(folder: &Folder, header: &BackupHeader) -> PathBuf {
    let partial = folder.partial().unwrap();
    partial.out().write_all(&bytes(header)).unwrap();
    folder.keep(partial, &summary(header)).unwrap()
}

fn listed(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name != ".jaco-backup.lock");
    names.sort();
    names
}

fn newest(number: usize) -> Retention {
    Retention { newest: number, ..Retention::default() }
}

fn prune(folder: &Folder, day: i64, retention: Retention) -> Pruned {
    folder.prune(&summary(&header(day)), &retention, Unlock::Nothing).unwrap()
}

/// R-CLI-6: a backup gets its name when it is complete and verified, and only its owner can read it; one that exists is
/// not replaced, and an incomplete one leaves no file.
#[test]
fn a_backup_gets_the_name_of_its_time() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = Folder::lock(temporary.path()).unwrap();
    let path = add(&folder, &header(1));
    assert_eq!(listed(temporary.path()), ["sun-19700102T000000Z-10.jacobak"]);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let before = fs::read(&path).unwrap();

    let again = folder.partial().unwrap();
    again.out().write_all(&bytes(&header(1))).unwrap();
    let refused = folder.keep(again, &summary(&header(1))).unwrap_err();
    assert!(refused.to_string().contains("already exists"), "{refused}");
    let cut = folder.partial().unwrap();
    cut.out().write_all(&before[..before.len() - 1]).unwrap();
    assert!(folder.keep(cut, &summary(&header(2))).is_err());
    assert_eq!(listed(temporary.path()), ["sun-19700102T000000Z-10.jacobak"]);
    assert_eq!(fs::read(&path).unwrap(), before);
}

/// R-CLI-6: what the retention does not keep is removed, oldest first.
#[test]
fn backups_beyond_the_retention_are_removed() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = Folder::lock(temporary.path()).unwrap();
    let paths: Vec<PathBuf> = (1..=4).map(|day| add(&folder, &header(day))).collect();
    let pruned = prune(&folder, 4, newest(2));
    assert_eq!((&pruned.removed[..], &pruned.kept[..]), (&paths[..2], &paths[2..]));
    assert_eq!(pruned.damaged, []);
    assert_eq!(listed(temporary.path()).len(), 2);
    assert_eq!(prune(&folder, 4, newest(2)).removed, Vec::<PathBuf>::new());
    // The clock was wrong when the others were taken: the one that was just written stays.
    let written = add(&folder, &header(1));
    let pruned = prune(&folder, 1, newest(1));
    assert_eq!(pruned.kept, [written, paths[3].clone()]);
}

/// R-CLI-6: a file that could not be restored does not count as one to keep, whatever its name says, and is not removed;
/// so the newest good backups stay.
#[test]
fn damaged_files_do_not_count() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = Folder::lock(temporary.path()).unwrap();
    let paths: Vec<PathBuf> = (1..=5).map(|day| add(&folder, &header(day))).collect();
    let whole = fs::read(&paths[2]).unwrap();
    for at in 0..whole.len() {
        let mut altered = whole.clone();
        altered[at] ^= 0x40;
        for damaged in [&altered[..], &whole[..at]] {
            fs::write(&paths[2], damaged).unwrap();
            let pruned = prune(&folder, 5, newest(4));
            assert_eq!(pruned.removed, Vec::<PathBuf>::new(), "byte {at}");
            assert_eq!(pruned.damaged.len(), 1, "byte {at}");
        }
    }
    fs::write(&paths[3], "").unwrap();
    let pruned = prune(&folder, 5, newest(2));
    assert_eq!(pruned.kept, [paths[1].clone(), paths[4].clone()]);
    assert_eq!(pruned.removed, [paths[0].clone()]);
    let damaged: Vec<&PathBuf> = pruned.damaged.iter().map(|(path, _)| path).collect();
    assert_eq!(damaged, [&paths[2], &paths[3]]);
    assert!(paths[2].exists() && paths[3].exists());
}

/// R-CLI-6: nothing is removed but undamaged backups of this cluster under their own names.
#[test]
fn other_files_are_never_removed() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = Folder::lock(temporary.path()).unwrap();
    let place =
        |name: &str, content: &[u8]| fs::write(temporary.path().join(name), content).unwrap();
    // Another cluster of this name, and one whose name begins in the same way.
    let twin = BackupHeader { cluster_id: "c2".repeat(16), ..header(1) };
    place("sun-19700102T000000Z-10.jacobak", &bytes(&twin));
    let longer = BackupHeader { cluster_name: "sun-2".to_owned(), ..header(1) };
    place("sun-2-19700102T000000Z-10.jacobak", &bytes(&longer));
    // Renamed by its owner, to another time or to a name of their own.
    place("sun-19700103T000000Z-20.jacobak", &bytes(&header(1)));
    place("sun-before-the-upgrade.jacobak", &bytes(&header(1)));
    place("notes.txt", b"do not remove");
    let elsewhere = tempfile::tempdir().unwrap();
    let target = elsewhere.path().join("kept");
    fs::write(&target, bytes(&header(3))).unwrap();
    symlink(&target, temporary.path().join("sun-19700104T000000Z-30.jacobak")).unwrap();
    fs::create_dir(temporary.path().join("sun-19700105T000000Z-40.jacobak")).unwrap();
    let before = listed(temporary.path());

    add(&folder, &header(8));
    let written = add(&folder, &header(9));
    let pruned = prune(&folder, 9, newest(1));
    assert_eq!((pruned.removed.len(), &pruned.kept[..]), (1, &[written][..]));
    let mut expected = before;
    expected.push("sun-19700110T000000Z-90.jacobak".to_owned());
    expected.sort();
    assert_eq!(listed(temporary.path()), expected);
    assert!(target.exists());
}

/// R-CLI-6: two runs at the same time do not write to one file, nor remove what the other one counts.
#[test]
fn a_folder_is_used_by_one_run_at_a_time() {
    let temporary = tempfile::tempdir().unwrap();
    let first = Folder::lock(temporary.path()).unwrap();
    let second = Folder::lock(temporary.path()).unwrap_err();
    assert!(second.to_string().contains("another backup"), "{second}");
    // As a process has it that is being started.
    let copy = first.lock.try_clone().unwrap();
    drop(first);
    assert!(Folder::lock(temporary.path()).is_ok());
    drop(copy);
    assert!(Folder::lock(&temporary.path().join("absent")).is_err());
    let other = tempfile::tempdir().unwrap();
    symlink(other.path().join("file"), other.path().join(".jaco-backup.lock")).unwrap();
    assert!(Folder::lock(other.path()).is_err(), "the lock is no link");
    assert!(!other.path().join("file").exists());
}

/// Writes an encrypted backup to the folder, as the command does.
fn add_encrypted(folder: &Folder, header: &BackupHeader) -> (PathBuf, Summary) {
    let recipients = Recipients::new([Recipient::parse(RECIPIENT).unwrap()]).unwrap();
    let partial = folder.partial().unwrap();
    let mut writer = Writer::encrypted(partial.out(), &recipients, header).unwrap();
    for kind in [Kind::Header(header.clone()), Kind::End(BackupEnd::default())] {
        writer.part(&BackupPart { kind: Some(kind) }).unwrap();
    }
    let summary = writer.finish().unwrap();
    (folder.keep(partial, &summary).unwrap(), summary)
}

/// R-CLI-6: plain and encrypted backups of a folder are counted together. One that no key opens counts by what its header
/// says, is said to be unchecked, and is never taken for a damaged one; with the key it is looked into.
#[test]
fn encrypted_backups_count_with_and_without_a_key() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = Folder::lock(temporary.path()).unwrap();
    let plain = add(&folder, &header(1));
    let others: Vec<PathBuf> = (2..=4).map(|day| add_encrypted(&folder, &header(day)).0).collect();
    let (written, summary) = add_encrypted(&folder, &header(5));
    assert!(written.ends_with("sun-19700106T000000Z-50.jacobak.age"), "{written:?}");
    let pruned = folder.prune(&summary, &newest(4), Unlock::Nothing).unwrap();
    assert_eq!(pruned.removed, [plain]);
    assert_eq!(pruned.unchecked, others);
    let kept = std::slice::from_ref(&written);
    assert_eq!(pruned.kept, kept, "the one that was just written was verified");
    assert_eq!(pruned.damaged, []);

    // One byte of the content of one of them: found with the key alone.
    let mut altered = fs::read(&others[1]).unwrap();
    *altered.last_mut().unwrap() ^= 1;
    fs::write(&others[1], &altered).unwrap();
    let without = folder.prune(&summary, &newest(4), Unlock::Nothing).unwrap();
    assert_eq!((without.unchecked.len(), without.damaged.len()), (3, 0));
    let identities = Identities::read(IDENTITY.as_bytes()).unwrap();
    let with = folder.prune(&summary, &newest(2), Unlock::Identities(&identities)).unwrap();
    assert_eq!(with.kept, [others[2].clone(), written]);
    assert_eq!(with.removed, [others[0].clone()]);
    assert_eq!(with.damaged.len(), 1);
    assert!(others[1].exists(), "what is damaged is not removed");

    // A file of another program, and one that lost its label or names another time, count as none.
    fs::write(&others[1], &altered[..60]).unwrap();
    fs::copy(&others[2], temporary.path().join("sun-19700109T000000Z-80.jacobak.age")).unwrap();
    let pruned = folder.prune(&summary, &newest(1), Unlock::Nothing).unwrap();
    assert_eq!((pruned.kept.len(), pruned.damaged.len()), (1, 1));
    assert!(temporary.path().join("sun-19700109T000000Z-80.jacobak.age").exists());
}
