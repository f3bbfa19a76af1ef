//! What is in a volume, as a tar archive that this process makes of the engine's folder: with the engine's archives each byte goes
//! through two more processes.
//!
//! A container may change the folder meanwhile. Nothing outside of it is read whatever links it makes, and what has gone since its
//! folder was listed is left out.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use bollard::container::PathStatResponse;
use bytes::Bytes;
use futures::{StreamExt, stream};
use jaco_agent::engine::EngineError;
use jaco_agent::transfer::Archive;
use rustix::buffer::spare_capacity;
use rustix::fs::{
    CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fgetxattr, fstat, major, minor, openat,
    openat2, readlinkat,
};
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, capabilities};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::sync::mpsc;

#[cfg(test)]
mod tests;

use crate::tar_header::{BLOCK_BYTES, Content, EMPTY_ARCHIVE, Entry, put_record};

/// Bytes of the archive that are forwarded at a time: with its header less than what the allocator maps by itself, which costs a
/// fault for each of its pages.
const PIECE_BYTES: usize = 64 << 10;

/// A piece may end with the headers of the file that comes next.
const PIECE_CAPACITY: usize = PIECE_BYTES + (8 << 10);

/// Pieces that wait for whoever sends them.
const QUEUE: usize = 4;

/// The one attribute that engines copy, and its name in an archive.
const CAPABILITIES: (&str, &str) = ("security.capability", "SCHILY.xattr.security.capability");

/// More than a file's capabilities take (24 bytes).
const CAPABILITIES_BYTES_MAX: usize = 64;

/// The folder at this path of the machine, if this process may read whatever is in it, and it is the one that the engine has seen
/// so: the engine may have its files elsewhere, or mounts that others do not see.
pub(crate) fn open(path: &Path, seen: &PathStatResponse) -> Option<OwnedFd> {
    let may = capabilities(None).ok()?.effective;
    if !may.intersects(CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH) {
        return None;
    }
    let folder = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = openat(CWD, path, folder, Mode::empty()).ok()?;
    // Kernels before 5.6 cannot resolve paths beneath a folder.
    beneath(&root, b".", OFlags::PATH).ok()?;
    let found = fstat(&root).ok()?;
    let modified = OffsetDateTime::parse(seen.modification_time.as_deref()?, &Rfc3339).ok()?;
    let same = modified.unix_timestamp() == found.st_mtime
        && u64::from(modified.nanosecond()) == found.st_mtime_nsec
        && seen.size == found.st_size
        && seen.file_mode & 0o777 == found.st_mode & 0o777;
    same.then_some(root)
}

/// Opens what is at a path below the folder, through no link.
fn beneath(root: &OwnedFd, path: &[u8], flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    openat2(root, path, flags, Mode::empty(), resolve)
}

/// The archive of a folder, whose root is `./`.
pub(crate) fn read(root: OwnedFd) -> Archive {
    let (pieces, mut queue) = mpsc::channel(QUEUE);
    tokio::task::spawn_blocking(move || {
        let mut archiver = Archiver::new(root, pieces.clone());
        match archiver.archive() {
            Ok(()) | Err(Broken::Unread) => {}
            Err(Broken::At(path, error)) => {
                let path = String::from_utf8_lossy(&path);
                let reason = format!("{path} in the volume cannot be read: {error}");
                // Whoever is gone needs no reason.
                drop(pieces.blocking_send(Err(EngineError::Refused { reason })));
            }
        }
    });
    stream::poll_fn(move |context| queue.poll_recv(context)).boxed()
}

/// Why an archive ends early.
enum Broken {
    /// Nobody reads it any more.
    Unread,
    /// What is at a path could not be read.
    At(Vec<u8>, io::Error),
}

struct Archiver {
    root: OwnedFd,
    pieces: mpsc::Sender<Result<Bytes, EngineError>>,
    piece: Vec<u8>,
    /// The first name of each file that has several, by device and inode.
    names: HashMap<(u64, u64), Vec<u8>>,
}

impl Archiver {
    fn new(root: OwnedFd, pieces: mpsc::Sender<Result<Bytes, EngineError>>) -> Self {
        Self { root, pieces, piece: Vec::with_capacity(PIECE_CAPACITY), names: HashMap::new() }
    }

    fn archive(&mut self) -> Result<(), Broken> {
        // All names begin as that of the root does.
        let mut open_folders = Vec::from_iter(self.add(b".")?);
        while let Some(folder) = open_folders.last_mut() {
            match folder.next().transpose()? {
                Some(path) => open_folders.extend(self.add(&path)?),
                None => drop(open_folders.pop()),
            }
            self.forward(PIECE_BYTES)?;
        }
        self.piece.extend(EMPTY_ARCHIVE);
        self.forward(1)
    }

