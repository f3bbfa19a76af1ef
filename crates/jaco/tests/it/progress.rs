//! Progress as a pure function of the status.

use expect_test::{Expect, expect};
use jaco_cli::progress::{Failure, Verdict, changes, lines, verdict};
use jaco_proto::v1;

use crate::session::shop;

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
fn a_rollout_shows_its_step() {
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
        &expect![[r"
            web 0/2 running
              shop-web-0 on n1: pending, image_pull_failed, no such image
              shop-web-1 on n2: failed, container_exited, exit code 1
        "]],
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

/// On a pipe, a line is said once.
#[test]
fn only_what_is_new_is_said() {
    let before = lines(&rolling(0), "shop");
    let now = lines(&rolling(1), "shop");
    assert_eq!(changes(&before, &now), ["web 1/2 running, rolling r1→r2 step 2/2"]);
    assert_eq!(changes(&now, &now), [""; 0]);
}

/// R-CLI-7: what ends a wait, and what does not yet.
#[test]
fn verdicts() {
    let check = |status: &v1::StatusResponse, expected| {
        assert_eq!(verdict(status, "shop", 2), expected, "{status:?}");
    };
    check(&shop("active", ["running"; 2]), Verdict::Converged);
    check(&shop("updating", ["running"; 2]), Verdict::Going);
    check(&shop("failed", ["failed"; 2]), Verdict::Failing(Failure::Exhausted));
    check(&shop("rolled_back", ["running"; 2]), Verdict::Failing(Failure::RolledBack));
    check(&shop("pending", ["running"; 2]), Verdict::Failing(Failure::Stuck));
    // Something else still moves: it is too early to say that it is stuck.
    check(&shop("pending", ["running", "pulling"]), Verdict::Going);
    // An older revision's success is not this one's.
    let mut older = shop("active", ["running"; 2]);
    older.deployments[0].revision = 1;
    check(&older, Verdict::Going);
    check(&v1::StatusResponse::default(), Verdict::Failing(Failure::Gone));
}
