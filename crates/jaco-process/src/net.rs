//! What the process of the router is started with.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::logs::LogFormat;

/// The program of the router, beside that of the daemon.
pub const NET_PROGRAM: &str = "jacod-net";

/// What the process is started with: what the daemon's configuration says of it, which it does not read itself.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct NetArgs {
    /// The daemon's configuration file: it says whose router this is
    #[arg(long)]
    pub config: PathBuf,
    /// Folder of its namespace, its key and its socket
    #[arg(long)]
    pub runtime_dir: PathBuf,
    /// UDP port of the tunnel
    #[arg(long)]
    pub port: u16,
    /// Socket at which the edge takes its listeners
    #[arg(long)]
    pub edge_socket: PathBuf,
    /// Log level, or a filter per module
    #[arg(long)]
    pub log_level: String,
    /// Log format
    #[arg(long, value_enum)]
    pub log_format: LogFormat,
}

impl NetArgs {
    /// The options that say the same.
    #[must_use]
    pub fn options(&self) -> Vec<OsString> {
        let say = |option: &str, value: OsString| [option.into(), value];
        [
            say("--config", self.config.clone().into()),
            say("--runtime-dir", self.runtime_dir.clone().into()),
            say("--port", self.port.to_string().into()),
            say("--edge-socket", self.edge_socket.clone().into()),
            say("--log-level", self.log_level.clone().into()),
            say("--log-format", self.log_format.as_str().into()),
        ]
        .concat()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        args: NetArgs,
    }

    #[test]
    fn the_options_say_the_same() {
        let args = NetArgs {
            config: "/etc/jaco/jacod.yaml".into(),
            runtime_dir: "/run/jaco/net".into(),
            port: 7001,
            edge_socket: "/run/jaco/net-edge/listeners".into(),
            log_level: "debug,jaco_net=trace".to_owned(),
            log_format: LogFormat::Json,
        };
        let line = [vec![NET_PROGRAM.into()], args.options()].concat();
        assert_eq!(Program::parse_from(line).args, args);
    }
}
