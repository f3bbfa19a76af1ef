//! How far a deployment is from its desired state: one state for each status, and which of two counts.

use jaco_state::command::{Change, DisabledSet, Disabling, Observe, Previous};
use jaco_state::view::{Convergence, convergence, convergences};
use jaco_types::slot::Exhausted;
use jaco_types::spec::ServiceSpec;
use jaco_types::{
    AllocationScope, FirstWatch, NodeId, NodeStatus, ReplicaState, Revision, Rollout, RolloutState,
    Scheduling, ServiceName, SpecHash, Timestamp, Unplaced,
};

use crate::history::{
    History, create, deploy, deployment, instance, key, replace, replica, seen, service,
};

const NODE: NodeId = NodeId::FIRST;

/// A service whose instances are up to date: `history::instance` has this hash.
fn plain(name: &str) -> ServiceSpec {
    ServiceSpec { hash: SpecHash([9; 32]), ..service(name, "web:1") }
}

fn rollout(state: RolloutState, target: u64) -> Rollout {
    Rollout {
        target_revision: Revision(target),
        previous_revision: Revision(0),
        total_steps: 1,
        current_step: 0,
        state,
        failure_reason: String::new(),
        started_at: Timestamp(0),
        last_step_at: Timestamp(0),
        prepull: None,
        rollback_progress: None,
        in_flight: [].into(),
    }
}

fn unplaced(reason: &str) -> Vec<Unplaced> {
    vec![Unplaced { count: 1, reason: reason.to_owned(), details: [].into() }]
}

/// The planner's record of a service at revision 1, with nothing left to do.
fn record() -> Scheduling {
    Scheduling { planned_revision: Revision(1), next_index: 1, ..Scheduling::default() }
}

fn plan(history: &mut History, name: &str, record: Scheduling) {
    let change = Change::SchedulingSet { service: key("shop", name), record: Box::new(record) };
    assert_eq!(history.batch(vec![change]), jaco_state::Outcome::Done);
}

fn report(history: &mut History, state: ReplicaState) {
    let slot = history.state.slots.get(&replica("shop-web-0")).unwrap();
    let observed = vec![seen(slot.current_id(), slot.current.node, state)];
    history.apply(Observe::new(slot.current.node).observed(observed).into());
}

/// `shop/web` with its one replica running.
fn settled() -> History {
    let mut history = History::founded();
    history.apply(deploy("shop", &[plain("web")]));
    let ready =
        Change::NodeStatusSet { node: NODE, status: NodeStatus::Ready, reason: String::new() };
    history.batch(vec![ready, create(&key("shop", "web"), 0, NODE)]);
    plan(&mut history, "web", record());
    report(&mut history, ReplicaState::Running);
    history
}

fn status(history: &History) -> &'static str {
    let deployment = history.state.deployments.get(&deployment("shop")).unwrap();
    convergence(&history.state, deployment).as_str()
}

/// What is there after something happened to a settled deployment.
fn check(expected: &str, happen: impl FnOnce(&mut History)) {
    let mut history = settled();
    assert_eq!(status(&history), "active");
    happen(&mut history);
    assert_eq!(status(&history), expected);
}

#[test]
fn replicas_run() {
    for state in [
        ReplicaState::Pending,
        ReplicaState::Pulling,
        ReplicaState::Starting,
        ReplicaState::Degraded,
        ReplicaState::Failed,
        ReplicaState::Stopped,
    ] {
        check("updating", |history| report(history, state));
    }
}

/// A plan of an older revision, and none at all, say nothing about this one.
#[test]
fn plans_are_of_the_desired_revision() {
    check("updating", |history| {
        history.apply(deploy("shop", &[ServiceSpec { replicas: 2, ..plain("web") }]));
    });
    check("updating", |history| {
        plan(history, "web", Scheduling { planned_revision: Revision(0), ..record() });
    });
    check("updating", |history| {
        history.state.scheduling.remove(&key("shop", "web"));
    });
}

/// Only a rollout to the desired revision counts.
#[test]
fn rollouts_decide() {
    for (state, expected) in [
        (RolloutState::InProgress, "updating"),
        (RolloutState::Completed, "active"),
        (RolloutState::Aborted, "rolled_back"),
        (RolloutState::Paused, "paused"),
        (RolloutState::RollbackPaused, "paused"),
    ] {
        check(expected, |history| {
            plan(history, "web", Scheduling { rollout: Some(rollout(state, 1)), ..record() });
        });
        check("active", |history| {
            plan(history, "web", Scheduling { rollout: Some(rollout(state, 7)), ..record() });
        });
    }
}

#[test]
fn unplaced_replicas_are_pending() {
    check("pending", |history| {
        plan(history, "web", Scheduling { unplaced: unplaced("no_eligible_node"), ..record() });
    });
    check("updating", |history| {
        let waits = unplaced("waiting_for_dependency");
        plan(history, "web", Scheduling { unplaced: waits, ..record() });
    });
    check("pending", |history| {
        let mut both = unplaced("waiting_for_dependency");
        both.extend(unplaced("no_eligible_node"));
        plan(history, "web", Scheduling { unplaced: both, ..record() });
    });
}

