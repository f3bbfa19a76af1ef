//! `jacod.yaml`: the daemon's settings. Every key is documented here and in
//! `docs/configuration.md`; an unknown key is an error, so that a typo cannot go unnoticed.

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use jaco_controller::RebalanceOptions;
use jaco_raft::SnapshotLimits;
use jaco_server::archive::ArchiveLimits;
use jaco_types::Hostname;
use serde::Deserialize;

use crate::capacity::{Capacity, Reserve};
use crate::disk::Disks;
use crate::rebalancing::{RebalanceSettings, SamplerSettings};

/// The settings as they are written.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    /// What this node is called; the machine's host name if absent.
    pub(crate) node_name: Option<String>,
    /// Where all data lies. Local disk only.
    pub(crate) data_dir: PathBuf,
    /// Where secrets of containers lie while they run: in memory, so that no disk ever has them.
    pub(crate) secrets_dir: PathBuf,
    /// `ip:port` to listen on for peers and operators, over TLS.
    pub(crate) listen: String,
    /// `host:port` where peers reach this node; `listen` if absent.
    pub(crate) advertise: Option<String>,
    /// The unix socket for people on this machine.
    pub(crate) socket: PathBuf,
    /// The group whose members may use the socket; the daemon's own if absent.
    pub(crate) socket_group: Option<u32>,
    /// What runs the containers.
    pub(crate) engine: EngineKind,
    /// Where the Docker Engine answers.
    pub(crate) docker_host: String,
    /// How much is logged: `error`, `warn`, `info`, `debug`, or a filter per module.
    pub(crate) log_level: String,
    /// How it is logged.
    pub(crate) log_format: LogFormat,
    /// What the network between the nodes is like; sets raft's timeouts.
    pub(crate) network: Network,
    /// How the log of what was agreed on is kept.
    pub(crate) raft: RaftSettings,
    /// Labels of this node.
    pub(crate) labels: BTreeMap<String, String>,
    /// What replicas may take of this node; detected if absent.
    pub(crate) capacity: Capacity,
    /// What is kept back of that.
    pub(crate) reserve: Reserve,
    /// From when on a disk counts as full.
    pub(crate) disk: DiskSettings,
    /// When replicas leave hot nodes.
    pub(crate) rebalance: RebalanceSettings,
    /// What this node keeps of audit events that the cluster let go of.
    pub(crate) audit: AuditSettings,
}

/// What this node keeps of audit events that the cluster let go of.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AuditSettings {
    /// How much the files may take, in MiB; 0: there are none.
    pub(crate) archive_mebibytes: u64,
}

impl AuditSettings {
    /// Up to a TiB; with less than one file there is no room to write.
    const ARCHIVE_MEBIBYTES: RangeInclusive<u64> = 0..=1 << 20;
}

impl Default for AuditSettings {
    fn default() -> Self {
        Self { archive_mebibytes: ArchiveLimits::DEFAULT_TOTAL_BYTES >> 20 }
    }
}

/// From when on a disk counts as full: the node takes nothing new then.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct DiskSettings {
    /// From how much on, in hundredths of the disk; 0: never.
    pub(crate) full_percent: u64,
    /// Where the engine keeps images and containers; `data_dir` is looked at besides.
    pub(crate) engine_dir: PathBuf,
}

impl DiskSettings {
    /// No disk is fuller than full.
    const FULL_PERCENT: RangeInclusive<u64> = 0..=100;
}

impl Default for DiskSettings {
    /// 95: what is left of a small disk still holds the log while people make room.
    fn default() -> Self {
        Self { full_percent: 95, engine_dir: PathBuf::from("/var/lib/docker") }
    }
}

/// What runs the containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EngineKind {
    /// A Docker Engine.
    Docker,
    /// Nothing: containers are only pretended. For trying out and for tests.
    Fake,
}

/// How messages are logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// What the network between the nodes is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Network {
    /// One data centre: a new leader within a second.
    Lan,
    /// Several: four times as patient.
    Wan,
}

/// How the log of what was agreed on is kept.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RaftSettings {
    /// Entries from one snapshot to the next.
    pub(crate) snapshot_entries: u64,
}

impl RaftSettings {
    /// Fewer make a node busier with snapshots than with entries; more than this many take long to
    /// read again at a start, and much disk.
    const SNAPSHOT_ENTRIES: RangeInclusive<u64> = 100..=1_000_000;
}

