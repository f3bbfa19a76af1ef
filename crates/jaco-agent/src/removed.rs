//! Records of removed allocations on this node, with the last lines of their containers' logs. Kept
//! until they are garbage-collected (R-SEL-3).
//!
//! A directory per allocation, a file per container: `DEPLOYMENT/SERVICE/INSTANCE.log`, whose first
//! line has the time of removal. Bounded; the oldest are evicted first.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use jaco_types::{DeploymentName, InstanceId, ServiceKey, ServiceName, Timestamp};

use crate::engine::{LogLine, LogStream};

/// Number of log lines requested from the engine.
pub const LINES_MAX: u64 = 1_000;

/// Maximum size of a container's kept log; the end is kept.
pub const BYTES_MAX: usize = 64 * 1024;

/// Containers kept per allocation, the newest.
const CONTAINERS_MAX: usize = 4;

/// Removed allocations kept per node, the newest.
const ALLOCATIONS_MAX: usize = 256;

/// Prefix of the first line of each file.
const REMOVED_AT: &str = "# removed at ";

/// The directory of the records.
#[derive(Debug, Clone)]
pub struct RemovedAllocations {
    folder: PathBuf,
}

/// An allocation removed from this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovedAllocation {
    /// The service.
    pub service: ServiceKey,
    /// When its last container was removed, by this node's clock.
    pub at: Timestamp,
    /// Size of the kept logs, in bytes.
    pub log_bytes: u64,
}

impl RemovedAllocations {
    /// Records in `folder`, which is created when needed.
    #[must_use]
    pub const fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Stores the last lines of a container that is about to be removed. Idempotent.
    ///
    /// # Errors
    /// On an I/O error.
    pub fn keep(
        &self,
        service: &ServiceKey,
        instance: &InstanceId,
        at: Timestamp,
        lines: &[LogLine],
    ) -> io::Result<()> {
        let folder = self.folder_of(service);
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let name = instance.to_string().replace('/', "_");
        let (draft, file) = (folder.join(format!(".{name}")), folder.join(format!("{name}.log")));
        let mut options = OpenOptions::new();
        let mut out = options.write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        writeln!(out, "{REMOVED_AT}{}", at.0)?;
        out.write_all(&last_lines(lines))?;
        drop(out);
        fs::rename(&draft, &file)?;
        self.bound(&folder)
    }

    /// All removed allocations, by service.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn list(&self) -> io::Result<Vec<RemovedAllocation>> {
        let mut found = BTreeMap::new();
        for (deployment, folder) in folders(&self.folder, |name| DeploymentName::new(name).ok())? {
            for (service, folder) in folders(&folder, |name| ServiceName::new(name).ok())? {
                let service = ServiceKey { deployment: deployment.clone(), service };
                let mut at = None;
                let mut log_bytes = 0;
                for log in logs(&folder)? {
                    at = at.max(Some(log.at));
                    log_bytes += log.bytes;
                }
                if let Some(at) = at {
                    found.insert(service.clone(), RemovedAllocation { service, at, log_bytes });
                }
            }
        }
        Ok(found.into_values().collect())
    }

    /// Deletes the record of an allocation, with its logs. An unknown one is no error.
    ///
    /// # Errors
    /// On an I/O error.
    pub fn forget(&self, service: &ServiceKey) -> io::Result<()> {
        let folder = self.folder_of(service);
        match fs::remove_dir_all(&folder) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        // Fails while another service of the deployment has records.
        let _not_empty = folder.parent().map(fs::remove_dir);
        Ok(())
    }

    fn folder_of(&self, service: &ServiceKey) -> PathBuf {
        self.folder.join(service.deployment.as_str()).join(service.service.as_str())
    }

    /// Evicts the oldest containers and allocations.
    fn bound(&self, folder: &Path) -> io::Result<()> {
        let mut own = logs(folder)?;
        own.sort_by(|a, b| (a.at, &a.path).cmp(&(b.at, &b.path)));
        for log in own.iter().rev().skip(CONTAINERS_MAX) {
            fs::remove_file(&log.path)?;
        }
        let mut all = self.list()?;
        all.sort_by(|a, b| (a.at, &a.service).cmp(&(b.at, &b.service)));
        for allocation in all.iter().rev().skip(ALLOCATIONS_MAX) {
            self.forget(&allocation.service)?;
        }
        Ok(())
    }
}

