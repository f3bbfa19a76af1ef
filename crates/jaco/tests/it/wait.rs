//! `jaco wait`: its conditions as pure functions of the status, and the command.

use expect_test::{Expect, expect};
use jaco_cli::deploy::condition::{Condition, Target, Unfit, check, verdict, worst};
use jaco_cli::deploy::verdict::{Failure, Verdict};
use jaco_client::scripted::{Answer, Feed, Script};
use jaco_proto::v1;

use crate::fixture::{Session, shop};

/// `shop` with a job `migrate` of one replica beside `web`.
fn with_job(status: &str, state: &str) -> v1::StatusResponse {
    let mut shop = shop(status, ["running"; 2]);
    shop.deployments[0].services.push(v1::ServiceInfo {
        name: "migrate".to_owned(),
        placement: "spread".to_owned(),
        desired: 1,
        status: status.to_owned(),
        completes_as: "job".to_owned(),
        ..Default::default()
    });
    shop.deployments[0].services[0].status = "active".to_owned();
    for replica in &mut shop.replicas {
        replica.in_routing = true;
    }
    shop.replicas.push(v1::ReplicaInfo {
        id: "shop-migrate-0".to_owned(),
        deployment: "shop".to_owned(),
        service: "migrate".to_owned(),
        node: "n1".to_owned(),
        state: state.to_owned(),
        revision: 2,
        ..Default::default()
    });
    shop
}

fn of(name: &str) -> Target {
    Target::parse(name)
}

/// R-JOB-1: a job has completed when all of its replicas have, not when it runs, and one that failed never will.
#[test]
fn jobs_complete_with_their_last_replica() {
    let check = |status: &v1::StatusResponse, name: &str, expected| {
        assert_eq!(verdict(status, &of(name), Condition::Completed), expected, "{name}");
    };
    for name in ["shop", "shop/migrate"] {
        check(&with_job("active", "completed"), name, Verdict::Converged);
        check(&with_job("active", "running"), name, Verdict::InProgress);
        check(&with_job("updating", "completed"), name, Verdict::InProgress);
        check(&with_job("failed", "failed"), name, Verdict::Failed(Failure::Exhausted));
        check(&with_job("pending", "stopped"), name, Verdict::Failed(Failure::Stuck));
    }
    // The rest of the deployment does not count.
    let mut status = with_job("active", "completed");
    status.deployments[0].status = "failed".to_owned();
    check(&status, "shop", Verdict::Converged);
    // Without jobs, what its restart policy lets end.
    status.deployments[0].services[1].completes_as = "policy".to_owned();
    check(&status, "shop", Verdict::Converged);
    status.replicas[2].state = "running".to_owned();
    check(&status, "shop", Verdict::InProgress);
}

/// R-CLI-7: one service converges for itself, by the status that the daemon tells for it.
#[test]
fn services_converge_for_themselves() {
    let check = |status: &v1::StatusResponse, name: &str, expected| {
        assert_eq!(verdict(status, &of(name), Condition::Converged), expected, "{name}");
    };
    let status = with_job("failed", "failed");
    check(&status, "shop/web", Verdict::Converged);
    check(&status, "shop/migrate", Verdict::Failed(Failure::Exhausted));
    check(&status, "shop", Verdict::Failed(Failure::Exhausted));
    check(&status, "shop/db", Verdict::Failed(Failure::Removed));
    check(&status, "blog", Verdict::Failed(Failure::Deleted));
    // A replica of another service that starts is no progress of this one.
    let mut status = with_job("updating", "starting");
    let web = &mut status.deployments[0].services[0];
    (web.status, web.desired) = ("pending".to_owned(), 3);
    check(&status, "shop/web", Verdict::Failed(Failure::Stuck));
    // Older daemons tell the status of the deployment only.
    let mut status = with_job("updating", "starting");
    status.deployments[0].services[0].status.clear();
    check(&status, "shop/web", Verdict::InProgress);
    status.deployments[0].revision = 9;
    status.deployments[0].status = "active".to_owned();
    check(&status, "shop/web", Verdict::Converged);
}

