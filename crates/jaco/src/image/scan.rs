//! Reads an archive once from its beginning to its end: the names in it, where their contents are, and their SHA-256.

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom};

use jaco_types::BlobDigest;
use sha2::{Digest, Sha256};

use super::error::ImageError;
use crate::archive::{Content, Reader};

/// Entries of an archive: an image has a few for each of its layers, and an archive may have several images.
const ENTRIES_MAX: usize = 16 << 10;

/// Bytes of all names.
const NAMES_BYTES_MAX: usize = 4 << 20;

/// Bytes that are read at a time.
const PIECE_BYTES: usize = 256 << 10;

/// Links that are followed one after another at most.
const LINKS_MAX: usize = 8;

/// What an archive holds.
#[derive(Debug, Default)]
pub(crate) struct Scanned {
    files: BTreeMap<String, File>,
    /// Where a link leads, as a name of the archive.
    links: BTreeMap<String, String>,
}

/// A file of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct File {
    /// Where its content begins.
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) digest: BlobDigest,
    /// Its first bytes.
    pub(crate) magic: [u8; 4],
}

impl Scanned {
    /// The file of this name, through links.
    pub(crate) fn file(&self, name: &str) -> Option<File> {
        let mut name = normal(name)?;
        for _ in 0..LINKS_MAX {
            match self.links.get(&name) {
                Some(target) => name.clone_from(target),
                None => return self.files.get(&name).copied(),
            }
        }
        None
    }
}

/// Reads an archive to its end.
pub(crate) fn scan(source: impl Read) -> Result<Scanned, ImageError> {
    let mut source = Reader::new(Counted { source, read: 0 });
    let mut scanned = Scanned::default();
    let (mut entries, mut names) = (0, 0);
    let mut piece = vec![0; PIECE_BYTES];
    while let Some(entry) = source.next()? {
        entries += 1;
        names += entry.path.len();
        if entries > ENTRIES_MAX || names > NAMES_BYTES_MAX {
            return Err(ImageError::TooLarge("it has too many entries"));
        }
        // What has no proper name cannot be asked for.
        let name = std::str::from_utf8(&entry.path).ok().and_then(normal);
        match (name, entry.content) {
            (Some(name), Content::File(bytes)) => {
                let offset = source.source().read;
                let file = read(&mut source, offset, bytes, &mut piece)?;
                // Of two with one name the last counts, as for all who unpack archives.
                scanned.links.remove(&name);
                scanned.files.insert(name, file);
            }
            (Some(name), Content::Link(target)) => {
                let beside = name.rsplit_once('/').map_or("", |(folder, _)| folder);
                let target = String::from_utf8_lossy(&target);
                names += target.len();
                if let Some(target) = normal(&format!("{beside}/{target}")) {
                    scanned.links.insert(name, target);
                }
            }
            (Some(name), Content::HardLink(target)) => {
                let target = String::from_utf8_lossy(&target);
                names += target.len();
                if let Some(target) = normal(&target) {
                    scanned.links.insert(name, target);
                }
            }
            (None, _) | (_, Content::Folder | Content::Other(_)) => {}
        }
    }
    Ok(scanned)
}

fn read<R: Read>(
    source: &mut Reader<Counted<R>>,
    offset: u64,
    bytes: u64,
    piece: &mut [u8],
) -> Result<File, ImageError> {
    let (mut hasher, mut have, mut magic) = (Sha256::new(), 0, [0; 4]);
    loop {
        let length = source.read(piece)?;
        if length == 0 {
            break;
        }
        if have == 0 {
            let first = length.min(magic.len());
            magic[..first].copy_from_slice(&piece[..first]);
        }
        hasher.update(&piece[..length]);
        have += length as u64;
    }
    if have != bytes {
        return Err(ImageError::Malformed("it ends within a file".to_owned()));
    }
    Ok(File { offset, bytes, digest: BlobDigest(hasher.finalize().into()), magic })
}

/// The one spelling of a name, without `.` and `..`; none of one that leads out of the archive.
fn normal(name: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in name.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

/// A source that counts what is read from it.
#[derive(Debug)]
pub(crate) struct Counted<R> {
    source: R,
    read: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.source.read(buffer)?;
        self.read += length as u64;
        Ok(length)
    }
}

/// The content of a small file of an archive.
pub(super) fn content(
    archive: &mut (impl Read + Seek),
    file: File,
    bytes_max: u64,
) -> Result<Vec<u8>, ImageError> {
    if file.bytes > bytes_max {
        return Err(ImageError::TooLarge("a manifest or configuration is too large"));
    }
    archive.seek(SeekFrom::Start(file.offset))?;
    let mut content = Vec::new();
    archive.take(file.bytes).read_to_end(&mut content)?;
    Ok(content)
}
