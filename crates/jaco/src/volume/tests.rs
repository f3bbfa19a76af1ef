//! Files of volumes, written and read, whole and damaged.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};

use super::{Facts, FileError, Writer, plain_archive, verify};

fn facts() -> Facts {
    Facts {
        volume: "shop/./data".to_owned(),
        node: "n1".to_owned(),
        taken_at: "2026-11-27T01:00:00Z".to_owned(),
    }
}

fn written(pieces: &[&[u8]], facts: &Facts) -> File {
    let mut file = tempfile::tempfile().unwrap();
    let mut writer = Writer::new(&mut file);
    for piece in pieces {
        writer.piece(piece).unwrap();
    }
    writer.finish(facts).unwrap();
    file
}

/// R-OPS-1: what was written is read again, with what it is of.
#[test]
fn a_file_is_verified() {
    let archive = vec![7; 3 << 20];
    let file = written(&[&archive[..100], &archive[100..]], &facts());
    let verified = verify(file).unwrap();
    assert_eq!((verified.bytes, &verified.facts), (3 << 20, &facts()));
    let mut read = Vec::new();
    verified.file.take(verified.bytes).read_to_end(&mut read).unwrap();
    assert!(read == archive, "the archive comes from its beginning");
}

/// R-OPS-1: each byte of a file counts: one that was changed anywhere, or cut anywhere, is not restored.
#[test]
fn a_changed_or_cut_file_is_refused() {
    let mut file = written(&[&[7; 2048]], &facts());
    let mut whole = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut whole).unwrap();
    let used = whole.iter().rposition(|byte| *byte != 0).unwrap();
    for at in 0..=used {
        let mut changed = tempfile::tempfile().unwrap();
        changed.write_all(&whole).unwrap();
        changed.seek(SeekFrom::Start(at as u64)).unwrap();
        changed.write_all(&[whole[at] ^ 1]).unwrap();
        let refused = verify(changed).unwrap_err();
        assert!(matches!(refused, FileError::Altered | FileError::Foreign), "{at}: {refused}");
    }
    for length in 0..whole.len() {
        let mut cut = tempfile::tempfile().unwrap();
        cut.write_all(&whole[..length]).unwrap();
        assert!(verify(cut).is_err(), "cut to {length}");
    }
}

/// Names of any length and form leave the trailer its form.
#[test]
fn names_are_one_line_each() {
    let odd = Facts { volume: format!("a\nsha256 {}", "é".repeat(500)), ..facts() };
    let verified = verify(written(&[&[0; 1024]], &odd)).unwrap();
    assert!(verified.facts.volume.starts_with("asha256 é") && verified.facts.volume.len() <= 250);
    assert_eq!(verified.facts.node, "n1");
}

/// R-OPS-1: an archive of another program is taken as a whole; one that was cut off, is compressed, or is no archive is not.
#[test]
fn an_archive_of_another_program_has_to_end_as_one() {
    let file = |bytes: &[u8]| {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    };
    let archive = [vec![7; 1024], vec![0; 1024]].concat();
    let (mut whole, bytes) = plain_archive(file(&archive)).unwrap();
    let mut read = Vec::new();
    whole.read_to_end(&mut read).unwrap();
    assert_eq!((bytes, read), (2048, archive.clone()));
    for refused in
        [&archive[..1536], &archive[..100], &[][..], &[archive.clone(), vec![1]].concat()]
    {
        let error = plain_archive(file(refused)).unwrap_err();
        assert!(matches!(error, FileError::NoArchive), "{error}");
    }
}
