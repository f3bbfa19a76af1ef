//! Docker's errors in the agent's words. What Docker says is kept as it says it.

use std::error::Error as _;

use bollard::errors::Error;
use jaco_agent::engine::{EngineError, PullError};

/// Docker's status for what is not there.
pub(crate) const NOT_FOUND: u16 = 404;
/// Docker's status for a name that is taken, or a state that does not allow it.
pub(crate) const CONFLICT: u16 = 409;
/// Docker's status for what it could not do, whatever the cause.
pub(crate) const SERVER_ERROR: u16 = 500;
/// Docker's status for what is as it should be already.
pub(crate) const NOT_MODIFIED: u16 = 304;

/// The status and the words of a refusal; `None` where there was no answer.
pub(crate) fn refusal(error: &Error) -> Option<(u16, &str)> {
    if let Error::DockerResponseServerError { status_code, message } = error {
        Some((*status_code, message))
    } else {
        None
    }
}

/// The status of a refusal; `None` where there was no answer.
pub(crate) fn status(error: &Error) -> Option<u16> {
    refusal(error).map(|(status, _)| status)
}

/// A refusal keeps Docker's own words; anything else means that it did not answer.
pub(crate) fn engine_error(error: Error) -> EngineError {
    if let Error::DockerStreamError { error: reason } = error {
        return EngineError::Refused { reason };
    }
    match refusal(&error) {
        Some((_, reason)) => EngineError::Refused { reason: reason.to_owned() },
        None => EngineError::Unreachable { reason: chain(&error) },
    }
}

pub(crate) fn pull_error(error: EngineError) -> PullError {
    match error {
        EngineError::Unreachable { reason } => PullError::Unreachable { reason },
        EngineError::Refused { reason } => PullError::Refused { reason },
    }
}

/// The outcome of something that is fine if it is done already.
pub(crate) fn allow(result: Result<(), Error>, fine: &[u16]) -> Result<(), EngineError> {
    match result {
        Ok(()) => Ok(()),
        Err(error) if status(&error).is_some_and(|status| fine.contains(&status)) => Ok(()),
        Err(error) => Err(engine_error(error)),
    }
}

fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        source = inner.source();
    }
    text
}
