//! Logs of containers.

use futures::stream::BoxStream;
use jaco_types::Timestamp;

use super::error::EngineError;

/// Selects lines of a container's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogQuery {
    /// Whether to follow the log.
    pub follow: Follow,
    /// Number of last lines; all if `None`.
    pub tail: Option<u64>,
    /// Only lines written since then.
    pub since: Option<Timestamp>,
}

/// Whether to follow the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Follow {
    /// End with the last existing line.
    No,
    /// End when the container exits.
    Yes,
}

/// One line of a container's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// Output stream.
    pub stream: LogStream,
    /// Time, if the engine records it.
    pub at: Option<Timestamp>,
    /// The line without its terminator; invalid UTF-8 is replaced.
    pub text: String,
}

/// Output stream of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogStream {
    /// Standard output; both streams with a terminal.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Lines of a container's log.
pub type LogLines = BoxStream<'static, Result<LogLine, EngineError>>;
