//! Refusals as gRPC statuses: the details have the code, the message and the facts.

use jaco_proto::v1;
use jaco_store::ProposeError;
use jaco_types::{ErrorCode, Rejection};
use prost::Message;
use tonic::{Code, Status};

/// Bytes of a refusal's message. A status is sent in headers, of which a client takes 16 KiB by default: more end the
/// call with an error of HTTP/2 instead of the refusal.
const MESSAGE_BYTES_MAX: usize = 4 << 10;
/// Bytes of its facts; those that do not fit are left out.
const DETAILS_BYTES_MAX: usize = 3 << 10;
/// Bytes of the message as clients see it that do not read the details. Each may be encoded as three.
const PLAIN_BYTES_MAX: usize = 1 << 10;

/// Encodes a refusal as a status. What is too long for headers is cut.
#[must_use]
pub fn to_status(rejection: &Rejection) -> Status {
    let mut room = DETAILS_BYTES_MAX;
    let fits = |(key, value): &(&String, &String)| {
        let left = room.checked_sub(key.len() + value.len());
        room = left.unwrap_or(room);
        left.is_some()
    };
    let details = rejection.details.iter().filter(fits);
    let error = v1::Error {
        code: rejection.code.as_str().to_owned(),
        message: beginning(&rejection.message, MESSAGE_BYTES_MAX),
        details: details.map(|(key, value)| (key.clone(), value.clone())).collect(),
    };
    let details = error.encode_to_vec().into();
    let message = beginning(&rejection.message, PLAIN_BYTES_MAX);
    Status::with_details(grpc_code(rejection.code), message, details)
}

/// A text, or as much of its beginning as has room, and how much is missing.
fn beginning(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let end = (0..=bytes_max).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    format!("{} … and {} bytes more", &text[..end], text.len() - end)
}

/// Decodes the refusal of another node. A status without a code is an error of the transport.
#[must_use]
pub fn from_status(status: &Status) -> Rejection {
    let error = v1::Error::decode(status.details()).ok().filter(|error| !error.code.is_empty());
    let Some(error) = error else {
        return Rejection::new(transport_code(status.code()), status.message());
    };
    let code = error.code.parse().unwrap_or(ErrorCode::Internal);
    Rejection { code, message: error.message, details: error.details.into_iter().collect() }
}

/// The refusal for a failed proposal.
#[must_use]
pub fn from_propose_error(error: &ProposeError) -> Rejection {
    let code = match error {
        ProposeError::NoLeader => ErrorCode::NoLeader,
        ProposeError::QuorumLost => ErrorCode::QuorumLost,
        ProposeError::Overloaded => ErrorCode::Overloaded,
        ProposeError::TooLarge { .. } => ErrorCode::TooLarge,
        ProposeError::Unknown => ErrorCode::TimedOut,
        ProposeError::Stopped { .. } => ErrorCode::Unavailable,
    };
    Rejection::new(code, error.to_string())
}

/// The refusal of a malformed request.
#[must_use]
pub fn invalid(message: impl std::fmt::Display) -> Rejection {
    Rejection::new(ErrorCode::InvalidRequest, message.to_string())
}

fn transport_code(code: Code) -> ErrorCode {
    match code {
        // tonic reports a connection that is lost during a request as unknown.
        Code::Unavailable | Code::Cancelled | Code::Unknown => ErrorCode::Unavailable,
        Code::DeadlineExceeded => ErrorCode::TimedOut,
        Code::Unauthenticated => ErrorCode::Unauthenticated,
        Code::PermissionDenied => ErrorCode::PermissionDenied,
        Code::ResourceExhausted => ErrorCode::Overloaded,
        Code::OutOfRange => ErrorCode::TooLarge,
        Code::Ok
        | Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::Unimplemented
        | Code::Internal
        | Code::DataLoss => ErrorCode::Internal,
    }
}

