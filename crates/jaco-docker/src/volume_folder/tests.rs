//! Archives are read back by the system's tar.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use futures::TryStreamExt;
use rustix::fs::{RenameFlags, XattrFlags, mknodat, renameat_with, setxattr};

use super::*;

fn opened(folder: &Path) -> OwnedFd {
    File::open(folder).expect("it is there").into()
}

async fn archived(folder: &Path) -> Vec<u8> {
    whole(read(opened(folder))).await
}

async fn whole(archive: Archive) -> Vec<u8> {
    let pieces: Vec<Bytes> = archive.try_collect().await.expect("it can be read");
    pieces.concat()
}

/// Gives the archive to tar; returns what it prints.
fn tar(args: &[&str], archive: &[u8]) -> String {
    let mut tar = Command::new("tar");
    tar.args(args).env("LC_ALL", "C").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut tar = tar.stderr(Stdio::piped()).spawn().expect("tar is there");
    let mut input = tar.stdin.take().expect("it is piped");
    let archive = archive.to_owned();
    let written = std::thread::spawn(move || input.write_all(&archive));
    let out = tar.wait_with_output().expect("it ends");
    written.join().expect("no panic").expect("tar reads it all");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && said.is_empty(), "tar {args:?}: {said}");
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// What is below a folder, by path: type and mode, owner, size and contents, time, target, device.
fn facts(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(path) = waiting.pop() {
        let seen = fs::symlink_metadata(&path).expect("it is there");
        let content = match seen.file_type() {
            kind if kind.is_dir() => {
                let inside = fs::read_dir(&path).expect("it can be read");
                waiting.extend(inside.map(|entry| entry.expect("it can be read").path()));
                String::new()
            }
            kind if kind.is_symlink() => format!("{:?}", fs::read_link(&path)),
            kind if kind.is_file() => {
                let bytes = fs::read(&path).expect("it can be read");
                let sum =
                    bytes.iter().fold(0, |sum: u64, byte| sum * 31 % 65521 + u64::from(*byte));
                let mut value = [0; CAPABILITIES_BYTES_MAX];
                let file = File::open(&path).expect("it can be opened");
                let length = fgetxattr(&file, CAPABILITIES.0, &mut value).unwrap_or_default();
                format!("{} bytes, {sum}, {:?}", bytes.len(), &value[..length])
            }
            _ => format!("{}", seen.rdev()),
        };
        let owner = (seen.uid(), seen.gid());
        let links = if seen.is_dir() { 0 } else { seen.nlink() };
        let text = format!("{:o} {owner:?} {links} {} {content}", seen.mode(), seen.mtime());
        found.insert(path.strip_prefix(folder).expect("it is below").to_owned(), text);
    }
    found
}

/// One of everything that an engine copies; owners and devices need root, as the tests of the containers do.
fn fill(folder: &Path) {
    let at = |name: &str| folder.join(name);
    fs::create_dir_all(at("base/empty")).expect("it can be made");
    let sizes = [0, 1, 511, 512, 513, PIECE_BYTES - 1, PIECE_BYTES, 3 * PIECE_BYTES + 7];
    for size in sizes {
        let bytes: Vec<u8> = (0..=250).cycle().take(size).collect();
        fs::write(at(&format!("base/{size}")), bytes).expect("it can be written");
    }
    fs::hard_link(at("base/513"), at("base/again")).expect("it can be linked");
    let deep: PathBuf = std::iter::repeat_n("a-long-name-of-a-folder", 20).collect();
    fs::create_dir_all(folder.join(&deep)).expect("it can be made");
    for length in [98, 99, 100, 101, 155, 255] {
        fs::write(folder.join(&deep).join("n".repeat(length)), "far down").expect("it is written");
        fs::write(at(&"m".repeat(length)), "long").expect("it can be written");
        symlink("t".repeat(length), at(&format!("link-{length}"))).expect("it can be linked");
    }
    fs::hard_link(at(&"m".repeat(255)), at("short")).expect("it can be linked");
    fs::write(folder.join(OsStr::from_bytes(b"no \xff text\n")), "bytes").expect("it is written");
    for target in ["./base//511", "../outside", "/etc/../etc/hostname"] {
        symlink(target, at(&target.replace('/', "_"))).expect("it can be linked");
    }
    let mode = Mode::from_raw_mode(0o640);
    mknodat(CWD, at("pipe"), FileType::Fifo, mode, 0).expect("it can be made");
    let null = rustix::fs::makedev(1, 3);
    mknodat(CWD, at("null"), FileType::CharacterDevice, mode, null).expect("root may");
    let capability = [&[1, 0, 0, 2, 0, 4, 0, 0][..], &[0; 12]].concat();
    setxattr(at("base/1"), CAPABILITIES.0, &capability, XattrFlags::empty()).expect("root may");
    chown(at("base/511"), Some(70_000), Some(998)).expect("root may");
    chown(at("base/512"), Some(4_000_000_000), Some(3_000_000)).expect("root may");
    for (name, mode) in [("base/511", 0o4755), ("base/empty", 0o1777), ("base/0", 0), ("", 0o750)] {
        fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).expect("it is ours");
    }
    let then = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_007);
    File::open(at("base/513")).and_then(|file| file.set_modified(then)).expect("it is ours");
}

