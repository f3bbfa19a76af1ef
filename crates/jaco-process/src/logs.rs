//! Logs to standard error, as text or JSON.

use std::fmt;

use anyhow::Context;
use clap::ValueEnum;
use serde::Deserialize;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::writer::MakeWriterExt;

/// Log format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Human-readable lines.
    Text,
    /// One JSON object per line.
    Json,
}

impl LogFormat {
    /// As users write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Sets up logging.
///
/// # Errors
/// When the level is not valid.
pub fn init(log_level: &str, log_format: LogFormat) -> anyhow::Result<()> {
    init_with(log_level, log_format, std::io::sink)
}

/// Sets up logging that `also` goes there.
///
/// # Errors
/// When the level is not valid.
pub fn init_with<M>(log_level: &str, log_format: LogFormat, also: M) -> anyhow::Result<()>
where
    M: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter(log_level)?)
        .with_writer(std::io::stderr.and(also))
        // A failed write to stderr would be reported on stderr, by a panic.
        .log_internal_errors(false);
    match log_format {
        LogFormat::Text => logs.with_ansi(false).init(),
        LogFormat::Json => logs.json().init(),
    }
    Ok(())
}

/// What is logged at a level as users write it.
///
/// # Errors
/// When the level is not valid.
pub fn filter(log_level: &str) -> anyhow::Result<EnvFilter> {
    // openraft warns of every message that an unreachable peer did not receive, many times a
    // second; leadership changes and nodes that are down are logged by the daemon itself.
    let filter = format!("openraft=error,sled=warn,{log_level}");
    EnvFilter::try_new(filter).with_context(|| {
        format!("configuration: log_level {log_level:?} is not valid: write a level as `info`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-FAULT-3: `--check` refuses a level that the daemon could not start with.
    #[test]
    fn a_level_that_cannot_be_read_is_named() {
        assert!(filter("info,jaco_raft=debug").is_ok());
        assert!(filter("[[[[").unwrap_err().to_string().contains("log_level"));
    }
}
