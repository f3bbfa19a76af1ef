//! A node's archive of audit events that the replicated state has evicted. It must never change or truncate
//! what it has written; it only deletes whole files, the oldest first.
//!
//! `apply` must not wait for a disk, so events are written soon after ([`crate::audit::writer`]). They are
//! durable before the log is compacted, and a mark records how far. What follows the mark may have holes after
//! a power failure; it is cut off at the next start, because the log reproduces the same events.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use jaco_proto::storage::{Place, archive_line, read_archive_line};
use jaco_state::audit::{Evicted, KEPT_EVENTS};
use tracing::{error, info, warn};

/// Files are named by the index of their first event, so that names sort by age.
const PREFIX: &str = "audit-";
/// See [`PREFIX`].
const SUFFIX: &str = ".ndjson";

/// The file that records how far the archive is durable.
const MARK: &str = "durable";

/// The size limits of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArchiveLimits {
    /// A file that exceeds this is closed and another one is begun.
    pub file_bytes: u64,
    /// If all files together exceed this, the oldest are deleted.
    pub total_bytes: u64,
}

impl ArchiveLimits {
    /// At 400 bytes an event, 256 MiB hold about 650,000: at one change a minute more than a year.
    pub const DEFAULT_TOTAL_BYTES: u64 = 256 << 20;

    /// Limits for an archive of this size in 32 files of 64 KiB to 8 MiB.
    #[must_use]
    pub fn of(total_bytes: u64) -> Self {
        Self { file_bytes: (total_bytes / 32).clamp(64 << 10, 8 << 20), total_bytes }
    }
}

/// The archive of one node.
#[derive(Debug)]
pub struct AuditArchive {
    folder: PathBuf,
    limits: ArchiveLimits,
    open: Option<Open>,
    /// The size of all files together.
    bytes: u64,
    /// The newest event in it.
    last: Option<Place>,
    /// Lines that are not written yet, oldest first.
    unwritten: Vec<(Place, String)>,
    /// Full files that are not durable yet.
    full: Vec<File>,
}

/// The file that events are appended to.
#[derive(Debug)]
struct Open {
    file: File,
    name: String,
    bytes: u64,
}

impl AuditArchive {
    /// Opens the archive in `folder`, which is created if needed. An incomplete write is cut off.
    ///
    /// # Errors
    /// If the folder or the newest file cannot be read or written.
    pub fn open(folder: &Path, limits: ArchiveLimits) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        if let Some(parent) = folder.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            // The folder itself may be new, and nothing else syncs its name.
            File::open(parent)?.sync_all()?;
        }
        cut_to_mark(folder)?;
        let (open, last) = end_of(folder)?;
        let (bytes, folder) = (total(folder)?, folder.to_owned());
        let (unwritten, full) = (Vec::new(), Vec::new());
        let mut archive = Self { folder, limits, open, bytes, last, unwritten, full };
        archive.make_durable()?;
        Ok(archive)
    }

    /// Appends evicted events. Events that are in the archive already, or have no hash chain, are skipped.
    /// What cannot be written is retried with the next call.
    pub fn keep(&mut self, evicted: &Evicted) {
        for (key, event) in evicted {
            let place = Place { index: key.index.0, number: key.number };
            let known = self.unwritten.last().map(|(place, _)| *place).or(self.last);
            if known.is_some_and(|known| place <= known) {
                continue;
            }
            if let Some(line) = archive_line(*key, event) {
                self.unwritten.push((place, line));
            }
        }
        if self.unwritten.is_empty() {
            return;
        }
        if let Err(error) = self.write() {
            warn!(%error, folder = %self.folder.display(), events = self.unwritten.len(),
                "could not archive audit events; they stay in memory until the next attempt");
            // Cut off what the failed write has left in the file.
            self.open = None;
            self.reopen();
            self.drop_surplus();
            return;
        }
        if self.bytes > self.limits.total_bytes
            && let Err(error) = self.delete_oldest_files()
        {
            warn!(%error, folder = %self.folder.display(),
                "could not delete the oldest files of the audit archive; it exceeds its limit");
        }
    }

    /// Bounds memory: at most as many events as the state itself keeps.
    fn drop_surplus(&mut self) {
        let Some(surplus) =
            self.unwritten.len().checked_sub(KEPT_EVENTS).filter(|surplus| *surplus > 0)
        else {
            return;
        };
        error!(
            events = surplus,
            "audit archive cannot be written: dropped the oldest audit events on this node"
        );
        self.unwritten.drain(..surplus);
    }

    /// Writes and syncs everything.
    pub fn sync(&mut self) {
        if !self.unwritten.is_empty() {
            self.keep(&Evicted::new());
        }
        if let Err(error) = self.make_durable() {
            warn!(%error, folder = %self.folder.display(),
                "could not sync the audit archive; its newest events would not survive a power failure");
        }
    }

    fn make_durable(&mut self) -> io::Result<()> {
        for file in &self.full {
            file.sync_data()?;
        }
        if let Some(open) = &self.open {
            open.file.sync_data()?;
        }
        let sync_folder = || File::open(&self.folder)?.sync_all();
        sync_folder()?;
        self.full.clear();
        let (name, bytes) = self.open.as_ref().map_or(("", 0), |open| (&open.name, open.bytes));
        let fresh = self.folder.join(format!("{MARK}.new"));
        let mut mark = File::create(&fresh)?;
        writeln!(mark, "{bytes} {name}")?;
        mark.sync_data()?;
        fs::rename(fresh, self.folder.join(MARK))?;
        sync_folder()
    }

    fn reopen(&mut self) {
        let found = end_of(&self.folder).and_then(|end| Ok((end, total(&self.folder)?)));
        match found {
            Ok(((open, last), bytes)) => {
                (self.open, self.last, self.bytes) = (open, last, bytes);
            }
            Err(error) => warn!(%error, "could not open the audit archive"),
        }
        let last = self.last;
        self.unwritten.retain(|(place, _)| last.is_none_or(|last| *place > last));
    }

    fn write(&mut self) -> io::Result<()> {
        let first = self.unwritten.first().map(|(place, _)| *place);
        let lines: String = self.unwritten.iter().map(|(_, line)| line.as_str()).collect();
        let size = u64::try_from(lines.len()).unwrap_or(u64::MAX);
        let is_full = |open: &Open| open.bytes >= self.limits.file_bytes;
        if self.open.as_ref().is_none_or(is_full) {
            let fresh = create(&self.folder, first.unwrap_or(Place { index: 0, number: 0 }))?;
            self.full.extend(self.open.replace(fresh).map(|full| full.file));
        }
        let open = self.open.as_mut().expect("a file was opened above");
        open.file.write_all(lines.as_bytes())?;
        open.bytes = open.bytes.saturating_add(size);
        self.bytes = self.bytes.saturating_add(size);
        self.last = self.unwritten.pop().map(|(place, _)| place);
        self.unwritten.clear();
        Ok(())
    }

    fn delete_oldest_files(&mut self) -> io::Result<()> {
        let mut sizes = sizes(&self.folder)?;
        self.bytes = sizes.iter().map(|(size, _)| size).sum();
        // The newest file is in use.
        sizes.pop();
        for (size, path) in sizes {
            if self.bytes <= self.limits.total_bytes {
                break;
            }
            fs::remove_file(&path)?;
            info!(file = %path.display(), "deleted the oldest file of the audit archive");
            self.bytes -= size;
        }
        Ok(())
    }
}

