//! What `jaco dev up` started, kept so that `down`, `nodes` and `env` find it.
//!
//! Lies in the user's state folder, whatever folder the data is in. Written before and after each
//! start, so that nothing runs that is not written down.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A development cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its name.
    pub name: String,
    /// What runs its containers.
    pub engine: String,
    /// Everything of it lies below.
    pub data: PathBuf,
    /// Its nodes, in order.
    pub nodes: Vec<NodeRecord>,
}

/// One node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Its host name.
    pub name: String,
    /// Where it listens, `ip:port`.
    pub address: String,
    /// Where it listens for people.
    pub socket: PathBuf,
    /// Its configuration; in its command line, which is how its process is known again.
    pub config: PathBuf,
    /// What it says.
    pub log: PathBuf,
    /// Its process, once there is one.
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
    /// What is written down in `folder`, or nothing.
    ///
    /// # Errors
    /// When it cannot be read or is not what it should be.
    pub fn load(folder: &Path) -> io::Result<Option<Self>> {
        match fs::read(folder.join(FILE)) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes it down, whole.
    ///
    /// # Errors
    /// When the disk refuses.
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
    fn what_is_written_is_read() {
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