/// R-CLI-10: healthy is what serves now, of whatever revision, and an old answer proves nothing.
#[test]
fn healthy_is_what_serves() {
    let check = |status: &v1::StatusResponse, name: &str, expected| {
        assert_eq!(verdict(status, &of(name), Condition::Healthy), expected, "{name}");
    };
    for status in ["active", "updating", "rolled_back", "paused"] {
        check(&with_job(status, "completed"), "shop", Verdict::Converged);
    }
    let mut status = with_job("updating", "completed");
    status.replicas[1].in_routing = false;
    check(&status, "shop", Verdict::InProgress);
    check(&status, "shop/migrate", Verdict::Converged);
    status.deployments[0].services[0].status = "failed".to_owned();
    check(&status, "shop/web", Verdict::Failed(Failure::Exhausted));
    // What was given up serves again, once it is replaced.
    for given_up in ["rolled_back", "paused"] {
        status.deployments[0].services[0].status = given_up.to_owned();
        check(&status, "shop/web", Verdict::InProgress);
    }
    let mut stale = with_job("active", "completed");
    stale.staleness = Some(v1::Staleness { age_ms: 1, reason: "cut off".to_owned() });
    check(&stale, "shop", Verdict::InProgress);
    let gone = verdict(&stale, &of("blog"), Condition::Gone);
    assert_eq!(gone, Verdict::InProgress, "who is cut off knows of no end");
}

/// What is gone is neither desired nor left on a node.
#[test]
fn gone_is_what_nothing_is_left_of() {
    let check = |status: &v1::StatusResponse, name: &str, expected| {
        assert_eq!(verdict(status, &of(name), Condition::Gone), expected, "{name}");
    };
    let mut status = with_job("active", "completed");
    check(&status, "shop", Verdict::InProgress);
    check(&status, "shop/web", Verdict::InProgress);
    check(&status, "shop/db", Verdict::Converged);
    check(&status, "blog", Verdict::Converged);
    status.deployments[0].services.remove(0);
    check(&status, "shop/web", Verdict::InProgress);
    status.replicas.retain(|replica| replica.service != "web");
    check(&status, "shop/web", Verdict::Converged);
    status.deployments.clear();
    check(&status, "shop", Verdict::InProgress);
    status.replicas.clear();
    check(&status, "shop", Verdict::Converged);
}

/// Of several, a failure that lasts decides; one that may pass waits for the others.
#[test]
fn the_worst_verdict_decides() {
    use Verdict::{Converged, Failed, InProgress, Settling};
    let check = |all: &[Verdict], expected| assert_eq!(worst(all.iter().copied()), expected);
    check(&[Converged, Converged], Converged);
    check(&[Converged, Settling], Settling);
    check(&[Failed(Failure::Stuck), Converged], Failed(Failure::Stuck));
    check(&[InProgress, Failed(Failure::Stuck)], InProgress);
    check(&[Failed(Failure::Exhausted), InProgress], Failed(Failure::Exhausted));
}

#[test]
fn what_cannot_be_waited_for_is_found_out_before() {
    let status = with_job("active", "completed");
    let check = |name, condition| check(&status, &of(name), condition);
    assert_eq!(check("blog", Condition::Converged), Err(Unfit::NoDeployment));
    assert_eq!(check("shop/db", Condition::Healthy), Err(Unfit::NoService));
    assert_eq!(check("shop/web", Condition::Completed), Err(Unfit::NoJob));
    assert_eq!(check("shop", Condition::Completed), Ok(()));
    assert_eq!(check("blog", Condition::Gone), Ok(()));
}

/// Answers with the first status, and then shows all of them.
struct Cluster {
    statuses: Vec<v1::StatusResponse>,
}

impl Script for Cluster {
    fn overview(
        &self,
        request: v1::StatusRequest,
        _: Option<&str>,
    ) -> Answer<Feed<v1::StatusResponse>> {
        assert!(request.linearizable, "another node may have been told");
        Ok(Feed::of(vec![self.statuses[0].clone()]))
    }

    fn watch(
        &self,
        request: v1::StatusRequest,
        _: Option<&str>,
    ) -> Answer<Feed<v1::StatusResponse>> {
        assert_eq!(request.min_index, 40);
        Ok(Feed::open(self.statuses.clone()))
    }
}

fn run(statuses: Vec<v1::StatusResponse>, line: &str, expected: &Expect) {
    let session = Session::with(Cluster { statuses });
    let run = session.run(line);
    let code = run.code.map(|code| code.to_string()).unwrap_or_default();
    expected.assert_eq(&format!("{}--- stderr\n{}--- exit {code}\n", run.out, run.err));
}

