//! `jacod.yaml`: the daemon's settings. Every key is documented here and in
//! `docs/configuration.md`; an unknown key is an error, so that a typo cannot go unnoticed.

mod access_log;
mod acme;
mod capacity;
mod engine;
mod error;
mod metrics;
mod rebalance;
mod traces;
mod volume_classes;

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use jaco_acme::Authority;
use jaco_agent::images::StoreLimits;
use jaco_controller::RebalanceOptions;
use jaco_process::LogFormat;
use jaco_raft::SnapshotLimits;
use jaco_server::archive::ArchiveLimits;
use jaco_types::Hostname;
use serde::Deserialize;

use crate::disk::Disks;

pub(crate) use access_log::AccessLogSettings;
pub(crate) use acme::AcmeSettings;
pub(crate) use capacity::{Capacity, Reserve};
pub(crate) use error::ConfigError;
pub(crate) use metrics::MetricsSettings;
pub(crate) use rebalance::{RebalanceSettings, SamplerSettings};
pub(crate) use traces::TracingSettings;
pub(crate) use volume_classes::VolumeClassSettings;

/// The settings as written in the file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    /// Name of this node; the machine's host name if absent.
    pub(crate) node_name: Option<String>,
    /// Data directory. Local disk only.
    pub(crate) data_dir: PathBuf,
    /// Directory for secrets of running containers; tmpfs, so that they never reach a disk.
    pub(crate) secrets_dir: PathBuf,
    /// `ip:port` to listen on for peers and operators, over TLS.
    pub(crate) listen: String,
    /// `host:port` under which peers reach this node; `listen` if absent.
    pub(crate) advertise: Option<String>,
    /// Unix socket for operators on this machine.
    pub(crate) socket: PathBuf,
    /// Group that owns the socket; the daemon's own if absent.
    pub(crate) socket_group: Option<u32>,
    /// Container engine.
    pub(crate) engine: EngineKind,
    /// Socket of the Docker Engine.
    pub(crate) docker_host: String,
    /// Log level: `error`, `warn`, `info`, `debug`, or a filter per module.
    pub(crate) log_level: String,
    /// Log format.
    pub(crate) log_format: LogFormat,
    /// Network between the nodes; selects raft's timeouts.
    pub(crate) network: Network,
    /// Snapshots of the replicated log.
    pub(crate) raft: RaftSettings,
    /// Labels of this node.
    pub(crate) labels: BTreeMap<String, String>,
    /// Resources that replicas may use; detected if absent.
    pub(crate) capacity: Capacity,
    /// Part of the capacity that replicas may not use.
    pub(crate) reserve: Reserve,
    /// The classes of volumes that this node offers, by name.
    pub(crate) volume_classes: BTreeMap<String, VolumeClassSettings>,
    /// When a disk counts as full.
    pub(crate) disk: DiskSettings,
    /// Rebalancing of hot nodes.
    pub(crate) rebalance: RebalanceSettings,
    /// Files in which this node keeps evicted audit events.
    pub(crate) audit: AuditSettings,
    /// The images that users push.
    pub(crate) images: ImageSettings,
    /// The router, once the cluster has networks of its own.
    pub(crate) net: NetSettings,
    /// The edge, once there are routes.
    pub(crate) edge: EdgeSettings,
    /// Metrics for scrapers on this machine.
    pub(crate) metrics: MetricsSettings,
    /// The collector of traces; none if absent.
    pub(crate) tracing: Option<TracingSettings>,
    /// The file that this was read from, for processes that this daemon starts.
    #[serde(skip)]
    pub(crate) file: PathBuf,
}

/// The router, which joins the networks of this node's container engine to those of other nodes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct NetSettings {
    /// Folder of its namespace, key and socket, on a file system that ends with the machine's run.
    /// Daemons that share a container engine need the same.
    pub(crate) runtime_dir: PathBuf,
    /// UDP port of its tunnel.
    pub(crate) port: u16,
}

/// The edge, which takes requests from outside for services with routes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct EdgeSettings {
    /// User that it runs as; `jaco-edge`, or `nobody` where that is not there.
    pub(crate) user: Option<String>,
    /// Whom certificates of routes with `tls: auto` are ordered from.
    pub(crate) acme: AcmeSettings,
    /// Lines about requests; none if absent.
    pub(crate) access_log: Option<AccessLogSettings>,
}

