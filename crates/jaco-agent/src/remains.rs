//! What removed allocations leave on this node beside volumes: that they were here, and what their
//! containers wrote last. Kept until people collect it (R-SEL-3).
//!
//! A folder per allocation, a file per container: `DEPLOYMENT/SERVICE/INSTANCE.log`, whose first line
//! says when the allocation was removed. Bounded; what is oldest goes first.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use jaco_types::{DeploymentName, InstanceId, ServiceKey, ServiceName, Timestamp};

use crate::engine::{LogLine, LogStream};

/// How many lines of a container are asked for.
pub const LINES_MAX: u64 = 1_000;

/// How many bytes of a container's log are kept: the last ones.
pub const BYTES_MAX: usize = 64 * 1024;

/// How many containers of an allocation are remembered: the last ones.
const CONTAINERS_MAX: usize = 4;

/// How many removed allocations a node remembers: the last ones.
const ALLOCATIONS_MAX: usize = 256;

/// What the first line of each file begins with.
const REMOVED_AT: &str = "# removed at ";

/// The folder of what is left.
#[derive(Debug, Clone)]
pub struct Remains {
    folder: PathBuf,
}

/// An allocation that was removed from this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovedAllocation {
    /// The service that it was of.
    pub service: ServiceKey,
    /// When the last of its containers was removed, by this node's clock.
    pub at: Timestamp,
    /// What is kept of their logs, in bytes.
    pub log_bytes: u64,
}

impl Remains {
    /// What is left in `folder`, which is made when something is.
    #[must_use]
    pub const fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Keeps the last lines of a container that is about to be removed. Kept again, it is the same.
    ///
    /// # Errors
    /// When the disk refuses.
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

    /// All that were removed, by service.
    ///
    /// # Errors
    /// When the folder cannot be read.
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

    /// Forgets an allocation, with its logs. One that is not known is fine.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn forget(&self, service: &ServiceKey) -> io::Result<()> {
        let folder = self.folder_of(service);
        match fs::remove_dir_all(&folder) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        // Refused as long as another service of the deployment is remembered.
        let _not_empty = folder.parent().map(fs::remove_dir);
        Ok(())
    }

    fn folder_of(&self, service: &ServiceKey) -> PathBuf {
        self.folder.join(service.deployment.as_str()).join(service.service.as_str())
    }

    /// Lets go of the oldest, of one allocation and of all.
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

/// Lines as text, as many of the last as fit.
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

/// The logs in the folder of an allocation.
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
        // One that was damaged is the oldest.
        let at = first.trim_end().strip_prefix(REMOVED_AT).and_then(|at| at.parse().ok());
        let bytes = file.get_ref().metadata()?.len().saturating_sub(first.len() as u64);
        found.push(Log { path, at: Timestamp(at.unwrap_or_default()), bytes });
    }
    Ok(found)
}

/// The folders in a folder, by what their names mean; none where it is not there.
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

    fn keep(remains: &Remains, service: &str, index: u64, at: u64, text: &str) {
        let replica = ReplicaId::new(&key(service), &Ordinal::Index(0));
        let instance = InstanceId { replica, raft_index: StateIndex(index) };
        let line = |text: &str| LogLine {
            stream: LogStream::Stdout,
            at: Some(Timestamp(at)),
            text: text.to_owned(),
        };
        let lines: Vec<_> = text.lines().map(line).collect();
        remains.keep(&key(service), &instance, Timestamp(at), &lines).unwrap();
    }

    fn shown(remains: &Remains) -> Vec<(String, u64, u64)> {
        let all = remains.list().unwrap().into_iter();
        all.map(|one| (one.service.to_string(), one.at.0, one.log_bytes)).collect()
    }

    /// R-SEL-3: what was removed is known until it is forgotten, once, however often it is kept.
    #[test]
    fn what_was_removed_is_known_until_it_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let remains = Remains::new(folder.path().join("removed"));
        assert_eq!(shown(&remains), []);
        keep(&remains, "web", 1, 7, "hello");
        keep(&remains, "web", 1, 7, "hello");
        keep(&remains, "db", 2, 8, "");
        let size = "7 out hello\n".len() as u64;
        assert_eq!(
            shown(&remains),
            [("shop/db".to_owned(), 8, 0), ("shop/web".to_owned(), 7, size)]
        );
        remains.forget(&key("web")).unwrap();
        remains.forget(&key("web")).unwrap();
        assert_eq!(shown(&remains), [("shop/db".to_owned(), 8, 0)]);
        remains.forget(&key("db")).unwrap();
        assert_eq!(fs::read_dir(folder.path().join("removed")).unwrap().count(), 0);
    }

    /// R-SEL-3: the last lines and the last containers are kept, and of allocations the last.
    #[test]
    fn what_is_kept_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let remains = Remains::new(folder.path().to_owned());
        let long = "x".repeat(BYTES_MAX / 2);
        keep(&remains, "web", 1, 1, &format!("{long}\n{long}\nlast"));
        let file = folder.path().join("shop/web/shop-web-0@1.log");
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.len() < BYTES_MAX && text.ends_with("1 out last\n"), "{}", text.len());
        for index in 2..10 {
            keep(&remains, "web", index, index, "");
        }
        assert_eq!(fs::read_dir(folder.path().join("shop/web")).unwrap().count(), CONTAINERS_MAX);
        assert!(!file.exists());
        for number in 0..ALLOCATIONS_MAX as u64 {
            keep(&remains, &format!("s{number}"), 1, 100 + number, "");
        }
        let all = shown(&remains);
        assert_eq!(all.len(), ALLOCATIONS_MAX);
        assert!(!all.iter().any(|(service, ..)| service == "shop/web"), "it is the oldest");
    }
}