/// The size of all files of an archive together.
fn total(folder: &Path) -> io::Result<u64> {
    Ok(sizes(folder)?.iter().map(|(size, _)| size).sum())
}

/// The files of an archive with their sizes, oldest first.
fn sizes(folder: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let sizes = files(folder)?.into_iter().map(|path| Ok((fs::metadata(&path)?.len(), path)));
    sizes.collect()
}

fn create(folder: &Path, first: Place) -> io::Result<Open> {
    let name = format!("{PREFIX}{:020}-{:010}{SUFFIX}", first.index, first.number);
    let mut options = OpenOptions::new();
    let file = options.create_new(true).append(true).mode(0o600).open(folder.join(&name))?;
    Ok(Open { file, name, bytes: 0 })
}

/// Cuts off what may not be durable. Without a mark everything is: older versions synced each write.
fn cut_to_mark(folder: &Path) -> io::Result<()> {
    let mark = match fs::read(folder.join(MARK)) {
        // What is no text is malformed below.
        Ok(mark) => String::from_utf8_lossy(&mark).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let parsed = mark.trim_end_matches('\n').split_once(' ');
    let parsed = parsed.and_then(|(bytes, name)| Some((bytes.parse::<u64>().ok()?, name)));
    let Some((bytes, name)) = parsed else {
        warn!(folder = %folder.display(),
            "the mark of the audit archive is malformed: the archive is used as it is");
        return Ok(());
    };
    for path in files(folder)? {
        let found = path.file_name().unwrap_or_default();
        if found > OsStr::new(name) {
            fs::remove_file(&path)?;
        } else if found == name && fs::metadata(&path)?.len() > bytes {
            OpenOptions::new().write(true).open(&path)?.set_len(bytes)?;
        }
    }
    Ok(())
}

/// Truncates the newest file to its last complete line; returns the file and the index of that line.
fn end_of(folder: &Path) -> io::Result<(Option<Open>, Option<Place>)> {
    for path in files(folder)?.iter().rev() {
        let mut file = OpenOptions::new().read(true).write(true).open(path)?;
        let mut content = Vec::new();
        file.read_to_end(&mut content)?;
        let whole = content.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        if whole == 0 {
            fs::remove_file(path)?;
            continue;
        }
        let bytes = u64::try_from(whole).unwrap_or(u64::MAX);
        file.set_len(bytes)?;
        file.seek(SeekFrom::End(0))?;
        let line = content[..whole - 1].rsplit(|byte| *byte == b'\n').next();
        let last = match read_archive_line(line.unwrap_or_default()) {
            Ok(link) => Some(link.place),
            Err(problem) => {
                warn!(file = %path.display(), %problem, "the last event of the audit archive is damaged");
                place_in_name(path)
            }
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        return Ok((Some(Open { file, name, bytes }), last));
    }
    Ok((None, None))
}

/// The files of an archive, oldest first.
fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if place_in_name(&path).is_some() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn place_in_name(path: &Path) -> Option<Place> {
    let name = path.file_name()?.to_str()?.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    let (index, number) = name.split_once('-')?;
    Some(Place { index: index.parse().ok()?, number: number.parse().ok()? })
}