impl NetSettings {
    /// Folder of the edge's sockets, beside that of the router, which the edge may not enter.
    pub(crate) fn edge_dir(&self) -> PathBuf {
        let mut dir = self.runtime_dir.as_os_str().to_owned();
        dir.push("-edge");
        dir.into()
    }
}

impl Default for NetSettings {
    fn default() -> Self {
        Self { runtime_dir: PathBuf::from("/run/jaco/net"), port: 51820 }
    }
}

/// Files in which this node keeps evicted audit events.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AuditSettings {
    /// Size limit of the files in MiB; 0 turns them off.
    pub(crate) archive_mebibytes: u64,
}

impl AuditSettings {
    /// At most 1 TiB; less than one file leaves no room to write.
    const ARCHIVE_MEBIBYTES: RangeInclusive<u64> = 0..=1 << 20;
}

impl Default for AuditSettings {
    fn default() -> Self {
        Self { archive_mebibytes: ArchiveLimits::DEFAULT_TOTAL_BYTES >> 20 }
    }
}

/// The store of images that users push.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ImageSettings {
    /// Size limit of the store in MiB.
    pub(crate) max_mebibytes: u64,
}

impl ImageSettings {
    /// At most 16 TiB.
    const MAX_MEBIBYTES: RangeInclusive<u64> = 1..=16 << 20;
}

impl Default for ImageSettings {
    fn default() -> Self {
        Self { max_mebibytes: 10 << 10 }
    }
}

/// When a disk counts as full; the node accepts no new replicas then.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct DiskSettings {
    /// Threshold in percent of the disk; 0 turns the check off.
    pub(crate) full_percent: u64,
    /// Directory of the engine's images and containers; `data_dir` is checked as well.
    pub(crate) engine_dir: PathBuf,
}

impl DiskSettings {
    const FULL_PERCENT: RangeInclusive<u64> = 0..=100;
}

impl Default for DiskSettings {
    /// 95 %: the rest of a small disk still holds the log while operators free space.
    fn default() -> Self {
        Self { full_percent: 95, engine_dir: PathBuf::from("/var/lib/docker") }
    }
}

/// Container engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EngineKind {
    /// A Docker Engine.
    Docker,
    /// Simulated containers, for evaluation and tests.
    Fake,
}

/// Network between the nodes; selects raft's timeouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Network {
    /// One data centre: a new leader within about a second.
    Lan,
    /// Several sites: longer timeouts.
    Wan,
}

/// Snapshots of the replicated log.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RaftSettings {
    /// Log entries between two snapshots.
    pub(crate) snapshot_entries: u64,
}

impl RaftSettings {
    /// Fewer entries make a node spend more on snapshots than on entries; more take long to replay
    /// at start-up and use much disk.
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
            volume_classes: BTreeMap::new(),
            disk: DiskSettings::default(),
            rebalance: RebalanceSettings::default(),
            audit: AuditSettings::default(),
            images: ImageSettings::default(),
            net: NetSettings::default(),
            edge: EdgeSettings::default(),
            metrics: MetricsSettings::default(),
            tracing: None,
            file: PathBuf::new(),
        }
    }
}

