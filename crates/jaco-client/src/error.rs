//! Why a call failed. Every failure has a code of the closed set, also when no daemon was reached.

use std::io;

use jaco_pki::DialError;
use jaco_proto::v1;
use jaco_types::code::ExitCode;
use jaco_types::{ErrorCode, Rejection};
use prost::Message;
use tonic::{Code, Status};

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The cluster refused it.
    #[error("{}", .0.message)]
    Refused(Rejection),
    /// No node could be connected to.
    #[error("no connection to {endpoint}")]
    NoConnection {
        /// The socket or server, the last one tried.
        endpoint: String,
        /// The cause.
        #[source]
        source: ConnectError,
    },
    /// The connection was lost, or the other side is no daemon. A write may have taken effect.
    #[error("connection to {endpoint} was lost")]
    Lost {
        /// The socket or server.
        endpoint: String,
        /// The cause.
        #[source]
        source: TransportError,
    },
    /// No response before the deadline. A write may have taken effect.
    #[error("no answer from {endpoint} within {} s", .limit.as_millis().div_ceil(1000))]
    TimedOut {
        /// The socket or server.
        endpoint: String,
        /// The deadline.
        limit: std::time::Duration,
    },
}

/// Why a connection could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The unix socket.
    #[error(transparent)]
    Socket(io::Error),
    /// TCP or TLS.
    #[error(transparent)]
    Tls(DialError),
    /// The HTTP/2 handshake failed.
    #[error(transparent)]
    Protocol(TransportError),
    /// The node closed the connection because of the client certificate that was shown to it.
    #[error(transparent)]
    Certificate(TransportError),
}

/// An error of the transport: a text, because programs need no more than the code.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TransportError(pub(crate) String);

impl ClientError {
    /// The code that users see.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Refused(rejection) => rejection.code,
            Self::NoConnection { source, .. } => source.code(),
            Self::Lost { .. } => ErrorCode::Unavailable,
            Self::TimedOut { .. } => ErrorCode::TimedOut,
        }
    }

    /// The exit code of a command that fails with it (R-CLI-7). The deadline of a call means that the
    /// cluster is unreachable; it is not the user's own `--timeout`.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::TimedOut { .. } => ExitCode::Unreachable,
            Self::Refused(_) | Self::NoConnection { .. } | Self::Lost { .. } => {
                self.code().exit_code()
            }
        }
    }

    /// The refusal of the cluster, if it is one.
    #[must_use]
    pub fn rejection(&self) -> Option<&Rejection> {
        match self {
            Self::Refused(rejection) => Some(rejection),
            Self::NoConnection { .. } | Self::Lost { .. } | Self::TimedOut { .. } => None,
        }
    }

    /// Reads a status: a refusal if its details contain one, else an error of the transport.
    pub(crate) fn from_status(endpoint: &str, status: &Status) -> Self {
        if let Some(rejection) = rejection(status) {
            return Self::Refused(rejection);
        }
        if is_certificate_refused(status) {
            let message = format!("{endpoint}: {}", chain_of(status));
            return Self::Refused(Rejection::new(ErrorCode::CertificateInvalid, message));
        }
        let code = transport_code(status.code());
        if code == ErrorCode::Unavailable {
            let source = TransportError(chain_of(status));
            return Self::Lost { endpoint: endpoint.to_owned(), source };
        }
        Self::Refused(Rejection::new(code, status.message()))
    }
}

impl ConnectError {
    /// Why a connection that is open did not become a channel.
    pub(crate) fn of_handshake(error: &tonic::transport::Error) -> Self {
        let cause = TransportError(chain(error));
        match is_certificate_refused(error) {
            true => Self::Certificate(cause),
            false => Self::Protocol(cause),
        }
    }

    fn code(&self) -> ErrorCode {
        match self {
            Self::Socket(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                ErrorCode::PermissionDenied
            }
            Self::Tls(DialError::Server(_) | DialError::WrongNode { .. })
            | Self::Certificate(_) => ErrorCode::CertificateInvalid,
            Self::Socket(_)
            | Self::Tls(DialError::Timeout(_) | DialError::Connect(_) | DialError::Handshake(_))
            | Self::Protocol(_) => ErrorCode::Unavailable,
        }
    }
}

