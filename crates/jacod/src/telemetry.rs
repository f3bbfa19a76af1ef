//! Logs to standard error, for people or as JSON.

use anyhow::Context;
use tracing_subscriber::EnvFilter;

use crate::config::{Config, LogFormat};

/// Begins to log as configured.
pub(crate) fn init(config: &Config) -> anyhow::Result<()> {
    // The consensus library warns of every message that an absent peer did not take, many times a
    // second; who leads and who is down is told by the daemon itself.
    let filter = format!("openraft=error,sled=warn,{}", config.log_level);
    let filter = EnvFilter::try_new(filter)
        .with_context(|| format!("log_level {:?} is not understood", config.log_level))?;
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // A line that cannot be written would be complained about on the same stream, by a panic.
        .log_internal_errors(false);
    match config.log_format {
        LogFormat::Text => logs.with_ansi(false).init(),
        LogFormat::Json => logs.json().init(),
    }
    Ok(())
}