impl Config {
    /// Reads the file. A missing file at the default path means all defaults.
    ///
    /// # Errors
    /// When the file cannot be read or parsed.
    pub(crate) fn load(path: &Path, default_place: &Path) -> Result<Self, ConfigError> {
        let text = match Self::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && path == default_place => {
                return Ok(Self { file: path.to_owned(), ..Self::default() });
            }
            Err(source) => return Err(ConfigError::Read { path: path.to_owned(), source }),
        };
        let config = Self::parse(&text);
        let config =
            config.map_err(|reason| ConfigError::Parse { path: path.to_owned(), reason })?;
        Ok(Self { file: path.to_owned(), ..config })
    }

    /// A pipe or a device could keep the daemon waiting forever.
    fn read(path: &Path) -> std::io::Result<String> {
        if !std::fs::metadata(path)?.is_file() {
            return Err(std::io::Error::other("it is not a regular file"));
        }
        std::fs::read_to_string(path)
    }

    /// Checks every value that can be checked without the rest of the system.
    ///
    /// # Errors
    /// The first value that cannot be used.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        self.hostname()?;
        self.advertised()?;
        self.listen_address()?;
        self.snapshots()?;
        self.disks()?;
        self.archive()?;
        self.images()?;
        self.rebalance()?;
        self.sampler()?;
        self.acme()?;
        self.access_log()?;
        self.metrics_address()?;
        self.tracing()?;
        self.volume_classes()?;
        for (key, path) in [
            ("data_dir", &self.data_dir),
            ("secrets_dir", &self.secrets_dir),
            ("socket", &self.socket),
        ] {
            if path.as_os_str().is_empty() {
                let reason = "it is empty: write the path, or leave the key out".to_owned();
                return Err(ConfigError::Value { key, reason });
            }
        }
        Ok(())
    }

    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        // An empty file is a valid way to say "all defaults".
        if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
            return Ok(Self::default());
        }
        serde_saphyr::from_str(text).map_err(|error| error.to_string())
    }

    /// The host name of this node.
    ///
    /// # Errors
    /// When it is not a valid host name.
    pub(crate) fn hostname(&self) -> Result<Hostname, ConfigError> {
        let name = match &self.node_name {
            Some(name) => name.clone(),
            None => rustix::system::uname().nodename().to_string_lossy().to_lowercase(),
        };
        Hostname::new(&name)
            .map_err(|error| ConfigError::Value { key: "node_name", reason: error.to_string() })
    }

    /// The address to listen on.
    ///
    /// # Errors
    /// When it is not `ip:port`.
    pub(crate) fn listen_address(&self) -> Result<SocketAddr, ConfigError> {
        let mut found = self.listen.to_socket_addrs().map_err(|error| ConfigError::Value {
            key: "listen",
            reason: format!("{:?} is not ip:port: {error}", self.listen),
        })?;
        found.next().ok_or_else(|| ConfigError::Value {
            key: "listen",
            reason: format!("{:?} resolves to no address", self.listen),
        })
    }

    /// The address under which peers reach this node.
    ///
    /// # Errors
    /// When only a wildcard is known: peers cannot connect to `0.0.0.0`.
    pub(crate) fn advertised(&self) -> Result<String, ConfigError> {
        if let Some(address) = &self.advertise {
            let port = address.rsplit_once(':').filter(|(host, _)| is_host(host));
            let port = port.and_then(|(_, port)| port.parse::<u16>().ok());
            return match port {
                Some(1..) => Ok(address.clone()),
                Some(0) | None => Err(ConfigError::Value {
                    key: "advertise",
                    reason: format!("{address:?} is not host:port: write it as in 10.0.0.1:7000"),
                }),
            };
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

    /// When a snapshot is taken, and how many entries are kept behind it.
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

    /// The disks to watch.
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

    /// Limits of the store of pushed images.
    ///
    /// # Errors
    /// When `images.max_mebibytes` is out of bounds.
    pub(crate) fn images(&self) -> Result<StoreLimits, ConfigError> {
        let (size, bounds) = (self.images.max_mebibytes, ImageSettings::MAX_MEBIBYTES);
        if !bounds.contains(&size) {
            let (least, most) = (bounds.start(), bounds.end());
            return Err(ConfigError::Value {
                key: "images.max_mebibytes",
                reason: format!("{size} is not between {least} and {most}"),
            });
        }
        Ok(StoreLimits { bytes_max: size << 20 })
    }

    /// Size limit of the audit archive; `None` turns it off.
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

    /// Rebalancing of hot nodes.
    ///
    /// # Errors
    /// When a key of `rebalance` is out of bounds.
    pub(crate) fn rebalance(&self) -> Result<RebalanceOptions, ConfigError> {
        self.rebalance.options()
    }

    /// How this node's resource usage is sampled.
    ///
    /// # Errors
    /// When a key of `rebalance` is out of bounds.
    pub(crate) fn sampler(&self) -> Result<SamplerSettings, ConfigError> {
        self.rebalance.sampler()
    }

    /// Whom certificates of routes are ordered from.
    ///
    /// # Errors
    /// When a key of `edge.acme` cannot be used.
    pub(crate) fn acme(&self) -> Result<Authority, ConfigError> {
        self.edge.acme.authority()
    }

    /// The socket of the Docker Engine.
    ///
    /// # Errors
    /// When `docker_host` is not a unix socket: the engine must be on this machine.
    pub(crate) fn docker_socket(&self) -> Result<PathBuf, ConfigError> {
        let path = self.docker_host.strip_prefix("unix://").map(PathBuf::from);
        path.filter(|path| path.is_absolute()).ok_or_else(|| ConfigError::Value {
            key: "docker_host",
            reason: format!("{:?} is not unix:///path/of/a/socket", self.docker_host),
        })
    }
}

/// Whether peers can connect to it: a name, an IPv4 address, or an IPv6 address in brackets.
fn is_host(host: &str) -> bool {
    if let Some(address) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        return address.parse::<std::net::Ipv6Addr>().is_ok();
    }
    let of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    !host.is_empty() && host.len() <= 253 && host.bytes().all(of_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-FAULT-3: what `--check` passes can be started with.
    #[test]
    fn nonsense_is_refused() {
        let good = "advertise: \"n1:1\"\n";
        Config::parse(good).unwrap().check().unwrap();
        for (key, line) in [
            ("disk.full_percent", "disk: {full_percent: 200}"),
            ("data_dir", "data_dir: \"\""),
            ("socket", "socket: \"\""),
            ("audit.archive_mebibytes", "audit: {archive_mebibytes: 99999999}"),
            ("images.max_mebibytes", "images: {max_mebibytes: 99999999}"),
            ("listen", "listen: \"nowhere\""),
            ("metrics.listen", "metrics: {listen: \"10.0.0.1:9464\"}"),
            ("tracing.otlp", "tracing: {otlp: nowhere}"),
        ] {
            let refused = Config::parse(&format!("{good}{line}\n")).unwrap().check().unwrap_err();
            assert!(refused.to_string().contains(key), "{refused}");
        }
    }

    /// R-FAULT-3: a pipe that nobody writes to does not keep the daemon waiting.
    #[test]
    fn a_pipe_is_no_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jacod.yaml");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::from_raw_mode(0o600))
            .unwrap();
        let refused = Config::load(&path, Path::new("/none")).unwrap_err();
        let why = std::error::Error::source(&refused).unwrap().to_string();
        assert!(why.contains("not a regular file"), "{why}");
    }

    #[test]
    fn unknown_key_is_reported_with_its_line() {
        let error = Config::parse("listen: 127.0.0.1:7000\nlisten_adress: x\n").unwrap_err();
        assert!(error.contains("listen_adress"), "{error}");
        assert!(error.contains("line 2"), "{error}");
    }

    #[test]
    fn empty_file_means_defaults() {
        let config = Config::parse("# nothing\n\n").unwrap();
        assert_eq!(config.listen, "0.0.0.0:7000");
        assert!(config.advertised().is_err(), "a wildcard cannot be advertised");
    }

    /// What is advertised becomes the command that new nodes join with: it needs a port.
    #[test]
    fn advertised_address_has_a_port() {
        let advertised = |address: &str| {
            let config = Config::parse(&format!("advertise: {address:?}\n")).unwrap();
            config.advertised().map_err(|error| error.to_string())
        };
        for address in ["10.0.0.1:7000", "n1.example:7000", "[fd00::1]:7000"] {
            assert_eq!(advertised(address).as_deref(), Ok(address));
        }
        for address in
            ["10.0.0.1", "n1:", "n1:0", ":7000", "n1:70000", "a b:1", "fd00::1:7000", "[x]:1"]
        {
            let refused = advertised(address).unwrap_err();
            assert!(refused.contains("advertise") && refused.contains("host:port"), "{refused}");
        }
    }

    #[test]
    fn snapshot_entries_has_bounds() {
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
    fn full_percent_has_bounds() {
        let disks = |percent: u64| {
            let text = format!("disk: {{full_percent: {percent}}}\n");
            Config::parse(&text).unwrap().disks().map_err(|error| error.to_string())
        };
        assert_eq!(disks(1).unwrap().full_percent, 1);
        assert!(disks(101).unwrap_err().contains("disk.full_percent"));
        assert!(disks(0).unwrap().paths.is_empty(), "no disk is checked");
    }

    #[test]
    fn archive_size_has_bounds() {
        let archive = |mebibytes: u64| {
            let text = format!("audit: {{archive_mebibytes: {mebibytes}}}\n");
            Config::parse(&text).unwrap().archive().map_err(|error| error.to_string())
        };
        assert_eq!(archive(0), Ok(None));
        assert_eq!(archive(1).unwrap().unwrap().total_bytes, 1 << 20);
        assert!(archive((1 << 20) + 1).unwrap_err().contains("audit.archive_mebibytes"));
    }

    #[test]
    fn sample_configuration_equals_defaults() {
        let sample = Config::parse(include_str!("../../../../deploy/jacod.yaml")).unwrap();
        assert_eq!(format!("{sample:?}"), format!("{:?}", Config::default()));
    }
}
