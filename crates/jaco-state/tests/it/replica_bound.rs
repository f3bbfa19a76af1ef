//! How many replicas the deployments of a cluster have together, decided where no entry can come in between.

use jaco_state::apply::deployment::bound::{Asked, CLUSTER_REPLICAS_MAX, Growth};
use jaco_state::command::{DeploymentApply, DeploymentRollback, SpecChange};
use jaco_state::{Command, Outcome};
use jaco_types::spec::Placement;
use jaco_types::{ErrorCode, Revision, Rollout, RolloutState, Scheduling, StateIndex, Timestamp};

use crate::history::{History, deployment, key, service, spec};

/// An apply of so many replicas, as a leader writes it whose members all know the bound.
fn bounded(name: &str, replicas: u32) -> Command {
    apply(name, replicas).replicas_max(Some(CLUSTER_REPLICAS_MAX)).into()
}

fn apply(name: &str, replicas: u32) -> DeploymentApply {
    let mut web = service("web", "web:1");
    web.replicas = replicas;
    DeploymentApply::new(deployment(name), spec(&[web]))
}

/// R-IN-3: applies that were admitted at the same time exceed the bound no more than one after the other; what does not
/// grow is executed.
#[test]
fn concurrent_applies_do_not_exceed_the_bound() {
    let mut history = History::founded();
    for name in ["a", "b", "c", "d", "e", "f", "g", "h", "i"] {
        let done = history.apply(bounded(name, 10_000));
        assert!(matches!(done, Outcome::Deployed { .. }), "{done:?}");
    }
    assert!(matches!(history.apply(bounded("j", 9_999)), Outcome::Deployed { .. }));
    let before = history.state.deployments.clone();
    assert_eq!(history.refused(bounded("k", 2)), ErrorCode::TooLarge);
    assert_eq!(history.refused(bounded("j", 10_001)), ErrorCode::TooLarge);
    assert_eq!(history.state.deployments, before, "nothing was changed");
    assert!(matches!(history.apply(bounded("k", 1)), Outcome::Deployed { .. }));
    assert!(matches!(history.apply(bounded("a", 10_000)), Outcome::Deployed { .. }));
    assert!(matches!(history.apply(bounded("a", 9_000)), Outcome::Deployed { .. }));
}

/// R-IN-3: so is what a user rolls back to.
#[test]
fn a_rollback_does_not_exceed_the_bound() {
    let mut history = History::founded();
    history.apply(bounded("a", 60_000));
    history.apply(bounded("a", 1));
    history.apply(bounded("b", 60_000));
    let back = DeploymentRollback::new(deployment("a"));
    let max = Some(CLUSTER_REPLICAS_MAX);
    assert_eq!(history.refused(back.clone().replicas_max(max).into()), ErrorCode::TooLarge);
    // As entries of earlier releases, which are replayed to the state that they led to then.
    let executed = Outcome::Deployed { revision: Revision(3), change: SpecChange::Updated };
    assert_eq!(history.apply(back.into()), executed);
    let created = Outcome::Deployed { revision: Revision(1), change: SpecChange::Created };
    assert_eq!(history.apply(apply("c", 60_000).into()), created);
}

/// R-IN-3, R-ROLL-3: replicas that a failing rollout brings back are counted before it fails, so that nobody else gets
/// their room.
#[test]
fn replicas_that_a_rollout_may_bring_back_are_counted() {
    let mut history = History::founded();
    history.apply(bounded("a", 60_000));
    history.apply(bounded("a", 1));
    let rollout = |state| Rollout {
        target_revision: Revision(2),
        previous_revision: Revision(1),
        total_steps: 1,
        current_step: 1,
        state,
        failure_reason: String::new(),
        started_at: Timestamp(0),
        last_step_at: Timestamp(0),
        prepull: None,
        rollback_progress: None,
        in_flight: [].into(),
    };
    let record = |planned, rollout| Scheduling {
        planned_revision: Revision(planned),
        rollout,
        modified: StateIndex(1),
        ..Scheduling::default()
    };
    let web = key("a", "web");
    let unfinished = [
        record(1, None),
        record(2, Some(rollout(RolloutState::InProgress))),
        record(2, Some(rollout(RolloutState::Aborted))),
        record(2, Some(rollout(RolloutState::Paused))),
        record(2, Some(rollout(RolloutState::RollbackPaused))),
    ];
    for record in unfinished {
        history.state.scheduling.insert(web.clone(), record.clone());
        assert_eq!(history.refused(bounded("b", 50_000)), ErrorCode::TooLarge, "{record:?}");
        let event = history.last_event();
        let said = "50000 replicas beside 60000 of the others (59999 of them if rollouts that have not completed fail)";
        assert!(event.contains(said), "{event}");
        let asked = Asked::of(&history.state);
        let spec = |replicas| {
            let Command::DeploymentApply(apply) = bounded("a", replicas) else { unreachable!() };
            apply.spec
        };
        let growth =
            |replicas| asked.check(&deployment("a"), &spec(replicas), CLUSTER_REPLICAS_MAX);
        assert_eq!(growth(60_000), Ok(Growth::NotFewer), "its own are no others'");
        assert_eq!(growth(59_999), Ok(Growth::Fewer));
    }
    let completed = record(2, Some(rollout(RolloutState::Completed)));
    history.state.scheduling.insert(web, completed);
    assert!(matches!(history.apply(bounded("b", 50_000)), Outcome::Deployed { .. }));
}

/// R-IN-3: a service that runs on every node counts once for each.
#[test]
fn global_services_count_for_each_node() {
    let mut history = History::founded();
    history.join("n2");
    history.apply(bounded("a", 99_999));
    let mut everywhere = service("web", "web:1");
    everywhere.placement = Placement::Global;
    let command = DeploymentApply::new(deployment("b"), spec(&[everywhere]));
    let max = |max| -> Command { command.clone().replicas_max(Some(max)).into() };
    assert_eq!(history.refused(max(CLUSTER_REPLICAS_MAX)), ErrorCode::TooLarge);
    assert!(matches!(history.apply(max(CLUSTER_REPLICAS_MAX + 1)), Outcome::Deployed { .. }));
}
