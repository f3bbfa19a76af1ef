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
        EngineError::Refused { reason } if is_unanswered(&reason) => {
            PullError::Unanswered { reason }
        }
        EngineError::Refused { reason } => PullError::Refused { reason },
    }
}

/// Whether the engine could not ask a registry, or that was too busy, as far as its message says: these are words of Go's
/// `net` and `net/http`, and of HTTP. A name that does not exist is an answer.
fn is_unanswered(reason: &str) -> bool {
    const WORDS: [&str; 13] = [
        "Client.Timeout exceeded",
        "TLS handshake timeout",
        "connection refused",
        "connection reset by peer",
        "context deadline exceeded",
        "i/o timeout",
        "network is unreachable",
        "no route to host",
        "server misbehaving",
        "unexpected EOF",
        "502 Bad Gateway",
        "503 Service Unavailable",
        "504 Gateway Timeout",
    ];
    WORDS.iter().any(|words| reason.contains(words))
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

    /// R-ROLL-4: what tells nothing about an image is no refusal of it. Messages of Docker 20.10 and 28.
    #[test]
    fn a_registry_that_does_not_answer_refuses_nothing() {
        let of = |reason: &str| pull_error(EngineError::Refused { reason: reason.to_owned() });
        for reason in [
            "Get \"https://registry-1.docker.io/v2/\": net/http: request canceled while waiting for connection \
             (Client.Timeout exceeded while awaiting headers)",
            "Get \"https://r:5000/v2/\": dial tcp 10.0.0.1:5000: connect: connection refused",
            "Get \"https://r/v2/\": dial tcp: lookup r on 10.0.0.53:53: read udp: i/o timeout",
            "Get \"https://r/v2/\": dial tcp: lookup r on 10.0.0.53:53: server misbehaving",
            "received unexpected HTTP status: 503 Service Unavailable",
        ] {
            assert_eq!(of(reason), PullError::Unanswered { reason: reason.to_owned() });
        }
        for reason in [
            "manifest for nginx:9 not found: manifest unknown: manifest unknown",
            "pull access denied for x, repository does not exist or may require 'docker login'",
            "Get \"https://no.example/v2/\": dial tcp: lookup no.example on 10.0.0.53:53: no such host",
        ] {
            assert_eq!(of(reason), PullError::Refused { reason: reason.to_owned() });
        }
    }

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
