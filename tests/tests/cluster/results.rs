//! Results and exit codes of commands speak of the revision that was asked for, and of what serves now.

use std::process::{Command, Output, Stdio};

use jaco_testkit::{Cluster, Engine, binary, eventually, v1};

use crate::scenario::{apply_request, deploy};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A compose file in the folder of the first node.
fn compose(cluster: &Cluster, yaml: &str) -> String {
    let file = cluster.nodes[0].folder().join("compose.yaml");
    std::fs::write(&file, yaml).expect("it can be written");
    file.to_str().expect("the path is text").to_owned()
}

/// A command that runs beside the test.
fn start(cluster: &Cluster, args: &[&str]) -> std::process::Child {
    let mut command = Command::new(binary("jaco"));
    command.args(args).env("JACO_SOCKET", cluster.nodes[0].socket());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("jaco can be started")
}

fn ended(child: std::process::Child) -> Output {
    child.wait_with_output().expect("it ends")
}

/// R-CLI-10: an apply that a later revision overtakes reports that, not the success of the later one.
#[tokio::test(flavor = "multi_thread")]
async fn overtaken_apply_says_so() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    let slow = "services:\n  web:\n    image: web:1\n    labels: {jaco.fake.start_ms: '600000'}\n";
    let file = compose(&cluster, slow);
    let overtaken = start(&cluster, &["apply", "-f", &file, "--name", "shop"]);
    eventually("it is admitted", || async {
        let status = cluster.overview(0).await?;
        if status.deployments.is_empty() { Err("no deployment".to_owned()) } else { Ok(()) }
    })
    .await;
    let later = cluster.client().apply(apply_request("shop", "web:2", 1)).await;
    assert_eq!(later.expect("it is admitted").revision, 2);
    let out = ended(overtaken);
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{said}{}", text(&out.stdout));
    let line = "error[called_off]: revision 1 of shop was superseded by revision 2";
    assert!(said.contains(line), "{said}");
}

/// R-CLI-10: the result of a change counts what runs when it has ended: after scaling down, and with disabled
/// replicas.
#[tokio::test(flavor = "multi_thread")]
async fn result_counts_what_runs_at_the_end() {
    let cluster = Cluster::start(2, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 7).await;
    let out = cluster.cli(0, &["scale", "shop/web", "3"]);
    assert_eq!(text(&out.stdout), "shop revision 2 updated: 3 replicas running\n");
    let off = cluster.cli(0, &["disable", "shop/web", "--node", "n2"]);
    assert!(off.status.success(), "{}", text(&off.stderr));
    let replicas = cluster.overview(0).await.expect("it answers").replicas;
    let off = replicas.iter().filter(|replica| replica.node == "n2").count();
    let out = cluster.cli(0, &["scale", "shop/web", "4"]);
    let on = 4 - off;
    let expected = format!("shop revision 3 updated: {on} of 4 replicas running, {off} disabled\n");
    assert_eq!(text(&out.stdout), expected, "{out:?}");
}

/// R-CLI-10: with `scale-with` the replicas of both services exist when `scale` reports success.
#[tokio::test(flavor = "multi_thread")]
async fn scale_waits_for_the_replicas_that_scale_with_it() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    let compose_json = r#"{"name":"shop","services":{
        "web":{"image":"web:1"},"side":{"image":"side:1"}}}"#;
    let overlay = "deployment: shop\nservices:\n  - {name: side, constraints: scale-with=web}\n";
    let request = v1::ApplyRequest {
        compose_json: compose_json.to_owned(),
        overlay_yaml: overlay.to_owned(),
        request_id: jaco_testkit::fresh_request_id(),
        ..v1::ApplyRequest::default()
    };
    cluster.client().apply(request).await.expect("admitted");
    cluster.converged(0, "shop").await;
    for replicas in ["3", "1", "2"] {
        let out = cluster.cli(0, &["scale", "shop/web", replicas]);
        assert!(out.status.success(), "{}", text(&out.stderr));
        let status = cluster.overview(0).await.expect("it answers");
        for service in ["web", "side"] {
            let running = status
                .replicas
                .iter()
                .filter(|replica| replica.service == service && replica.state == "running");
            assert_eq!(running.count().to_string(), replicas, "{service}: {status:?}");
        }
    }
}

/// R-CLI-10: where stdin is no terminal, `delete` and `gc` need `--yes` and change nothing without it.
#[tokio::test(flavor = "multi_thread")]
async fn deleting_without_a_terminal_needs_yes() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 1).await;
    for args in [&["delete", "shop"][..], &["gc"]] {
        let out = ended(start(&cluster, args));
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains("--yes"), "{said}");
    }
    assert_eq!(cluster.overview(0).await.expect("it answers").deployments.len(), 1);
    let out = ended(start(&cluster, &["delete", "shop", "--yes"]));
    assert!(out.status.success(), "{}", text(&out.stderr));
}

