//! The files in which a node keeps the audit events that the replicated state let go of. Must never
//! change or shorten what it has written, except by whole files, the oldest first.
//!
//! `apply` cannot wait for a disk, so a node writes here soon after ([`crate::archive_writer`]). What it
//! wrote is durable before its log is cut, and that is noted: what comes after the note may have holes when
//! the power fails, and is cut off at the next start, because the log makes the same events again.

use std::ffi::OsStr;
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

/// The name of the file that says how far the archive is durable.
const MARK: &str = "durable";

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
    /// Files that are full and not durable yet.
    full: Vec<File>,
}

/// The file that is written to.
#[derive(Debug)]
struct Open {
    file: File,
    name: String,
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
        cut_to_mark(folder)?;
        let (open, last) = end_of(folder)?;
        let folder = folder.to_owned();
        let mut archive = Self { folder, limits, open, last, owed: Vec::new(), full: Vec::new() };
        archive.make_durable()?;
        Ok(archive)
    }

    /// Puts in what the state let go of. What is in already, and what is no part of a chain, is left out.
    /// What cannot be written is written with what comes next.
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

    /// Makes all of it durable.
    pub fn sync(&mut self) {
        if !self.owed.is_empty() {
            self.keep(&LetGo::new());
        }
        if let Err(error) = self.make_durable() {
            warn!(%error, folder = %self.folder.display(),
                "the newest audit events of the archive would not survive a power cut");
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
        match end_of(&self.folder) {
            Ok((open, last)) => (self.open, self.last) = (open, last),
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
            let fresh = create(&self.folder, first.unwrap_or(Place { index: 0, number: 0 }))?;
            self.full.extend(self.open.replace(fresh).map(|full| full.file));
        }
        let open = self.open.as_mut().expect("it was opened above");
        open.file.write_all(lines.as_bytes())?;
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
    let file = options.create_new(true).append(true).mode(0o600).open(folder.join(&name))?;
    Ok(Open { file, name, bytes: 0 })
}

/// Takes back what may not have reached the disk before the last start ended. Without a mark all has:
/// older versions synced each write.
fn cut_to_mark(folder: &Path) -> io::Result<()> {
    let mark = match fs::read_to_string(folder.join(MARK)) {
        Ok(mark) => mark,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let parsed = mark.trim_end_matches('\n').split_once(' ');
    let parsed = parsed.and_then(|(bytes, name)| Some((bytes.parse::<u64>().ok()?, name)));
    let Some((bytes, name)) = parsed else {
        warn!(folder = %folder.display(), "the audit archive does not say how far it is durable");
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

/// The newest file, cut back to its last whole line, and the place of that.
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
                warn!(file = %path.display(), %problem, "the last event of the archive is damaged");
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
