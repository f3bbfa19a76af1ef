//! Logs to standard error, as text or JSON.

use anyhow::Context;
use jaco_server::LogTail;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::MakeWriterExt;

use crate::config::LogFormat;

/// Sets up logging. Returns the end of the log, as it grows.
pub(crate) fn init(log_level: &str, log_format: LogFormat) -> anyhow::Result<LogTail> {
    let tail = LogTail::default();
    let own = tail.clone();
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter(log_level)?)
        .with_writer(std::io::stderr.and(move || own.clone()))
        // A failed write to stderr would be reported on stderr, by a panic.
        .log_internal_errors(false);
    match log_format {
        LogFormat::Text => logs.with_ansi(false).init(),
        LogFormat::Json => logs.json().init(),
    }
    Ok(tail)
}

/// What is logged at a level as users write it.
///
/// # Errors
/// When the level is not valid.
pub(crate) fn filter(log_level: &str) -> anyhow::Result<EnvFilter> {
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
