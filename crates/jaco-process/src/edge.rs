//! What the process of the edge is started with.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::Args;

use crate::logs::LogFormat;

/// The program of the edge, beside that of the daemon.
pub const EDGE_PROGRAM: &str = "jacod-edge";

/// What the process is started with. It reads no file of the daemon's: it may not.
#[derive(Debug, Clone, Args)]
pub struct EdgeArgs {
    /// Folder of its sockets
    #[arg(long, default_value = "/run/jaco/net-edge")]
    pub runtime_dir: PathBuf,
    /// Network namespace to move to first: that of the router. Needs CAP_SYS_ADMIN; a service manager can do it instead
    #[arg(long)]
    pub namespace: Option<PathBuf>,
    /// User to become if started as root [default: jaco-edge, or nobody]
    #[arg(long)]
    pub user: Option<String>,
    /// Log level, or a filter per module
    #[arg(long, default_value = "info")]
    pub log_level: String,
    /// Log format
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    /// Write a line of JSON to standard output for one of so many requests, unless a daemon names a file
    #[arg(long, value_name = "ONE_IN")]
    pub access_log: Option<NonZeroU32>,
}
