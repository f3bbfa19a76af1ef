//! Findings of `jaco doctor`.

use jaco_testkit::{Cluster, Engine, eventually};
use serde_json::Value;

use crate::scenario::{apply_request, deploy};

/// Exit code and report of `jaco doctor` on a node.
fn report(cluster: &Cluster, node: usize) -> (Option<i32>, Value) {
    let out = cluster.cli(node, &["doctor", "-o", "json"]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    let report = serde_json::from_slice(&out.stdout);
    (out.status.code(), report.unwrap_or_else(|error| panic!("{error}: {said}")))
}

/// The findings as `check object`.
fn found(report: &Value) -> Vec<String> {
    let findings = report["findings"].as_array().expect("a list");
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    findings.iter().map(|one| format!("{} {}", text(&one["check"]), text(&one["object"]))).collect()
}

/// R-CLI-6: no findings in a healthy cluster on any node; the others find a node that is down; and
/// there is an answer without a quorum.
#[tokio::test(flavor = "multi_thread")]
async fn doctor_finds_problems() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 3).await;
    for node in 0..3 {
        let (code, report) = report(&cluster, node);
        assert_eq!((code, found(&report)), (Some(0), vec![]), "{report:#}");
        assert_eq!((&report["voters"], &report["voters_that_can_be_lost"]), (&3.into(), &1.into()));
        let nodes = report["nodes"].as_array().expect("a list");
        assert_eq!(nodes.len(), 3);
        for one in nodes {
            let reaches = one["reaches"].as_array().expect("a list");
            assert_eq!(reaches.len(), 2, "{one}");
            assert!(reaches.iter().all(|reach| reach.get("unreachable").is_none()), "{one}");
            // One machine has one clock.
            assert!(one["clock_ahead_ms"].as_i64().expect("a number").abs() < 1000, "{one}");
        }
    }
    let text = cluster.cli(0, &["doctor"]);
    let text = String::from_utf8(text.stdout).expect("text");
    assert!(text.ends_with("1 of 3 voters can be lost: no problems\n"), "{text}");

    let request = apply_request("stuck", "web:1", 1);
    let failing = r#""labels":{"jaco.fake.refuse":"no"},"image""#;
    let compose_json = request.compose_json.replacen(r#""image""#, failing, 1);
    let request = jaco_testkit::v1::ApplyRequest { compose_json, ..request };
    cluster.client().apply(request).await.expect("it is admitted");
    eventually("what does not start is found", || async {
        let (code, report) = report(&cluster, 1);
        match (code, found(&report).as_slice()) {
            (Some(1), [one]) if one == "replica stuck-web-0" => Ok(()),
            (_, other) => Err(other.to_vec()),
        }
    })
    .await;
    let gone = cluster.cli(0, &["delete", "stuck", "--yes"]);
    assert!(gone.status.success());

    let leader = cluster.leader().await;
    let others: Vec<usize> = (0..3).filter(|node| *node != leader).collect();
    cluster.nodes[others[1]].kill();
    let (code, seen) = report(&cluster, leader);
    let lost = format!("reach n{}", others[1] + 1);
    assert!(code == Some(1) && found(&seen).contains(&lost), "{seen:#}");
    assert_eq!(seen["voters_that_can_be_lost"], 0, "{seen:#}");
    cluster.nodes[others[0]].kill();
    eventually("the lost quorum is found", || async {
        let (code, report) = report(&cluster, leader);
        let found = found(&report);
        let is_found = found.iter().any(|one| one == "quorum cluster");
        if code == Some(1) && is_found { Ok(()) } else { Err(found) }
    })
    .await;
}

/// Waits for a report about the replication that satisfies `wanted`.
async fn replication(cluster: &Cluster, node: usize, wanted: impl Fn(&Value) -> bool) -> Value {
    eventually("the report of the replication", || async {
        let (_, report) = report(cluster, node);
        if wanted(&report) { Ok(report) } else { Err(report.to_string()) }
    })
    .await
}

/// R-FAULT-1: each voter has a match index, a lag and a last contact; one that does not move is named and not counted
/// as one that helps, until it is back.
#[tokio::test(flavor = "multi_thread")]
async fn doctor_shows_how_far_voters_are() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 3).await;
    let of = |report: &Value, node: usize| {
        let name = format!("n{}", node + 1);
        let voters = report["replication"].as_array().expect("a list");
        voters.iter().find(|voter| voter["node"] == name).expect("every voter").clone()
    };
    let lag = |report: &Value, node: usize| of(report, node)["lag"].as_u64().expect("a number");
    let healthy = |report: &Value| {
        report["replication"].as_array().is_some_and(|voters| voters.len() == 3)
            && (0..3).all(|node| lag(report, node) == 0)
    };
    for node in 0..3 {
        let report = replication(&cluster, node, healthy).await;
        for voter in 0..3 {
            let voter = of(&report, voter);
            assert!(voter["match_index"].as_u64().expect("a number") > 10, "{voter}");
            assert!(voter["last_contact_ms"].as_u64().expect("a number") < 5_000, "{voter}");
        }
    }
    let text = String::from_utf8(cluster.cli(0, &["doctor"]).stdout).expect("text");
    assert!(text.contains("MATCH INDEX"), "{text}");

    let leader = cluster.leader().await;
    let paused = (leader + 1) % 3;
    let before = replication(&cluster, leader, healthy).await;
    cluster.nodes[paused].pause();
    deploy_on(&cluster, leader).await;
    let still = |report: &Value| of(report, paused)["still_ms"].as_u64() >= Some(10_000);
    let seen = replication(&cluster, leader, still).await;
    assert!(lag(&seen, paused) > 0, "{seen:#}");
    assert_eq!(of(&seen, paused)["match_index"], of(&before, paused)["match_index"], "{seen:#}");
    assert_eq!(seen["voters_that_can_be_lost"], 0, "{seen:#}");
    cluster.nodes[paused].resume();
    replication(&cluster, leader, healthy).await;
}

