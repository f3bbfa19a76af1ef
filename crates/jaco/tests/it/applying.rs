//! `jaco apply` and `jaco delete`: what they send, show and exit with.

use std::sync::Mutex;

use expect_test::{Expect, expect};
use jaco_client::scripted::{Answer, Feed, Script};
use jaco_proto::v1;
use jaco_types::{ErrorCode, Rejection};

use crate::session::{Session, shop};

const COMPOSE: &str = "name: shop\nservices:\n  web:\n    image: web:2\n";

/// Accepts revision 2 of `shop` and then shows these statuses.
struct Cluster {
    statuses: Vec<v1::StatusResponse>,
    seen: Mutex<Vec<String>>,
}

impl Cluster {
    fn showing(statuses: Vec<v1::StatusResponse>) -> Self {
        Self { statuses, seen: Mutex::default() }
    }
}

impl Script for Cluster {
    fn apply(&self, request: v1::ApplyRequest, _: Option<&str>) -> Answer<v1::ApplyResponse> {
        assert_eq!(request.deployment, "shop");
        assert_eq!(request.request_id.len(), 32);
        self.seen.lock().unwrap().push(request.request_id);
        Ok(v1::ApplyResponse {
            deployment: "shop".to_owned(),
            revision: 2,
            change: "updated".to_owned(),
            raft_index: 40,
            preview: request.dry_run.then(crate::session::preview),
            ..Default::default()
        })
    }

    fn delete(&self, _: v1::DeleteRequest, _: Option<&str>) -> Answer<v1::DeleteResponse> {
        Ok(v1::DeleteResponse { raft_index: 40 })
    }

    fn watch(
        &self,
        request: v1::StatusRequest,
        _: Option<&str>,
    ) -> Answer<Feed<v1::StatusResponse>> {
        assert_eq!((request.deployment.as_str(), request.min_index), ("shop", 40));
        Ok(Feed::open(self.statuses.clone()))
    }
}

fn check(statuses: Vec<v1::StatusResponse>, line: &str, expected: &Expect) {
    let session = Session::with(Cluster::showing(statuses));
    session.write("compose.yaml", COMPOSE);
    let did = session.run(line);
    let code = did.code.map(|code| code.to_string()).unwrap_or_default();
    expected.assert_eq(&format!("{}--- stderr\n{}--- exit {code}\n", did.out, did.err));
}

