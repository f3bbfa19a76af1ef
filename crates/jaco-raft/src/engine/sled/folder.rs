//! sled's directory: how it is opened, and cleaned up after a crash. Must never remove a file that
//! holds records.

use std::fs::{self, File};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::from_sled;
use crate::codec;
use crate::disk::sync_dir;

/// How long sled's threads may take to release a log that was just closed.
const RELEASE: Duration = Duration::from_secs(5);
/// sled's default is 1 GiB.
const CACHE_BYTES: u64 = 64 << 20;

/// Opens sled; a panic inside it becomes an error.
pub(super) fn open_in(dir: &Path) -> io::Result<sled::Db> {
    let config = sled::Config::new()
        .path(dir)
        .cache_capacity(CACHE_BYTES)
        // Every commit flushes; sled's timer would only keep an idle disk busy.
        .flush_every_ms(None);
    let patience = Instant::now() + RELEASE;
    loop {
        match caught("opening", || Ok(config.open()))? {
            // The directory lock is ours, so this is the same process: sled's background threads
            // release its lock shortly after the last handle is dropped.
            Err(sled::Error::Io(error))
                if error.to_string().contains("could not acquire lock")
                    && Instant::now() < patience =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            opened => return opened.map_err(from_sled),
        }
    }
}

/// Runs a part of sled over files that may be damaged: it panics over some damage instead of reporting it.
///
/// # Errors
/// Those of `work`, and that sled panicked while it did what `doing` says.
pub(super) fn caught<T>(doing: &str, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(codec::invalid(format!("the log is damaged: sled panicked while {doing} it")))
    })
}

/// A crash while sled writes its index leaves a file that makes the next open fail.
pub(super) fn remove_half_written_snapshots(dir: &Path) -> io::Result<()> {
    for path in snapshots_of(dir)? {
        let unfinished = path.extension().is_some_and(|ext| ext == "generating");
        if unfinished || fs::metadata(&path)?.len() == 0 {
            fs::remove_file(&path)?;
        }
    }
    sync_dir(dir)
}

/// sled's settings. It writes them when it makes a database, and does not sync them.
const SETTINGS: &str = "conf";

/// A power cut before the first sync of ours leaves any part of sled's settings, which sled then takes for damage.
/// Without them it writes them again, the same: nothing that they hold is ever set otherwise.
pub(super) fn remove_torn_settings(dir: &Path) -> io::Result<()> {
    let path = dir.join(SETTINGS);
    match fs::read(&path) {
        Ok(bytes) if are_settings(&bytes) => return Ok(()),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    }
    tracing::warn!(file = %path.display(), "settings of the log were cut short, writing them again");
    fs::remove_file(&path)?;
    sync_dir(dir)
}

/// Three lines, then a checksum of four bytes. The file is shorter than a sector: of its bytes either all are there up
/// to some length, or zeros.
fn are_settings(bytes: &[u8]) -> bool {
    let Some((text, _)) = bytes.split_last_chunk::<4>() else { return false };
    let Ok(text) = std::str::from_utf8(text) else { return false };
    let names = ["segment_size: ", "use_compression: ", "version: "];
    let has_value = |(line, name): (&str, &str)| line.len() > name.len() && line.starts_with(name);
    let is_whole = text.ends_with('\n') && text.lines().count() == names.len();
    is_whole && text.lines().zip(names).all(has_value)
}

pub(super) fn move_snapshots_aside(dir: &Path) -> io::Result<()> {
    for path in snapshots_of(dir)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        fs::rename(&path, dir.join(format!("aside.{name}")))?;
    }
    sync_dir(dir)
}

pub(super) fn snapshots_of(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("snap.") {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

pub(super) fn refuse_blobs(dir: &Path) -> io::Result<()> {
    let blobs = dir.join("blobs");
    if blobs.is_dir() && fs::read_dir(&blobs)?.next().is_some() {
        return Err(codec::invalid("log holds blob files, which are never synced".to_owned()));
    }
    Ok(())
}

/// Repairs that sled made while opening are not durable until this returns.
pub(super) fn sync_everything(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            File::open(entry.path())?.sync_all()?;
        }
    }
    sync_dir(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-FAULT-1: a log over which sled panics is refused, not a crash of the daemon without a reason.
    #[test]
    fn a_panic_of_sled_is_a_refusal() {
        let panics = || panic!("cannot find pid 5 in view_for_key");
        let refused = caught::<()>("reading", panics).unwrap_err();
        assert_eq!(refused.to_string(), "the log is damaged: sled panicked while reading it");
        assert_eq!(caught("reading", || Ok(7)).unwrap(), 7);
    }
}
