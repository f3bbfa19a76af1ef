//! Errors of the configuration.

use std::path::PathBuf;

/// Why the daemon cannot start with this configuration.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// The file cannot be read.
    #[error("configuration {} cannot be read", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// Syntax error, unknown key or wrong type.
    #[error("configuration {} is not valid: {reason}", path.display())]
    Parse {
        /// Path of the file.
        path: PathBuf,
        /// Position and reason.
        reason: String,
    },
    /// A value is out of bounds or malformed.
    #[error("configuration: {key}: {reason}")]
    Value {
        /// Full name of the key.
        key: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}
