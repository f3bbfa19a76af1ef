//! The printed form of errors.

use std::collections::BTreeSet;

use expect_test::expect;
use jaco_cli::error::CliError;
use jaco_cli::error::Colour;
use jaco_client::ClientError;
use jaco_types::{ErrorCode, Rejection};

fn refused(code: ErrorCode) -> CliError {
    CliError::Refused { code, message: "it is so".to_owned(), help: None }
}

/// R-CLI-8: an error has a sentence, causes and advice.
#[test]
fn error_has_sentence_causes_and_advice() {
    let source = std::io::Error::other("disk on fire");
    let report = CliError::local("cannot read a.yaml", source).report();
    expect![[r"
        error: cannot read a.yaml
          because: disk on fire
    "]]
    .assert_eq(&report.text(Colour::Off));
    expect![[r"
        error[no_leader]: it is so
          help: Ask again in a few seconds; `jaco cluster status` shows the leader and which nodes are reachable.
          help: more: jaco help error no_leader
    "]]
    .assert_eq(&refused(ErrorCode::NoLeader).report().text(Colour::Off));
}

/// R-CLI-1: problems that the cluster finds are listed like those found locally.
#[test]
fn problems_of_a_refusal_are_listed() {
    let problems = r#"{"omitted":0,"problems":[
        {"severity":"error","code":"port_conflict","file":"","line":0,"message":"port 80 is taken"},
        {"severity":"error","code":"unknown_key","file":"jaco.yaml","line":3,"message":"no key `x`"}]}"#;
    let rejection =
        Rejection::new(ErrorCode::InvalidManifest, "2 problems").with("problems", problems);
    let report = CliError::from(ClientError::Refused(rejection)).report();
    let expected =
        ["error[port_conflict]: port 80 is taken", "jaco.yaml:3: error[unknown_key]: no key `x`"];
    assert_eq!(report.because, expected);
}

#[test]
fn colours_change_no_text() {
    let report = refused(ErrorCode::NoLeader).report();
    let coloured = report.text(Colour::On);
    assert!(coloured.starts_with("\x1b[1;31merror[no_leader]\x1b[0m"));
    let plain: String = ["\x1b[1;31m", "\x1b[1m", "\x1b[0m"]
        .iter()
        .fold(coloured, |text, code| text.replace(code, ""));
    assert_eq!(plain, report.text(Colour::Off));
}

/// The exit code of each error code, as documented: scripts depend on it.
const EXIT_CODES: &[(u8, &[&str])] = &[
    (1, &["called_off", "engine_error", "internal", "restart_exhausted", "rollout_paused"]),
    (
        3,
        &[
            "audit_chain_broken",
            "backup_invalid",
            "cluster_already_initialized",
            "content_in_use",
            "content_missing",
            "content_not_found",
            "csr_invalid",
            "deployment_not_found",
            "invalid_manifest",
            "invalid_request",
            "network_exists",
            "image_in_use",
            "index_not_kept",
            "image_not_found",
            "image_not_held",
            "image_store_full",
            "volume_exists",
            "volume_in_use",
            "volume_not_found",
            "network_in_use",
            "network_not_found",
            "network_pool_exhausted",
            "networks_not_enabled",
            "certificate_in_use",
            "certificate_not_found",
            "certificate_unusable",
            "disk_full",
            "kek_mismatch",
            "members_outdated",
            "rotation_held",
            "route_conflict",
            "no_previous_revision",
            "node_already_member",
            "node_not_found",
            "node_not_removable",
            "path_not_found",
            "policy_refused",
            "port_conflict",
            "port_unreachable",
            "replica_id_conflict",
            "replica_not_found",
            "replica_not_running",
            "replicas_exceed_pinned_hosts",
            "restore_incomplete",
            "revision_not_found",
            "service_not_found",
            "still_disabled",
            "token_exists",
            "token_not_found",
            "too_large",
            "unknown_host",
        ],
    ),
    (5, &["cannot_place"]),
    (6, &["rolled_back"]),
    (7, &["timed_out"]),
    (8, &["stale_plan"]),
    (
        9,
        &[
            "cluster_uninitialized",
            "no_leader",
            "not_caught_up",
            "overloaded",
            "quorum_lost",
            "unavailable",
        ],
    ),
    (
        10,
        &[
            "certificate_invalid",
            "join_token_consumed",
            "join_token_expired",
            "join_token_invalid",
            "permission_denied",
            "token_expired",
            "token_invalid",
            "token_revoked",
            "unauthenticated",
        ],
    ),
    (11, &["would_not_survive"]),
];

/// R-CLI-7: every error code has the documented exit code.
#[test]
fn error_codes_have_the_documented_exit_codes() {
    let mut listed = BTreeSet::new();
    for (exit_code, codes) in EXIT_CODES {
        for name in *codes {
            let code = ErrorCode::ALL.iter().find(|code| code.as_str() == *name);
            let code = *code.unwrap_or_else(|| panic!("{name} is no error code"));
            assert_eq!(refused(code).report().exit as u8, *exit_code, "{name}");
            listed.insert(*name);
        }
    }
    let all: BTreeSet<&str> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(listed, all);
    assert_eq!(CliError::usage("a", "b").report().exit as u8, 2);
    assert_eq!(CliError::Interrupted { message: String::new() }.report().exit as u8, 130);
    let closed = CliError::Output(std::io::ErrorKind::BrokenPipe.into()).report();
    assert_eq!(closed.text(Colour::Off), "");
}

#[test]
fn json_has_code_and_exit_code() {
    let json = refused(ErrorCode::TooLarge).report().json();
    assert_eq!(json["error"]["code"], "too_large");
    assert_eq!(json["error"]["exit_code"], 3);
}

/// R-CLI-8: without a chosen cluster the error says how to choose one.
#[test]
fn missing_context_is_explained() {
    let cause = || jaco_client::ConnectError::Socket(std::io::ErrorKind::NotFound.into());
    let help = |endpoint: &str| {
        let error = ClientError::NoConnection { endpoint: endpoint.to_owned(), source: cause() };
        CliError::from(error).report().help
    };
    let of_socket = help(jaco_client::DEFAULT_SOCKET);
    assert!(of_socket[0].contains("jaco context set NAME --servers"), "{of_socket:?}");
    let of_server = help("10.0.0.1:7000");
    assert!(!of_server.iter().any(|line| line.contains("context set")), "{of_server:?}");
}