fn grpc_code(code: ErrorCode) -> Code {
    match code {
        ErrorCode::Internal | ErrorCode::EngineError | ErrorCode::RestartExhausted => {
            Code::Internal
        }
        ErrorCode::NoLeader
        | ErrorCode::QuorumLost
        | ErrorCode::NotCaughtUp
        | ErrorCode::Unavailable => Code::Unavailable,
        ErrorCode::Overloaded => Code::ResourceExhausted,
        ErrorCode::TimedOut => Code::DeadlineExceeded,
        ErrorCode::Unauthenticated
        | ErrorCode::TokenInvalid
        | ErrorCode::TokenRevoked
        | ErrorCode::TokenExpired
        | ErrorCode::JoinTokenInvalid
        | ErrorCode::JoinTokenExpired
        | ErrorCode::JoinTokenConsumed
        | ErrorCode::CertificateInvalid => Code::Unauthenticated,
        ErrorCode::PermissionDenied => Code::PermissionDenied,
        ErrorCode::TokenNotFound
        | ErrorCode::DeploymentNotFound
        | ErrorCode::RevisionNotFound
        | ErrorCode::IndexNotKept
        | ErrorCode::NoPreviousRevision
        | ErrorCode::ServiceNotFound
        | ErrorCode::ReplicaNotFound
        | ErrorCode::ImageNotFound
        | ErrorCode::VolumeNotFound
        | ErrorCode::ContentMissing
        | ErrorCode::ContentNotFound
        | ErrorCode::NetworkNotFound
        | ErrorCode::CertificateNotFound
        | ErrorCode::PathNotFound
        | ErrorCode::NodeNotFound => Code::NotFound,
        ErrorCode::TokenExists
        | ErrorCode::NetworkExists
        | ErrorCode::VolumeExists
        | ErrorCode::NodeAlreadyMember => Code::AlreadyExists,
        ErrorCode::StalePlan => Code::Aborted,
        ErrorCode::CsrInvalid
        | ErrorCode::InvalidManifest
        | ErrorCode::InvalidRequest
        | ErrorCode::CertificateUnusable
        | ErrorCode::TooLarge => Code::InvalidArgument,
        ErrorCode::ClusterUninitialized
        | ErrorCode::ClusterAlreadyInitialized
        | ErrorCode::KekMismatch
        | ErrorCode::AuditChainBroken
        | ErrorCode::UnknownHost
        | ErrorCode::ReplicasExceedPinnedHosts
        | ErrorCode::PortConflict
        | ErrorCode::ReplicaIdConflict
        | ErrorCode::ContentInUse
        | ErrorCode::NetworkInUse
        | ErrorCode::ImageInUse
        | ErrorCode::VolumeInUse
        | ErrorCode::ImageNotHeld
        | ErrorCode::ImageStoreFull
        | ErrorCode::PolicyRefused
        | ErrorCode::PortUnreachable
        | ErrorCode::MembersOutdated
        | ErrorCode::RotationHeld
        | ErrorCode::RouteConflict
        | ErrorCode::CertificateInUse
        | ErrorCode::NetworksNotEnabled
        | ErrorCode::NetworkPoolExhausted
        | ErrorCode::ReplicaNotRunning
        | ErrorCode::StillDisabled
        | ErrorCode::BackupInvalid
        | ErrorCode::RestoreIncomplete
        | ErrorCode::NodeNotRemovable
        | ErrorCode::RolledBack
        | ErrorCode::RolloutPaused
        | ErrorCode::CalledOff
        | ErrorCode::CannotPlace
        | ErrorCode::WouldNotSurvive
        | ErrorCode::DiskFull => Code::FailedPrecondition,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-FAULT-3: a long refusal arrives as a refusal.
    #[test]
    fn a_long_refusal_fits_into_headers() {
        let rejection = Rejection::new(ErrorCode::InvalidManifest, "é".repeat(200_000))
            .with("a", "x".repeat(200_000))
            .with("b", "short");
        let status = to_status(&rejection);
        let headers = status.clone().into_http::<()>().headers().clone();
        let bytes = |(name, value): (&_, &_)| {
            let (name, value): (
                &tonic::codegen::http::HeaderName,
                &tonic::codegen::http::HeaderValue,
            ) = (name, value);
            name.as_str().len() + value.len() + 32
        };
        assert!(headers.iter().map(bytes).sum::<usize>() < 15 << 10);
        let seen = from_status(&status);
        assert_eq!(seen.code, rejection.code);
        assert!(seen.message.ends_with("bytes more"), "{}", seen.message);
        assert_eq!(seen.details.get("b").map(String::as_str), Some("short"));
    }

    /// R-CLI-9: requests are retried when the leader fails, so a lost connection must be `unavailable`.
    #[test]
    fn a_lost_connection_is_unavailable() {
        for code in [Code::Unknown, Code::Unavailable, Code::Cancelled] {
            let rejection = from_status(&Status::new(code, "transport error"));
            assert_eq!(rejection.code, ErrorCode::Unavailable, "{code:?}");
        }
    }

    /// R-CLI-8: every code is encoded and decoded with its message and facts.
    #[test]
    fn every_code_round_trips() {
        for code in ErrorCode::ALL {
            let rejection = Rejection::new(*code, "a message").with("missing", "n3");
            assert_eq!(from_status(&to_status(&rejection)), rejection);
        }
    }
}