/// R-CLI-1, R-CLI-7: progress on stderr, the result on stdout, 0 when it has converged.
#[test]
fn convergence_is_waited_for() {
    check(
        vec![shop("updating", ["running", "pulling"]), shop("active", ["running", "running"])],
        "apply",
        &expect![[r#"
            shop revision 2 updated: 2 replicas running
            --- stderr
            SERVICE   CHANGE   WHAT
            shop/web  updated  image web:1 → web:2, replicas 3 → 4

            ACTION   REPLICA     NODE     BECAUSE
            replace  shop-web-0  n1       image web:1 → web:2, environment.PORT; starts before the old one stops
            move     shop-web-1  n3 → n2  moved
            stop     shop-web-2  n2       fewer are wanted
            create   shop-web-3  n2       spread

            survives the loss of any one node: no: n2 (2 of shop/web would wait)
            survives the loss of any one zone: no node has a zone

            shop revision 2: updated
            [time] web 1/2 running
            [time] shop-web-1 on n2: pulling
            [time] web 2/2 running
            --- exit 0
        "#]],
    );
}

/// R-CLI-6: writes print JSON, too; `-q` says nothing else.
#[test]
fn results_are_for_programs_too() {
    let session = Session::with(Cluster::showing(vec![shop("active", ["running", "running"])]));
    session.write("compose.yaml", COMPOSE);
    let did = session.run("apply -q -o json");
    let json: serde_json::Value = serde_json::from_str(&did.out).unwrap();
    assert_eq!(json["outcome"], "converged");
    assert_eq!(json["replicas"][1]["node"], "n2");
    assert_eq!((did.code, did.err.as_str()), (Some(0), ""));
}

/// R-CLI-7: 5, with the reasons, once nothing moves any more.
#[test]
fn what_cannot_be_placed_is_told() {
    let mut stuck = shop("pending", ["running", "running"]);
    stuck.replicas.pop();
    stuck.deployments[0].services[0].running = 1;
    stuck.deployments[0].services[0].unplaced.push(v1::UnplacedInfo {
        count: 1,
        reason: "no_eligible_node".to_owned(),
        details: [("nodes".to_owned(), "1 not ready; 1 draining".to_owned())].into(),
    });
    check(
        vec![stuck],
        "apply",
        &expect![[r#"
            --- stderr
            SERVICE   CHANGE   WHAT
            shop/web  updated  image web:1 → web:2, replicas 3 → 4

            ACTION   REPLICA     NODE     BECAUSE
            replace  shop-web-0  n1       image web:1 → web:2, environment.PORT; starts before the old one stops
            move     shop-web-1  n3 → n2  moved
            stop     shop-web-2  n2       fewer are wanted
            create   shop-web-3  n2       spread

            survives the loss of any one node: no: n2 (2 of shop/web would wait)
            survives the loss of any one zone: no node has a zone

            shop revision 2: updated
            [time] web 1/2 running
            [time] 1 replica cannot be placed: no_eligible_node, nodes=1 not ready; 1 draining
            error[cannot_place]: not every replica of shop can be placed as things stand
              because: web 1/2 running
              because: 1 replica cannot be placed: no_eligible_node, nodes=1 not ready; 1 draining
              help: they are placed as soon as a node can take them
              help: jaco status shop shows more; jaco node list shows the nodes
            --- exit 5
        "#]],
    );
}

/// R-CLI-7: 6 when it was rolled back.
#[test]
fn a_rollback_is_no_success() {
    let mut back = shop("rolled_back", ["running", "running"]);
    back.deployments[0].services[0].rollout = Some(v1::RolloutInfo {
        target_revision: 2,
        total_steps: 2,
        state: "aborted".to_owned(),
        failure_reason: "step_timeout".to_owned(),
        ..Default::default()
    });
    check(
        vec![back],
        "apply",
        &expect![[r#"
            --- stderr
            SERVICE   CHANGE   WHAT
            shop/web  updated  image web:1 → web:2, replicas 3 → 4

            ACTION   REPLICA     NODE     BECAUSE
            replace  shop-web-0  n1       image web:1 → web:2, environment.PORT; starts before the old one stops
            move     shop-web-1  n3 → n2  moved
            stop     shop-web-2  n2       fewer are wanted
            create   shop-web-3  n2       spread

            survives the loss of any one node: no: n2 (2 of shop/web would wait)
            survives the loss of any one zone: no node has a zone

            shop revision 2: updated
            [time] web 2/2 running, rollout to r2 given up: step_timeout
            error[rolled_back]: revision 2 of shop was rolled back; the one before it serves
              because: web 2/2 running, rollout to r2 given up: step_timeout
              help: jaco status shop
              help: apply again once the cause is gone
            --- exit 6
        "#]],
    );
}

/// R-CLI-7: 1 when a replica was given up, with the last facts and the next command.
#[test]
fn an_exhausted_replica_is_told() {
    let mut failed = shop("failed", ["running", "failed"]);
    failed.replicas[1].code = "restart_exhausted".to_owned();
    failed.replicas[1].exited = true;
    failed.replicas[1].exit_code = 137;
    failed.replicas[1].details = [("reason".to_owned(), "out of\nmemory".to_owned())].into();
    check(
        vec![failed],
        "apply",
        &expect![[r#"
            --- stderr
            SERVICE   CHANGE   WHAT
            shop/web  updated  image web:1 → web:2, replicas 3 → 4

            ACTION   REPLICA     NODE     BECAUSE
            replace  shop-web-0  n1       image web:1 → web:2, environment.PORT; starts before the old one stops
            move     shop-web-1  n3 → n2  moved
            stop     shop-web-2  n2       fewer are wanted
            create   shop-web-3  n2       spread

            survives the loss of any one node: no: n2 (2 of shop/web would wait)
            survives the loss of any one zone: no node has a zone

            shop revision 2: updated
            [time] web 1/2 running
            [time] shop-web-1 on n2: failed, restart_exhausted, exit code 137 (SIGKILL), out of memory
            error[restart_exhausted]: a replica of shop failed too often and is left alone
              because: web 1/2 running
              because: shop-web-1 on n2: failed, restart_exhausted, exit code 137 (SIGKILL), out of memory
              help: jaco logs shop/web --tail 20
              help: apply again once the cause is gone
            --- exit 1
        "#]],
    );
}

/// R-CLI-7, R-CLI-8: 1 when the rollout waits for a person, with a code that has a page.
#[test]
fn a_paused_rollout_is_told() {
    let mut paused = shop("paused", ["running", "starting"]);
    paused.deployments[0].services[0].rollout = Some(v1::RolloutInfo {
        target_revision: 2,
        total_steps: 2,
        state: "paused".to_owned(),
        failure_reason: "step_timeout".to_owned(),
        ..Default::default()
    });
    let session = Session::with(Cluster::showing(vec![paused]));
    session.write("compose.yaml", COMPOSE);
    let did = session.run("apply");
    let told = "error[rollout_paused]: the rollout of revision 2 of shop is paused";
    assert!(did.err.contains(told), "{}", did.err);
    assert_eq!(did.code, Some(1));
    let page = session.run("help error rollout_paused");
    assert!(page.out.contains("failure_action: pause"), "{}", page.out);
}

/// R-CLI-7: 7 when the time is up.
#[test]
fn the_time_can_run_out() {
    check(
        vec![shop("updating", ["running", "starting"])],
        "apply --timeout 300ms",
        &expect![[r#"
            --- stderr
            SERVICE   CHANGE   WHAT
            shop/web  updated  image web:1 → web:2, replicas 3 → 4

            ACTION   REPLICA     NODE     BECAUSE
            replace  shop-web-0  n1       image web:1 → web:2, environment.PORT; starts before the old one stops
            move     shop-web-1  n3 → n2  moved
            stop     shop-web-2  n2       fewer are wanted
            create   shop-web-3  n2       spread

            survives the loss of any one node: no: n2 (2 of shop/web would wait)
            survives the loss of any one zone: no node has a zone

            shop revision 2: updated
            [time] web 1/2 running
            [time] shop-web-1 on n2: starting
            error[timed_out]: shop did not get there within 0.3s
              because: web 1/2 running
              because: shop-web-1 on n2: starting
              help: the work goes on in the cluster: jaco status shop -w
            --- exit 7
        "#]],
    );
}

/// R-CLI-1: without waiting, and without changing anything.
#[test]
fn waiting_is_optional() {
    check(
        Vec::new(),
        "apply --detach",
        &expect![[r#"
            shop revision 2 updated; the cluster works on it
            --- stderr
            SERVICE   CHANGE   WHAT
            shop/web  updated  image web:1 → web:2, replicas 3 → 4

            ACTION   REPLICA     NODE     BECAUSE
            replace  shop-web-0  n1       image web:1 → web:2, environment.PORT; starts before the old one stops
            move     shop-web-1  n3 → n2  moved
            stop     shop-web-2  n2       fewer are wanted
            create   shop-web-3  n2       spread

            survives the loss of any one node: no: n2 (2 of shop/web would wait)
            survives the loss of any one zone: no node has a zone

            shop revision 2: updated
            --- exit 0
        "#]],
    );
    check(
        Vec::new(),
        "apply compose.yaml --dry-run",
        &expect![[r#"
            shop revision 2 would be updated; nothing was changed

            SERVICE   CHANGE   WHAT
            shop/web  updated  image web:1 → web:2, replicas 3 → 4

            ACTION   REPLICA     NODE     BECAUSE
            replace  shop-web-0  n1       image web:1 → web:2, environment.PORT; starts before the old one stops
            move     shop-web-1  n3 → n2  moved
            stop     shop-web-2  n2       fewer are wanted
            create   shop-web-3  n2       spread

            survives the loss of any one node: no: n2 (2 of shop/web would wait)
            survives the loss of any one zone: no node has a zone
            --- stderr
            --- exit 0
        "#]],
    );
}

/// R-CLI-1, R-IN-1: all problems at once, compiler style, and nothing is sent.
#[test]
fn problems_are_listed_before_anything_is_sent() {
    let session = Session::alone();
    session.write("compose.yaml", "services:\n  web:\n    imag: web\n    image: [1\n");
    let did = session.run("apply");
    assert_eq!(did.code, Some(3), "{did:?}");
    assert!(did.err.contains("--> compose.yaml:"), "{}", did.err);
    session.write("compose.yaml", "services:\n  web:\n    imag: web\n  db: {ports: x}\n");
    let did = session.run("apply -o json");
    let json: serde_json::Value = serde_json::from_str(&did.out).unwrap();
    assert_eq!((did.code, &json["error"]["code"]), (Some(3), &"invalid_manifest".into()));
    assert!(json["error"]["details"]["problems"].as_array().unwrap().len() > 1, "{json}");
}

/// R-CLI-7: 130 on Ctrl-C, and how to get back.
#[tokio::test]
async fn an_interrupt_detaches() {
    let cluster = Cluster::showing(vec![shop("updating", ["running", "starting"])]);
    let session = Session::with(cluster);
    session.write("compose.yaml", COMPOSE);
    let mut child = tokio::process::Command::from(session.command("apply"))
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // It is waiting once it shows the replica that is not steady.
    let mut stderr = tokio::io::BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("starting") {
        use tokio::io::AsyncBufReadExt;
        assert_ne!(stderr.read_line(&mut said).await.unwrap(), 0, "{said}");
    }
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    tokio::io::AsyncReadExt::read_to_string(&mut stderr, &mut said).await.unwrap();
    assert_eq!(child.wait().await.unwrap().code(), Some(130));
    assert!(said.contains("`jaco status shop -w`"), "{said}");
}

#[test]
fn a_deletion_is_waited_for() {
    let mut empty = shop("active", ["running", "running"]);
    empty.deployments.clear();
    let mut leaving = empty.clone();
    empty.replicas.clear();
    leaving.replicas.pop();
    check(
        vec![leaving, empty],
        "rm shop",
        &expect![[r"
            shop deleted
            --- stderr
            [time] shop-web-0 on n1: running
            --- exit 0
        "]],
    );
}

struct Refusing(ErrorCode);

impl Script for Refusing {
    fn apply(&self, _: v1::ApplyRequest, _: Option<&str>) -> Answer<v1::ApplyResponse> {
        Err(Rejection::new(self.0, "so it is").with("missing", "n7"))
    }
}

/// R-CLI-7, R-CLI-8: a refusal is told with its facts and its page's advice.
#[test]
fn a_refusal_is_told() {
    let session = Session::with(Refusing(ErrorCode::UnknownHost));
    session.write("compose.yaml", COMPOSE);
    let did = session.run("apply");
    expect![[r"
        error[unknown_host]: so it is
          because: missing: n7
          help: Correct the name under `hosts:`, or let the node join first.
          help: more: jaco help error unknown_host
    "]]
    .assert_eq(&did.err);
    assert_eq!((did.code, did.out.as_str()), (Some(3), ""));
}