/// Formats as many of the last lines as fit.
fn last_lines(lines: &[LogLine]) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut size = 0;
    for line in lines.iter().rev() {
        let stream = match line.stream {
            LogStream::Stdout => "out",
            LogStream::Stderr => "err",
        };
        let at = line.at.map_or_else(|| "-".to_owned(), |at| at.0.to_string());
        let text = format!("{at} {stream} {}\n", line.text);
        size += text.len();
        if size > BYTES_MAX {
            break;
        }
        kept.push(text);
    }
    kept.into_iter().rev().collect::<String>().into_bytes()
}

/// A kept log.
struct Log {
    path: PathBuf,
    at: Timestamp,
    bytes: u64,
}

/// The logs of an allocation.
fn logs(folder: &Path) -> io::Result<Vec<Log>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "log") {
            continue;
        }
        let mut first = String::new();
        let mut file = BufReader::new(fs::File::open(&path)?);
        file.read_line(&mut first)?;
        // A damaged one counts as the oldest.
        let at = first.trim_end().strip_prefix(REMOVED_AT).and_then(|at| at.parse().ok());
        let bytes = file.get_ref().metadata()?.len().saturating_sub(first.len() as u64);
        found.push(Log { path, at: Timestamp(at.unwrap_or_default()), bytes });
    }
    Ok(found)
}

/// Subdirectories by parsed name; none if the directory does not exist.
fn folders<T: Ord>(
    folder: &Path,
    read: impl Fn(&str) -> Option<T>,
) -> io::Result<BTreeMap<T, PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(error),
    };
    let mut found = BTreeMap::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).and_then(&read);
        if let Some(name) = name.filter(|_| path.is_dir()) {
            found.insert(name, path);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use jaco_types::{Ordinal, ReplicaId, StateIndex};

    use super::*;

    fn key(service: &str) -> ServiceKey {
        ServiceKey { deployment: "shop".parse().unwrap(), service: service.parse().unwrap() }
    }

    fn keep(removed: &RemovedAllocations, service: &str, index: u64, at: u64, text: &str) {
        let replica = ReplicaId::new(&key(service), &Ordinal::Index(0));
        let instance = InstanceId { replica, raft_index: StateIndex(index) };
        let line = |text: &str| LogLine {
            stream: LogStream::Stdout,
            at: Some(Timestamp(at)),
            text: text.to_owned(),
        };
        let lines: Vec<_> = text.lines().map(line).collect();
        removed.keep(&key(service), &instance, Timestamp(at), &lines).unwrap();
    }

    fn shown(removed: &RemovedAllocations) -> Vec<(String, u64, u64)> {
        let all = removed.list().unwrap().into_iter();
        all.map(|one| (one.service.to_string(), one.at.0, one.log_bytes)).collect()
    }

    /// R-SEL-3: a removed allocation is recorded once, however often it is stored, until it is
    /// collected.
    #[test]
    fn removed_allocation_is_recorded_until_collected() {
        let folder = tempfile::tempdir().unwrap();
        let removed = RemovedAllocations::new(folder.path().join("removed"));
        assert_eq!(shown(&removed), []);
        keep(&removed, "web", 1, 7, "hello");
        keep(&removed, "web", 1, 7, "hello");
        keep(&removed, "db", 2, 8, "");
        let size = "7 out hello\n".len() as u64;
        assert_eq!(
            shown(&removed),
            [("shop/db".to_owned(), 8, 0), ("shop/web".to_owned(), 7, size)]
        );
        removed.forget(&key("web")).unwrap();
        removed.forget(&key("web")).unwrap();
        assert_eq!(shown(&removed), [("shop/db".to_owned(), 8, 0)]);
        removed.forget(&key("db")).unwrap();
        assert_eq!(fs::read_dir(folder.path().join("removed")).unwrap().count(), 0);
    }

    /// R-SEL-3: only the last lines, the last containers and the last allocations are kept.
    #[test]
    fn records_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let removed = RemovedAllocations::new(folder.path().to_owned());
        let long = "x".repeat(BYTES_MAX / 2);
        keep(&removed, "web", 1, 1, &format!("{long}\n{long}\nlast"));
        let file = folder.path().join("shop/web/shop-web-0@1.log");
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.len() < BYTES_MAX && text.ends_with("1 out last\n"), "{}", text.len());
        for index in 2..10 {
            keep(&removed, "web", index, index, "");
        }
        assert_eq!(fs::read_dir(folder.path().join("shop/web")).unwrap().count(), CONTAINERS_MAX);
        assert!(!file.exists());
        for number in 0..ALLOCATIONS_MAX as u64 {
            keep(&removed, &format!("s{number}"), 1, 100 + number, "");
        }
        let all = shown(&removed);
        assert_eq!(all.len(), ALLOCATIONS_MAX);
        assert!(!all.iter().any(|(service, ..)| service == "shop/web"), "it is the oldest");
    }
}
