//! Names that are part of the interface: scripts, stored texts and the audit chain depend on them, so
//! each is written down here once more, and none changes.

use jaco_types::spec::{FailureAction, RollbackFailureAction};
use jaco_types::spec::{
    OnNodeLoss, Operator, Placement, Privilege, RollbackPolicy, Scoring, UpdateOrder, UpdatePolicy,
};
use jaco_types::{
    Availability, ContentId, ContentName, DesiredState, ErrorCode, Millis, NamedKey, NamedKind,
    NodeStatus, ReasonCode, ReplicaState, RolloutState, TerminationOutcome,
};

fn listed<T: Copy>(all: &[T], name: impl Fn(T) -> &'static str) -> String {
    all.iter().map(|each| name(*each)).collect::<Vec<_>>().join(" ")
}

/// R-CLI-7, R-CLI-8: every error code with the number that a command exits with.
#[test]
fn error_codes_keep_their_names_and_numbers() {
    let by_exit = |exit: i32| {
        let codes = ErrorCode::ALL.iter().filter(|code| code.exit_code() as i32 == exit);
        codes.map(|code| code.as_str()).collect::<Vec<_>>().join(" ")
    };
    for (exit, codes) in [
        (1, "internal restart_exhausted rollout_paused called_off engine_error"),
        (
            3,
            "cluster_already_initialized token_not_found token_exists csr_invalid \
             invalid_manifest invalid_request unknown_host replicas_exceed_pinned_hosts \
             port_conflict replica_id_conflict deployment_not_found revision_not_found \
             no_previous_revision service_not_found replica_not_found replica_not_running \
             node_not_found node_already_member node_not_removable too_large content_missing \
             content_not_found content_in_use audit_chain_broken backup_invalid \
             restore_incomplete still_disabled",
        ),
        (5, "cannot_place"),
        (6, "rolled_back"),
        (7, "timed_out"),
        (8, "stale_plan"),
        (9, "cluster_uninitialized no_leader quorum_lost unavailable overloaded"),
        (
            10,
            "unauthenticated permission_denied token_invalid token_revoked token_expired \
             join_token_invalid join_token_expired join_token_consumed certificate_invalid",
        ),
        (11, "would_not_survive"),
    ] {
        let kept: Vec<&str> = codes.split(' ').collect();
        let known = by_exit(exit);
        let known: Vec<&str> = known.split(' ').collect();
        let missing: Vec<_> = kept.iter().filter(|code| !known.contains(code)).collect();
        assert_eq!(missing, [&""; 0], "exit {exit} has lost codes: {known:?}");
        for code in kept {
            let read: ErrorCode = code.parse().unwrap();
            assert_eq!((read.as_str(), read.to_string().as_str()), (code, code));
        }
    }
    for exit in [0, 2, 4, 130] {
        assert_eq!(by_exit(exit), "", "no error exits with {exit}");
    }
}

#[test]
fn reasons_and_privileges_keep_their_names() {
    assert_eq!(
        listed(ReasonCode::ALL, ReasonCode::as_str),
        "pulling image_pull_failed health_pending unhealthy container_exited container_missing \
         engine_error restart_exhausted node_isolated disabled network_conflict network_not_ready"
    );
    assert_eq!(
        listed(TerminationOutcome::ALL, TerminationOutcome::as_str),
        "restarted rolled node_lost moved reverted succeeded disabled"
    );
    assert_eq!(
        listed(Privilege::ALL, Privilege::as_str),
        "privileged security_opt engine_socket host_network host_pid host_ipc host_users \
         host_path devices capabilities"
    );
    assert_eq!(
        listed(Operator::ALL, Operator::as_str),
        "= != < <= > >= is_set is_not_set version semver regexp set_contains set_contains_any"
    );
}

