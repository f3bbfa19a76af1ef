//! Going back to an earlier revision, and keeping one.

use jaco_state::command::{DeploymentRollback, RevisionPin, SpecChange};
use jaco_state::deployment::Pin;
use jaco_state::{Change, Command, Outcome};
use jaco_types::{ErrorCode, Revision, Rollout, RolloutState, Scheduling, Timestamp};

use crate::history::{History, deploy, deployment, key, service};

fn versions(history: &mut History, versions: std::ops::RangeInclusive<u32>) {
    for version in versions {
        history.apply(deploy("shop", &[service("web", &format!("web:{version}"))]));
    }
}

fn rollback(to: Option<u64>) -> Command {
    DeploymentRollback::new(deployment("shop")).to(to.map(Revision)).into()
}

fn pin(revision: u64, pin: Pin) -> Command {
    RevisionPin::new(deployment("shop"), Revision(revision), pin).into()
}

fn kept(history: &History) -> Vec<u64> {
    let shop = history.state.deployments.get(&deployment("shop")).unwrap();
    shop.revisions.keys().map(|revision| revision.0).collect()
}

fn abort(history: &mut History, revision: u64) {
    let rollout = Rollout {
        target_revision: Revision(revision),
        previous_revision: Revision(revision - 1),
        total_steps: 1,
        current_step: 0,
        state: RolloutState::Aborted,
        failure_reason: "step_timeout: shop-web-0".to_owned(),
        started_at: Timestamp(0),
        last_step_at: Timestamp(0),
        prepull: None,
        rollback_progress: None,
        in_flight: [].into(),
    };
    let record = Scheduling { rollout: Some(rollout), ..Scheduling::default() };
    history.batch(vec![Change::SchedulingSet {
        service: key("shop", "web"),
        record: Box::new(record),
    }]);
}

/// R-ROLL-6: the spec of a rollback is the original, hash for hash, under a new revision.
#[test]
fn a_rollback_restores_the_very_spec() {
    let mut history = History::founded();
    versions(&mut history, 1..=3);
    let done = history.apply(rollback(None));
    let expected = Outcome::Deployed { revision: Revision(4), change: SpecChange::Updated };
    assert_eq!(done, expected);
    let shop = history.state.deployments.get(&deployment("shop")).unwrap();
    assert_eq!(shop.spec(), &shop.revisions[&Revision(2)].spec);
    assert_eq!(shop.revisions[&Revision(4)].restores, Some(Revision(2)));
    assert!(
        history
            .last_event()
            .starts_with("rollback changes=web: image web:3 -> web:2 deployment=shop"),
        "{}",
        history.last_event()
    );
    history.apply(rollback(Some(1)));
    let shop = history.state.deployments.get(&deployment("shop")).unwrap();
    assert_eq!(shop.spec(), &shop.revisions[&Revision(1)].spec);
}

/// R-ROLL-6: the one before is the newest that served: not one whose rollout was given up.
#[test]
fn a_rollback_passes_over_what_never_served() {
    let mut history = History::founded();
    versions(&mut history, 1..=3);
    abort(&mut history, 2);
    history.apply(rollback(None));
    let shop = history.state.deployments.get(&deployment("shop")).unwrap();
    assert_eq!(shop.revisions[&shop.revision].restores, Some(Revision(1)));
    assert_eq!(shop.revisions[&Revision(2)].failure, "step_timeout: shop-web-0");
}

/// What cannot be gone back to is refused by name, and nothing changes.
#[test]
fn a_rollback_to_nothing_is_refused() {
    let mut history = History::founded();
    assert_eq!(history.refused(rollback(None)), ErrorCode::DeploymentNotFound);
    versions(&mut history, 1..=1);
    assert_eq!(history.refused(rollback(None)), ErrorCode::NoPreviousRevision);
    assert_eq!(history.refused(rollback(Some(7))), ErrorCode::RevisionNotFound);
    assert_eq!(kept(&history), [1]);
}

/// R-ROLL-6: ten are kept, and what is pinned beside them, until it is unpinned.
#[test]
fn a_pinned_revision_outlives_the_others() {
    let mut history = History::founded();
    versions(&mut history, 1..=2);
    history.apply(pin(2, Pin::Yes));
    versions(&mut history, 3..=20);
    assert_eq!(kept(&history), [2, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]);
    history.apply(pin(2, Pin::No));
    versions(&mut history, 21..=21);
    assert_eq!(kept(&history), [12, 13, 14, 15, 16, 17, 18, 19, 20, 21]);
}

/// Pins are bounded, and pinning twice writes nothing.
#[test]
fn pins_are_bounded() {
    let mut history = History::founded();
    versions(&mut history, 1..=1);
    for version in 1..=10_u32 {
        history.apply(pin(version.into(), Pin::Yes));
        versions(&mut history, version + 1..=version + 1);
    }
    let before = history.state.audit.clone();
    history.apply(pin(1, Pin::Yes));
    assert_eq!(history.state.audit, before);
    assert_eq!(history.refused(pin(11, Pin::Yes)), ErrorCode::TooLarge);
}
