//! The daemon's log: on standard error, and its end for who asks.

use jaco_process::{LogFormat, init_with};
use jaco_server::LogTail;

/// Sets up logging. Returns the end of the log, as it grows.
pub(crate) fn init(log_level: &str, log_format: LogFormat) -> anyhow::Result<LogTail> {
    let tail = LogTail::default();
    let own = tail.clone();
    init_with(log_level, log_format, move || own.clone())?;
    Ok(tail)
}
