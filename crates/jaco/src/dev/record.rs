//! The record of a development cluster, which `jaco dev up` writes for `down`, `ls` and `env`.
//!
//! It is in the user's state folder, wherever the data is. It is written before and after each start, so
//! that no daemon runs without a record.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A development cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The name given with `--name`.
    pub name: String,
    /// The container engine.
    pub engine: String,
    /// The folder of its data.
    pub data: PathBuf,
    /// The nodes, in order.
    pub nodes: Vec<NodeRecord>,
}

/// One node of a development cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// The host name.
    pub name: String,
    /// The listen address, `ip:port`.
    pub address: String,
    /// The socket for the command line.
    pub socket: PathBuf,
    /// The configuration file; its path in the command line identifies the process.
    pub config: PathBuf,
    /// The log file.
    pub log: PathBuf,
    /// The pid, once it was started.
    pub pid: Option<u32>,
}

/// The folder of cluster `name`: `$XDG_STATE_HOME/jaco/dev/<name>`, else below `~/.local/state`.
#[must_use]
pub fn folder(name: &str) -> Option<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    let base = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).or_else(home)?;
    Some(base.join("jaco/dev").join(name))
}

impl Record {
    /// Reads the record in `folder`; `None` if there is none.
    ///
    /// # Errors
    /// If it cannot be read or is malformed.
    pub fn load(folder: &Path) -> io::Result<Option<Self>> {
        match fs::read(folder.join(FILE)) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces the record atomically.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn save(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        let temporary = folder.join(".cluster.json.tmp");
        fs::write(&temporary, format!("{:#}\n", serde_json::to_value(self)?))?;
        fs::rename(temporary, folder.join(FILE))
    }
}

const FILE: &str = "cluster.json";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saved_record_is_loaded() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Record::load(folder.path()).unwrap(), None);
        let node = NodeRecord {
            name: "n1".to_owned(),
            address: "127.1.2.1:7000".to_owned(),
            socket: "/x/n1/jaco.sock".into(),
            config: "/x/n1/jacod.yaml".into(),
            log: "/x/n1/jacod.log".into(),
            pid: Some(7),
        };
        let record = Record {
            name: "dev".to_owned(),
            engine: "fake".to_owned(),
            data: "/x".into(),
            nodes: vec![node],
        };
        record.save(folder.path()).unwrap();
        assert_eq!(Record::load(folder.path()).unwrap(), Some(record));
    }
}
