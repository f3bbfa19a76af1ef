//! The options that every command takes.

use std::path::PathBuf;

use clap::Args;

use crate::output::{Format, Verbosity};

/// Global options.
///
/// The cluster is chosen in this order: --server, --socket or --context; the environment; the current
/// context; the socket of this machine's daemon.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct GlobalOptions {
    /// Output format: table, wide, json or yaml
    #[arg(
        short,
        long,
        global = true,
        value_name = "FORMAT",
        value_enum,
        default_value_t,
        hide_possible_values = true,
        help_heading = "Global options"
    )]
    pub output: Format,
    /// Print results and errors only
    #[arg(short, long, global = true, help_heading = "Global options")]
    pub quiet: bool,
    /// Connect to these nodes over TLS: host:port[,host:port…] [env: JACO_SERVER]
    #[arg(
        long,
        global = true,
        value_name = "HOST:PORT",
        value_delimiter = ',',
        conflicts_with = "socket",
        help_heading = "Global options"
    )]
    pub server: Vec<String>,
    /// Connect to the daemon at this unix socket [env: JACO_SOCKET]
    #[arg(long, global = true, value_name = "PATH", help_heading = "Global options")]
    pub socket: Option<PathBuf>,
    /// Connect to the cluster of this context [env: JACO_CONTEXT]
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        conflicts_with_all = ["server", "socket"],
        help_heading = "Global options"
    )]
    pub context: Option<String>,
    /// With --server: the cluster's CA certificate, PEM [env: JACO_CA_CERT]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    pub ca_cert: Option<PathBuf>,
    /// With --server: a file with the operator token, `-` for stdin [env: JACO_TOKEN, the token]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    pub token_file: Option<PathBuf>,
    /// With --server: a client certificate instead of a token, PEM [env: JACO_CLIENT_CERT]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    pub client_cert: Option<PathBuf>,
    /// With --client-cert: its private key, PEM, which only its owner can read [env: JACO_CLIENT_KEY]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    pub client_key: Option<PathBuf>,
}

impl GlobalOptions {
    /// What is printed besides results and errors.
    pub(crate) fn verbosity(&self) -> Verbosity {
        if self.quiet { Verbosity::Quiet } else { Verbosity::Normal }
    }
}
