//! Archives of this machine come back as they were, and those of others do no harm.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use super::entry::{Content, Entry, names};
use super::write::Writer;
use super::*;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// Puts the checksum of the header there right.
fn sum_up(bytes: &mut [u8], at: usize) {
    bytes[at + 148..at + 156].fill(b' ');
    let sum: u64 = bytes[at..at + 512].iter().map(|byte| u64::from(*byte)).sum();
    bytes[at + 148..at + 156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

/// Every path below, with what is there.
fn tree(path: &Path) -> Vec<String> {
    fn walk(path: &Path, top: &Path, into: &mut Vec<String>) {
        let mut inner: Vec<_> = fs::read_dir(path).unwrap().map(|it| it.unwrap().path()).collect();
        inner.sort();
        for path in inner {
            let seen = fs::symlink_metadata(&path).unwrap();
            let name = path.strip_prefix(top).unwrap().display().to_string();
            let mode = seen.permissions().mode() & 0o7777;
            if seen.is_dir() {
                into.push(format!("{name}/ {mode:o}"));
                walk(&path, top, into);
            } else if seen.is_symlink() {
                into.push(format!("{name} -> {}", fs::read_link(&path).unwrap().display()));
            } else {
                let text = fs::read_to_string(&path).unwrap();
                let size = text.len();
                let text = if size > 20 { format!("{size} bytes") } else { text };
                into.push(format!("{name} {mode:o} {:?} {text}", seen.mtime()));
            }
        }
    }
    let mut all = Vec::new();
    walk(path, path, &mut all);
    all
}

pub(crate) fn archive(entries: &[(&str, Content, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes);
    for (path, content, text) in entries {
        let path = path.as_bytes().to_vec();
        let entry = Entry { path, content: content.clone(), mode: 0o755, modified: 7 };
        writer.entry(&entry, text.as_bytes()).unwrap();
    }
    writer.end().unwrap();
    bytes
}

/// An archive with an entry of each kind, and a long name.
pub(crate) fn sample() -> Vec<u8> {
    let (long, text) = (format!("r/{}", "n".repeat(150)), "text");
    archive(&[
        ("r/", Content::Folder, ""),
        ("r/file", file(text), text),
        (&long, file(text), text),
        ("r/link", link("file"), ""),
        ("r/same", Content::HardLink(b"r/file".to_vec()), ""),
        ("r/pipe", Content::Other(b'6'), ""),
    ])
}

pub(crate) fn file(text: &str) -> Content {
    Content::File(text.len() as u64)
}

pub(crate) fn link(target: &str) -> Content {
    Content::Link(target.as_bytes().to_vec())
}

/// R-CLI-6: folders, files of any size, long names, links, modes and times are the same on the other side.
#[test]
fn what_is_packed_is_unpacked() {
    let from = folder();
    let at = |name: &str| from.path().join(name);
    let long = format!("{}/{}/{}", "a".repeat(90), "b".repeat(90), "ü".repeat(90));
    fs::create_dir_all(at(&long).parent().unwrap()).unwrap();
    fs::write(at(&long), "long").unwrap();
    fs::write(at("empty"), "").unwrap();
    fs::write(at("block"), "x".repeat(512)).unwrap();
    fs::write(at("large"), "y".repeat(1_000_001)).unwrap();
    fs::set_permissions(at("large"), fs::Permissions::from_mode(0o640)).unwrap();
    symlink("empty", at("link")).unwrap();
    symlink("c".repeat(150), at("dangling")).unwrap();
    fs::create_dir(at("inner")).unwrap();
    symlink("../block", at("inner/up")).unwrap();

    let mut bytes = Vec::new();
    let packed = pack(from.path(), OsStr::new("root"), &mut bytes).unwrap();
    assert_eq!((packed.files, packed.bytes), (4, 1_000_517));
    let to = folder();
    let unpacked = unpack(bytes.as_slice(), &Destination::Folder(to.path().to_owned())).unwrap();
    assert_eq!((unpacked.files, unpacked.bytes, unpacked.left_out.len()), (4, 1_000_517, 0));
    assert_eq!(tree(to.path()), tree(from.path()));
    // Once more, over what is there.
    unpack(bytes.as_slice(), &Destination::Folder(to.path().to_owned())).unwrap();
    assert_eq!(tree(to.path()), tree(from.path()));
    // One file under another name.
    let mut bytes = Vec::new();
    pack(&at("large"), OsStr::new("large"), &mut bytes).unwrap();
    let destination = Destination::File { folder: to.path().to_owned(), name: "copy".into() };
    unpack(bytes.as_slice(), &destination).unwrap();
    assert_eq!(fs::read(to.path().join("copy")).unwrap(), fs::read(at("large")).unwrap());
}

/// A link that is named is followed; a folder without a root is what is in it.
#[test]
fn what_is_named_is_followed() {
    let from = folder();
    fs::create_dir(from.path().join("real")).unwrap();
    fs::write(from.path().join("real/file"), "text").unwrap();
    symlink("real", from.path().join("link")).unwrap();
    let entries = |root: &str| {
        let mut bytes = Vec::new();
        pack(&from.path().join("link"), OsStr::new(root), &mut bytes).unwrap();
        let mut reader = Reader::new(io::Cursor::new(bytes));
        let mut paths = Vec::new();
        while let Some(entry) = reader.next().unwrap() {
            paths.push(String::from_utf8(entry.path).unwrap());
        }
        paths
    };
    assert_eq!(entries("root"), ["root/", "root/file"]);
    assert_eq!(entries(""), ["file"]);
}

/// Unpacks into an empty folder beside a file that is not to be touched.
fn hostile(entries: &[(&str, Content, &str)]) -> (Result<Unpacked, ArchiveError>, Vec<String>) {
    let around = folder();
    let to = around.path().join("to");
    fs::create_dir(&to).unwrap();
    fs::write(around.path().join("victim"), "untouched").unwrap();
    let before = fs::symlink_metadata(around.path().join("victim")).unwrap();
    let done = unpack(archive(entries).as_slice(), &Destination::Folder(to.clone()));
    let after = fs::symlink_metadata(around.path().join("victim")).unwrap();
    assert_eq!(fs::read_to_string(around.path().join("victim")).unwrap(), "untouched");
    assert_eq!((before.mode(), before.nlink()), (after.mode(), after.nlink()));
    let names: Vec<_> = fs::read_dir(around.path()).unwrap().collect();
    assert_eq!(names.len(), 2, "{names:?}");
    (done, tree(&to))
}

/// R-IN-3: whatever a container makes of an archive, nothing is written outside of the destination.
#[test]
fn nothing_is_written_outside() {
    let refused = |entries: &[(&str, Content, &str)], words: &str| {
        let (done, tree) = hostile(entries);
        let error = done.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
        tree
    };
    let text = "evil";
    let root = ("r/", Content::Folder, "");
    for path in ["../victim", "r/../../victim", "r/a/../../../victim", "r/.."] {
        refused(&[root.clone(), (path, file(text), text)], "leads out of the destination");
    }
    refused(&[("/tmp/victim", file(text), text)], "is absolute");
    refused(&[root.clone(), ("other/victim", file(text), text)], "below the root");
    // Through a link, which is not made in the first place.
    for target in ["..", "../..", "/", "/tmp", "a/../../..", "./..", "s/.."] {
        let entries = [
            root.clone(),
            ("r/s", link("."), ""),
            ("r/up", link(target), ""),
            ("r/up/victim", file(text), text),
        ];
        let (done, tree) = hostile(&entries);
        let done = done.unwrap();
        assert_eq!(done.left_out, ["r/up: the link leads out of the folder"], "{target}");
        assert_eq!(tree.len(), 3, "a folder takes its place: {tree:?}");
    }
    // Through a link that is made, because it leads to a place in the destination.
    let through = [
        root.clone(),
        ("r/in/", Content::Folder, ""),
        ("r/link", link("in"), ""),
        ("r/link/file", file(text), text),
    ];
    let tree = refused(&through, "is a link or a file, and no folder");
    assert_eq!(tree, ["in/ 755", "link -> in"]);
    // A link in the place of the destination, or of a folder.
    refused(&[("r", link(".."), ""), ("r/victim", file(text), text)], "takes the place");
    let folder = [root.clone(), ("r/a/", Content::Folder, ""), ("r/a", link(".."), "")];
    let (done, tree) = hostile(&folder);
    assert_eq!((done.unwrap().left_out.len(), tree), (1, vec!["a/ 755".to_owned()]));
    // Another name of a file outside, to write to it.
    for target in ["../victim", "/etc/hostname", "victim", "r/../../victim", "r"] {
        let hard = Content::HardLink(target.as_bytes().to_vec());
        let entries = [root.clone(), ("r/name", hard, ""), ("r/name", file(text), text)];
        hostile(&entries).0.unwrap_err();
    }
}

/// What was in the destination before is not followed either.
#[test]
fn links_that_were_there_are_not_followed() {
    let around = folder();
    let to = around.path().join("to");
    fs::create_dir_all(&to).unwrap();
    fs::write(around.path().join("victim"), "untouched").unwrap();
    symlink(around.path(), to.join("out")).unwrap();
    symlink("../victim", to.join("file")).unwrap();
    let text = "new";
    let unpack = |path: &str| {
        unpack(archive(&[(path, file(text), text)]).as_slice(), &Destination::Folder(to.clone()))
    };
    unpack("r/out/victim").unwrap_err();
    // A file takes the place of the link.
    unpack("r/file").unwrap();
    assert_eq!(fs::read_to_string(to.join("file")).unwrap(), text);
    assert_eq!(fs::read_to_string(around.path().join("victim")).unwrap(), "untouched");
}

/// Nobody gets another user's rights by a file or a folder.
#[test]
fn rights_stay_away() {
    let text = "x";
    let mut bytes = archive(&[
        ("r/", Content::Folder, ""),
        ("r/folder/", Content::Folder, ""),
        ("r/program", file(text), text),
    ]);
    // What this program writes has no such bits.
    for at in [512, 1024] {
        bytes[at + 100..at + 107].copy_from_slice(b"0007755");
        sum_up(&mut bytes, at);
    }
    let to = folder();
    unpack(bytes.as_slice(), &Destination::Folder(to.path().to_owned())).unwrap();
    assert_eq!(tree(to.path()), ["folder/ 755", "program 755 7 x"]);
}

/// Devices are left out by name, and a file with two names stays one.
#[test]
fn devices_stay_away() {
    let text = "x";
    let (done, tree) = hostile(&[
        ("r/", Content::Folder, ""),
        ("r/program", file(text), text),
        ("r/disk", Content::Other(b'4'), ""),
        ("r/pipe", Content::Other(b'6'), ""),
        ("r/same", Content::HardLink(b"r/program".to_vec()), ""),
    ]);
    let done = done.unwrap();
    assert_eq!(done.left_out.len(), 2);
    assert_eq!(done.left_out[0], "r/disk: neither a file nor a folder");
    assert_eq!(tree, ["program 755 7 x", "same 755 7 x"]);
}

/// What is left out is counted without being kept.
#[test]
fn what_is_left_out_is_counted() {
    let names: Vec<String> = (0..50).map(|n| format!("r/{n}")).collect();
    let entries: Vec<_> =
        names.iter().map(|name| (name.as_str(), Content::Other(b'6'), "")).collect();
    let done = hostile(&entries).0.unwrap();
    assert_eq!((done.left_out.len(), done.more_left_out), (20, 30));
}

/// Archives that end early, or are none, are refused.
#[test]
fn damaged_archives_are_refused() {
    let text = "some text";
    let whole = archive(&[("r/", Content::Folder, ""), ("r/a", file(text), text)]);
    let to = folder();
    let check = |bytes: &[u8]| unpack(bytes, &Destination::Folder(to.path().to_owned()));
    check(&whole).unwrap();
    for length in [1, 511, 513, 1023, 1024, 1030, 1535] {
        assert!(check(&whole[..length]).is_err() || length == 1024, "{length}");
    }
    let mut flipped = whole.clone();
    flipped[3] ^= 1;
    assert!(check(&flipped).unwrap_err().to_string().contains("checksum"));
    check(&[7; 4096]).unwrap_err();
}

/// As GNU tar writes them: a long name in an entry of its own, and a number as bytes.
#[test]
fn names_and_numbers_of_gnu_tar_are_read() {
    let name = format!("r/{}", "n".repeat(300));
    let text = "gnu";
    let plain = archive(&[("r/cut", file(text), text)]);
    let named = format!("{name}\0");
    let mut long = archive(&[("././@LongLink", file(&named), &named)]);
    long.truncate(1024);
    long[156] = b'L';
    let mut bytes = [long, plain].concat();
    // The size of the file as a number of bytes.
    bytes[1024 + 124..1024 + 136].fill(0);
    (bytes[1024 + 124], bytes[1024 + 135]) = (0x80, 3);
    sum_up(&mut bytes, 0);
    sum_up(&mut bytes, 1024);
    let mut reader = Reader::new(bytes.as_slice());
    let entry = reader.next().unwrap().unwrap();
    assert_eq!((entry.path, entry.content), (name.into_bytes(), Content::File(3)));
    let mut read = String::new();
    reader.read_to_string(&mut read).unwrap();
    assert_eq!(read, text);
    assert!(reader.next().unwrap().is_none());
}

/// A file that becomes shorter while it is read is no silent loss.
#[test]
fn shorter_file_is_an_error() {
    let mut writer = Writer::new(io::sink());
    let entry = Entry { path: b"a".to_vec(), content: Content::File(9), mode: 0, modified: 0 };
    let error = writer.entry(&entry, b"short".as_slice()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn paths_are_split_into_names() {
    assert_eq!(names(b"./a//b/.").unwrap(), ["a", "b"]);
    assert_eq!(names(b"./").unwrap(), [""; 0]);
    assert!(names(b"a/..").is_err() && names(b"/a").is_err());
}