/// R-ROLL-8: the first replicas of a service are watched before it counts as converged.
#[test]
fn first_replicas_are_watched() {
    let watched = || Scheduling { first_watch: FirstWatch::Open, ..record() };
    check("updating", |history| plan(history, "web", watched()));
    check("active", |history| {
        plan(history, "web", watched());
        plan(history, "web", record());
    });
    check("pending", |history| {
        plan(history, "web", Scheduling { unplaced: unplaced("no_eligible_node"), ..watched() });
    });
}

/// R-HEAL-2: a replica that is not restarted any more is a failure, also where others wait.
#[test]
fn exhausted_budgets_are_failures() {
    let exhaust = |history: &mut History| {
        let (consecutive, exhausted) = (3, Exhausted::Yes);
        let id = replica("shop-web-0");
        history.batch(vec![Change::SlotSetRestarts { id, consecutive, exhausted }]);
    };
    check("failed", exhaust);
    check("failed", |history| {
        plan(history, "web", Scheduling { unplaced: unplaced("no_eligible_node"), ..record() });
        exhaust(history);
    });
    check("rolled_back", |history| {
        let aborted = Some(rollout(RolloutState::Aborted, 1));
        plan(history, "web", Scheduling { rollout: aborted, ..record() });
        exhaust(history);
    });
}

#[test]
fn handovers_and_older_specs_are_in_progress() {
    check("updating", |history| {
        history.batch(vec![replace(&replica("shop-web-0"), NODE, Previous::Retire)]);
        report(history, ReplicaState::Running);
    });
    check("updating", |history| {
        history.state.slots.get_mut(&replica("shop-web-0")).unwrap().current.spec_hash =
            SpecHash([1; 32]);
    });
}

/// R-SEL-3: what is disabled has converged once it runs nothing, and what is enabled again once it runs.
#[test]
fn disabled_replicas_have_converged() {
    let scope = || [AllocationScope::Service(key("shop", "web"))].into();
    let set = |history: &mut History, change| {
        history.apply(DisabledSet::new(change, scope()).into());
    };
    let stop = |history: &mut History| {
        let id = replica("shop-web-0");
        history.batch(vec![Change::SlotDisable { id, instance: instance(NODE, 1) }]);
    };
    check("updating", |history| set(history, Disabling::Disable));
    check("active", |history| {
        set(history, Disabling::Disable);
        stop(history);
    });
    check("updating", |history| {
        set(history, Disabling::Disable);
        stop(history);
        set(history, Disabling::Enable);
    });
    check("updating", |history| {
        set(history, Disabling::Disable);
        stop(history);
        history.state.slots.get_mut(&replica("shop-web-0")).unwrap().current.spec_hash =
            SpecHash([1; 32]);
    });
}

/// The worst of the services counts, and slots of a service that is no more are still to be removed.
#[test]
fn worst_service_decides() {
    let two = |history: &mut History, unplaced| {
        history.apply(deploy("shop", &[plain("db"), plain("web")]));
        let planned = Scheduling { planned_revision: Revision(2), ..record() };
        plan(history, "web", planned.clone());
        plan(history, "db", Scheduling { unplaced, ..planned });
    };
    check("active", |history| two(history, vec![]));
    check("pending", |history| two(history, unplaced("no_eligible_node")));
    check("updating", |history| {
        history.apply(deploy("shop", &[plain("db")]));
        plan(history, "db", Scheduling { planned_revision: Revision(2), ..record() });
    });
    check("pending", |history| {
        history.apply(deploy("shop", &[plain("db")]));
        let unplaced = unplaced("no_eligible_node");
        let planned = Scheduling { planned_revision: Revision(2), unplaced, ..record() };
        plan(history, "db", planned);
    });
    check("active", |history| {
        history.apply(deploy("blog", &[plain("web")]));
        history.batch(vec![create(&key("blog", "web"), 0, NODE)]);
    });
}

/// The order in which the statuses win.
#[test]
fn statuses_are_ordered() {
    let order = [
        Convergence::Converged,
        Convergence::Progressing,
        Convergence::CannotPlace,
        Convergence::Exhausted,
        Convergence::Paused,
        Convergence::RolledBack,
    ];
    assert!(order.is_sorted());
    let names = order.map(Convergence::as_str);
    assert_eq!(names, ["active", "updating", "pending", "failed", "paused", "rolled_back"]);
}

/// R-CLI-7: each service has its own status, and the worst of them is that of the deployment.
#[test]
fn services_have_their_own_status() {
    let mut history = settled();
    history.apply(deploy("shop", &[plain("web"), plain("db")]));
    plan(&mut history, "web", Scheduling { planned_revision: Revision(2), ..record() });
    let unplaced = unplaced("no_eligible_node");
    let record = Scheduling { planned_revision: Revision(2), unplaced, ..record() };
    plan(&mut history, "db", record);
    let deployment = history.state.deployments.get(&deployment("shop")).unwrap();
    let all = convergences(&history.state, deployment);
    let of = |name: &str| all.services[&ServiceName::new(name).unwrap()];
    assert_eq!((of("web"), of("db")), (Convergence::Converged, Convergence::CannotPlace));
    assert_eq!(all.deployment, Convergence::CannotPlace);
    assert_eq!(all.services.len(), 2);
}