impl Default for RaftSettings {
    fn default() -> Self {
        Self { snapshot_entries: SnapshotLimits::default().entries_between }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            node_name: None,
            data_dir: PathBuf::from("/var/lib/jaco"),
            secrets_dir: PathBuf::from("/run/jaco/secrets"),
            listen: "0.0.0.0:7000".to_owned(),
            advertise: None,
            socket: PathBuf::from("/run/jaco/jaco.sock"),
            socket_group: None,
            engine: EngineKind::Docker,
            docker_host: "unix:///var/run/docker.sock".to_owned(),
            log_level: "info".to_owned(),
            log_format: LogFormat::Text,
            network: Network::Lan,
            raft: RaftSettings::default(),
            labels: BTreeMap::new(),
            capacity: Capacity::default(),
            reserve: Reserve::default(),
            disk: DiskSettings::default(),
            rebalance: RebalanceSettings::default(),
            audit: AuditSettings::default(),
        }
    }
}

/// Why the daemon cannot start with these settings.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// The file cannot be read.
    #[error("configuration {} cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// It is not what it should be.
    #[error("configuration {} is not valid: {reason}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Where and why.
        reason: String,
    },
    /// A value cannot be used.
    #[error("configuration: {key}: {reason}")]
    Value {
        /// The key.
        key: &'static str,
        /// Why.
        reason: String,
    },
}