/// R-OPS-1: whatever an engine copies is in the archive as it is, by the system's tar.
#[tokio::test]
async fn a_folder_comes_out_of_its_archive_as_it_was() {
    let (from, to) =
        (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    fill(from.path());
    let archive = archived(from.path()).await;
    let into = to.path().to_str().expect("it is UTF-8");
    let xattrs = "--xattrs-include=security.capability";
    tar(&["-x", "-p", "--numeric-owner", "--xattrs", xattrs, "-C", into], &archive);
    let (was, is) = (facts(from.path()), facts(to.path()));
    for path in was.keys().chain(is.keys()) {
        assert_eq!(was.get(path), is.get(path), "{}", path.display());
    }
    assert_eq!(was.len(), 57, "the root and what `fill` makes: {was:?}");
    let listed = tar(&["-t"], &archive);
    assert!(listed.starts_with("./\n") && listed.contains("\n./base/\n"), "{listed}");
    let links = tar(&["-tv"], &archive).lines().filter(|line| line.starts_with('h')).count();
    assert_eq!(links, 2, "a file with two names is in the archive once");
}

/// R-OPS-1: a container that swaps folders for links while its volume is read gets nothing of the machine into the archive.
#[test]
fn nothing_outside_is_read_whatever_links_are_made() {
    const SECRET: &[u8] = b"the machine's own";
    let (inside, outside) = (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("one"));
    fs::write(outside.path().join("file"), SECRET).expect("it can be written");
    fs::create_dir(inside.path().join("folder")).expect("it can be made");
    fs::write(inside.path().join("folder/file"), "the container's").expect("it can be written");
    symlink(outside.path(), inside.path().join("link")).expect("it can be linked");
    let (root, end) = (opened(inside.path()), AtomicBool::new(false));
    let archives = std::thread::scope(|scope| {
        let swaps = scope.spawn(|| {
            let mut swaps = 0;
            while !end.load(Ordering::Relaxed) {
                renameat_with(&root, "folder", &root, "link", RenameFlags::EXCHANGE)
                    .expect("it is ours");
                swaps += 1;
            }
            swaps
        });
        let archives: Vec<Vec<u8>> = (0..2_000)
            .map(|_| {
                let (pieces, mut queue) = mpsc::channel(4);
                let read = Archiver::new(opened(inside.path()), pieces).archive();
                assert!(read.is_ok(), "what is gone is left out");
                let pieces = std::iter::from_fn(|| queue.try_recv().ok());
                pieces.flat_map(|piece| piece.expect("it is read")).collect()
            })
            .collect();
        end.store(true, Ordering::Relaxed);
        assert!(swaps.join().expect("no panic") > 1_000);
        archives
    });
    let has = |archive: &[u8], text: &[u8]| archive.windows(text.len()).any(|part| part == text);
    assert!(archives.iter().all(|archive| !has(archive, SECRET)));
    assert!(archives.iter().any(|archive| has(archive, b"the container's")));
}

/// R-OPS-1: a file that is cut off while it is read leaves an archive that can be read, with the length that it had.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_shrinks_keeps_its_length() {
    let folder = tempfile::tempdir().expect("a folder");
    let size = (QUEUE + 8) * PIECE_BYTES + 100;
    fs::write(folder.path().join("a"), vec![7; size]).expect("it can be written");
    fs::write(folder.path().join("b"), "behind it").expect("it can be written");
    let mut pieces = read(opened(folder.path()));
    let first = pieces.try_next().await.expect("it is read").expect("a piece");
    File::options()
        .write(true)
        .open(folder.path().join("a"))
        .and_then(|file| file.set_len(1))
        .expect("ours");
    let archive = [first.into(), whole(pieces).await].concat();
    let listed = tar(&["-tv"], &archive);
    assert!(listed.contains(&format!(" {size} ")) && listed.contains("./b"), "{listed}");
    assert_eq!(tar(&["-x", "-O", "./b"], &archive), "behind it");
}

/// R-OPS-1: a folder is read in place of the engine's archive only if it is what the engine sees.
#[test]
fn another_folder_is_not_taken_for_the_volume() {
    let folder = tempfile::tempdir().expect("a folder");
    let stat = fs::metadata(folder.path()).expect("it is there");
    let modified = OffsetDateTime::from_unix_timestamp_nanos(
        i128::from(stat.mtime()) * 1_000_000_000 + i128::from(stat.mtime_nsec()),
    );
    let modified = modified.expect("a time").format(&Rfc3339).expect("it has a text");
    let seen = || PathStatResponse {
        name: "volume".to_owned(),
        size: stat.len() as i64,
        file_mode: 1 << 31 | stat.mode() & 0o777,
        modification_time: Some(modified.clone()),
        link_target: String::new(),
    };
    assert!(open(folder.path(), &seen()).is_some());
    assert!(open(&folder.path().join("none"), &seen()).is_none());
    let other = [
        PathStatResponse { size: seen().size + 1, ..seen() },
        PathStatResponse { file_mode: seen().file_mode ^ 1, ..seen() },
        PathStatResponse { modification_time: Some("2026-01-01T00:00:00Z".to_owned()), ..seen() },
        PathStatResponse { modification_time: None, ..seen() },
    ];
    for other in other {
        assert!(open(folder.path(), &other).is_none(), "{other:?}");
    }
    fs::write(folder.path().join("file"), "new").expect("it can be written");
    assert!(open(folder.path(), &seen()).is_none(), "it has changed since");
}
