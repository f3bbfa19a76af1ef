//! Closed sets: every value has a name of its own that users see, and sets that are read, read back.

use std::collections::BTreeSet;

use jaco_types::code::{ExitCode, UnknownCode};
use jaco_types::spec::{OnNodeLoss, Privilege};
use jaco_types::{
    ErrorCode, Identity, Millis, NodeId, ReasonCode, Rejection, ReplicaState, RolloutState,
    TerminationOutcome, TokenId,
};

/// Names are distinct, in snake case, and as many as values.
fn check<'a>(names: impl IntoIterator<Item = &'a str>) {
    let names: Vec<&str> = names.into_iter().collect();
    let distinct: BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!(distinct.len(), names.len(), "{names:?}");
    for name in names {
        let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
        assert!(!name.is_empty() && name.bytes().all(is_plain), "{name:?}");
        assert!(!name.starts_with('_') && !name.ends_with('_'), "{name:?}");
    }
}

#[test]
fn names_are_distinct_and_plain() {
    check(ErrorCode::ALL.iter().map(|code| code.as_str()));
    check(ReasonCode::ALL.iter().map(|code| code.as_str()));
    check(TerminationOutcome::ALL.iter().map(|outcome| outcome.as_str()));
    check(Privilege::ALL.iter().map(|privilege| privilege.as_str()));
}

/// R-CLI-8
#[test]
fn unknown_error_codes_are_refused() {
    for text in ["", "Internal", "internal ", "no_such_code"] {
        assert_eq!(text.parse::<ErrorCode>(), Err(UnknownCode(text.to_owned())));
    }
    let error = "later".parse::<ErrorCode>().unwrap_err();
    assert_eq!(error.to_string(), "unknown error code \"later\"");
}

/// R-CLI-7: the numbers are part of the interface.
#[test]
fn exit_codes_have_their_numbers() {
    let numbers = [
        (ExitCode::Converged, 0),
        (ExitCode::Unexpected, 1),
        (ExitCode::Usage, 2),
        (ExitCode::Rejected, 3),
        (ExitCode::ChangesPending, 4),
        (ExitCode::CannotPlace, 5),
        (ExitCode::RolledBack, 6),
        (ExitCode::TimedOut, 7),
        (ExitCode::StalePlan, 8),
        (ExitCode::Unreachable, 9),
        (ExitCode::NotAuthorised, 10),
        (ExitCode::WouldNotSurvive, 11),
        (ExitCode::Interrupted, 130),
    ];
    for (code, number) in numbers {
        assert_eq!(code as i32, number);
    }
}

/// R-CLI-7: scripts tell refusals from failures of the cluster and of credentials.
#[test]
fn error_codes_exit_by_their_class() {
    for (codes, exit) in [
        (
            &[
                ErrorCode::Unauthenticated,
                ErrorCode::PermissionDenied,
                ErrorCode::TokenInvalid,
                ErrorCode::TokenRevoked,
                ErrorCode::TokenExpired,
                ErrorCode::JoinTokenInvalid,
                ErrorCode::JoinTokenExpired,
                ErrorCode::JoinTokenConsumed,
                ErrorCode::CertificateInvalid,
            ][..],
            ExitCode::NotAuthorised,
        ),
        (
            &[
                ErrorCode::NoLeader,
                ErrorCode::QuorumLost,
                ErrorCode::NotCaughtUp,
                ErrorCode::Unavailable,
                ErrorCode::Overloaded,
                ErrorCode::ClusterUninitialized,
            ],
            ExitCode::Unreachable,
        ),
        (
            &[
                ErrorCode::InvalidManifest,
                ErrorCode::InvalidRequest,
                ErrorCode::UnknownHost,
                ErrorCode::PortConflict,
                ErrorCode::DeploymentNotFound,
                ErrorCode::NodeNotRemovable,
                ErrorCode::TooLarge,
                ErrorCode::DiskFull,
            ],
            ExitCode::Rejected,
        ),
        (&[ErrorCode::StalePlan], ExitCode::StalePlan),
        (&[ErrorCode::CannotPlace], ExitCode::CannotPlace),
        (&[ErrorCode::RolledBack], ExitCode::RolledBack),
        (&[ErrorCode::TimedOut], ExitCode::TimedOut),
        (&[ErrorCode::WouldNotSurvive], ExitCode::WouldNotSurvive),
    ] {
        for code in codes {
            assert_eq!(code.exit_code(), exit, "{code}");
        }
    }
    let succeeds = |code: &&ErrorCode| code.exit_code() == ExitCode::Converged;
    assert_eq!(ErrorCode::ALL.iter().find(succeeds), None, "no error looks like a success");
}