    /// Adds what is at a path; if it is a folder, what is in it is still to be added.
    fn add(&mut self, path: &[u8]) -> Result<Option<Folder>, Broken> {
        let at = |error: Errno| Broken::At(path.to_owned(), error.into());
        let Some(found) = unless_gone(beneath(&self.root, path, OFlags::PATH)).map_err(at)? else {
            return Ok(None);
        };
        let stat = fstat(&found).map_err(at)?;
        let (major, minor) = (major(stat.st_rdev), minor(stat.st_rdev));
        let content = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => return self.add_folder(path, &stat),
            FileType::RegularFile => return self.add_file(path).map(|()| None),
            FileType::Symlink => {
                let target = readlinkat(&found, "", Vec::new()).map_err(at)?;
                entry(path, Content::SymbolicLink(target.as_bytes()), &stat).put(&mut self.piece);
                return Ok(None);
            }
            FileType::Fifo => Content::Pipe,
            FileType::CharacterDevice => Content::CharacterDevice { major, minor },
            FileType::BlockDevice => Content::BlockDevice { major, minor },
            // Its process makes a socket again.
            FileType::Socket | FileType::Unknown => return Ok(None),
        };
        entry(path, content, &stat).put(&mut self.piece);
        Ok(None)
    }

    fn add_folder(&mut self, path: &[u8], stat: &Stat) -> Result<Option<Folder>, Broken> {
        let at = |error: Errno| Broken::At(path.to_owned(), error.into());
        let name = [path, b"/"].concat();
        entry(&name, Content::Folder, stat).put(&mut self.piece);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let Some(folder) = unless_gone(beneath(&self.root, path, flags)).map_err(at)? else {
            return Ok(None);
        };
        Ok(Some(Folder { name, entries: Dir::new(folder).map_err(at)? }))
    }

    fn add_file(&mut self, path: &[u8]) -> Result<(), Broken> {
        let at = |error: Errno| Broken::At(path.to_owned(), error.into());
        // What has become a pipe meanwhile is not waited for.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let Some(file) = unless_gone(beneath(&self.root, path, flags)).map_err(at)? else {
            return Ok(());
        };
        let stat = fstat(&file).map_err(at)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(());
        }
        if stat.st_nlink > 1 {
            let inode = (stat.st_dev, stat.st_ino);
            if let Some(first) = self.names.get(&inode) {
                entry(path, Content::HardLink(first), &stat).put(&mut self.piece);
                return Ok(());
            }
            self.names.insert(inode, path.to_owned());
        }
        let (attribute, key) = CAPABILITIES;
        let mut value = [0; CAPABILITIES_BYTES_MAX];
        match fgetxattr(&file, attribute, &mut value) {
            Ok(length) => put_record(&mut self.piece, key, &value[..length]),
            Err(Errno::NODATA | Errno::NOTSUP) => {}
            Err(error) => return Err(at(error)),
        }
        let size = u64::try_from(stat.st_size).unwrap_or_default();
        entry(path, Content::File(size), &stat).put(&mut self.piece);
        self.copy(&file, size, at)
    }

    /// As many bytes as the header says: the rest of a file that has shrunk is zeros, as of a hole.
    fn copy(
        &mut self,
        file: &OwnedFd,
        size: u64,
        at: impl Fn(Errno) -> Broken,
    ) -> Result<(), Broken> {
        let mut left = size;
        while left > 0 {
            self.forward(PIECE_BYTES)?;
            let before = self.piece.len();
            let read = rustix::io::read(file, spare_capacity(&mut self.piece)).map_err(&at)?;
            if read == 0 {
                let room = (PIECE_BYTES - before) as u64;
                self.piece.resize(before + usize::try_from(left.min(room)).unwrap_or(1), 0);
            } else if read as u64 > left {
                self.piece.truncate(before + usize::try_from(left).unwrap_or(read));
            }
            left -= (self.piece.len() - before) as u64;
        }
        let padding = size.next_multiple_of(BLOCK_BYTES as u64) - size;
        self.piece.resize(self.piece.len() + usize::try_from(padding).unwrap_or_default(), 0);
        Ok(())
    }

    /// Forwards the piece if it has so many bytes.
    fn forward(&mut self, bytes: usize) -> Result<(), Broken> {
        if self.piece.len() < bytes {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE_CAPACITY));
        self.pieces.blocking_send(Ok(piece.into())).map_err(|_| Broken::Unread)
    }
}

/// A folder that is being read: its names are never all in memory, because a container may have made millions of them.
struct Folder {
    /// With the slash at its end.
    name: Vec<u8>,
    entries: Dir,
}

impl Iterator for Folder {
    type Item = Result<Vec<u8>, Broken>;

    /// The path of what is in it next.
    fn next(&mut self) -> Option<Self::Item> {
        let names = self.entries.by_ref().map(|found| match found {
            Ok(found) => Ok(found.file_name().to_bytes().to_vec()),
            Err(error) => Err(Broken::At(self.name.clone(), error.into())),
        });
        let mut names = names.filter(|name| !matches!(name.as_deref(), Ok(b"." | b"..")));
        Some(names.next()?.map(|name| [&*self.name, &name].concat()))
    }
}

/// Nothing if there is no such path any more, or another kind of thing.
fn unless_gone(found: rustix::io::Result<OwnedFd>) -> rustix::io::Result<Option<OwnedFd>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO) => Ok(None),
        Err(error) => Err(error),
    }
}

fn entry<'e>(name: &'e [u8], content: Content<'e>, stat: &Stat) -> Entry<'e> {
    Entry {
        name,
        content,
        mode: stat.st_mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        modified: u64::try_from(stat.st_mtime).unwrap_or_default(),
    }
}
