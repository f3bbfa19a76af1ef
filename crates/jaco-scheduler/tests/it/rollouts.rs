//! Change, one replica at a time, and what happens when it fails.

use expect_test::expect;
use jaco_scheduler::PlannerConfig;
use jaco_state::audit::AuditKind;
use jaco_types::spec::{
    Dependency, DependencyCondition, DependencyRequirement, FailureAction, Placement,
    RollbackPolicy, UpdatePolicy,
};
use jaco_types::{Availability, Millis, ReplicaState, RestartCount, Rollout, RolloutState, Slot};
use proptest::prelude::*;

use crate::cluster::{Cluster, Service, key, resources, service};

fn web(version: u8) -> Service {
    service("web", &format!("web:{version}")).replicas(3)
}

fn rollout<'a>(cluster: &'a Cluster, service: &str) -> Option<&'a Rollout> {
    cluster.state.scheduling.get(&key("shop", service))?.rollout.as_ref()
}

/// `1/3 in_progress` and why, if there is a rollout.
fn show_rollout(cluster: &Cluster) -> String {
    rollout(cluster, "web").map_or_else(
        || "none".to_owned(),
        |r| {
            let Rollout { current_step, total_steps, state, failure_reason, .. } = r;
            format!("{current_step}/{total_steps} {} {failure_reason}", state.as_str())
                .trim_end()
                .to_owned()
        },
    )
}

/// Which image each replica runs, by version: `2 1 1`.
fn versions(cluster: &Cluster) -> String {
    let slots = cluster.state.slots.values();
    slots.map(|slot| slot.current.revision.to_string()).collect::<Vec<_>>().join(" ")
}