impl Config {
    /// Reads the file; an absent one at the default place means all defaults.
    ///
    /// # Errors
    /// When it cannot be read, or says something that is not understood.
    pub(crate) fn load(path: &Path, default_place: &Path) -> Result<Self, ConfigError> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && path == default_place => {
                return Ok(Self::default());
            }
            Err(source) => return Err(ConfigError::Read { path: path.to_owned(), source }),
        };
        Self::parse(&text).map_err(|reason| ConfigError::Parse { path: path.to_owned(), reason })
    }

    fn parse(text: &str) -> Result<Self, String> {
        // An empty file is a valid way to say "all defaults".
        if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
            return Ok(Self::default());
        }
        serde_saphyr::from_str(text).map_err(|error| error.to_string())
    }

    /// The node's name.
    ///
    /// # Errors
    /// When it is no host name.
    pub(crate) fn hostname(&self) -> Result<Hostname, ConfigError> {
        let name = match &self.node_name {
            Some(name) => name.clone(),
            None => rustix::system::uname().nodename().to_string_lossy().to_lowercase(),
        };
        Hostname::new(&name)
            .map_err(|error| ConfigError::Value { key: "node_name", reason: error.to_string() })
    }

    /// Where to listen.
    ///
    /// # Errors
    /// When it is no address of this machine's form.
    pub(crate) fn listen_address(&self) -> Result<SocketAddr, ConfigError> {
        let mut found = self.listen.to_socket_addrs().map_err(|error| ConfigError::Value {
            key: "listen",
            reason: format!("{:?} is not ip:port: {error}", self.listen),
        })?;
        found.next().ok_or_else(|| ConfigError::Value {
            key: "listen",
            reason: format!("{:?} names no address", self.listen),
        })
    }

    /// Where peers reach this node.
    ///
    /// # Errors
    /// When only a wildcard is known: nobody can be told to connect to `0.0.0.0`.
    pub(crate) fn advertised(&self) -> Result<String, ConfigError> {
        if let Some(address) = &self.advertise {
            return Ok(address.clone());
        }
        if self.listen_address()?.ip().is_unspecified() {
            return Err(ConfigError::Value {
                key: "advertise",
                reason: format!(
                    "set it to the host:port where the other nodes reach this one; `listen` is {}",
                    self.listen
                ),
            });
        }
        Ok(self.listen.clone())
    }

    /// When the log is made into a snapshot, and how much of it is kept behind: as much again, so
    /// that a node that was away for less than that needs no snapshot.
    ///
    /// # Errors
    /// When `raft.snapshot_entries` is out of bounds.
    pub(crate) fn snapshots(&self) -> Result<SnapshotLimits, ConfigError> {
        let (entries, bounds) = (self.raft.snapshot_entries, RaftSettings::SNAPSHOT_ENTRIES);
        if !bounds.contains(&entries) {
            let (least, most) = (bounds.start(), bounds.end());
            return Err(ConfigError::Value {
                key: "raft.snapshot_entries",
                reason: format!("{entries} is not between {least} and {most}"),
            });
        }
        let default = SnapshotLimits::default();
        let entries_kept = default.entries_kept.min(entries);
        Ok(SnapshotLimits { entries_between: entries, entries_kept, ..default })
    }

    /// The disks that are watched.
    ///
    /// # Errors
    /// When `disk.full_percent` is out of bounds.
    pub(crate) fn disks(&self) -> Result<Disks, ConfigError> {
        let (full_percent, bounds) = (self.disk.full_percent, DiskSettings::FULL_PERCENT);
        if !bounds.contains(&full_percent) {
            let (least, most) = (bounds.start(), bounds.end());
            return Err(ConfigError::Value {
                key: "disk.full_percent",
                reason: format!("{full_percent} is not between {least} and {most}"),
            });
        }
        let paths = match full_percent {
            0 => Vec::new(),
            _ => vec![self.data_dir.clone(), self.disk.engine_dir.clone()],
        };
        Ok(Disks { paths, full_percent })
    }

    /// How much the audit archive may take; none where there is to be no archive.
    ///
    /// # Errors
    /// When `audit.archive_mebibytes` is out of bounds.
    pub(crate) fn archive(&self) -> Result<Option<ArchiveLimits>, ConfigError> {
        let (size, bounds) = (self.audit.archive_mebibytes, AuditSettings::ARCHIVE_MEBIBYTES);
        if !bounds.contains(&size) {
            let (least, most) = (bounds.start(), bounds.end());
            return Err(ConfigError::Value {
                key: "audit.archive_mebibytes",
                reason: format!("{size} is not between {least} and {most}"),
            });
        }
        Ok((size > 0).then(|| ArchiveLimits::of(size << 20)))
    }

    /// When replicas leave hot nodes.
    ///
    /// # Errors
    /// When a key of `rebalance` is out of bounds.
    pub(crate) fn rebalance(&self) -> Result<RebalanceOptions, ConfigError> {
        self.rebalance.options()
    }

    /// How this node is measured.
    ///
    /// # Errors
    /// When a key of `rebalance` is out of bounds.
    pub(crate) fn sampler(&self) -> Result<SamplerSettings, ConfigError> {
        self.rebalance.sampler()
    }

    /// The socket of the Docker Engine.
    ///
    /// # Errors
    /// When `docker_host` is not a unix socket: the engine is this machine's own.
    pub(crate) fn docker_socket(&self) -> Result<PathBuf, ConfigError> {
        let path = self.docker_host.strip_prefix("unix://").map(PathBuf::from);
        path.filter(|path| path.is_absolute()).ok_or_else(|| ConfigError::Value {
            key: "docker_host",
            reason: format!("{:?} is not unix:///path/of/a/socket", self.docker_host),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_keys_are_errors_with_a_place() {
        let error = Config::parse("listen: 127.0.0.1:7000\nlisten_adress: x\n").unwrap_err();
        assert!(error.contains("listen_adress"), "{error}");
        assert!(error.contains("line 2"), "{error}");
    }

    #[test]
    fn an_empty_file_means_all_defaults() {
        let config = Config::parse("# nothing\n\n").unwrap();
        assert_eq!(config.listen, "0.0.0.0:7000");
        assert!(config.advertised().is_err(), "a wildcard cannot be advertised");
    }

    #[test]
    fn snapshots_are_bounded_on_both_sides() {
        let limits = |entries: u64| {
            let text = format!("raft: {{snapshot_entries: {entries}}}\n");
            Config::parse(&text).unwrap().snapshots().map_err(|error| error.to_string())
        };
        for entries in [100, 1_000_000] {
            let taken = limits(entries).unwrap();
            let kept = entries.min(SnapshotLimits::default().entries_kept);
            assert_eq!((taken.entries_between, taken.entries_kept), (entries, kept));
        }
        for entries in [0, 99, 1_000_001] {
            let refused = limits(entries).unwrap_err();
            assert!(refused.contains("raft.snapshot_entries"), "{refused}");
            assert!(refused.contains("between 100 and 1000000"), "{refused}");
        }
    }

    #[test]
    fn a_disk_is_full_within_bounds() {
        let disks = |percent: u64| {
            let text = format!("disk: {{full_percent: {percent}}}\n");
            Config::parse(&text).unwrap().disks().map_err(|error| error.to_string())
        };
        assert_eq!(disks(1).unwrap().full_percent, 1);
        assert!(disks(101).unwrap_err().contains("disk.full_percent"));
        assert!(disks(0).unwrap().paths.is_empty(), "no disk is looked at");
    }

    #[test]
    fn an_archive_has_bounds() {
        let archive = |mebibytes: u64| {
            let text = format!("audit: {{archive_mebibytes: {mebibytes}}}\n");
            Config::parse(&text).unwrap().archive().map_err(|error| error.to_string())
        };
        assert_eq!(archive(0), Ok(None));
        assert_eq!(archive(1).unwrap().unwrap().total_bytes, 1 << 20);
        assert!(archive((1 << 20) + 1).unwrap_err().contains("audit.archive_mebibytes"));
    }

    #[test]
    fn the_sample_configuration_says_the_defaults() {
        let sample = Config::parse(include_str!("../../../deploy/jacod.yaml")).unwrap();
        assert_eq!(format!("{sample:?}"), format!("{:?}", Config::default()));
    }
}
