//! Lines of progress and verdicts as pure functions of the status.

use expect_test::{Expect, expect};
use jaco_cli::deploy::verdict::{Failure, Verdict, verdict};
use jaco_cli::view::progress::{changes, lines, running_text};
use jaco_proto::v1;

use crate::fixture::shop;

fn check(status: &v1::StatusResponse, expected: &Expect) {
    expected.assert_eq(&format!("{}\n", lines(status, "shop").join("\n")));
}

fn rolling(current_step: u32) -> v1::StatusResponse {
    let mut status = shop("updating", ["running", "starting"]);
    status.deployments[0].services[0].rollout = Some(v1::RolloutInfo {
        target_revision: 2,
        total_steps: 2,
        current_step,
        state: "in_progress".to_owned(),
        ..Default::default()
    });
    status.replicas[0].revision = 1;
    status.replicas[1].retiring =
        Some(v1::RetiringInfo { node: "n1".to_owned(), ..Default::default() });
    status
}

#[test]
fn rollout_shows_its_step() {
    check(
        &rolling(1),
        &expect![[r"
            web 1/2 running, rolling r1→r2 step 2/2
              shop-web-1 on n2: starting
        "]],
    );
}

#[test]
fn reasons_are_shown_in_one_line() {
    let mut status = shop("updating", ["pending", "failed"]);
    status.replicas[0].code = "image_pull_failed".to_owned();
    status.replicas[0].details = [("reason".to_owned(), "no such\n  image".to_owned())].into();
    status.replicas[1].code = "container_exited".to_owned();
    status.replicas[1].exited = true;
    status.replicas[1].exit_code = 1;
    check(
        &status,
        &expect![[r#"
            web 0/2 running
              shop-web-0 on n1: pending, the image cannot be pulled, no such image
              shop-web-1 on n2: failed, its container exited, exit code 1
        "#]],
    );
}

#[test]
fn replicas_of_removed_services_are_shown() {
    let mut status = shop("updating", ["running", "running"]);
    status.replicas[1].service = "old".to_owned();
    check(
        &status,
        &expect![[r"
            web 2/2 running
            shop-web-1 on n2 is being removed
        "]],
    );
}

/// On a pipe, each line is printed once.
#[test]
fn only_new_lines_are_printed() {
    let before = lines(&rolling(0), "shop");
    let now = lines(&rolling(1), "shop");
    assert_eq!(changes(&before, &now), ["web 1/2 running, rolling r1→r2 step 2/2"]);
    assert_eq!(changes(&now, &now), [""; 0]);
}

/// R-CLI-7: each status ends the wait or not.
#[test]
fn verdict_follows_from_the_status() {
    let check = |status: &v1::StatusResponse, expected| {
        assert_eq!(verdict(status, "shop", 2), expected, "{status:?}");
    };
    check(&shop("active", ["running"; 2]), Verdict::Converged);
    check(&shop("updating", ["running"; 2]), Verdict::InProgress);
    check(&shop("failed", ["failed"; 2]), Verdict::Failed(Failure::Exhausted));
    check(&shop("rolled_back", ["running"; 2]), Verdict::Failed(Failure::RolledBack));
    check(&shop("pending", ["running"; 2]), Verdict::Failed(Failure::Stuck));
    // A replica is still in flight: too early for "cannot place".
    check(&shop("pending", ["running", "pulling"]), Verdict::InProgress);
    // Convergence of an older revision does not count.
    let mut older = shop("active", ["running"; 2]);
    older.deployments[0].revision = 1;
    check(&older, Verdict::InProgress);
    check(&v1::StatusResponse::default(), Verdict::Failed(Failure::Deleted));
}

/// R-CLI-10: a result speaks of the revision that was asked for, once nothing goes on, and is not read from an
/// old answer.
#[test]
fn verdict_is_about_the_revision_that_was_asked_for_and_its_end() {
    let check = |status: &v1::StatusResponse, expected| {
        assert_eq!(verdict(status, "shop", 2), expected, "{status:?}");
    };
    let mut later = shop("active", ["running"; 2]);
    later.deployments[0].revision = 3;
    check(&later, Verdict::Failed(Failure::Superseded(3)));
    let with_rollout = |status: &str, state: &str, back| {
        let mut status = shop(status, ["running", "failed"]);
        status.deployments[0].services[0].rollout = Some(v1::RolloutInfo {
            target_revision: 2,
            state: state.to_owned(),
            rollback_progress: back,
            ..Default::default()
        });
        status
    };
    let back = Some(v1::RollbackProgressInfo { total_steps: 2, current_step: 1 });
    check(&with_rollout("rolled_back", "aborted", back), Verdict::InProgress);
    let ended = Verdict::Failed(Failure::RolledBack);
    check(&with_rollout("rolled_back", "aborted", None), ended);
    // One service is given up, and another one is still on its way.
    check(&with_rollout("rolled_back", "in_progress", None), Verdict::InProgress);
    check(&with_rollout("paused", "in_progress", None), Verdict::InProgress);
    check(&with_rollout("paused", "paused", None), Verdict::Failed(Failure::Paused));
    // The failure may be tolerated.
    check(&with_rollout("failed", "in_progress", None), Verdict::InProgress);
    let ended = Verdict::Failed(Failure::Exhausted);
    check(&with_rollout("failed", "completed", None), ended);
    let mut too_many = shop("active", ["running"; 2]);
    too_many.deployments[0].services[0].desired = 1;
    check(&too_many, Verdict::InProgress);
    too_many.replicas[1].state = "stopping".to_owned();
    check(&too_many, Verdict::Converged);
    let mut too_few = shop("active", ["running"; 2]);
    too_few.replicas.pop();
    check(&too_few, Verdict::InProgress);
    for status in ["active", "failed", "pending", "rolled_back"] {
        let mut old = shop(status, ["running"; 2]);
        old.staleness = Some(v1::Staleness { age_ms: 1, reason: "cut off".to_owned() });
        check(&old, Verdict::InProgress);
    }
}

/// R-CLI-10: replicas that do not run are not counted as running.
#[test]
fn result_counts_what_runs() {
    let check = |status: &v1::StatusResponse, expected: &str| {
        assert_eq!(running_text(status, "shop"), expected);
    };
    check(&shop("active", ["running"; 2]), "2 replicas running");
    let mut removed = shop("active", ["running", "stopping"]);
    check(&removed, "1 replica running");
    removed.replicas[1].state = "stopped".to_owned();
    check(&removed, "1 of 2 replicas running, 1 completed");
    removed.replicas[1].code = "disabled".to_owned();
    check(&removed, "1 of 2 replicas running, 1 disabled");
    removed.replicas[1].state = "unknown".to_owned();
    removed.replicas[1].code = "node_down".to_owned();
    check(&removed, "1 of 2 replicas running, 1 on a node that is down");
}