/// R-ROLL-1, R-ROLL-2, R-ROLL-8: one step at a time, each after the one before runs; each old instance
/// serves until its successor has run for the watch time. A first deployment is no rollout.
#[test]
fn rollout_replaces_one_replica_at_a_time() {
    let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
    cluster.apply("shop", &[web(1)]);
    cluster.settle();
    let mut story = vec![show_rollout(&cluster)];
    cluster.apply("shop", &[web(2)]);
    for _ in 0..4 {
        cluster.pass();
        story.push(format!(
            "{} | {} | {}",
            show_rollout(&cluster),
            versions(&cluster),
            cluster.show()
        ));
        cluster.obey();
    }
    // All of them are watched before the rollout is over.
    cluster.advance(UpdatePolicy::DEFAULT_MONITOR, &[]);
    cluster.pass();
    story.push(show_rollout(&cluster));
    expect![[r#"
        none
        0/3 in_progress | 2 1 1 | shop-web-0@n2<n2 shop-web-1@n3 shop-web-2@n1
        0/3 in_progress | 2 2 1 | shop-web-0@n2<n2 shop-web-1@n3<n3 shop-web-2@n1
        0/3 in_progress | 2 2 2 | shop-web-0@n2<n2 shop-web-1@n3<n3 shop-web-2@n1<n1
        0/3 in_progress | 2 2 2 | shop-web-0@n2<n2 shop-web-1@n3<n3 shop-web-2@n1<n1
        3/3 completed"#]]
    .assert_eq(&story.join("\n"));
    assert_eq!(cluster.audited(AuditKind::RolloutStarted), 1);
    assert_eq!(cluster.audited(AuditKind::RolloutCompleted), 1);
}

/// R-ROLL-1: an apply that changes nothing rolls nothing.
#[test]
fn same_spec_is_no_rollout() {
    let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
    cluster.apply("shop", &[web(1)]);
    cluster.settle();
    cluster.apply("shop", &[web(1)]);
    assert_eq!(cluster.plan().changes, vec![]);
    cluster.apply("shop", &[web(1), service("api", "api:1")]);
    cluster.settle();
    assert_eq!(show_rollout(&cluster), "none");
}

/// R-ROLL-3: a step that takes too long ends the rollout; what was rolled goes back start-first, and
/// nothing starts again by itself.
#[test]
fn step_that_times_out_is_rolled_back() {
    let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
    cluster.apply("shop", &[web(1)]);
    cluster.settle();
    cluster.apply("shop", &[web(2)]);
    cluster.pass();
    cluster.obey();
    // The first step is watched, the second one hangs.
    let plan = cluster.pass();
    assert_eq!(plan.wake_at, Some(cluster.now.after(UpdatePolicy::DEFAULT_MONITOR)));
    cluster.advance(UpdatePolicy::DEFAULT_MONITOR, &[]);
    let plan = cluster.pass();
    let silence = PlannerConfig::default().node_down_after;
    assert_eq!(plan.wake_at, Some(cluster.now.after(silence)), "silence comes first");
    cluster.advance(Millis::from_secs(54), &[]);
    assert_eq!(cluster.plan().changes, vec![]);
    assert_eq!(cluster.plan().wake_at, Some(cluster.now.after(Millis::from_secs(1))));
    cluster.advance(Millis::from_secs(1), &[]);
    let mut story = Vec::new();
    for _ in 0..3 {
        cluster.pass();
        story.push(format!(
            "{} | {} | {}",
            show_rollout(&cluster),
            versions(&cluster),
            cluster.show()
        ));
        cluster.obey();
    }
    expect![[r#"
        1/3 aborted step_timeout: shop-web-1 did not run within 60s | 1 1 1 | shop-web-0@n2<n2 shop-web-1@n3 shop-web-2@n1
        1/3 aborted step_timeout: shop-web-1 did not run within 60s | 1 1 1 | shop-web-0@n2<n2 shop-web-1@n3 shop-web-2@n1
        1/3 aborted step_timeout: shop-web-1 did not run within 60s | 1 1 1 | shop-web-0@n2<n2 shop-web-1@n3 shop-web-2@n1"#]].assert_eq(&story.join("\n"));
    cluster.settle();
    cluster.advance(Millis::from_secs(600), &[]);
    assert_eq!(cluster.plan().changes, vec![], "terminal: no flip-flop");
    // The next revision rolls again.
    cluster.apply("shop", &[web(3)]);
    cluster.settle();
    expect!["3/3 completed | 3 3 3"].assert_eq(&format!(
        "{} | {}",
        show_rollout(&cluster),
        versions(&cluster)
    ));
}

/// R-ROLL-3, R-HEAL-2: a successor that fails for good does not have to wait for the clock.
#[test]
fn successor_that_keeps_failing_ends_the_rollout() {
    let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
    cluster.apply("shop", &[web(1)]);
    cluster.settle();
    cluster.apply("shop", &[web(2)]);
    cluster.pass();
    for _ in 0..3 {
        cluster.see("shop-web-0", ReplicaState::Failed);
        cluster.advance(Millis::from_secs(1), &[]);
        cluster.pass();
    }
    let terminations = cluster.slot("shop-web-0").terminations.iter();
    let aftermaths: Vec<_> = terminations.map(|termination| termination.outcome.as_str()).collect();
    assert_eq!(aftermaths, ["restarted", "restarted", "reverted"], "R-HEAL-4");
    expect!["0/3 aborted restart_exhausted: shop-web-0 failed too often in a row; last: exit code 1 | 1 1 1"]
        .assert_eq(&format!("{} | {}", show_rollout(&cluster), versions(&cluster)));
    cluster.settle();
    assert_eq!(versions(&cluster), "1 1 1");
    // What serves again has done nothing wrong.
    assert_eq!(cluster.slot("shop-web-0").restarts, RestartCount::default());
}

/// R-ROLL-3: two bad revisions in a row go back to the one that served before both, also where the
/// old instance had to stop first and no replica runs it any more.
#[test]
fn two_bad_revisions_roll_back_to_the_good_one() {
    let mut cluster = Cluster::of(&["n1"]);
    let proxy = |version| service("web", version).host_port(80);
    cluster.apply("shop", &[proxy("p:1")]);
    cluster.settle();
    for bad in ["p:2", "p:3"] {
        cluster.apply("shop", &[proxy(bad)]);
        cluster.pass();
        cluster.see("shop-web-0", ReplicaState::Starting);
        cluster.advance(Millis::from_secs(61), &[]);
        cluster.pass();
        assert_eq!(versions(&cluster), "1", "after {bad}");
        cluster.settle();
    }
}

/// R-ROLL-3: a replica of the previous revision that fails for good does not keep the others from
/// going back.
#[test]
fn rollback_does_not_wait_for_exhausted_replicas() {
    let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
    cluster.apply("shop", &[web(1)]);
    cluster.settle();
    cluster.apply("shop", &[web(2)]);
    cluster.pass();
    cluster.obey();
    cluster.pass();
    cluster.advance(UpdatePolicy::DEFAULT_MONITOR, &[]);
    cluster.pass();
    cluster.advance(Millis::from_secs(61), &[]);
    cluster.pass();
    for _ in 0..3 {
        cluster.see("shop-web-1", ReplicaState::Failed);
        cluster.pass();
    }
    cluster.settle();
    expect!["1/3 aborted step_timeout: shop-web-1 did not run within 60s | 1 1 1"]
        .assert_eq(&format!("{} | {}", show_rollout(&cluster), versions(&cluster)));
}

/// R-ROLL-4: a host port on the same node forces the old instance to stop first.
#[test]
fn host_port_forces_stop_first() {
    let mut cluster = Cluster::of(&["n1", "n2"]);
    let proxy = |version| service("web", version).host_port(80).replicas(2);
    cluster.apply("shop", &[proxy("p:1")]);
    cluster.settle();
    cluster.apply("shop", &[proxy("p:2")]);
    cluster.pass();
    expect!["2 1 | shop-web-0@n1 shop-web-1@n2"].assert_eq(&format!(
        "{} | {}",
        versions(&cluster),
        cluster.show()
    ));
    cluster.settle();
    assert_eq!(versions(&cluster), "2 2");
}

/// R-ROLL-4, R-RES-3: without room for both, on no node, the old instance makes way for the new.
#[test]
fn full_nodes_roll_in_place() {
    let mut cluster = Cluster::empty();
    for host in ["n1", "n2"] {
        cluster.join_with(host, resources(1000, 0));
    }
    cluster.pass();
    let full = |version| service("web", version).reserves(600, 0).replicas(2);
    cluster.apply("shop", &[full("w:1")]);
    cluster.settle();
    cluster.apply("shop", &[full("w:2")]);
    cluster.pass();
    expect!["2 1 | shop-web-0@n1 shop-web-1@n2"].assert_eq(&format!(
        "{} | {}",
        versions(&cluster),
        cluster.show()
    ));
    cluster.settle();
    assert_eq!(versions(&cluster), "2 2");
}

/// R-ROLL-7: global services roll too.
#[test]
fn global_services_roll() {
    let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
    let agent = |version| service("web", version).placement(Placement::Global);
    cluster.apply("shop", &[agent("a:1")]);
    cluster.settle();
    cluster.apply("shop", &[agent("a:2")]);
    cluster.settle();
    expect!["3/3 completed | 2 2 2"].assert_eq(&format!(
        "{} | {}",
        show_rollout(&cluster),
        versions(&cluster)
    ));
}

/// R-ROLL-7: a service waits for what it depends on, and says so.
#[test]
fn dependencies_are_waited_for() {
    let mut cluster = Cluster::of(&["n1"]);
    let on_db = |condition| {
        service("web", "web:1").with(|spec| {
            let service = "db".parse().unwrap();
            spec.depends_on.push(Dependency {
                service,
                condition,
                required: DependencyRequirement::Required,
            });
        })
    };
    cluster.apply("shop", &[service("db", "db:1"), on_db(DependencyCondition::Healthy)]);
    cluster.pass();
    expect!["shop-db-0@n1 | 1 waiting_for_dependency db=service_healthy"].assert_eq(&format!(
        "{} | {}",
        cluster.show(),
        cluster.reasons("shop", "web")
    ));
    cluster.see("shop-db-0", ReplicaState::Starting);
    cluster.pass();
    assert_eq!(cluster.show(), "shop-db-0@n1");
    cluster.see("shop-db-0", ReplicaState::Running);
    cluster.pass();
    assert_eq!(cluster.show(), "shop-db-0@n1 shop-web-0@n1");
}

/// R-ROLL-7: what others wait for to end is not started again when it has ended well.
#[test]
fn completed_job_is_not_restarted() {
    let mut cluster = Cluster::of(&["n1"]);
    let after_job = service("web", "web:1").with(|spec| {
        spec.depends_on.push(Dependency {
            service: "job".parse().unwrap(),
            condition: DependencyCondition::CompletedSuccessfully,
            required: DependencyRequirement::Required,
        });
    });
    cluster.apply("shop", &[service("job", "job:1"), after_job]);
    cluster.pass();
    cluster.see("shop-job-0", ReplicaState::Stopped);
    let plan = cluster.pass();
    assert_eq!(Cluster::causes(&plan), vec![""; 0]);
    assert_eq!(cluster.show(), "shop-job-0@n1 shop-web-0@n1");
}

/// R-HEAL-1: a run that is long enough clears the count; a short one does not.
#[test]
fn a_steady_run_clears_the_failures() {
    let mut cluster = Cluster::of(&["n1"]);
    cluster.apply("shop", &[service("web", "web:1")]);
    cluster.settle();
    cluster.see("shop-web-0", ReplicaState::Degraded);
    let plan = cluster.pass();
    assert_eq!(Cluster::causes(&plan), ["shop-web-0:failed"]);
    cluster.see("shop-web-0", ReplicaState::Running);
    cluster.pass();
    cluster.advance(Millis::from_secs(3), &[]);
    let plan = cluster.pass();
    assert_eq!(plan.wake_at, Some(cluster.now.after(Millis::from_secs(7))), "before any silence");
    cluster.advance(Millis::from_secs(6), &[]);
    assert_eq!(cluster.plan().changes, vec![]);
    assert_eq!(cluster.slot("shop-web-0").restarts.consecutive, 1);
    cluster.advance(Millis::from_secs(1), &[]);
    cluster.pass();
    assert_eq!(cluster.slot("shop-web-0").restarts.consecutive, 0);
}

/// R-ROLL-3: a successor whose node is lost gets the whole time of a step again on its next one.
#[test]
fn lost_successor_restarts_its_step() {
    let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
    cluster.apply("shop", &[web(1)]);
    cluster.settle();
    cluster.apply("shop", &[web(2)]);
    cluster.pass();
    let node = cluster.slot("shop-web-0").current.node;
    let host = cluster.state.nodes.get(&node).unwrap().hostname.to_string();
    cluster.advance(Millis::from_secs(50), &[]);
    cluster.pass();
    cluster.advance(Millis::from_secs(15), &[&host]);
    cluster.pass();
    assert_eq!(show_rollout(&cluster), "0/3 in_progress");
    cluster.advance(Millis::from_secs(59), &[&host]);
    assert_eq!(cluster.plan().changes, vec![]);
    cluster.advance(Millis::from_secs(1), &[&host]);
    cluster.pass();
    assert!(show_rollout(&cluster).contains("aborted step_timeout"), "{}", show_rollout(&cluster));
}

/// What may happen to a service that rolls, drains and loses successors, in any order.
#[derive(Debug, Clone)]
enum Twist {
    /// One instance of the many says that it runs.
    Runs(usize),
    /// One successor that never ran fails.
    SuccessorFails(usize),
    Time(u64),
    Apply(u8),
    Drain(usize),
    Undrain(usize),
}

fn twist() -> impl Strategy<Value = Twist> {
    prop_oneof![
        8 => (0..20usize).prop_map(Twist::Runs),
        2 => (0..20usize).prop_map(Twist::SuccessorFails),
        1 => (1..70u64).prop_map(Twist::Time),
        2 => (1..5u8).prop_map(Twist::Apply),
        1 => (0..4usize).prop_map(Twist::Drain),
        1 => (0..4usize).prop_map(Twist::Undrain),
    ]
}

/// Replicas with an instance that runs and should.
fn serving(cluster: &Cluster) -> usize {
    let runs = |id| jaco_state::view::is_running(&cluster.state, &id);
    cluster.state.slots.values().filter(|slot| slot.instances().any(|(id, _)| runs(id))).count()
}

fn twist_it(cluster: &mut Cluster, twist: &Twist, shape: &impl Fn(u8) -> Service) {
    let hosts = ["n1", "n2", "n3", "n4"];
    match twist {
        Twist::Runs(at) | Twist::SuccessorFails(at) => {
            let is_fresh = |slot: &&Slot| !cluster.state.observed.contains(&slot.current_id());
            let fresh = cluster.state.slots.values().filter(is_fresh);
            let fresh: Vec<_> = fresh.map(|slot| slot.id.clone()).collect();
            let Some(replica) = fresh.get(at % fresh.len().max(1)) else { return };
            let fails = matches!(twist, Twist::SuccessorFails(_));
            let state = if fails { ReplicaState::Failed } else { ReplicaState::Running };
            cluster.see(replica.as_str(), state);
        }
        Twist::Time(secs) => cluster.advance(Millis::from_secs(*secs), &[]),
        Twist::Apply(version) => {
            cluster.apply("shop", &[shape(*version)]);
        }
        Twist::Drain(at) => cluster.set_availability(hosts[*at], Availability::Draining),
        Twist::Undrain(at) => cluster.set_availability(hosts[*at], Availability::Active),
    }
}

proptest! {
    /// PL-4, R-ROLL-2: whatever order the world answers in, the planner never takes away more than
    /// one replica that serves; where both instances fit side by side, none at all.
    #[test]
    fn planner_stops_no_serving_replica(
        twists in prop::collection::vec(twist(), 1..60),
        shape in 0..3u8,
    ) {
        let make = move |version: u8| match shape {
            0 => web(version),
            1 => web(version).host_port(80),
            _ => web(version).reserves(600, 0),
        };
        let least = if shape == 0 { 3 } else { 2 };
        let mut cluster = Cluster::empty();
        for host in ["n1", "n2", "n3", "n4"] {
            cluster.join_with(host, resources(1000, 0));
        }
        cluster.pass();
        cluster.apply("shop", &[make(0)]);
        cluster.settle();
        for twist in &twists {
            twist_it(&mut cluster, twist, &make);
            cluster.pass();
            let now = serving(&cluster);
            prop_assert!(now >= least, "PL-4: {now} serve after {twist:?}: {}", cluster.show());
        }
    }

    /// R-ROLL-1, R-ROLL-3: every rollout ends: with a cooperative runtime as completed.
    #[test]
    fn rollouts_complete(replicas in 0..8u32, parallelism in 1..4u32) {
        let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
        let make = |version| service("web", version).replicas(replicas)
            .with(|spec| spec.update.parallelism = parallelism);
        cluster.apply("shop", &[make("w:1")]);
        cluster.settle();
        cluster.apply("shop", &[make("w:2")]);
        let passes = cluster.settle();
        let steps = usize::try_from(replicas.div_ceil(parallelism)).unwrap();
        prop_assert!(passes <= steps + 3, "PL-3: {passes} passes for {steps} steps");
        match rollout(&cluster, "web") {
            Some(rollout) => {
                prop_assert_eq!(rollout.state, RolloutState::Completed);
                prop_assert_eq!(rollout.current_step, replicas);
            }
            None => prop_assert_eq!(replicas, 0),
        }
    }
}

/// A change to `web:2` whose first step is proven and whose second one never runs.
fn second_step_hangs(edit: impl Fn(&mut jaco_types::spec::UpdatePolicy)) -> Cluster {
    let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
    let edited = |version| web(version).with(|spec| edit(&mut spec.update));
    cluster.apply("shop", &[edited(1)]);
    cluster.settle();
    cluster.apply("shop", &[edited(2)]);
    cluster.pass();
    cluster.obey();
    cluster.pass();
    cluster.advance(UpdatePolicy::DEFAULT_MONITOR, &[]);
    cluster.pass();
    cluster.advance(Millis::from_secs(55), &[]);
    cluster.pass();
    cluster
}

/// R-ROLL-4: `pause` leaves things as they are, the old instance serving, until the next apply, which
/// goes on with what is left.
#[test]
fn failed_step_pauses_the_rollout() {
    let mut cluster = second_step_hangs(|update| update.failure_action = FailureAction::Pause);
    let shown = |cluster: &Cluster| {
        format!("{} | {} | {}", show_rollout(cluster), versions(cluster), cluster.show())
    };
    expect!["1/3 paused step_timeout: shop-web-1 did not run within 60s | 2 2 1 | shop-web-0@n2 shop-web-1@n3<n3 shop-web-2@n1"].assert_eq(&shown(&cluster));
    cluster.advance(Millis::from_secs(600), &[]);
    assert_eq!(cluster.plan().changes, vec![], "terminal");
    assert_eq!(cluster.audited(AuditKind::RolloutPaused), 1);
    let again = web(2).with(|spec| spec.update.failure_action = FailureAction::Pause);
    cluster.apply("shop", &[again]);
    cluster.settle();
    expect!["2/2 completed | 2 2 3 | shop-web-0@n2 shop-web-1@n3 shop-web-2@n1"]
        .assert_eq(&shown(&cluster));
}

/// R-ROLL-4: `continue` leaves the replica alone, its predecessor serving, and replaces the others.
#[test]
fn failed_step_is_passed_over() {
    let mut cluster = second_step_hangs(|update| update.failure_action = FailureAction::Continue);
    for _ in 0..3 {
        cluster.see("shop-web-2", ReplicaState::Running);
        cluster.pass();
    }
    cluster.advance(UpdatePolicy::DEFAULT_MONITOR, &[]);
    cluster.pass();
    expect!["3/3 completed | 2 2 2 | shop-web-0@n2 shop-web-1@n3<n3 shop-web-2@n1"].assert_eq(
        &format!("{} | {} | {}", show_rollout(&cluster), versions(&cluster), cluster.show()),
    );
    assert_eq!(cluster.slot("shop-web-1").restarts.exhausted, jaco_types::slot::Exhausted::Yes);
}

/// R-ROLL-4: as many steps may fail as `max_failure_ratio` says; one more ends the rollout.
#[test]
fn max_failure_ratio_is_kept() {
    let mut cluster = second_step_hangs(|update| update.max_failure_permille = 400);
    assert!(show_rollout(&cluster).contains("in_progress"), "{}", show_rollout(&cluster));
    cluster.advance(Millis::from_secs(60), &[]);
    cluster.pass();
    assert!(show_rollout(&cluster).contains("aborted"), "{}", show_rollout(&cluster));
    cluster.settle();
    assert_eq!(versions(&cluster), "1 1 1");
}

/// R-ROLL-4: `rollback_config` of the revision that failed says how fast the others go back.
#[test]
fn rollback_has_its_own_pace() {
    let back = RollbackPolicy { parallelism: 2, ..RollbackPolicy::default() };
    let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
    cluster.apply("shop", &[web(1)]);
    cluster.settle();
    cluster.apply("shop", &[web(2).with(|spec| spec.update.rollback = back)]);
    for _ in 0..2 {
        cluster.pass();
        cluster.obey();
    }
    cluster.pass();
    cluster.advance(Millis::from_secs(60), &[]);
    cluster.pass();
    expect!["shop-web-0@n2<n2 shop-web-1@n3<n3 shop-web-2@n1"].assert_eq(&cluster.show());
}

/// R-ROLL-8: a command without a healthcheck that ends 1.5 s after its start takes nothing out of
/// routing: each predecessor serves until its successor has run for the watch time. Found: 3 replicas
/// ended with 0 in routing.
#[test]
fn t90_command_that_ends_soon_takes_nothing_down() {
    let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
    cluster.apply("shop", &[web(1)]);
    cluster.settle();
    cluster.apply("shop", &[web(2)]);
    let mut least = 3;
    for _ in 0..600 {
        cluster.pass();
        let now = cluster.now;
        for slot in cluster.state.slots.values().cloned().collect::<Vec<_>>() {
            let (id, node) = (slot.current_id(), slot.current.node);
            let seen = cluster.state.observed.get(&id).map(|seen| (seen.state, seen.since));
            match seen {
                None => cluster.observe(&id, node, ReplicaState::Running),
                Some((ReplicaState::Running, since))
                    if slot.current.revision.0 == 2 && now >= since.after(Millis(1500)) =>
                {
                    cluster.observe(&id, node, ReplicaState::Failed);
                }
                Some(_) => {}
            }
        }
        least = least.min(serving(&cluster));
        cluster.advance(Millis(100), &[]);
    }
    assert_eq!(least, 3, "{}", cluster.show());
    assert!(show_rollout(&cluster).contains("aborted restart_exhausted"));
    assert_eq!(versions(&cluster), "1 1 1");
}

/// R-ROLL-8: where the old instance has to stop first, no other step begins before the watch time of
/// its successor is over: never more than the one that is replaced is out of routing.
#[test]
fn t90_command_that_ends_soon_takes_one_port_down() {
    let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
    let proxy = |version| web(version).host_port(80);
    cluster.apply("shop", &[proxy(1)]);
    cluster.settle();
    cluster.apply("shop", &[proxy(2)]);
    for _ in 0..20 {
        cluster.pass();
        cluster.obey();
        cluster.advance(Millis(200), &[]);
        assert_eq!(versions(&cluster), "2 1 1", "its watch time is not over");
    }
    cluster.advance(Millis::from_secs(1), &[]);
    cluster.pass();
    assert_eq!(versions(&cluster), "2 2 1");
}

/// R-ROLL-8, R-LOOP-5: the watch times of start-first steps overlap: ten replicas that start in half a
/// second each are replaced within 15 s.
#[test]
fn watch_times_overlap() {
    let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
    cluster.apply("shop", &[web(1).replicas(10)]);
    cluster.settle();
    cluster.apply("shop", &[web(2).replicas(10)]);
    let begun = cluster.now;
    while !show_rollout(&cluster).contains("completed") {
        cluster.pass();
        cluster.advance(Millis(500), &[]);
        cluster.obey();
        assert!(cluster.now.since(begun) <= Millis::from_secs(15), "{}", cluster.show());
    }
}

/// R-ROLL-8: a node without room for more than one successor takes one after another, and stops none
/// first for that.
#[test]
fn overlapping_steps_wait_for_room() {
    let mut cluster = Cluster::empty();
    cluster.join_with("n1", resources(1000, 0));
    cluster.pass();
    let small = |version| web(version).reserves(250, 0);
    cluster.apply("shop", &[small(1)]);
    cluster.settle();
    cluster.apply("shop", &[small(2)]);
    for _ in 0..40 {
        cluster.pass();
        cluster.obey();
        assert_eq!(serving(&cluster), 3, "{}", cluster.show());
        cluster.advance(Millis::from_secs(1), &[]);
    }
    assert_eq!(show_rollout(&cluster), "3/3 completed");
}

/// R-ROLL-4: `delay` is waited between steps, and `monitor` is how long a successor must stay up
/// before the next step begins.
#[test]
fn steps_are_delayed_by_the_policy() {
    let begun_after = |edit: fn(&mut jaco_types::spec::UpdatePolicy)| {
        let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
        let edited = |version| web(version).with(|spec| edit(&mut spec.update));
        cluster.apply("shop", &[edited(1)]);
        for _ in 0..10 {
            cluster.pass();
            cluster.obey();
            cluster.advance(Millis::from_secs(10), &[]);
        }
        cluster.apply("shop", &[edited(2)]);
        cluster.pass();
        cluster.obey();
        let mut waited = 0;
        // The second step has begun once two replicas are of the second revision.
        while versions(&cluster) != "2 2 1" {
            assert!(waited < 100, "the second step never begins: {}", cluster.show());
            cluster.pass();
            if versions(&cluster) == "2 2 1" {
                break;
            }
            cluster.advance(Millis::from_secs(1), &[]);
            waited += 1;
        }
        waited
    };
    assert_eq!(begun_after(|_| {}), 0);
    assert_eq!(begun_after(|update| update.delay = Millis::from_secs(20)), 20);
    assert_eq!(begun_after(|update| update.monitor = Some(Millis::from_secs(7))), 7);
}

/// R-ROLL-4: going back waits between its steps as `rollback_config` says.
#[test]
fn rollback_steps_are_delayed() {
    let back = RollbackPolicy { delay: Millis::from_secs(9), ..RollbackPolicy::default() };
    let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
    cluster.apply("shop", &[web(1)]);
    cluster.settle();
    cluster.apply("shop", &[web(2).with(|spec| spec.update.rollback = back)]);
    for _ in 0..2 {
        cluster.pass();
        cluster.obey();
    }
    // Two replicas are of the second revision when the third step hangs.
    cluster.pass();
    cluster.advance(Millis::from_secs(60), &[]);
    cluster.pass();
    assert_eq!(versions(&cluster), "1 2 1", "the first goes back, the hanging one is given up");
    cluster.obey();
    cluster.advance(Millis::from_secs(8), &[]);
    cluster.pass();
    assert_eq!(versions(&cluster), "1 2 1", "the delay is not over");
    cluster.advance(Millis::from_secs(1), &[]);
    cluster.pass();
    assert_eq!(versions(&cluster), "1 1 1");
}
