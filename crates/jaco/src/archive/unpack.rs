//! Unpacks an archive from a container, which may have been made to harm this machine.
//!
//! Nothing is written outside of the destination: each name of a path is opened from the folder before it, and no link is
//! followed, neither one of the archive nor one that was there. What an entry names beside that is no path at all.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Timespec, Timestamps, fchmod, futimens, linkat, mkdirat, open,
    openat, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use super::entry::{ArchiveError, Content, Entry, names};
use super::read::Reader;

/// What was left out that is told by name.
const NAMED_MAX: usize = 20;

/// Where the root of an archive goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Destination {
    /// The one file of the archive, in this folder, which is there, with this name.
    File {
        /// The folder.
        folder: PathBuf,
        /// The name.
        name: OsString,
    },
    /// What is in the root of the archive, in this folder, which is there.
    Folder(PathBuf),
}

/// What was unpacked.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Unpacked {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    /// What was left out, with why, the first ones.
    pub(crate) left_out: Vec<String>,
    /// How much more was.
    pub(crate) more_left_out: u64,
}

impl Unpacked {
    fn leave_out(&mut self, entry: &Entry, why: &str) {
        match self.left_out.len() < NAMED_MAX {
            true => {
                self.left_out.push(format!("{}: {why}", String::from_utf8_lossy(&entry.path)));
            }
            false => self.more_left_out += 1,
        }
    }
}

/// Unpacks an archive.
///
/// # Errors
/// If it is damaged, an entry leads out of the destination, or something cannot be written.
pub(crate) fn unpack(
    archive: impl Read,
    destination: &Destination,
) -> Result<Unpacked, ArchiveError> {
    let mut reader = Reader::new(archive);
    let folder = match destination {
        Destination::File { folder, .. } | Destination::Folder(folder) => folder,
    };
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let folder = open(folder, flags, Mode::empty()).map_err(|error| write_error(folder, error))?;
    let mut unpacked = Unpacked::default();
    let mut root = None;
    while let Some(entry) = reader.next()? {
        let mut names = names(&entry.path)?;
        if names.is_empty() {
            // The folder itself, by the name `.`.
            continue;
        }
        let first = names.remove(0);
        let root = root.get_or_insert_with(|| first.clone());
        if *root != first {
            return Err(outside(&entry, "is not below the root of the archive"));
        }
        let place: Vec<OsString> = match destination {
            Destination::Folder(_) => names,
            Destination::File { name, .. } if names.is_empty() => vec![name.clone()],
            Destination::File { .. } => return Err(outside(&entry, "is not the file")),
        };
        let to = Target { root, folder: &folder };
        to.write(&entry, &place, &mut reader, &mut unpacked)?;
    }
    Ok(unpacked)
}

/// The folder that everything is unpacked in.
struct Target<'a> {
    /// The name of the root of the archive, which stands for this folder.
    root: &'a OsStr,
    folder: &'a OwnedFd,
}

