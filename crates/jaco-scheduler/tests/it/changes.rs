//! Every change of a service is a rollout: its number and its places as well as its spec.

use expect_test::expect;
use jaco_state::audit::AuditKind;
use jaco_state::view::{Convergence, convergence};
use jaco_types::slot::Exhausted;
use jaco_types::spec::{
    FailureAction, Placement, RollbackFailureAction, RollbackPolicy, UpdateOrder, UpdatePolicy,
};
use jaco_types::{Availability, Millis, ReplicaState, RollbackProgress, Rollout, RolloutState};
use proptest::prelude::*;

use crate::cluster::{Cluster, Service, key, service};

fn web(version: u8, replicas: u32) -> Service {
    service("web", &format!("web:{version}")).replicas(replicas)
}

fn rollout(cluster: &Cluster) -> Option<&Rollout> {
    cluster.state.scheduling.get(&key("shop", "web"))?.rollout.as_ref()
}

/// `1/3 in_progress` and why, the replicas, and how the deployment is called.
fn shown(cluster: &Cluster) -> String {
    let rollout = rollout(cluster).map_or_else(
        || "none".to_owned(),
        |rollout| {
            let Rollout { current_step, total_steps, state, failure_reason, .. } = rollout;
            format!("{current_step}/{total_steps} {} {failure_reason}", state.as_str())
        },
    );
    format!("{} | {} | {}", rollout.trim_end(), cluster.show(), reached(cluster).as_str())
}

fn reached(cluster: &Cluster) -> Convergence {
    let deployment = cluster.state.deployments.get(&"shop".parse().unwrap()).unwrap();
    convergence(&cluster.state, deployment)
}

/// Three nodes and so many replicas of `web:1`, all of which run.
fn three(replicas: u32) -> Cluster {
    let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
    cluster.apply("shop", &[web(1, replicas)]);
    cluster.settle();
    cluster
}

/// Nothing that the planner asks for ever runs, and time passes until it wants nothing more.
fn let_it_hang(cluster: &mut Cluster) {
    for _ in 0..40 {
        cluster.pass();
        cluster.advance(Millis::from_secs(10), &[]);
    }
    assert_eq!(cluster.plan().changes, vec![], "terminal");
}

