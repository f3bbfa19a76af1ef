//! Writes a file or folder of this machine into an archive.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::entry::{ArchiveError, Content, Entry};
use super::write::Writer;

/// Bytes that are written at a time.
const BUFFER_BYTES: usize = 256 << 10;

/// What was written.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Packed {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    /// Devices, pipes and sockets, which are left out.
    pub(crate) left_out: Vec<PathBuf>,
}

/// Writes files that are in memory, with their paths in the archive, as of one moment in seconds since 1970. Their owner alone may
/// read them.
///
/// # Errors
/// If the archive cannot be written.
pub(crate) fn pack_files(
    files: &[(String, Vec<u8>)],
    modified: u64,
    to: impl Write,
) -> io::Result<()> {
    let mut writer = Writer::new(BufWriter::with_capacity(BUFFER_BYTES, to));
    for (path, content) in files {
        let content_kind = Content::File(content.len() as u64);
        let path = path.clone().into_bytes();
        let entry = Entry { path, content: content_kind, mode: 0o600, modified };
        writer.entry(&entry, content.as_slice())?;
    }
    writer.end()
}

/// Writes what is at `source` as `root`; with an empty `root`, what is in the folder `source`. Links in a folder stay links,
/// and all belongs to root.
///
/// # Errors
/// If something cannot be read or written.
pub(crate) fn pack(source: &Path, root: &OsStr, to: impl Write) -> Result<Packed, ArchiveError> {
    let mut writer = Writer::new(BufWriter::with_capacity(BUFFER_BYTES, to));
    let mut packed = Packed::default();
    // What is named is followed if it is a link.
    let seen = read(source, fs::metadata)?;
    let mut waiting = vec![(source.to_owned(), root.as_bytes().to_vec(), seen)];
    while let Some((path, name, seen)) = waiting.pop() {
        add(&mut writer, &mut packed, &path, &name, &seen)?;
        if seen.is_dir() {
            let mut inner: Vec<_> = read(&path, |path| {
                fs::read_dir(path)?.map(|inner| inner.map(|inner| inner.file_name())).collect()
            })?;
            inner.sort();
            // From the last to the first: they are taken from the end.
            for inner in inner.into_iter().rev() {
                let inner_path = path.join(&inner);
                let seen = read(&inner_path, fs::symlink_metadata)?;
                let slash: &[u8] = if name.is_empty() { b"" } else { b"/" };
                let inner_name = [&name, slash, inner.as_bytes()].concat();
                waiting.push((inner_path, inner_name, seen));
            }
        }
    }
    writer.end()?;
    Ok(packed)
}

fn add(
    writer: &mut Writer<impl Write>,
    packed: &mut Packed,
    path: &Path,
    name: &[u8],
    seen: &Metadata,
) -> Result<(), ArchiveError> {
    let entry = |content| Entry {
        path: name.to_vec(),
        content,
        mode: seen.permissions().mode(),
        modified: u64::try_from(seen.mtime()).unwrap_or_default(),
    };
    if seen.is_dir() {
        if !name.is_empty() {
            let folder = Entry { path: [name, b"/"].concat(), ..entry(Content::Folder) };
            writer.entry(&folder, io::empty())?;
        }
    } else if seen.is_symlink() {
        let target = read(path, fs::read_link)?;
        writer.entry(&entry(Content::Link(target.as_os_str().as_bytes().to_vec())), io::empty())?;
    } else if seen.is_file() {
        let file = read(path, File::open)?;
        let size = read(path, |_| file.metadata())?.len();
        let written = writer.entry(&entry(Content::File(size)), &file);
        written.map_err(|source| failed(path, source))?;
        packed.files += 1;
        packed.bytes += size;
    } else {
        packed.left_out.push(path.to_owned());
    }
    Ok(())
}

fn read<'p, T>(
    path: &'p Path,
    task: impl FnOnce(&'p Path) -> io::Result<T>,
) -> Result<T, ArchiveError> {
    task(path).map_err(|source| failed(path, source))
}

fn failed(path: &Path, source: io::Error) -> ArchiveError {
    ArchiveError::Read { path: path.display().to_string(), source }
}