/// Writes something through this node.
async fn deploy_on(cluster: &Cluster, node: usize) {
    let request = apply_request("late", "web:1", 1);
    cluster.nodes[node].client().apply(request).await.expect("it is admitted");
}

/// R-CLI-6: a node that stood still for longer than its connections live is reached again: neither it nor the
/// others take a dead connection for a network that lets nothing through.
#[tokio::test(flavor = "multi_thread")]
async fn doctor_is_right_after_a_pause() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    for node in 0..3 {
        // From now on each has connections to the others.
        let (code, report) = report(&cluster, node);
        assert_eq!((code, found(&report)), (Some(0), vec![]), "{report:#}");
    }
    let paused = (cluster.leader().await + 1) % 3;
    cluster.nodes[paused].pause();
    // The time of a keep-alive and of its answer, after which the others have closed their connections.
    tokio::time::sleep(std::time::Duration::from_secs(17)).await;
    cluster.nodes[paused].resume();
    for node in [paused, (paused + 1) % 3] {
        let (_, report) = report(&cluster, node);
        let reach: Vec<_> =
            found(&report).into_iter().filter(|found| found.starts_with("reach")).collect();
        assert_eq!(reach, Vec::<String>::new(), "n{}: {report:#}", node + 1);
    }
}

/// R-OPS-1: a bundle has the state, and the log and metrics of every daemon; of what was planted where secrets are, nothing is
/// in it. What a node that is down should have given is named.
#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_has_what_helps_and_no_secret() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    let here = tempfile::tempdir().expect("a folder");
    let at = |name: &str| here.path().join(name).to_str().expect("it is UTF-8").to_owned();
    const PLANTED: [&str; 3] = ["planted-in-environment", "planted-in-secret", "planted-in-label"];
    let members = format!(
        r#","environment":{{"DB_PASSWORD":"{}"}},"labels":{{"secret":"{}"}}"#,
        PLANTED[0], PLANTED[2]
    );
    let request = jaco_testkit::v1::ApplyRequest {
        compose_json: jaco_tests::compose_with("shop", "web", "web:1", 3, &members),
        request_id: jaco_testkit::fresh_request_id(),
        ..Default::default()
    };
    cluster.client().apply(request).await.expect("it is admitted");
    cluster.converged(0, "shop").await;
    std::fs::write(at("secret"), PLANTED[1]).expect("it can be written");
    let ok = |args: &[&str]| {
        let out = cluster.cli(1, args);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success(), "{args:?}: {said}");
        (String::from_utf8_lossy(&out.stdout).into_owned(), said)
    };
    ok(&["secret", "set", "db-password", &at("secret")]);
    let (token, _) = ok(&["token", "issue", "ann", "--role", "viewer"]);
    let token = token.split_whitespace().max_by_key(|word| word.len()).expect("a token").to_owned();
    assert!(token.len() > 20, "{token}");

    ok(&["doctor", "--bundle", &at("whole.tar")]);
    let files = unpacked(&at("whole.tar"));
    for name in ["n1", "n2", "n3"] {
        let log = &files[&format!("nodes/{name}/log.txt")];
        assert!(log.contains("member started"), "{name}: {log}");
        let metrics = &files[&format!("nodes/{name}/metrics.txt")];
        assert!(metrics.contains("jaco_raft_term") && metrics.ends_with("# EOF\n"), "{name}");
    }
    let json = |name: &str| -> Value { serde_json::from_str(&files[name]).expect("it is JSON") };
    assert_eq!(json("status.json")["replicas"].as_array().map(Vec::len), Some(3));
    assert_eq!(json("doctor.json")["voters"], 3);
    let kinds: Vec<Value> = json("audit.json").as_array().expect("a list").clone();
    assert!(kinds.iter().any(|event| event["kind"] == "apply"), "{kinds:?}");
    assert!(!files.contains_key("missing.txt"), "{}", files["missing.txt"]);
    for (name, text) in &files {
        for planted in PLANTED.iter().copied().chain([token.as_str()]) {
            assert!(!text.contains(planted), "{planted} is in {name}");
        }
    }

    cluster.nodes[2].kill();
    let out = cluster.cli(1, &["doctor", "--bundle", &at("less.tar")]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(said.contains("missing in the bundle: log and metrics of n3"), "{said}");
    let files = unpacked(&at("less.tar"));
    assert!(files["missing.txt"].contains("log and metrics of n3"), "{}", files["missing.txt"]);
    assert!(files.contains_key("nodes/n1/log.txt") && !files.contains_key("nodes/n3/log.txt"));
}

/// The files of an archive by their paths.
fn unpacked(archive: &str) -> std::collections::BTreeMap<String, String> {
    let tar = |args: &[&str]| {
        let out = std::process::Command::new("tar").args(args).output().expect("tar runs");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    let names = tar(&["tf", archive]);
    let named = names.lines().map(|name| (name.to_owned(), tar(&["xOf", archive, name])));
    named.collect()
}