/// R-CLI-10: an aborted rollout of an earlier revision is neither in `status` nor a finding of `doctor` after a
/// later success.
#[tokio::test(flavor = "multi_thread")]
async fn aborted_rollouts_do_not_outlive_a_later_success() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 2).await;
    let failing = "services:\n  web:\n    image: web:2\n    labels: {jaco.fake.exit_code: '1'}\n    \
                   deploy: {replicas: 2}\n";
    let file = compose(&cluster, failing);
    let out = ended(start(&cluster, &["apply", "-f", &file, "--name", "shop"]));
    assert_eq!(out.status.code(), Some(6), "{}", text(&out.stderr));
    // What serves after the rollback is shown, not what was asked for.
    let status = cluster.overview(0).await.expect("it answers");
    let serving = &status.deployments[0].services[0].serving;
    let shown: Vec<_> =
        serving.iter().map(|it| (it.revision, it.image.as_str(), it.replicas)).collect();
    assert_eq!(shown, [(1, "web:1", 2)]);
    let out = text(&cluster.cli(0, &["status"]).stdout);
    assert!(out.contains("web:1 (r1) serves"), "{out}");
    deploy(&cluster, "shop", "web:1", 2).await;
    let out = cluster.cli(0, &["status"]);
    assert!(!text(&out.stdout).contains("abort"), "{}", text(&out.stdout));
    let out = cluster.cli(0, &["doctor"]);
    assert_eq!(
        (out.status.code(), text(&out.stdout).contains("rollout")),
        (Some(0), false),
        "{out:?}"
    );
}

/// R-IN-1: a compose file given by name leaves jaco.yaml out, and the plan says so where the applied revision
/// has one; `--no-overlay` means it.
#[tokio::test(flavor = "multi_thread")]
async fn plan_warns_where_an_overlay_is_left_out() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    let file = compose(&cluster, "services:\n  web:\n    image: web:1\n");
    let folder = cluster.nodes[0].folder().to_str().expect("text").to_owned();
    let overlay = "deployment: shop\nservices:\n  - {name: web, placement: global}\n";
    std::fs::write(cluster.nodes[0].folder().join("jaco.yaml"), overlay)
        .expect("it can be written");
    let run = |args: &[&str]| {
        let out = cluster.cli(0, args);
        assert!(out.status.success(), "{args:?}: {}", text(&out.stderr));
        text(&out.stderr)
    };
    let hint = "warning: revision 1 of shop has a jaco.yaml, and these files have none";
    assert!(!run(&["apply", &folder]).contains(hint));
    assert!(!run(&["plan", &folder]).contains(hint));
    for command in ["plan", "apply"] {
        let said = run(&[command, "-f", &file, "--name", "shop", "--no-overlay"]);
        assert!(!said.contains(hint) || command == "plan", "{said}");
        if command == "plan" {
            assert!(run(&["plan", "-f", &file, "--name", "shop"]).contains(hint));
        }
    }
}

/// R-CLI-5: the events of a deployment are those of its replicas too.
#[tokio::test(flavor = "multi_thread")]
async fn audit_of_a_deployment_has_its_replicas() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 1).await;
    deploy(&cluster, "shop-2", "web:1", 1).await;
    let out = cluster.cli(0, &["audit", "--deployment", "shop", "--type", "replica_placed"]);
    let events = text(&out.stdout);
    assert_eq!(events.lines().count(), 1, "{events}");
    assert!(events.contains("replica=shop-web-0"), "{events}");
}

/// R-CLI-7: without a valid credential the exit code is 10.
#[tokio::test(flavor = "multi_thread")]
async fn missing_credential_exits_with_10() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    let node = &cluster.nodes[0];
    let ca = node.folder().join("data/node/ca.crt");
    let run = |token: Option<&str>| {
        let mut command = Command::new(binary("jaco"));
        command.args(["status", "--server", &node.address, "--ca-cert"]).arg(&ca);
        command.env_clear().env("HOME", node.folder());
        command.envs(token.map(|token| ("JACO_TOKEN", token)));
        let out = command.output().expect("jaco can be started");
        (out.status.code(), text(&out.stderr))
    };
    let (code, said) = run(None);
    assert!(code == Some(10) && said.contains("[unauthenticated]"), "{code:?}: {said}");
    let wrong = jaco_pki::OperatorToken::mint();
    let (code, said) = run(Some(&wrong.reveal()));
    assert!(code == Some(10) && said.contains("[token_invalid]"), "{code:?}: {said}");
}

/// R-CLI-10: who asks for nodes or deployments alone gets no replicas, of which there may be very many, and the same of the rest.
#[tokio::test(flavor = "multi_thread")]
async fn a_status_has_what_was_asked_for() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 3).await;
    let client = cluster.client();
    let read = async |scope: v1::StatusScope| {
        let request = v1::StatusRequest { scope: scope.into(), ..Default::default() };
        client.read_status(request).await.expect("it is answered")
    };
    let all = read(v1::StatusScope::All).await;
    assert_eq!((all.deployments.len(), all.replicas.len(), all.nodes.len()), (1, 3, 1));
    let deployments = read(v1::StatusScope::Deployments).await;
    assert_eq!(deployments.deployments, all.deployments);
    assert_eq!((deployments.replicas.len(), deployments.nodes.len()), (0, 1));
    let nodes = read(v1::StatusScope::Nodes).await;
    assert_eq!((nodes.deployments.len(), nodes.replicas.len()), (0, 0));
    let names = |status: &v1::StatusResponse| {
        status.nodes.iter().map(|node| node.hostname.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&nodes), names(&all));
    assert!(nodes.raft_index >= all.raft_index, "it is of a state as every other");
}