/// R-ROLL-1: scaling up is a rollout. New replicas replace none, so they are created at once.
#[test]
fn scaling_up_is_a_rollout() {
    let mut cluster = three(2);
    let entries = cluster.state.index.0;
    cluster.apply("shop", &[web(1, 4)]);
    cluster.pass();
    let mut story = vec![shown(&cluster)];
    cluster.see("shop-web-2", ReplicaState::Running);
    cluster.pass();
    story.push(shown(&cluster));
    cluster.see("shop-web-3", ReplicaState::Running);
    cluster.pass();
    story.push(shown(&cluster));
    cluster.settle();
    story.push(shown(&cluster));
    expect![[r#"
        0/2 in_progress | shop-web-0@n2 shop-web-1@n3 shop-web-2@n1 shop-web-3@n2 | updating
        0/2 in_progress | shop-web-0@n2 shop-web-1@n3 shop-web-2@n1 shop-web-3@n2 | updating
        0/2 in_progress | shop-web-0@n2 shop-web-1@n3 shop-web-2@n1 shop-web-3@n2 | updating
        2/2 completed | shop-web-0@n2 shop-web-1@n3 shop-web-2@n1 shop-web-3@n2 | active"#]]
    .assert_eq(&story.join("\n"));
    assert_eq!(cluster.audited(AuditKind::RolloutStarted), 1);
    assert_eq!(cluster.audited(AuditKind::RolloutCompleted), 1);
    let entries = cluster.state.index.0 - entries;
    assert!(entries <= 6 * 2, "R-ROLL-1: {entries} entries for two replicas");
}

/// R-ROLL-1: a lower count is a rollout, and over at once: what is too much just goes.
#[test]
fn scaling_down_is_a_rollout() {
    let mut cluster = three(4);
    let entries = cluster.state.index.0;
    cluster.apply("shop", &[web(1, 1)]);
    cluster.pass();
    expect!["3/3 completed | shop-web-0@n2 | active"].assert_eq(&shown(&cluster));
    assert_eq!(cluster.state.index.0 - entries, 2, "the request and one batch");
    assert_eq!(rollout(&cluster).unwrap().target_revision.0, 2);
    assert_eq!(cluster.plan().changes, vec![]);
}

/// R-ROLL-1, R-LOOP-4: what asks for no other replicas is no rollout, and neither is a first
/// deployment, nor one that comes back after its service was not wanted for a while.
#[test]
fn change_without_effect_on_replicas_is_no_rollout() {
    let mut cluster = three(2);
    let patient = web(1, 2).with(|spec| spec.update.step_timeout = Millis::from_secs(90));
    cluster.apply("shop", &[patient]);
    cluster.settle();
    assert_eq!(shown(&cluster), "none | shop-web-0@n2 shop-web-1@n3 | active");
    cluster.apply("shop", &[service("api", "api:1")]);
    cluster.settle();
    cluster.apply("shop", &[web(2, 3), service("api", "api:1")]);
    cluster.settle();
    assert_eq!(rollout(&cluster), None);
}

/// R-ROLL-3: a higher count that never runs ends like any other rollout: those that served go on,
/// the count is what it was, the deployment is `rolled_back`, and the same again does the same.
#[test]
fn scaling_up_that_never_runs_is_rolled_back() {
    let mut cluster = three(2);
    for _ in 0..2 {
        cluster.apply("shop", &[web(1, 4)]);
        let_it_hang(&mut cluster);
        let (reason, state) = shown(&cluster).split_once(" | ").map(own).unwrap();
        assert!(reason.starts_with("0/2 aborted step_timeout: shop-web-"), "{reason}");
        assert_eq!(state, "shop-web-0@n2 shop-web-1@n3 | rolled_back");
    }
    let restarts = cluster.state.slots.values().map(|slot| slot.current.revision.0);
    assert_eq!(restarts.collect::<Vec<_>>(), [1, 1], "never touched");
    cluster.apply("shop", &[web(1, 3)]);
    cluster.settle();
    assert!(shown(&cluster).starts_with("1/1 completed"), "{}", shown(&cluster));
}

fn own((one, other): (&str, &str)) -> (String, String) {
    (one.to_owned(), other.to_owned())
}

/// R-ROLL-3: those of the old count that fail meanwhile do not fail it; they are restarted.
#[test]
fn scaling_is_not_failed_by_unrelated_replicas() {
    let mut cluster = three(1);
    cluster.apply("shop", &[web(1, 2)]);
    cluster.pass();
    for _ in 0..3 {
        cluster.see("shop-web-0", ReplicaState::Failed);
        cluster.pass();
        cluster.advance(Millis::from_secs(1), &[]);
        cluster.pass();
    }
    assert_eq!(cluster.slot("shop-web-0").restarts.exhausted, Exhausted::Yes);
    cluster.see("shop-web-1", ReplicaState::Running);
    cluster.settle();
    assert!(shown(&cluster).starts_with("1/1 completed"), "{}", shown(&cluster));
}

/// R-ROLL-1, R-ROLL-3: a new spec and a higher count at once are one rollout. What it makes comes
/// first and shows whether the spec is good before anything is replaced. Found: where that hung, no
/// step had begun, so nothing ever ended.
#[test]
fn t90_hanging_scale_up_does_not_block_a_new_spec() {
    let mut cluster = three(2);
    cluster.apply("shop", &[web(2, 3)]);
    cluster.pass();
    expect!["0/3 in_progress | shop-web-0@n2 shop-web-1@n3 shop-web-2@n1 | updating"]
        .assert_eq(&shown(&cluster));
    let_it_hang(&mut cluster);
    expect!["0/3 aborted step_timeout: shop-web-2 did not run within 60s | shop-web-0@n2 shop-web-1@n3 | rolled_back"]
        .assert_eq(&shown(&cluster));
}

/// R-ROLL-3: a rollout that follows a lower count goes back to that count. Found: the replicas still
/// report said that they run the revision before, whose count was another.
#[test]
fn t90_rollback_restores_the_count_of_the_previous_revision() {
    let mut cluster = three(3);
    cluster.apply("shop", &[web(1, 2)]);
    cluster.settle();
    cluster.apply("shop", &[web(2, 2)]);
    let_it_hang(&mut cluster);
    assert_eq!(rollout(&cluster).unwrap().previous_revision.0, 2);
    assert_eq!(cluster.state.slots.len(), 2, "{}", cluster.show());
}

/// R-ROLL-1, R-PLACE-3: other hosts are a rollout: one replica after the other moves, and serves
/// where it was until its successor does.
#[test]
fn pinning_to_other_hosts_is_a_rollout() {
    let mut cluster = Cluster::of(&["n1", "n2", "n3", "n4"]);
    cluster.apply("shop", &[web(1, 2).hosts(&["n1", "n2"])]);
    cluster.settle();
    cluster.apply("shop", &[web(1, 2).hosts(&["n3", "n4"])]);
    let mut story = Vec::new();
    for _ in 0..3 {
        cluster.pass();
        story.push(shown(&cluster));
        cluster.obey();
    }
    expect![[r#"
        0/2 in_progress | shop-web-0@n3<n1 shop-web-1@n2 | updating
        0/2 in_progress | shop-web-0@n3<n1 shop-web-1@n4<n2 | updating
        0/2 in_progress | shop-web-0@n3<n1 shop-web-1@n4<n2 | updating"#]]
    .assert_eq(&story.join("\n"));
    cluster.settle();
    assert!(shown(&cluster).starts_with("2/2 completed"));
}

/// R-ROLL-3: hosts where it never runs are left again, also by those that had moved already.
#[test]
fn rollback_leaves_hosts_where_it_never_runs() {
    let mut cluster = Cluster::of(&["n1", "n2", "n3", "n4"]);
    cluster.apply("shop", &[web(1, 2).hosts(&["n1", "n2"])]);
    cluster.settle();
    cluster.apply("shop", &[web(1, 2).hosts(&["n3", "n4"])]);
    cluster.pass();
    cluster.obey();
    // The first has moved; the second never runs.
    cluster.pass();
    cluster.advance(Millis::from_secs(60), &[]);
    cluster.pass();
    expect!["0/2 aborted step_timeout: shop-web-1 did not run within 60s | shop-web-0@n1<n3 shop-web-1@n2 | rolled_back"]
        .assert_eq(&shown(&cluster));
    cluster.settle();
    assert_eq!(cluster.show(), "shop-web-0@n1 shop-web-1@n2");
}

/// R-ROLL-1: another mode is a rollout: the replicas of the one kind are made, those of the other go
/// once these serve; where they never do, the others never stop.
#[test]
fn another_placement_mode_is_a_rollout() {
    let mut cluster = three(2);
    let before = cluster.show();
    cluster.apply("shop", &[web(1, 2).placement(Placement::Global)]);
    cluster.pass();
    assert!(shown(&cluster).starts_with("0/5 in_progress"), "{}", shown(&cluster));
    let mut fails = cluster.clone();
    cluster.settle();
    expect!["5/5 completed | shop-web-n1@n1 shop-web-n2@n2 shop-web-n3@n3 | active"]
        .assert_eq(&shown(&cluster));
    let_it_hang(&mut fails);
    assert_eq!(fails.show(), before);
    assert_eq!(reached(&fails), Convergence::RolledBack);
}

/// R-ROLL-7: a global service rolls one node at a time. A node that joins meanwhile gets its replica,
/// is not waited for and does not fail the rollout; it runs what is wanted.
#[test]
fn joining_node_does_not_prolong_a_global_rollout() {
    let mut cluster = Cluster::of(&["n1", "n2"]);
    let agent = |version| web(version, 1).placement(Placement::Global);
    cluster.apply("shop", &[agent(1)]);
    cluster.settle();
    cluster.apply("shop", &[agent(2)]);
    cluster.pass();
    cluster.advance(Millis::from_secs(1), &[]);
    cluster.join("n3");
    cluster.pass();
    cluster.pass();
    expect!["0/2 in_progress | shop-web-n1@n1<n1 shop-web-n2@n2 shop-web-n3@n3 | updating"]
        .assert_eq(&shown(&cluster));
    for _ in 0..2 {
        for host in ["n1", "n2"] {
            cluster.see(&format!("shop-web-{host}"), ReplicaState::Running);
        }
        cluster.pass();
    }
    cluster.advance(UpdatePolicy::DEFAULT_MONITOR, &[]);
    cluster.pass();
    assert_eq!(rollout(&cluster).unwrap().state, RolloutState::Completed);
    assert_eq!(cluster.slot("shop-web-n3").current.revision.0, 2);
}

/// R-ROLL-4: what is passed over is passed over in one go. Found: with two at a time the pass left one
/// of the two late ones to the next pass, which had nothing new to go by (PL-2).
#[test]
fn t90_two_late_replicas_are_passed_over_in_one_pass() {
    let mut cluster = three(4);
    let goes_on = web(2, 4).with(|spec| {
        spec.update.parallelism = 2;
        spec.update.failure_action = FailureAction::Continue;
    });
    cluster.apply("shop", &[goes_on]);
    cluster.pass();
    cluster.advance(Millis::from_secs(60), &[]);
    cluster.pass();
    let exhausted = cluster.state.slots.values().filter(|s| s.restarts.exhausted == Exhausted::Yes);
    assert_eq!(exhausted.count(), 2);
}

/// R-ROLL-3, R-ROLL-8: a replica that is good at first and ends soon after has not passed its step:
/// at most one more was begun, and when it fails for good the previous revision comes back.
#[test]
fn failure_soon_after_the_proof_fails_the_rollout() {
    let mut cluster = three(5);
    cluster.apply("shop", &[web(2, 5)]);
    cluster.pass();
    let mut most = 0;
    for _ in 0..6 {
        let fresh = cluster.state.slots.values().filter(|slot| slot.current.revision.0 == 2);
        let fresh: Vec<_> = fresh.map(|slot| slot.id.to_string()).collect();
        most = most.max(fresh.len());
        for replica in &fresh {
            cluster.see(replica, ReplicaState::Running);
        }
        cluster.pass();
        cluster.advance(Millis(200), &[]);
        for replica in &fresh {
            if cluster.slot(replica).current.revision.0 == 2 {
                cluster.see(replica, ReplicaState::Failed);
            }
        }
        cluster.pass();
        cluster.advance(Millis::from_secs(4), &[]);
        cluster.pass();
    }
    assert_eq!(rollout(&cluster).unwrap().state, RolloutState::Aborted, "{}", shown(&cluster));
    assert!(rollout(&cluster).unwrap().failure_reason.starts_with("restart_exhausted: shop-web-"));
    assert!(most <= 2, "{most} replicas were given to the bad revision");
    cluster.settle();
    assert!(cluster.state.slots.values().all(|slot| slot.current.revision.0 == 1));
}

/// R-ROLL-4: the last step is watched too: one replica that ends 200 ms after its proof is
/// `rolled_back`, not `active`.
#[test]
fn single_replica_is_monitored_too() {
    let mut cluster = three(1);
    cluster.apply("shop", &[web(2, 1)]);
    cluster.pass();
    for _ in 0..3 {
        cluster.see("shop-web-0", ReplicaState::Running);
        cluster.pass();
        assert_eq!(reached(&cluster), Convergence::Progressing, "not yet");
        cluster.advance(Millis(200), &[]);
        cluster.see("shop-web-0", ReplicaState::Failed);
        cluster.pass();
        cluster.advance(Millis::from_secs(1), &[]);
        cluster.pass();
    }
    assert_eq!(reached(&cluster), Convergence::RolledBack, "{}", shown(&cluster));
    cluster.settle();
    // `monitor: 0s` asks for none of that.
    cluster.apply("shop", &[web(3, 1).with(|spec| spec.update.monitor = Some(Millis(0)))]);
    cluster.pass();
    cluster.see("shop-web-0", ReplicaState::Running);
    cluster.pass();
    assert_eq!(reached(&cluster), Convergence::Converged);
}

/// R-ROLL-4: a `monitor` is waited for behind a healthcheck too, and the predecessor serves meanwhile.
#[test]
fn monitor_keeps_the_retiring_instance() {
    let mut cluster = three(1);
    let careful = web(2, 1).with(|spec| {
        spec.update.monitor = Some(Millis::from_secs(7));
        spec.healthcheck = jaco_types::spec::Healthcheck::Declared;
    });
    cluster.apply("shop", &[careful]);
    cluster.pass();
    cluster.see("shop-web-0", ReplicaState::Running);
    cluster.advance(Millis::from_secs(6), &[]);
    cluster.pass();
    assert_eq!(cluster.show(), "shop-web-0@n2<n2");
    cluster.advance(Millis::from_secs(1), &[]);
    cluster.pass();
    expect!["1/1 completed | shop-web-0@n2 | active"].assert_eq(&shown(&cluster));
}

/// R-ROLL-3: what was proven, fails later and hangs then has a time to get up again, and an end.
#[test]
fn t90_proven_replica_that_hangs_later_does_not_block_the_rollout() {
    let mut cluster = three(3);
    cluster.apply("shop", &[web(2, 3)]);
    cluster.pass();
    cluster.see("shop-web-0", ReplicaState::Running);
    cluster.pass();
    cluster.advance(UpdatePolicy::DEFAULT_MONITOR, &[]);
    cluster.pass();
    cluster.advance(Millis::from_secs(45), &[]);
    cluster.see("shop-web-0", ReplicaState::Failed);
    cluster.see("shop-web-1", ReplicaState::Running);
    cluster.pass();
    cluster.advance(Millis::from_secs(59), &[]);
    cluster.pass();
    assert_eq!(rollout(&cluster).unwrap().state, RolloutState::InProgress);
    let_it_hang(&mut cluster);
    assert_eq!(rollout(&cluster).unwrap().state, RolloutState::Aborted);
}

/// Two of three replicas are of a second revision that is given up, with so much to go back.
fn given_up(back: RollbackPolicy) -> Cluster {
    let mut cluster = three(3);
    cluster.apply("shop", &[web(2, 3).with(|spec| spec.update.rollback = back)]);
    for replica in ["shop-web-0", "shop-web-1"] {
        cluster.pass();
        cluster.see(replica, ReplicaState::Running);
    }
    cluster.pass();
    cluster.advance(UpdatePolicy::DEFAULT_MONITOR, &[]);
    cluster.pass();
    cluster.advance(Millis::from_secs(55), &[]);
    cluster.pass();
    assert_eq!(rollout(&cluster).unwrap().state, RolloutState::Aborted);
    let RollbackProgress { total_steps, current_step } =
        rollout(&cluster).unwrap().rollback_progress.unwrap();
    assert_eq!((total_steps, current_step), (2, 0));
    cluster
}

/// R-ROLL-4: during the rollback a replica that does not run in time is exhausted, its predecessor
/// serving, and the others are rolled back; or all stays as it is, where `rollback_config` says so and no more
/// than its share may fail.
#[test]
fn rollback_failures_follow_the_rollback_policy() {
    let after = |failure_action, max_failure_permille| {
        let back =
            RollbackPolicy { failure_action, max_failure_permille, ..RollbackPolicy::default() };
        let mut cluster = given_up(back);
        cluster.advance(Millis::from_secs(60), &[]);
        cluster.pass();
        cluster.see("shop-web-1", ReplicaState::Running);
        cluster.pass();
        cluster.settle();
        let versions = cluster.state.slots.values().map(|slot| slot.current.revision.to_string());
        let versions = versions.collect::<Vec<_>>().join(" ");
        format!("{versions} | {}", shown(&cluster))
    };
    expect!["1 1 1 | 2/3 aborted step_timeout: shop-web-2 did not run within 60s | shop-web-0@n2 shop-web-1@n3 shop-web-2@n1 | rolled_back"]
        .assert_eq(&after(RollbackFailureAction::Continue, 0));
    expect!["1 2 1 | 2/3 rollback_paused step_timeout: shop-web-2 did not run within 60s; during the rollback: step_timeout: shop-web-0 did not run within 60s | shop-web-0@n2<n2 shop-web-1@n3 shop-web-2@n1 | paused"]
        .assert_eq(&after(RollbackFailureAction::Pause, 0));
    expect!["1 1 1 | 2/3 aborted step_timeout: shop-web-2 did not run within 60s | shop-web-0@n2 shop-web-1@n3 shop-web-2@n1 | rolled_back"]
        .assert_eq(&after(RollbackFailureAction::Pause, 500));
}

/// R-ROLL-3, R-ROLL-4: where a rollout passes some failures over, the reason of its end is still the one
/// that was: replicas that ran into the time of their step did not exhaust their restarts.
#[test]
fn tolerated_timeouts_are_named_as_such() {
    let mut cluster = three(3);
    let tolerant = web(2, 3).with(|spec| spec.update.max_failure_permille = 400);
    cluster.apply("shop", &[tolerant]);
    cluster.pass();
    cluster.advance(Millis::from_secs(61), &[]);
    cluster.pass();
    assert_eq!(rollout(&cluster).unwrap().state, RolloutState::InProgress, "one may fail");
    let late = cluster.slot("shop-web-0").clone();
    let view = jaco_state::view::replica(&cluster.state, &late);
    assert_eq!(view.details.get("reason").map(String::as_str), Some("step_timeout"));
    let_it_hang(&mut cluster);
    let ended = rollout(&cluster).unwrap();
    assert_eq!(ended.state, RolloutState::Aborted);
    assert_eq!(ended.failure_reason, "step_timeout: shop-web-0 did not run within 60s");
}

/// R-ROLL-4: what comes back is watched as `rollback_config` says, before the next one follows.
#[test]
fn rolled_back_replicas_are_monitored() {
    let back = RollbackPolicy { monitor: Some(Millis::from_secs(9)), ..RollbackPolicy::default() };
    let mut cluster = given_up(back);
    cluster.see("shop-web-0", ReplicaState::Running);
    cluster.advance(Millis::from_secs(8), &[]);
    cluster.pass();
    assert_eq!(cluster.show(), "shop-web-0@n2<n2 shop-web-1@n3 shop-web-2@n1");
    cluster.advance(Millis::from_secs(1), &[]);
    cluster.pass();
    assert_eq!(cluster.show(), "shop-web-0@n2 shop-web-1@n3<n3 shop-web-2@n1");
    cluster.settle();
    assert_eq!(rollout(&cluster).unwrap().rollback_progress, None);
}

/// Instances without a report start, and get no further.
fn start_all(cluster: &mut Cluster) {
    let fresh = cluster.state.slots.values();
    let fresh = fresh.filter(|slot| !cluster.state.observed.contains(&slot.current_id()));
    let fresh: Vec<_> = fresh.map(|slot| slot.id.to_string()).collect();
    for replica in fresh {
        cluster.see(&replica, ReplicaState::Starting);
    }
}

/// How a rollout may go back.
fn back() -> impl Strategy<Value = RollbackPolicy> {
    let order = prop_oneof![Just(UpdateOrder::StartFirst), Just(UpdateOrder::StopFirst)];
    let action =
        prop_oneof![Just(RollbackFailureAction::Continue), Just(RollbackFailureAction::Pause)];
    let monitor = prop::option::of((0..12u64).prop_map(Millis::from_secs));
    (1..4u32, order, 0..30u64, monitor, action, 0..=1000u32).prop_map(
        |(parallelism, order, delay, monitor, failure_action, max_failure_permille)| {
            RollbackPolicy {
                parallelism,
                order,
                delay: Millis::from_secs(delay),
                monitor,
                failure_action,
                max_failure_permille,
            }
        },
    )
}

/// A change of any option of a rollout.
fn change() -> impl Strategy<Value = Service> {
    let what = (0..3u8, 0..5u32, 0..4u8);
    let how = (1..4u32, 0..3u8, any::<bool>(), prop::option::of(0..12u64), 0..30u64, 0..=1000u32);
    (what, how, back()).prop_map(|((version, replicas, places), how, back)| {
        let (parallelism, action, stop_first, monitor, delay, permille) = how;
        let placement = match places {
            0 => Placement::Global,
            1 => Placement::Hosts(["n1", "n2", "n3", "n4"].map(|h| h.parse().unwrap()).into()),
            2 => Placement::Pack,
            _ => Placement::Spread,
        };
        web(version, replicas).placement(placement).with(|spec| {
            spec.update.parallelism = parallelism;
            spec.update.failure_action = match action {
                0 => FailureAction::Rollback,
                1 => FailureAction::Pause,
                _ => FailureAction::Continue,
            };
            if stop_first {
                spec.update.order = UpdateOrder::StopFirst;
            }
            spec.update.monitor = monitor.map(Millis::from_secs);
            spec.update.delay = Millis::from_secs(delay);
            spec.update.max_failure_permille = permille;
            spec.update.rollback = back;
        })
    })
}

/// What the world does between two passes.
#[derive(Debug, Clone)]
enum Twist {
    Change(Box<Service>),
    See(usize, ReplicaState),
    Time(u64),
    Join,
    Drain(usize),
    Undrain(usize),
}

fn twist() -> impl Strategy<Value = Twist> {
    prop_oneof![
        2 => change().prop_map(|service| Twist::Change(Box::new(service))),
        6 => (0..9usize, crate::events::state()).prop_map(|(at, state)| Twist::See(at, state)),
        2 => (1..30u64).prop_map(Twist::Time),
        1 => Just(Twist::Join),
        1 => (0..4usize).prop_map(Twist::Drain),
        1 => (0..4usize).prop_map(Twist::Undrain),
    ]
}

fn happen(cluster: &mut Cluster, twist: &Twist) {
    let hosts = ["n1", "n2", "n3", "n4"];
    match twist {
        Twist::Change(service) => {
            cluster.apply("shop", std::slice::from_ref(&**service));
        }
        Twist::See(at, state) => {
            let ids: Vec<_> = cluster.state.slots.keys().cloned().collect();
            if let Some(id) = ids.get(at % ids.len().max(1)) {
                cluster.see(id.as_str(), *state);
            }
        }
        Twist::Time(secs) => cluster.advance(Millis::from_secs(*secs), &[]),
        Twist::Join => {
            if cluster.state.node_by_hostname(&"n5".parse().unwrap()).is_none() {
                cluster.join("n5");
            }
        }
        Twist::Drain(at) => cluster.set_availability(hosts[*at], Availability::Draining),
        Twist::Undrain(at) => cluster.set_availability(hosts[*at], Availability::Active),
    }
}

/// Lets all of this happen, and then nothing for as long as steps, delays and strikes can take: checks
/// that steps never run backwards, what ended stays so, and in the end nothing is in progress.
fn check_that_it_ends(twists: &[Twist], they_run: bool) {
    let mut cluster = Cluster::of(&["n1", "n2", "n3", "n4"]);
    cluster.apply("shop", &[web(0, 3)]);
    cluster.settle();
    for twist in twists {
        let before = rollout(&cluster).cloned();
        happen(&mut cluster, twist);
        cluster.pass();
        if let (Some(before), Some(now)) = (before, rollout(&cluster))
            && before.target_revision == now.target_revision
            && before.started_at == now.started_at
        {
            assert!(now.current_step >= before.current_step, "{before:?} then {now:?}");
            let is_paused_back =
                before.state == RolloutState::Aborted && now.state == RolloutState::RollbackPaused;
            let ended = before.state != RolloutState::InProgress && !is_paused_back;
            assert!(!ended || before.state == now.state, "{before:?} then {now:?}");
        }
    }
    for host in ["n1", "n2", "n3", "n4"] {
        cluster.set_availability(host, Availability::Active);
    }
    for _ in 0..300 {
        cluster.pass();
        match they_run {
            true => cluster.obey(),
            false => start_all(&mut cluster),
        }
        cluster.advance(Millis::from_secs(7), &[]);
    }
    let state = rollout(&cluster).map(|rollout| rollout.state);
    assert!(state != Some(RolloutState::InProgress), "{}", shown(&cluster));
    let back = rollout(&cluster).and_then(|rollout| rollout.rollback_progress);
    assert_eq!(back, None, "{}", shown(&cluster));
}

/// R-ROLL-4: a replica that failed for good in the rollout and already is what the rollback leads to has not
/// failed in the rollback. Found: with `pause` that ended the rollback before it had begun, one pass late.
#[test]
fn t90_exhausted_replica_pauses_the_rollback_in_the_same_pass() {
    let pauses = RollbackPolicy {
        failure_action: RollbackFailureAction::Pause,
        ..RollbackPolicy::default()
    };
    let global = |version| {
        web(version, 0).placement(Placement::Global).with(|spec| spec.update.rollback = pauses)
    };
    let change = |version| Twist::Change(Box::new(global(version)));
    let twists = [Twist::Drain(0), change(1), change(0)];
    check_that_it_ends(&twists, false);
}

/// PL-19: a replica that is no step of the rollout and hangs holds up those that have to stop first only
/// as long as a step may take. Found by 10,000 random histories.
#[test]
fn t90_4_unrelated_hanging_replica_does_not_block_the_rollout() {
    let web = |version, replicas| web(version, replicas).hosts(&["n1", "n2", "n3", "n4"]);
    let change = |service: Service| Twist::Change(Box::new(service));
    let faster = web(1, 3).with(|spec| spec.update.parallelism = 2);
    let stop_first = web(0, 2).with(|spec| spec.update.order = UpdateOrder::StopFirst);
    let twists = [
        change(web(0, 2)),
        change(faster),
        change(stop_first),
        Twist::See(1, ReplicaState::Degraded),
    ];
    check_that_it_ends(&twists, false);
}

/// PL-2, R-ROLL-3: a replica of a node that joins while a rollout waits for it gets the whole time of a step. Found
/// by random histories: it was given up in the moment in which it was created, by the clock of the step before.
#[test]
fn t100_replica_of_a_later_node_gets_the_whole_time_of_a_step() {
    let mut cluster = Cluster::of(&["n1", "n2", "n3", "n4"]);
    cluster.apply("shop", &[web(0, 3)]);
    cluster.settle();
    let global = web(1, 0).placement(Placement::Global);
    let watched = global.with(|spec| spec.update.monitor = Some(Millis::from_secs(12)));
    cluster.apply("shop", &[watched]);
    cluster.pass();
    cluster.advance(Millis::from_secs(59), &[]);
    for host in ["n1", "n2", "n3", "n4"] {
        cluster.see(&format!("shop-web-{host}"), ReplicaState::Running);
    }
    cluster.pass();
    // Its step began more than a minute ago, and those that it waits for are watched.
    cluster.advance(Millis::from_secs(6), &[]);
    cluster.join("n5");
    cluster.pass();
    cluster.advance(Millis::from_secs(59), &[]);
    cluster.pass();
    assert_eq!(rollout(&cluster).unwrap().state, RolloutState::InProgress);
    cluster.advance(Millis::from_secs(1), &[]);
    cluster.pass();
    let ended = rollout(&cluster).unwrap();
    assert_eq!(ended.failure_reason, "step_timeout: shop-web-n5 did not run within 60s");
}

proptest! {
    /// PL-19, R-ROLL-1, R-ROLL-3, R-ROLL-4: every rollout ends, whatever was changed and however it is
    /// to be rolled out: with containers that run it is completed, or was given up before; with
    /// containers that hang it is given up, passed over or paused, in bounded time. Its steps never
    /// run backwards.
    #[test]
    fn every_rollout_ends(twists in prop::collection::vec(twist(), 1..40), they_run in any::<bool>()) {
        check_that_it_ends(&twists, they_run);
    }
}