#[test]
fn states_of_replicas() {
    let all = [
        ReplicaState::Pending,
        ReplicaState::Pulling,
        ReplicaState::Starting,
        ReplicaState::Running,
        ReplicaState::Degraded,
        ReplicaState::Failed,
        ReplicaState::Stopped,
    ];
    check(all.iter().map(|state| state.as_str()));
    let over: Vec<&str> =
        all.iter().filter(|state| state.is_over()).map(|state| state.as_str()).collect();
    assert_eq!(over, ["failed", "stopped"]);
}

#[test]
fn states_of_rollouts() {
    let all = [
        RolloutState::InProgress,
        RolloutState::Completed,
        RolloutState::Aborted,
        RolloutState::Paused,
        RolloutState::RollbackPaused,
    ];
    check(all.iter().map(|state| state.as_str()));
    let failed: Vec<&str> =
        all.iter().filter(|state| state.has_failed()).map(|state| state.as_str()).collect();
    assert_eq!(failed, ["aborted", "paused", "rollback_paused"]);
}

/// The texts are hashed into the audit chain (ST-13): they never change.
#[test]
fn identities_are_shown_with_their_kind() {
    let shown = [
        Identity::Local { uid: 1000 },
        Identity::Operator { token: TokenId::new("ops").unwrap() },
        Identity::Node { id: NodeId(7) },
        Identity::Scheduler,
        Identity::Anonymous,
    ]
    .map(|identity| identity.to_string());
    assert_eq!(shown, ["local:1000", "operator:ops", "node:7", "scheduler", "anonymous"]);
}

#[test]
fn rejections_carry_code_message_and_facts() {
    let rejection = Rejection::new(ErrorCode::TooLarge, "9 of 8")
        .with("limit", "8")
        .with("given", "9")
        .with("given", "10");
    assert_eq!(rejection.to_string(), "too_large: 9 of 8");
    let facts: Vec<(&str, &str)> =
        rejection.details.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!(
        facts,
        [("given", "10"), ("limit", "8")],
        "a fact that is added twice has the last value"
    );
}

/// R-NODE-1: a node has stopped its replica before another one may start it, even if the leader's clock
/// goes a tenth faster.
#[test]
fn isolated_nodes_stop_before_others_start() {
    for after in [0, 1, 9_999, 60_000, 3_600_000] {
        for grace in [0, 1, 10_000, 600_000] {
            let policy = OnNodeLoss::StopSelf { after: Millis(after), grace: Millis(grace) };
            let (stops, replaced) =
                (policy.stops_after().unwrap(), policy.replaced_after().unwrap());
            let stopped = stops.0 + grace + OnNodeLoss::SLACK.0;
            assert!(replaced.0 * 10 >= stopped * 11, "{policy:?} {stops} {replaced}");
        }
    }
    let longest = Millis(u64::MAX);
    let policy = OnNodeLoss::StopSelf { after: longest, grace: longest };
    assert!(policy.replaced_after().unwrap() > Millis::from_secs(u64::MAX / 11_000));
}

#[test]
fn only_stop_self_stops_on_its_node() {
    let replace = OnNodeLoss::Replace { after: Millis(5) };
    assert_eq!((replace.replaced_after(), replace.stops_after()), (Some(Millis(5)), None));
    assert_eq!((OnNodeLoss::Wait.replaced_after(), OnNodeLoss::Wait.stops_after()), (None, None));
    assert_eq!(OnNodeLoss::default().replaced_after(), Some(Millis(0)));
    check([replace.as_str(), OnNodeLoss::Wait.as_str(), "stop_self"]);
}