/// R-CLI-1, R-CLI-7: what is waited for and why not yet on stderr, the result on stdout, 0 once it holds.
#[test]
fn wait_shows_what_is_missing_until_it_holds() {
    run(
        vec![with_job("updating", "pulling"), with_job("active", "completed")],
        "wait shop/migrate --for completed",
        &expect![[r#"
            shop/migrate completed
            --- stderr
            waiting for shop/migrate to complete, at most 5m00s
            [time] shop/migrate 0/1 running
            [time] shop-migrate-0 on n1: pulling
            [time] shop-migrate-0 on n1: completed
            --- exit 0
        "#]],
    );
    run(
        vec![with_job("updating", "pulling"), with_job("active", "completed")],
        "wait shop shop/migrate",
        &expect![[r#"
            shop converged: 2 of 3 replicas running, 1 completed
            shop/migrate converged
            --- stderr
            waiting for shop and shop/migrate to converge, at most 5m00s
            [time] shop/web 2/2 running
            [time] shop/migrate 0/1 running
            [time] shop-migrate-0 on n1: pulling
            [time] shop-migrate-0 on n1: completed
            --- exit 0
        "#]],
    );
    run(
        vec![with_job("updating", "starting"), v1::StatusResponse::default()],
        "wait shop --for gone -o json",
        &expect![[r#"
            {
              "condition": "gone",
              "raft_index": 0,
              "targets": [
                {
                  "deployment": "shop"
                }
              ]
            }
            --- stderr
            waiting for shop to be gone, at most 5m00s
            [time] shop is desired, nobody has removed it
            [time] shop-web-0 on n1: running
            [time] shop-web-1 on n2: running
            [time] shop-migrate-0 on n1: starting
            --- exit 0
        "#]],
    );
}

/// R-CLI-7: the exit codes are those of `jaco apply`.
#[test]
fn wait_fails_as_apply_does() {
    let mut failed = with_job("failed", "failed");
    failed.replicas[2].code = "restart_exhausted".to_owned();
    run(
        vec![failed],
        "wait shop/migrate --for completed",
        &expect![[r#"
            --- stderr
            waiting for shop/migrate to complete, at most 5m00s
            [time] shop/migrate 0/1 running
            [time] shop-migrate-0 on n1: failed, it is not restarted any more
            error[restart_exhausted]: a replica of shop has exhausted its restarts
              because: shop/migrate 0/1 running
              because: shop-migrate-0 on n1: failed, it is not restarted any more
              help: jaco logs shop/migrate --tail 20
              help: apply again after the cause is fixed
            --- exit 1
        "#]],
    );
    run(
        vec![with_job("updating", "running")],
        "wait shop/migrate --for completed --timeout 1s",
        &expect![[r#"
            --- stderr
            waiting for shop/migrate to complete, at most 1.0s
            [time] shop/migrate 0/1 running
            error[timed_out]: waiting for shop/migrate to complete ended after 1.0s
              because: shop/migrate 0/1 running
              help: nothing was changed; jaco status -w shows how it goes on
            --- exit 7
        "#]],
    );
    run(
        vec![with_job("active", "completed")],
        "wait shop/web --for completed",
        &expect![[r#"
        --- stderr
        error[invalid_request]: shop/web has no job: an end of its containers is a failure
          help: --for converged or --for healthy waits for what serves
          help: Correct what the sentence names, and ask again.
          help: more: jaco help error invalid_request
        --- exit 3
    "#]],
    );
    run(
        vec![with_job("active", "completed")],
        "wait shop blog",
        &expect![[r#"
        --- stderr
        error[deployment_not_found]: there is no deployment blog
          help: jaco get deployments lists the deployments
          help: See the names with `jaco status`.
          help: more: jaco help error deployment_not_found
        --- exit 3
    "#]],
    );
    run(
        vec![with_job("active", "completed")],
        "wait shop/wbe --for healthy",
        &expect![[r#"
        --- stderr
        error[service_not_found]: shop has no service wbe
          help: its services are web, migrate
          help: See the services with `jaco status DEPLOYMENT`.
          help: more: jaco help error service_not_found
        --- exit 3
    "#]],
    );
}

/// R-CLI-6: refusals are JSON for programs, too, and a condition that does not exist is a wrong command line.
#[test]
fn wait_speaks_to_programs() {
    let session = Session::with(Cluster { statuses: vec![with_job("active", "completed")] });
    let refused = session.run("wait blog -q -o json");
    let json: serde_json::Value = serde_json::from_str(&refused.out).unwrap();
    assert_eq!(json["error"]["code"], "deployment_not_found");
    assert_eq!(refused.code, Some(3));
    assert_eq!(session.run("wait shop --for ready").code, Some(2));
    let done = session.run("wait shop/migrate --for completed -q -o json");
    let json: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(json["targets"][0]["service"], "migrate");
    assert_eq!(json["targets"][0]["revision"], 2);
    assert_eq!((done.code, done.err.as_str()), (Some(0), ""));
}
