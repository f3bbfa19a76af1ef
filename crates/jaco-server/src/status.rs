//! Refusals as gRPC statuses: the details have the code, the message and the facts.

use jaco_proto::v1;
use jaco_store::ProposeError;
use jaco_types::{ErrorCode, Rejection};
use prost::Message;
use tonic::{Code, Status};

/// Encodes a refusal as a status.
#[must_use]
pub fn to_status(rejection: &Rejection) -> Status {
    let error = v1::Error {
        code: rejection.code.as_str().to_owned(),
        message: rejection.message.clone(),
        details: rejection.details.clone().into_iter().collect(),
    };
    let details = error.encode_to_vec().into();
    Status::with_details(grpc_code(rejection.code), rejection.message.clone(), details)
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
        | ErrorCode::JoinTokenInvalid
        | ErrorCode::JoinTokenExpired
        | ErrorCode::JoinTokenConsumed
        | ErrorCode::CertificateInvalid => Code::Unauthenticated,
        ErrorCode::PermissionDenied => Code::PermissionDenied,
        ErrorCode::TokenNotFound
        | ErrorCode::DeploymentNotFound
        | ErrorCode::RevisionNotFound
        | ErrorCode::NoPreviousRevision
        | ErrorCode::ServiceNotFound
        | ErrorCode::ReplicaNotFound
        | ErrorCode::ContentMissing
        | ErrorCode::ContentNotFound
        | ErrorCode::NetworkNotFound
        | ErrorCode::CertificateNotFound
        | ErrorCode::NodeNotFound => Code::NotFound,
        ErrorCode::TokenExists | ErrorCode::NetworkExists | ErrorCode::NodeAlreadyMember => {
            Code::AlreadyExists
        }
        ErrorCode::StalePlan => Code::Aborted,
        ErrorCode::CsrInvalid
        | ErrorCode::InvalidManifest
        | ErrorCode::InvalidRequest
        | ErrorCode::CertificateUnusable
        | ErrorCode::TooLarge => Code::InvalidArgument,
        ErrorCode::ClusterUninitialized
        | ErrorCode::ClusterAlreadyInitialized
        | ErrorCode::AuditChainBroken
        | ErrorCode::UnknownHost
        | ErrorCode::ReplicasExceedPinnedHosts
        | ErrorCode::PortConflict
        | ErrorCode::ReplicaIdConflict
        | ErrorCode::ContentInUse
        | ErrorCode::NetworkInUse
        | ErrorCode::MembersOutdated
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
        | ErrorCode::WouldNotSurvive => Code::FailedPrecondition,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
