//! Which revision a change of what runs starts from.

use jaco_state::command::Change;
use jaco_state::view::{held_spec, serving_revision};
use jaco_types::spec::ServiceSpec;
use jaco_types::{Revision, Rollout, RolloutState, Scheduling, Timestamp};

use crate::history::{History, deploy, deployment, key, service};

/// The rollout of a service to a revision, from another one.
fn roll(history: &mut History, name: &str, (from, to): (u64, u64), state: RolloutState) {
    let rollout = Rollout {
        target_revision: Revision(to),
        previous_revision: Revision(from),
        total_steps: 1,
        current_step: 0,
        state,
        failure_reason: String::new(),
        started_at: Timestamp(0),
        last_step_at: Timestamp(0),
        prepull: None,
        rollback_progress: None,
        in_flight: [].into(),
    };
    let record = Scheduling {
        planned_revision: Revision(to),
        next_index: 1,
        rollout: Some(rollout),
        ..Scheduling::default()
    };
    let change = Change::SchedulingSet { service: key("shop", name), record: Box::new(record) };
    assert_eq!(history.batch(vec![change]), jaco_state::Outcome::Done);
}

/// The revision that serves, or what stands in the way.
fn serving(history: &History) -> String {
    let deployment = history.state.deployments.get(&deployment("shop")).unwrap();
    match serving_revision(&history.state, deployment) {
        Ok(revision) => revision.to_string(),
        Err(part) => {
            let without: Vec<_> = part.without.iter().map(ToString::to_string).collect();
            format!("{} to {} without {}", part.given_up, part.to, without.join(" "))
        }
    }
}

/// `shop` with these services at each revision.
fn revisions(all: &[&[ServiceSpec]]) -> History {
    let mut history = History::founded();
    for services in all {
        history.apply(deploy("shop", services));
    }
    history
}

/// R-ROLL-3: a revision that was given up does not serve; one that is rolled out, was, or is paused, is what is wanted.
#[test]
fn a_given_up_revision_does_not_serve() {
    for (state, expected) in [
        (RolloutState::InProgress, "2"),
        (RolloutState::Completed, "2"),
        (RolloutState::Paused, "2"),
        (RolloutState::Aborted, "1"),
        (RolloutState::RollbackPaused, "1"),
    ] {
        let mut history = revisions(&[&[service("web", "web:1")], &[service("web", "web:2")]]);
        assert_eq!(serving(&history), "2");
        roll(&mut history, "web", (1, 2), state);
        assert_eq!(serving(&history), expected, "{state:?}");
        // What was given up before says nothing about the revision that is wanted now.
        history.apply(deploy("shop", &[service("web", "web:3")]));
        assert_eq!(serving(&history), "3");
    }
}

/// R-ROLL-3: after several bad revisions the good one serves, also where a service was left as it was by some.
#[test]
fn the_last_good_revision_serves_after_bad_ones() {
    let db = || service("db", "db:1");
    let mut history = revisions(&[
        &[db(), service("web", "web:1")],
        &[db(), service("web", "web:2")],
        &[service("db", "db:3"), service("web", "web:3")],
    ]);
    roll(&mut history, "db", (2, 3), RolloutState::Aborted);
    roll(&mut history, "web", (1, 3), RolloutState::Aborted);
    assert_eq!(serving(&history), "1");
}

/// R-ROLL-3: a bad number of replicas is given up likewise.
#[test]
fn a_bad_count_does_not_serve() {
    let more = ServiceSpec { replicas: 3, ..service("web", "web:1") };
    let mut history = revisions(&[&[service("web", "web:1")], &[more]]);
    roll(&mut history, "web", (1, 2), RolloutState::Aborted);
    assert_eq!(serving(&history), "1");
}

/// R-CLI-10: after a rollback a service is held to what it went back to: its number of replicas and its places.
#[test]
fn a_service_is_held_to_what_it_went_back_to() {
    let more = ServiceSpec { replicas: 5, ..service("web", "web:2") };
    let mut history = revisions(&[&[service("web", "web:1")], &[more]]);
    let held = |history: &History| {
        let deployment = history.state.deployments.get(&deployment("shop")).unwrap();
        held_spec(&history.state, deployment, &key("shop", "web").service).unwrap().replicas
    };
    assert_eq!(held(&history), 5);
    for (state, expected) in [
        (RolloutState::InProgress, 5),
        (RolloutState::Paused, 5),
        (RolloutState::Aborted, 1),
        (RolloutState::RollbackPaused, 1),
    ] {
        roll(&mut history, "web", (1, 2), state);
        assert_eq!(held(&history), expected, "{state:?}");
    }
}

/// R-ROLL-3: what the given up revision added, removed or ran stays so: no revision is what serves then, and each such
/// service is named.
#[test]
fn services_that_did_not_go_back_are_named() {
    let mut history = revisions(&[
        &[service("job", "job:1"), service("old", "old:1"), service("web", "web:1")],
        &[service("job", "job:2"), service("new", "new:1"), service("web", "web:2")],
    ]);
    roll(&mut history, "job", (1, 2), RolloutState::Completed);
    roll(&mut history, "web", (1, 2), RolloutState::Aborted);
    assert_eq!(serving(&history), "2 to 1 without job new old");
}
