//! `jaco apply` and `jaco delete`: requests, output and exit codes.

use expect_test::{Expect, expect};
use jaco_client::scripted::{Answer, Feed, Script};
use jaco_proto::v1;
use jaco_types::{ErrorCode, Rejection};

use crate::fixture::{Session, shop};

const COMPOSE: &str = "name: shop\nservices:\n  web:\n    image: web:2\n";

/// The plan of `fixture::preview` as text.
const PLAN: &str = "\
SERVICE   CHANGE   DETAILS
shop/web  updated  image web:1 → web:2, replicas 3 → 4

ACTION   REPLICA     NODE     REASON
replace  shop-web-0  n1       image web:1 → web:2, environment.PORT; start first
move     shop-web-1  n3 → n2  moved
stop     shop-web-2  n2       surplus
create   shop-web-3  n2       spread

survives the loss of any one node: no: n2 (2 replicas of shop/web would be pending)
survives the loss of any one zone: no node has a zone
";

/// Accepts revision 2 of `shop` and then shows these statuses.
struct Cluster {
    statuses: Vec<v1::StatusResponse>,
}

impl Cluster {
    fn showing(statuses: Vec<v1::StatusResponse>) -> Self {
        Self { statuses }
    }
}

impl Script for Cluster {
    fn apply(&self, request: v1::ApplyRequest, _: Option<&str>) -> Answer<v1::ApplyResponse> {
        assert_eq!(request.deployment, "shop");
        assert_eq!(request.request_id.len(), 32);
        Ok(v1::ApplyResponse {
            deployment: "shop".to_owned(),
            revision: 2,
            change: "updated".to_owned(),
            raft_index: 40,
            preview: request.dry_run.then(crate::fixture::preview),
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
    let run = session.run(line);
    let code = run.code.map(|code| code.to_string()).unwrap_or_default();
    let [out, err] = [run.out, run.err].map(|text| text.replace(PLAN, "(plan)\n"));
    expected.assert_eq(&format!("{out}--- stderr\n{err}--- exit {code}\n"));
}

/// R-CLI-1, R-CLI-7: progress on stderr, the result on stdout, 0 when it has converged.
#[test]
fn apply_waits_for_convergence() {
    check(
        vec![shop("updating", ["running", "pulling"]), shop("active", ["running", "running"])],
        "apply",
        &expect![[r#"
            shop revision 2 updated: 2 replicas running
            --- stderr
            (plan)

            shop revision 2: updated
            [time] web 1/2 running
            [time] shop-web-1 on n2: pulling
            [time] web 2/2 running
            --- exit 0
        "#]],
    );
}

/// R-CLI-6: writes print JSON too; `-q` prints nothing else.
#[test]
fn result_is_printed_as_json() {
    let session = Session::with(Cluster::showing(vec![shop("active", ["running", "running"])]));
    session.write("compose.yaml", COMPOSE);
    let run = session.run("apply -q -o json");
    let json: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(json["outcome"], "converged");
    assert_eq!(json["replicas"][1]["node"], "n2");
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
}

/// R-CLI-7: 5, with the reasons, when nothing else is in flight.
#[test]
fn unplaceable_replicas_are_reported() {
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
            (plan)

            shop revision 2: updated
            [time] web 1/2 running
            [time] 1 replica cannot be placed: no node is eligible (nodes 1 not ready; 1 draining)
            error[cannot_place]: not all replicas of shop can be placed
              because: web 1/2 running
              because: 1 replica cannot be placed: no node is eligible (nodes 1 not ready; 1 draining)
              help: they are placed as soon as a node is eligible
              help: jaco status shop shows more; jaco node ls lists the nodes
            --- exit 5
        "#]],
    );
}

/// R-CLI-7, R-ROLL-3: 6 when it was rolled back, with what serves now.
#[test]
fn rollback_is_reported() {
    let mut back = shop("rolled_back", ["running", "running"]);
    for replica in &mut back.replicas {
        (replica.image, replica.revision) = ("web:1".to_owned(), 1);
    }
    back.deployments[0].services[0].rollout = Some(v1::RolloutInfo {
        target_revision: 2,
        total_steps: 2,
        state: "aborted".to_owned(),
        failure_reason: "step_timeout".to_owned(),
        ..Default::default()
    });
    let mut in_part = back.clone();
    (in_part.replicas[1].image, in_part.replicas[1].revision) = ("web:2".to_owned(), 2);
    check(
        vec![in_part],
        "apply",
        &expect![[r#"
        --- stderr
        (plan)

        shop revision 2: updated
        [time] web 2/2 running, rollout to r2 aborted: step_timeout; 1 of web:1 (r1) and 1 of web:2 (r2) serve
        error[rolled_back]: revision 2 of shop was rolled back in part
          because: web 2/2 running, rollout to r2 aborted: step_timeout; 1 of web:1 (r1) and 1 of web:2 (r2) serve
          help: jaco status shop
          help: apply again after the cause is fixed
        --- exit 6
    "#]],
    );
    check(
        vec![back],
        "apply",
        &expect![[r#"
            --- stderr
            (plan)

            shop revision 2: updated
            [time] web 2/2 running, rollout to r2 aborted: step_timeout; web:1 (r1) serves
            error[rolled_back]: revision 2 of shop was rolled back; the previous revision serves
              because: web 2/2 running, rollout to r2 aborted: step_timeout; web:1 (r1) serves
              help: jaco status shop
              help: apply again after the cause is fixed
            --- exit 6
        "#]],
    );
}

/// R-CLI-7: 1 when a replica has exhausted its restarts, with the last status and the next command.
#[test]
fn exhausted_replica_is_reported() {
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
            (plan)

            shop revision 2: updated
            [time] web 1/2 running
            [time] shop-web-1 on n2: failed, it is not restarted any more, exit code 137 (SIGKILL), out of memory
            error[restart_exhausted]: a replica of shop has exhausted its restarts
              because: web 1/2 running
              because: shop-web-1 on n2: failed, it is not restarted any more, exit code 137 (SIGKILL), out of memory
              help: jaco logs shop/web --tail 20
              help: apply again after the cause is fixed
            --- exit 1
        "#]],
    );
}

/// R-CLI-7, R-CLI-8: 1 when the rollout is paused, with a code that has a page.
#[test]
fn paused_rollout_is_reported() {
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
    let run = session.run("apply");
    let expected = "error[rollout_paused]: the rollout of revision 2 of shop is paused";
    assert!(run.err.contains(expected), "{}", run.err);
    assert_eq!(run.code, Some(1));
    let page = session.run("help error rollout_paused");
    assert!(page.out.contains("failure_action: pause"), "{}", page.out);
}

/// R-CLI-7: 7 at the timeout.
#[test]
fn timeout_is_reported() {
    check(
        vec![shop("updating", ["running", "starting"])],
        "apply --timeout 300ms",
        &expect![[r#"
            --- stderr
            (plan)

            shop revision 2: updated
            [time] web 1/2 running
            [time] shop-web-1 on n2: starting
            error[timed_out]: shop has not converged within 0.3s
              because: web 1/2 running
              because: shop-web-1 on n2: starting
              help: the rollout goes on in the cluster: jaco status shop -w
            --- exit 7
        "#]],
    );
}

/// R-CLI-1: without waiting, and without changing anything.
#[test]
fn detach_and_dry_run_do_not_wait() {
    check(
        Vec::new(),
        "apply --detach",
        &expect![[r#"
            shop revision 2 updated; the rollout goes on
            --- stderr
            (plan)

            shop revision 2: updated
            --- exit 0
        "#]],
    );
    check(
        Vec::new(),
        "apply compose.yaml --dry-run",
        &expect![[r#"
            shop revision 2 would be updated; nothing was changed

            (plan)
            --- stderr
            --- exit 0
        "#]],
    );
}

/// R-CLI-1, R-IN-1: all problems are listed at once, in compiler style, and nothing is sent.
#[test]
fn all_problems_are_listed_before_anything_is_sent() {
    let session = Session::alone();
    session.write("compose.yaml", "services:\n  web:\n    imag: web\n    image: [1\n");
    let run = session.run("apply");
    assert_eq!(run.code, Some(3), "{run:?}");
    assert!(run.err.contains("--> compose.yaml:"), "{}", run.err);
    session.write("compose.yaml", "services:\n  web:\n    imag: web\n  db: {ports: x}\n");
    let run = session.run("apply -o json");
    let json: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((run.code, &json["error"]["code"]), (Some(3), &"invalid_manifest".into()));
    assert!(json["error"]["details"]["problems"].as_array().unwrap().len() > 1, "{json}");
}

/// R-CLI-7: 130 on Ctrl-C, with advice how to follow the rollout.
#[tokio::test]
async fn interrupt_detaches() {
    let cluster = Cluster::showing(vec![shop("updating", ["running", "starting"])]);
    let session = Session::with(cluster);
    session.write("compose.yaml", COMPOSE);
    let mut child = tokio::process::Command::from(session.command("apply"))
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // It waits once it shows the replica that does not run.
    let mut stderr = tokio::io::BufReader::new(child.stderr.take().unwrap());
    let mut output = String::new();
    while !output.contains("starting") {
        use tokio::io::AsyncBufReadExt;
        assert_ne!(stderr.read_line(&mut output).await.unwrap(), 0, "{output}");
    }
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    tokio::io::AsyncReadExt::read_to_string(&mut stderr, &mut output).await.unwrap();
    assert_eq!(child.wait().await.unwrap().code(), Some(130));
    assert!(output.contains("`jaco status shop -w`"), "{output}");
}

#[test]
fn delete_waits_until_all_replicas_are_removed() {
    let mut empty = shop("active", ["running", "running"]);
    empty.deployments.clear();
    let mut terminating = empty.clone();
    empty.replicas.clear();
    terminating.replicas.pop();
    check(
        vec![terminating, empty],
        "rm shop --yes",
        &expect![[r"
            shop deleted
            --- stderr
            [time] shop-web-0 on n1: running
            --- exit 0
        "]],
    );
}

struct RefusingCluster(ErrorCode);

impl Script for RefusingCluster {
    fn apply(&self, _: v1::ApplyRequest, _: Option<&str>) -> Answer<v1::ApplyResponse> {
        Err(Rejection::new(self.0, "so it is").with("missing", "n7"))
    }
}

/// R-CLI-7, R-CLI-8: a refusal is printed with its details and its page's advice.
#[test]
fn refusal_is_printed_with_details_and_advice() {
    let session = Session::with(RefusingCluster(ErrorCode::UnknownHost));
    session.write("compose.yaml", COMPOSE);
    let run = session.run("apply");
    expect![[r"
        error[unknown_host]: so it is
          because: missing: n7
          help: Correct the name under `hosts:`, or let the node join first.
          help: more: jaco help error unknown_host
    "]]
    .assert_eq(&run.err);
    assert_eq!((run.code, run.out.as_str()), (Some(3), ""));
}

/// Computes plans for longer than anyone waits.
struct Slow;

impl Script for Slow {
    fn apply(&self, _: v1::ApplyRequest, _: Option<&str>) -> Answer<v1::ApplyResponse> {
        std::thread::sleep(std::time::Duration::from_secs(3));
        Ok(v1::ApplyResponse::default())
    }

    fn get_deployment(
        &self,
        _: v1::GetDeploymentRequest,
        _: Option<&str>,
    ) -> Answer<v1::GetDeploymentResponse> {
        Err(Rejection::new(ErrorCode::DeploymentNotFound, "there is none"))
    }
}

/// R-CLI-7: a plan that runs out of time exits with 7, and has no work that goes on.
#[test]
fn plan_out_of_time_leaves_nothing() {
    for line in ["apply --dry-run --timeout 1s", "apply --timeout 1s"] {
        let session = Session::with(Slow);
        session.write("compose.yaml", COMPOSE);
        let run = session.run(line);
        assert_eq!(run.code, Some(7), "{line}: {}", run.err);
        assert!(run.err.contains("within 1 s"), "{}", run.err);
        assert!(run.err.contains("nothing was changed, and no work is left"), "{}", run.err);
        assert!(!run.err.contains("goes on"), "{}", run.err);
    }
}