#[test]
fn states_keep_their_names() {
    let replicas = [
        ReplicaState::Pending,
        ReplicaState::Pulling,
        ReplicaState::Starting,
        ReplicaState::Running,
        ReplicaState::Degraded,
        ReplicaState::Failed,
        ReplicaState::Stopped,
    ];
    assert_eq!(
        listed(&replicas, ReplicaState::as_str),
        "pending pulling starting running degraded failed stopped"
    );
    let rollouts = [
        RolloutState::InProgress,
        RolloutState::Completed,
        RolloutState::Aborted,
        RolloutState::Paused,
        RolloutState::RollbackPaused,
    ];
    assert_eq!(
        listed(&rollouts, RolloutState::as_str),
        "in_progress completed aborted paused rollback_paused"
    );
    let nodes = [
        NodeStatus::Joining,
        NodeStatus::Ready,
        NodeStatus::Down,
        NodeStatus::EngineDown,
        NodeStatus::DiskFull,
    ];
    assert_eq!(listed(&nodes, NodeStatus::as_str), "joining ready down engine_down disk_full");
    let availabilities = [Availability::Active, Availability::Cordoned, Availability::Draining];
    assert_eq!(listed(&availabilities, Availability::as_str), "active cordoned draining");
}

#[test]
fn policies_keep_their_names() {
    let losses = [
        OnNodeLoss::Replace { after: Millis(1) },
        OnNodeLoss::Wait,
        OnNodeLoss::StopSelf { after: Millis(1), grace: Millis(1) },
    ];
    assert_eq!(listed(&losses, OnNodeLoss::as_str), "replace wait stop_self");
    let placements =
        [Placement::Spread, Placement::Pack, Placement::Hosts([].into()), Placement::Global];
    let names = placements.each_ref().map(Placement::as_str);
    assert_eq!(names, ["spread", "pack", "hosts", "global"]);
    assert_eq!(Operator::parse("=="), Some(Operator::Equal), "as Nomad writes it too");
}

/// R-ROLL-3, R-ROLL-4, R-HEAL-1: what holds where a manifest says nothing.
#[test]
fn defaults_are_the_documented_ones() {
    let rollback = RollbackPolicy {
        parallelism: 1,
        order: UpdateOrder::StartFirst,
        delay: Millis(0),
        monitor: None,
        failure_action: RollbackFailureAction::Continue,
        max_failure_permille: 0,
    };
    let update = UpdatePolicy {
        parallelism: 1,
        order: UpdateOrder::StartFirst,
        step_timeout: Millis::from_secs(60),
        monitor: None,
        delay: Millis(0),
        failure_action: FailureAction::Rollback,
        max_failure_permille: 0,
        rollback,
    };
    assert_eq!(UpdatePolicy::default(), update);
    assert_eq!(RollbackPolicy::default(), rollback);
    assert_eq!(UpdatePolicy::DEFAULT_MONITOR, Millis::from_secs(5));
    assert_eq!(Placement::default(), Placement::Spread);
    assert_eq!(OnNodeLoss::default(), OnNodeLoss::Replace { after: Millis(0) });
    assert_eq!(
        (Scoring::default(), DesiredState::default()),
        (Scoring::Jaco, DesiredState::Active)
    );
    assert_eq!(Availability::default(), Availability::Active);
}

/// R-IN-5: a kind of content is read as it is written, and shown with the name in quotes.
#[test]
fn kinds_of_contents_are_read_as_they_are_written() {
    for (kind, text) in [(NamedKind::Config, "config"), (NamedKind::Secret, "secret")] {
        assert_eq!((kind.as_str(), NamedKind::parse(text)), (text, Some(kind)));
        let key = NamedKey { kind, name: ContentName::new("tls.pem").unwrap() };
        assert_eq!(key.to_string(), format!("{text} \"tls.pem\""));
    }
    for other in ["", "Config", "secrets", "config "] {
        assert_eq!(NamedKind::parse(other), None, "{other:?}");
    }
}

/// In traces an id is short, and no two are easily taken for each other.
#[test]
fn content_ids_are_short_in_traces() {
    let mut bytes = [0xab; 32];
    bytes[5] = 0x01;
    assert_eq!(format!("{:?}", ContentId(bytes)), "ababababab01");
    assert_eq!(format!("{:>70}", ContentId(bytes)).len(), 70, "a table can align it");
}
