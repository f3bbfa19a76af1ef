//! The files in which a node keeps the audit events that the replicated state let go of. Must never
//! change or shorten what it has written, except by whole files, the oldest first.
//!
//! `apply` cannot wait for a disk, so a node writes here right after an entry was applied and before
//! anybody sees the state after it: a snapshot of that state can then lose nothing
//! ([`crate::ClusterMachine`]). What a node applies again after a restart is recognised by its place.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use jaco_proto::storage::{Place, archive_line, read_archive_line};
use jaco_state::audit::{KEPT_EVENTS, LetGo};
use tracing::{error, info, warn};

/// How an archive's files are called: by the place of their first event, so that names sort by age.
const PREFIX: &str = "audit-";
/// See [`PREFIX`].
const SUFFIX: &str = ".ndjson";

/// How much an archive may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArchiveLimits {
    /// A file that is larger is followed by another.
    pub file_bytes: u64,
    /// With more than this the oldest files go.
    pub total_bytes: u64,
}

impl ArchiveLimits {
    /// At 400 bytes an event, 256 MiB hold about 650,000: at one change a minute more than a year.
    pub const DEFAULT_TOTAL_BYTES: u64 = 256 << 20;

    /// Limits for an archive of this size, of 32 files, none of them larger than 8 MiB or smaller
    /// than 64 KiB.
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
    /// The newest event that is in it.
    last: Option<Place>,
    /// Lines that could not be written yet, oldest first.
    owed: Vec<(Place, String)>,
}

/// The file that is written to.
#[derive(Debug)]
struct Open {
    file: File,
    bytes: u64,
}

impl AuditArchive {
    /// Opens the archive in `folder`, which is made if it is not there. What a node that died was
    /// writing is taken back.
    ///
    /// # Errors
    /// If the folder or the newest file cannot be used.
    pub fn open(folder: &Path, limits: ArchiveLimits) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let mut archive =
            Self { folder: folder.to_owned(), limits, open: None, last: None, owed: Vec::new() };
        for path in files(folder)?.iter().rev() {
            let mut file = OpenOptions::new().read(true).write(true).open(path)?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            if whole == 0 {
                fs::remove_file(path)?;
                continue;
            }
            let size = u64::try_from(whole).unwrap_or(u64::MAX);
            file.set_len(size)?;
            file.seek(SeekFrom::End(0))?;
            let line = bytes[..whole - 1].rsplit(|byte| *byte == b'\n').next();
            match read_archive_line(line.unwrap_or_default()) {
                Ok(link) => archive.last = Some(link.place),
                Err(problem) => {
                    warn!(file = %path.display(), %problem, "the last event of the archive is damaged");
                    archive.last = place_in_name(path);
                }
            }
            archive.open = Some(Open { file, bytes: size });
            break;
        }
        Ok(archive)
    }

    /// Puts in what the state let go of, durably. What is in already, and what is no part of a chain, is
    /// left out. What cannot be written is written with what comes next.
    pub fn keep(&mut self, gone: &LetGo) {
        for (key, event) in gone {
            let place = Place { index: key.index.0, number: key.number };
            let known = self.owed.last().map(|(place, _)| *place).or(self.last);
            if known.is_some_and(|known| place <= known) {
                continue;
            }
            if let Some(line) = archive_line(*key, event) {
                self.owed.push((place, line));
            }
        }
        if self.owed.is_empty() {
            return;
        }
        if let Err(error) = self.write() {
            warn!(%error, folder = %self.folder.display(), events = self.owed.len(),
                "audit events could not be archived; they are kept in memory and tried again");
            // What a failed write left behind is no part of the file.
            self.open = None;
            self.reopen();
            self.forget_what_is_too_much();
            return;
        }
        if let Err(error) = self.let_go_of_oldest_files() {
            warn!(%error, folder = %self.folder.display(), "the audit archive is larger than it should be");
        }
    }

    /// Memory has an end as well: as many events as the state itself keeps.
    fn forget_what_is_too_much(&mut self) {
        let Some(surplus) = self.owed.len().checked_sub(KEPT_EVENTS).filter(|surplus| *surplus > 0)
        else {
            return;
        };
        error!(
            events = surplus,
            "audit events are lost to this node's archive: it cannot be written"
        );
        self.owed.drain(..surplus);
    }

    fn reopen(&mut self) {
        match Self::open(&self.folder, self.limits) {
            Ok(opened) => (self.open, self.last) = (opened.open, opened.last),
            Err(error) => warn!(%error, "the audit archive cannot be opened"),
        }
        let last = self.last;
        self.owed.retain(|(place, _)| last.is_none_or(|last| *place > last));
    }

    fn write(&mut self) -> io::Result<()> {
        let first = self.owed.first().map(|(place, _)| *place);
        let lines: String = self.owed.iter().map(|(_, line)| line.as_str()).collect();
        let size = u64::try_from(lines.len()).unwrap_or(u64::MAX);
        let is_full = |open: &Open| open.bytes >= self.limits.file_bytes;
        if self.open.as_ref().is_none_or(is_full) {
            self.open = Some(create(&self.folder, first.unwrap_or(Place { index: 0, number: 0 }))?);
        }
        let open = self.open.as_mut().expect("it was opened above");
        open.file.write_all(lines.as_bytes())?;
        open.file.sync_data()?;
        open.bytes = open.bytes.saturating_add(size);
        self.last = self.owed.pop().map(|(place, _)| place);
        self.owed.clear();
        Ok(())
    }

    fn let_go_of_oldest_files(&self) -> io::Result<()> {
        let mut sizes = Vec::new();
        for path in files(&self.folder)? {
            sizes.push((fs::metadata(&path)?.len(), path));
        }
        let mut total: u64 = sizes.iter().map(|(size, _)| size).sum();
        // The newest is being written to.
        sizes.pop();
        for (size, path) in sizes {
            if total <= self.limits.total_bytes {
                break;
            }
            fs::remove_file(&path)?;
            info!(file = %path.display(), "the oldest file of the audit archive was let go of");
            total -= size;
        }
        Ok(())
    }
}

fn create(folder: &Path, first: Place) -> io::Result<Open> {
    let name = format!("{PREFIX}{:020}-{:010}{SUFFIX}", first.index, first.number);
    let mut options = OpenOptions::new();
    let file = options.create_new(true).append(true).mode(0o600).open(folder.join(name))?;
    File::open(folder)?.sync_all()?;
    Ok(Open { file, bytes: 0 })
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
