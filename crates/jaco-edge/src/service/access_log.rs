//! Lines about requests, to a file that may be rotated at any time. Requests never wait for it: lines that cannot be
//! written, and those that come faster than they are written, are lost, and counted in the log of the process.
//!
//! It is only ever added to, so it may be truncated in place. Where another file has its name, that one is written to
//! within a second: nobody has to be told of a rotation.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::num::NonZeroU32;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use tracing::warn;

use crate::options::AccessLog;

/// How many lines may wait to be written.
const WAITING_MAX: usize = 4096;

/// So many bytes at least, if so many wait, are written at a time.
const BATCH: usize = 64 << 10;

/// How often the name of the file is looked at, and how often a file that cannot be opened is tried again.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How often lost lines are spoken of.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// Lines for one of so many requests, to this file. A thread writes them until nobody has lines for it any more.
pub(super) fn to(path: PathBuf, one_in: NonZeroU32) -> AccessLog {
    let (sender, lines) = sync_channel(WAITING_MAX);
    let dropped = Arc::new(AtomicU64::new(0));
    let target = Target::new(path, Arc::clone(&dropped));
    std::thread::spawn(move || target.run(&lines));
    let sink = move |line: String| {
        if sender.try_send(line).is_err() {
            dropped.fetch_add(1, Ordering::Relaxed);
        }
    };
    AccessLog { one_in, sink: Arc::new(sink) }
}

/// The file and what became of the lines for it.
struct Target {
    path: PathBuf,
    file: Option<File>,
    looked: Option<Instant>,
    /// Whether the end of what was written is within a line.
    is_cut: bool,
    /// Lines that nobody had time to take.
    dropped: Arc<AtomicU64>,
    lost: u64,
    why: Option<io::Error>,
    warned: Option<Instant>,
}

/// Some lines, each with its end.
#[derive(Default)]
struct Batch {
    text: Vec<u8>,
    lines: u64,
}

impl Batch {
    fn add(&mut self, line: &str) {
        self.text.extend_from_slice(line.as_bytes());
        self.text.push(b'\n');
        self.lines += 1;
    }
}

impl Target {
    fn new(path: PathBuf, dropped: Arc<AtomicU64>) -> Self {
        Self {
            path,
            file: None,
            looked: None,
            is_cut: false,
            dropped,
            lost: 0,
            why: None,
            warned: None,
        }
    }

    fn run(mut self, lines: &Receiver<String>) {
        // Whoever set it up wants to know now whether it works.
        self.look(Instant::now());
        self.warn(Instant::now());
        while let Ok(line) = lines.recv() {
            let mut batch = Batch::default();
            batch.add(&line);
            while batch.text.len() < BATCH
                && let Ok(line) = lines.try_recv()
            {
                batch.add(&line);
            }
            let now = Instant::now();
            self.look(now);
            match self.file.take() {
                Some(mut file) => {
                    self.write(&mut file, &batch);
                    self.file = Some(file);
                }
                None => self.lost += batch.lines,
            }
            self.warn(now);
        }
    }

    /// Opens the file that has the name now.
    fn look(&mut self, now: Instant) {
        if self.looked.is_some_and(|looked| now.duration_since(looked) < LOOK_EVERY) {
            return;
        }
        self.looked = Some(now);
        if self.file.as_ref().is_some_and(|file| has_name(file, &self.path)) {
            return;
        }
        match open(&self.path) {
            Ok(file) => (self.file, self.is_cut) = (Some(file), false),
            // What was open before is better than nothing.
            Err(error) => self.why = Some(error),
        }
    }