impl Target<'_> {
    fn write(
        &self,
        entry: &Entry,
        place: &[OsString],
        content: &mut Reader<impl Read>,
        unpacked: &mut Unpacked,
    ) -> Result<(), ArchiveError> {
        let Some((name, above)) = place.split_last() else {
            // The root itself, which is there.
            return match entry.content {
                Content::Folder => Ok(()),
                Content::File(_) | Content::Link(_) | Content::HardLink(_) | Content::Other(_) => {
                    Err(outside(entry, "takes the place of the destination"))
                }
            };
        };
        let failed = |error: io::Error| ArchiveError::Write {
            path: place.iter().collect::<PathBuf>().display().to_string(),
            source: error,
        };
        let folder = self.open(above).map_err(failed)?;
        match &entry.content {
            Content::Folder => make_folder(&folder, name, entry.mode).map_err(failed)?,
            Content::File(size) => {
                let mut file = make_file(&folder, name).map_err(failed)?;
                let written = io::copy(content, &mut file).map_err(failed)?;
                if written != *size {
                    return Err(ArchiveError::Damaged("it ends within a file"));
                }
                finish(&file, entry).map_err(failed)?;
                unpacked.files += 1;
                unpacked.bytes += size;
            }
            Content::Link(target) if stays_below(above.len(), target) => {
                clear(&folder, name).map_err(failed)?;
                symlinkat(OsStr::from_bytes(target), &folder, name)
                    .map_err(|error| failed(error.into()))?;
            }
            Content::Link(_) => unpacked.leave_out(entry, "the link leads out of the folder"),
            Content::HardLink(target) => {
                let (from, from_name) = self.source(entry, target)?;
                clear(&folder, name).map_err(failed)?;
                // Without the flag it does not follow a link.
                linkat(&from, &from_name, &folder, name, AtFlags::empty())
                    .map_err(|error| failed(error.into()))?;
                unpacked.files += 1;
            }
            Content::Other(_) => unpacked.leave_out(entry, "neither a file nor a folder"),
        }
        Ok(())
    }

    /// The file of an earlier entry.
    fn source(&self, entry: &Entry, target: &[u8]) -> Result<(OwnedFd, OsString), ArchiveError> {
        let mut names = names(target)?;
        if names.len() < 2 || names.remove(0) != self.root {
            return Err(outside(entry, "is a link to a file outside of it"));
        }
        let name = names.pop().expect("there are two at least");
        let folder = self.open(&names).map_err(|source| ArchiveError::Write {
            path: String::from_utf8_lossy(target).into_owned(),
            source,
        })?;
        Ok((folder, name))
    }

    /// Opens a folder below, and makes those that are not there. A link on the way is an error.
    fn open(&self, names: &[OsString]) -> io::Result<OwnedFd> {
        let mut folder = self.folder.try_clone()?;
        for name in names {
            folder = match open_folder(&folder, name) {
                Err(Errno::NOENT) => {
                    make_folder(&folder, name, 0o755)?;
                    open_folder(&folder, name)?
                }
                opened => opened.map_err(|error| not_followed(name, error))?,
            };
        }
        Ok(folder)
    }
}

fn open_folder(folder: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    openat(folder, name, flags, Mode::empty())
}

/// Without a follow, a link is no folder.
fn not_followed(name: &OsStr, error: Errno) -> io::Error {
    match error {
        Errno::NOTDIR | Errno::LOOP => {
            let name = Path::new(name).display();
            io::Error::other(format!("{name} is a link or a file, and no folder"))
        }
        other => other.into(),
    }
}

/// Makes a folder, or finds it. Its owner can always write in it: what follows belongs there.
fn make_folder(folder: &OwnedFd, name: &OsStr, mode: u32) -> io::Result<()> {
    let mode = Mode::from_bits_truncate(mode & 0o777 | 0o700);
    match mkdirat(folder, name, mode) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let made = open_folder(folder, name).map_err(|error| not_followed(name, error))?;
    fchmod(made, mode)?;
    Ok(())
}

/// Makes a file in the place of what had the name.
fn make_file(folder: &OwnedFd, name: &OsStr) -> io::Result<File> {
    clear(folder, name)?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::WRONLY | OFlags::CLOEXEC;
    Ok(File::from(openat(folder, name, flags, Mode::RUSR | Mode::WUSR)?))
}

/// Removes a file or a link. A folder stays, and is in the way.
fn clear(folder: &OwnedFd, name: &OsStr) -> io::Result<()> {
    match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(seen) if FileType::from_raw_mode(seen.st_mode) == FileType::Directory => {
            Err(io::Error::other("a folder is in its place"))
        }
        Ok(_) => Ok(unlinkat(folder, name, AtFlags::empty())?),
        Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Sets what is told of a file beside its content. Nobody becomes another user by it.
fn finish(file: &File, entry: &Entry) -> io::Result<()> {
    fchmod(file, Mode::from_bits_truncate(entry.mode & 0o777))?;
    let seconds = i64::try_from(entry.modified).unwrap_or_default();
    let at = Timespec { tv_sec: seconds, tv_nsec: 0 };
    Ok(futimens(file, &Timestamps { last_access: at, last_modification: at })?)
}

/// Whether a link that is this deep in the destination leads to a place in there. It may lead up at its beginning only: the
/// folders above it are none of links, but a name in it may be one, and what is above that is not known.
fn stays_below(depth: usize, target: &[u8]) -> bool {
    if target.starts_with(b"/") {
        return false;
    }
    let names = target.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".");
    let up = names.clone().take_while(|name| *name == b"..").count();
    up <= depth && names.skip(up).all(|name| name != b"..")
}

fn outside(entry: &Entry, leads: &'static str) -> ArchiveError {
    ArchiveError::Outside { path: String::from_utf8_lossy(&entry.path).into_owned(), leads }
}

fn write_error(path: &Path, error: Errno) -> ArchiveError {
    ArchiveError::Write { path: path.display().to_string(), source: error.into() }
}
