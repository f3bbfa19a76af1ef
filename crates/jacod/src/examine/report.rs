//! The report that `jaco doctor --offline` reads.

use std::fmt;
use std::path::Path;

use serde::Serialize;

/// What was found in all data directories.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Of several the one whose log goes furthest.
    pub(crate) most_advanced: Option<String>,
    pub(crate) data_dirs: Vec<DataDir>,
}

/// What was found in one data directory.
#[derive(Debug, Default, Serialize)]
pub(crate) struct DataDir {
    pub(crate) data_dir: String,
    pub(crate) cluster: Option<String>,
    pub(crate) cluster_name: Option<String>,
    pub(crate) node_id: Option<u64>,
    /// Its host name.
    pub(crate) node: Option<String>,
    /// When a file of the log was last written.
    pub(crate) written_at_ms: Option<u64>,
    /// Its log; absent where that cannot be read.
    pub(crate) log: Option<Log>,
    /// The last entry that each whole snapshot covers.
    pub(crate) snapshots: Vec<u64>,
    pub(crate) problems: Vec<Problem>,
    /// What it lacks of the most advanced one.
    pub(crate) lacks: Option<Commands>,
}

/// How far a log goes.
#[derive(Debug, Serialize)]
pub(crate) struct Log {
    /// Whether it has ever received anything of its cluster.
    pub(crate) is_member: bool,
    pub(crate) term: u64,
    pub(crate) position: String,
    pub(crate) committed: Option<u64>,
    pub(crate) applied: Option<u64>,
    pub(crate) snapshot: Option<u64>,
    pub(crate) purged: Option<u64>,
    /// What is not known to be committed.
    pub(crate) unconfirmed: Commands,
    pub(crate) is_voter: bool,
    pub(crate) voters: Vec<String>,
    pub(crate) learners: Vec<String>,
}

/// Commands in short.
#[derive(Debug, Serialize)]
pub(crate) struct Commands {
    pub(crate) count: usize,
    pub(crate) of_users: usize,
    /// The newest ones of users.
    pub(crate) newest: Vec<Command>,
    /// Whether there are no earlier ones that the log does not have any more.
    pub(crate) is_complete: bool,
}

impl fmt::Display for Commands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let least = if self.is_complete { "" } else { "at least " };
        write!(f, "{least}{} commands, {} of users", self.count, self.of_users)?;
        for Command { index, by, name, .. } in &self.newest {
            write!(f, "; {index} {name} by {by}")?;
        }
        Ok(())
    }
}

/// A command of a user.
#[derive(Debug, Serialize)]
pub(crate) struct Command {
    pub(crate) index: u64,
    pub(crate) at_ms: u64,
    pub(crate) by: String,
    pub(crate) name: String,
}

/// Something that is damaged or missing.
#[derive(Debug, Serialize)]
pub(crate) struct Problem {
    /// `log`, `snapshot`, `identity`, `kek`.
    check: &'static str,
    file: String,
    message: String,
    help: &'static str,
    /// Whether the daemon cannot go on with it.
    is_fatal: bool,
}

const REJOIN: &str =
    "its membership cannot go on: jacod rejoin on this node has it join again as a new one";
const JOIN_ANEW: &str = "it cannot prove who it is: jaco node rm NODE --force on another member, an empty data_dir, and jaco cluster join";
const COPY_CA: &str =
    "copy node/ca.crt from another member, mode 0600: it is the same on all of them";
const COPY_KEK: &str = "copy node/kek from another member, mode 0600";

impl Problem {
    /// The log, without which the node cannot be a member.
    pub(super) fn log(file: &Path, message: &str) -> Self {
        Self::new("log", file, message, REJOIN, true)
    }

    /// A file that the node can go on without.
    pub(super) fn spare(file: &Path, message: &str) -> Self {
        let help = "nothing, if the log is whole: the next one replaces it";
        Self::new("snapshot", file, message, help, false)
    }

    /// The key or the certificate that makes the node a member.
    pub(super) fn identity(file: &Path, message: &str) -> Self {
        Self::new("identity", file, message, JOIN_ANEW, true)
    }

    /// The certificate of the cluster's authority.
    pub(super) fn authority(file: &Path, message: &str) -> Self {
        Self::new("identity", file, message, COPY_CA, true)
    }

    /// What names the log that belongs to the node.
    pub(super) fn log_name(file: &Path, message: &str) -> Self {
        Self::new("identity", file, message, REJOIN, true)
    }

    /// The key-encryption key.
    pub(super) fn kek(file: &Path, message: &str) -> Self {
        Self::new("kek", file, message, COPY_KEK, true)
    }

    /// The key that replaces it in a rotation.
    pub(super) fn next_kek(file: &Path, message: &str) -> Self {
        let help = "remove it: the other members hand it out again";
        Self::new("kek", file, message, help, true)
    }

    /// Whether it explains why a log cannot be opened at all.
    pub(super) fn is_of_log_identity(&self) -> bool {
        self.check == "log" && self.file.ends_with("/identity")
    }

    fn new(
        check: &'static str,
        file: &Path,
        message: &str,
        help: &'static str,
        is_fatal: bool,
    ) -> Self {
        let (file, message) = (file.display().to_string(), message.to_owned());
        Self { check, file, message, help, is_fatal }
    }
}
