//! Converts Docker's errors. Docker's messages are kept verbatim.

use bollard::errors::Error;
use jaco_agent::engine::{EngineError, PullError};

/// Not found.
pub(crate) const NOT_FOUND: u16 = 404;
/// A name is taken, or the state does not allow the operation.
pub(crate) const CONFLICT: u16 = 409;
/// Internal error, for any cause.
pub(crate) const SERVER_ERROR: u16 = 500;
/// Nothing to do.
pub(crate) const NOT_MODIFIED: u16 = 304;

/// Status and message of a refusal; `None` if there was no response.
pub(crate) fn refusal(error: &Error) -> Option<(u16, &str)> {
    if let Error::DockerResponseServerError { status_code, message } = error {
        Some((*status_code, message))
    } else {
        None
    }
}

/// Status of a refusal; `None` if there was no response.
pub(crate) fn status(error: &Error) -> Option<u16> {
    refusal(error).map(|(status, _)| status)
}

/// A refusal keeps Docker's message; anything else means that Docker is unreachable.
pub(crate) fn engine_error(error: Error) -> EngineError {
    if let Error::DockerStreamError { error: reason } = error {
        return EngineError::Refused { reason };
    }
    match refusal(&error) {
        Some((_, reason)) => EngineError::Refused { reason: reason.to_owned() },
        None => EngineError::Unreachable { reason: unanswered(&error) },
    }
}

pub(crate) fn pull_error(error: EngineError) -> PullError {
    match error {
        EngineError::Unreachable { reason } => PullError::Unreachable { reason },
        EngineError::Refused { reason } => PullError::Refused { reason },
    }
}

/// Treats these statuses as success: the operation was done before.
pub(crate) fn allow(result: Result<(), Error>, fine: &[u16]) -> Result<(), EngineError> {
    match result {
        Ok(()) => Ok(()),
        Err(error) if status(&error).is_some_and(|status| fine.contains(&status)) => Ok(()),
        Err(error) => Err(engine_error(error)),
    }
}

/// Why there was no response: the innermost cause. What the libraries in between add names themselves only.
fn unanswered(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    format!("the Docker Engine does not answer: {cause}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error of a library, with a cause.
    #[derive(Debug, thiserror::Error)]
    #[error("Error in the hyper legacy client: client error (Connect)")]
    struct Library(#[source] std::io::Error);

    #[test]
    fn unreachable_engine_is_told_by_its_cause() {
        let cause = std::io::Error::other("No such file or directory");
        let expected = "the Docker Engine does not answer: No such file or directory";
        assert_eq!(unanswered(&Library(cause)), expected);
    }
}