    fn write(&mut self, file: &mut impl Write, batch: &Batch) {
        let begin: &[u8] = if self.is_cut { b"\n" } else { b"" };
        let text = [begin, &batch.text].concat();
        let mut written = 0;
        while written < text.len() {
            match file.write(&text[written..]) {
                Ok(0) => self.why = Some(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    written += count;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => self.why = Some(error),
            }
            let ends = text[begin.len().max(written)..].iter().filter(|byte| **byte == b'\n');
            self.lost += ends.count() as u64;
            break;
        }
        if let Some(last) = text[..written].last() {
            self.is_cut = *last != b'\n';
        }
    }

    fn warn(&mut self, now: Instant) {
        if self.warned.is_some_and(|warned| now.duration_since(warned) < WARN_EVERY) {
            return;
        }
        self.lost += self.dropped.swap(0, Ordering::Relaxed);
        let why = self.why.take();
        if self.lost == 0 && why.is_none() {
            return;
        }
        self.warned = Some(now);
        let why = why.map_or_else(|| "they came too fast".to_owned(), |error| error.to_string());
        let (path, lines) = (self.path.display(), std::mem::take(&mut self.lost));
        warn!(%path, lines, reason = why, "lines of the access log are lost");
    }
}

/// For its user and group alone: the lines name clients.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits();
    let flags = i32::try_from(flags).map_err(io::Error::other)?;
    let mut options = OpenOptions::new();
    let file = options.append(true).create(true).mode(0o640).custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is no regular file")),
    }
}

fn has_name(file: &File, path: &Path) -> bool {
    let ids = |of: &std::fs::Metadata| (of.dev(), of.ino());
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(open), Ok(named)) => ids(&open) == ids(&named),
        (Err(_), _) | (_, Err(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with room for so many bytes.
    struct Disk {
        room: usize,
        text: Vec<u8>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = bytes.len().min(self.room);
            if count == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.room -= count;
            self.text.extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn batch(lines: &[&str]) -> Batch {
        let mut batch = Batch::default();
        lines.iter().for_each(|line| batch.add(line));
        batch
    }

    /// R-EDGE-1: on a full disk lines are lost and counted; once there is room, lines are whole again.
    #[test]
    fn a_full_disk_loses_lines_and_nothing_else() {
        let mut target = Target::new(PathBuf::new(), Arc::default());
        let mut disk = Disk { room: 6, text: Vec::new() };
        target.write(&mut disk, &batch(&["one", "two", "three"]));
        assert_eq!((target.lost, target.is_cut), (2, true));
        target.write(&mut disk, &batch(&["four"]));
        assert_eq!((target.lost, target.is_cut), (3, true));
        disk.room = 100;
        target.write(&mut disk, &batch(&["five", "six"]));
        assert_eq!((target.lost, target.is_cut), (3, false));
        assert_eq!(String::from_utf8(disk.text).unwrap(), "one\ntw\nfive\nsix\n");
        assert!(target.why.is_some());
    }

    /// R-EDGE-1: what is renamed away is not written to any more, and what is truncated goes on at its begin.
    #[test]
    fn a_file_may_be_rotated_in_both_ways() {
        let dir = std::env::temp_dir().join(format!("jaco-access-log-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let (path, rotated) = (dir.join("access.log"), dir.join("access.log.1"));
        let mut target = Target::new(path.clone(), Arc::default());
        let begin = Instant::now();
        let mut put = |line: &str, secs: u64| {
            target.look(begin + Duration::from_secs(secs));
            let mut file = target.file.take().unwrap();
            target.write(&mut file, &batch(&[line]));
            target.file = Some(file);
        };
        put("one", 0);
        std::fs::rename(&path, &rotated).unwrap();
        put("two", 0);
        put("three", 1);
        let read = |path: &Path| std::fs::read_to_string(path).unwrap();
        assert_eq!((read(&rotated).as_str(), read(&path).as_str()), ("one\ntwo\n", "three\n"));
        File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
        put("four", 2);
        assert_eq!(read(&path), "four\n");
        std::fs::remove_dir_all(dir).unwrap();
    }

    /// Lines name clients.
    #[test]
    fn others_may_not_read_it() {
        let dir = std::env::temp_dir().join(format!("jaco-access-mode-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("access.log");
        assert_eq!(open(&path).unwrap().metadata().unwrap().mode() & 0o007, 0);
        assert!(open(&dir).is_err() && open(Path::new("/dev/null")).is_err());
        std::fs::remove_dir_all(dir).unwrap();
    }
}