fn rejection(status: &Status) -> Option<Rejection> {
    let error = v1::Error::decode(status.details()).ok().filter(|error| !error.code.is_empty())?;
    let details = error.details.into_iter().collect();
    Some(match error.code.parse() {
        Ok(code) => Rejection { code, message: error.message, details },
        // A newer daemon's code: its name is still worth reading.
        Err(_) => Rejection {
            code: ErrorCode::Internal,
            message: format!("{}: {}", error.code, error.message),
            details,
        },
    })
}

/// What a status without details means.
fn transport_code(code: Code) -> ErrorCode {
    match code {
        Code::Unavailable | Code::Cancelled | Code::Unknown => ErrorCode::Unavailable,
        Code::DeadlineExceeded => ErrorCode::TimedOut,
        Code::Unauthenticated => ErrorCode::Unauthenticated,
        Code::PermissionDenied => ErrorCode::PermissionDenied,
        Code::ResourceExhausted => ErrorCode::Overloaded,
        Code::OutOfRange => ErrorCode::TooLarge,
        Code::InvalidArgument => ErrorCode::InvalidRequest,
        Code::Ok
        | Code::NotFound
        | Code::AlreadyExists
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::Unimplemented
        | Code::Internal
        | Code::DataLoss => ErrorCode::Internal,
    }
}

/// Whether the node closed the connection because of the client's certificate, which [`jaco_pki::Refusal`] says by the kind of its error.
fn is_certificate_refused(error: &dyn std::error::Error) -> bool {
    let mut sources = std::iter::successors(error.source(), |error| error.source());
    sources.any(|error| {
        let of_http = error.downcast_ref::<h2::Error>().and_then(h2::Error::get_io);
        let io = of_http.or_else(|| error.downcast_ref::<io::Error>());
        io.is_some_and(|io| io.kind() == io::ErrorKind::PermissionDenied)
    })
}

/// As [`chain`]; a status without a cause says it in its message.
fn chain_of(status: &Status) -> String {
    match std::error::Error::source(status) {
        Some(source) => chain(source),
        None if status.message().is_empty() => {
            "the connection was closed by the other side".to_owned()
        }
        None => status.message().to_owned(),
    }
}

/// The innermost cause says most: "connection reset", not "transport error".
fn chain(outermost: &dyn std::error::Error) -> String {
    let mut text = outermost.to_string();
    let mut source = outermost.source();
    while let Some(error) = source {
        text = error.to_string();
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: &str) -> Status {
        let error = v1::Error {
            code: code.to_owned(),
            message: "it is so".to_owned(),
            details: [("missing".to_owned(), "n3".to_owned())].into(),
        };
        let details = error.encode_to_vec().into();
        Status::with_details(Code::FailedPrecondition, "it is so", details)
    }

    /// R-CLI-8: every code arrives with its sentence and its facts.
    #[test]
    fn refusals_arrive_typed() {
        for code in ErrorCode::ALL {
            let error = ClientError::from_status("n1", &refused(code.as_str()));
            let expected = Rejection::new(*code, "it is so").with("missing", "n3");
            assert_eq!(error.rejection(), Some(&expected));
            assert_eq!(error.exit_code(), code.exit_code());
        }
    }

    #[test]
    fn a_code_of_a_newer_daemon_keeps_its_name() {
        let error = ClientError::from_status("n1", &refused("brand_new"));
        assert_eq!(error.code(), ErrorCode::Internal);
        assert_eq!(error.to_string(), "brand_new: it is so");
    }

    #[test]
    fn a_bare_status_is_mapped() {
        let check = |code, expected| {
            let error = ClientError::from_status("n1", &Status::new(code, "why"));
            assert_eq!(error.code(), expected, "{code:?}");
        };
        check(Code::Unavailable, ErrorCode::Unavailable);
        check(Code::Unknown, ErrorCode::Unavailable);
        check(Code::DeadlineExceeded, ErrorCode::TimedOut);
        check(Code::Unauthenticated, ErrorCode::Unauthenticated);
        check(Code::ResourceExhausted, ErrorCode::Overloaded);
        check(Code::Unimplemented, ErrorCode::Internal);
    }
}
