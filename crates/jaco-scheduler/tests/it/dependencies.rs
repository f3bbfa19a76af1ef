//! R-ROLL-7: the conditions of `depends_on` hold in rollouts too: a service takes its first step once what
//! it depends on has finished its own.

use expect_test::expect;
use jaco_types::spec::{
    Dependency, DependencyCondition, DependencyRequirement, FailureAction, UpdatePolicy,
};
use jaco_types::{Completion, DesiredState, Millis, ReplicaState, RolloutState, ServiceName};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::cluster::{Cluster, Service, key, service};

fn on(name: &str, condition: DependencyCondition) -> Dependency {
    let service = ServiceName::new(name).unwrap();
    Dependency { service, condition, required: DependencyRequirement::Required }
}

fn made(name: &str, version: u32, needs: Vec<Dependency>) -> Service {
    service(name, &format!("{name}:{version}")).replicas(2).with(|spec| spec.depends_on = needs)
}

/// `db r2 completed, web r1 in_progress`: what runs where, and how far it is.
fn shown(cluster: &Cluster) -> String {
    let services = cluster.state.scheduling.iter().map(|(key, record)| {
        let slots = cluster.state.slots.values().filter(|slot| slot.service == *key);
        let revisions: Vec<_> = slots.map(|slot| slot.current.revision.to_string()).collect();
        let rollout = record.rollout.as_ref();
        let rollout = rollout.map_or(String::new(), |rollout| {
            format!(" {} {}", rollout.state.as_str(), rollout.failure_reason)
        });
        let waits: Vec<_> = record.unplaced.iter().map(|it| format!(" ({})", it.reason)).collect();
        let (name, revisions) = (&key.service, revisions.join(""));
        format!("{name} r{revisions}{}{}", rollout.trim_end(), waits.concat())
    });
    services.collect::<Vec<_>>().join(", ")
}

fn step(cluster: &mut Cluster) {
    cluster.pass();
    cluster.obey();
    cluster.advance(UpdatePolicy::DEFAULT_MONITOR, &[]);
    cluster.pass();
}

const HEALTHY: DependencyCondition = DependencyCondition::Healthy;
const COMPLETED: DependencyCondition = DependencyCondition::CompletedSuccessfully;

/// R-ROLL-7: `api` waits for the rollout of `db`, though it comes first by name, and says so.
#[test]
fn dependents_roll_after_what_they_depend_on() {
    let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
    let both =
        |version| [made("api", version, vec![on("db", HEALTHY)]), made("db", version, vec![])];
    cluster.apply("shop", &both(1));
    cluster.settle();
    cluster.apply("shop", &both(2));
    let mut story = Vec::new();
    for _ in 0..5 {
        step(&mut cluster);
        story.push(shown(&cluster));
    }
    expect![[r#"
        api r11 in_progress (waiting_for_dependency), db r22 in_progress
        api r21 in_progress, db r22 completed
        api r22 in_progress, db r22 completed
        api r22 completed, db r22 completed
        api r22 completed, db r22 completed"#]]
    .assert_eq(&story.join("\n"));
    // A change of one of them waits for nothing.
    cluster.apply("shop", &[made("api", 3, vec![on("db", HEALTHY)]), made("db", 2, vec![])]);
    cluster.pass();
    assert_eq!(cluster.slot("shop-api-0").current.revision.0, 3);
}

/// R-ROLL-7: a job that the revision adds is waited for until it has ended without an error.
#[test]
fn added_job_comes_before_the_first_step() {
    let mut cluster = Cluster::of(&["n1", "n2"]);
    cluster.apply("shop", &[made("web", 1, vec![])]);
    cluster.settle();
    let migrate = made("migrate", 1, vec![]).replicas(1);
    cluster.apply("shop", &[migrate, made("web", 2, vec![on("migrate", COMPLETED)])]);
    for _ in 0..30 {
        cluster.pass();
        cluster.run_all();
        cluster.advance(Millis::from_secs(30), &[]);
    }
    expect!["migrate r2, web r11 in_progress (waiting_for_dependency)"].assert_eq(&shown(&cluster));
    cluster.see("shop-migrate-0", ReplicaState::Stopped);
    cluster.pass();
    assert_eq!(cluster.slot("shop-web-0").current.revision.0, 2);
}

/// R-ROLL-7: what is paused pauses those that depend on it, which say why.
#[test]
fn paused_dependency_pauses_its_dependents() {
    let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
    let all = |version| {
        let pauses = made("db", version, vec![])
            .with(|spec| spec.update.failure_action = FailureAction::Pause);
        let api = made("api", version, vec![on("db", HEALTHY)]);
        [api, pauses, made("web", version, vec![on("api", HEALTHY)])]
    };
    cluster.apply("shop", &all(1));
    cluster.settle();
    cluster.apply("shop", &all(2));
    cluster.pass();
    cluster.advance(Millis::from_secs(61), &[]);
    cluster.pass();
    expect!["api r11 paused dependency_paused: db: step_timeout: shop-db-0 did not run within 60s, db r21 paused step_timeout: shop-db-0 did not run within 60s, web r11 paused dependency_paused: api: dependency_paused: db: step_timeout: shop-db-0 did not run within 60s"].assert_eq(&shown(&cluster));
}

/// PL-19: what never gets up after its rollout is given a time, and services that wait for each other,
/// which compose files cannot have, do not.
#[test]
fn nothing_waits_for_ever() {
    let mut cluster = Cluster::of(&["n1", "n2"]);
    let circle = |version| {
        [
            made("api", version, vec![on("web", HEALTHY)]),
            made("web", version, vec![on("api", HEALTHY)]),
        ]
    };
    cluster.apply("shop", &[made("api", 1, vec![]), made("web", 1, vec![])]);
    cluster.settle();
    cluster.apply("shop", &circle(2));
    cluster.settle();
    expect!["api r22 completed, web r22 completed"].assert_eq(&shown(&cluster));
    // A service that the revision adds hangs.
    let added = [made("api", 3, vec![on("db", HEALTHY)]), made("db", 3, vec![])];
    cluster.apply("shop", &added);
    for _ in 0..40 {
        cluster.pass();
        cluster.advance(Millis::from_secs(10), &[]);
    }
    expect!["api r22 paused dependency_timeout: db is not service_healthy in time, db r33, web r"]
        .assert_eq(&shown(&cluster));
}

const NAMES: [&str; 4] = ["api", "db", "migrate", "web"];

fn condition() -> impl Strategy<Value = DependencyCondition> {
    prop_oneof![Just(DependencyCondition::Started), Just(HEALTHY), Just(COMPLETED)]
}

/// Which services depend on which later ones, by their places in a random order; no circles.
fn needs() -> impl Strategy<Value = Vec<Option<DependencyCondition>>> {
    prop::collection::vec(prop::option::weighted(0.4, condition()), 6)
}

fn revision(
    order: &[usize],
    needs: &[Option<DependencyCondition>],
    version: &[u32],
) -> Vec<Service> {
    let pairs: Vec<(usize, usize)> = (0..4).flat_map(|a| (a + 1..4).map(move |b| (a, b))).collect();
    let of = |a: usize| {
        let edges = pairs.iter().zip(needs).filter(|((from, _), _)| *from == a);
        let edges = edges.filter_map(|((_, to), it)| Some(on(NAMES[order[*to]], (*it)?)));
        edges.collect::<Vec<_>>()
    };
    (0..4).map(|a| made(NAMES[order[a]], version[order[a]], of(a))).collect()
}

/// Whether the replicas of a service that run its wanted spec meet a condition.
fn holds(cluster: &Cluster, needed: &Dependency) -> bool {
    let of = key("shop", needed.service.as_str());
    let deployment = cluster.state.deployments.get(&of.deployment).unwrap();
    let hash = deployment.spec().services[&of.service].hash;
    let mut states = cluster.state.slots.values().filter(|slot| slot.service == of).map(|slot| {
        let seen = cluster.state.observed.get(&slot.current_id()).map(|seen| seen.state);
        let seen = match slot.desired_state {
            DesiredState::Finished(Completion::Succeeded) => Some(ReplicaState::Stopped),
            DesiredState::Finished(Completion::Failed)
            | DesiredState::Active
            | DesiredState::Disabled => seen,
        };
        (slot.current.spec_hash == hash).then_some(seen).flatten()
    });
    match needed.condition {
        DependencyCondition::Started => states.any(|it| {
            matches!(
                it,
                Some(
                    ReplicaState::Starting
                        | ReplicaState::Running
                        | ReplicaState::Degraded
                        | ReplicaState::Stopped
                )
            )
        }),
        DependencyCondition::Healthy => states.any(|it| it == Some(ReplicaState::Running)),
        DependencyCondition::CompletedSuccessfully => {
            states.all(|it| it == Some(ReplicaState::Stopped))
        }
    }
}

/// What happens to a deployment of [`NAMES`]: two revisions, what nodes report and when.
#[derive(Debug)]
struct Story {
    /// The places of the services in [`NAMES`], and what depends on what, as [`revision`] reads them.
    order: Vec<usize>,
    needs: Vec<Option<DependencyCondition>>,
    before: Vec<u32>,
    after: Vec<u32>,
    /// A slot's place, its reported state, and the seconds until the next pass.
    seen: Vec<(usize, ReplicaState, u64)>,
    end: End,
}

/// What becomes of the replicas once the story has been told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    AllRun,
    AllStart,
}

/// Checks before each step that what the service depends on is over and holds, and that all rollouts end.
fn check(story: Story) -> Result<(), TestCaseError> {
    let Story { order, needs, before, after, seen, end } = story;
    let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
    cluster.apply("shop", &revision(&order, &[None; 6], &before));
    cluster.settle();
    let wanted = revision(&order, &needs, &after);
    cluster.apply("shop", &wanted);
    for (at, state, secs) in seen {
        check_pass(&mut cluster, &wanted)?;
        report(&mut cluster, at, state);
        cluster.advance(Millis::from_secs(secs), &[]);
    }
    for at in 0..120 {
        check_pass(&mut cluster, &wanted)?;
        match end {
            End::AllRun => cluster.obey(),
            End::AllStart => report(&mut cluster, at, ReplicaState::Starting),
        }
        cluster.advance(Millis::from_secs(7), &[]);
    }
    let needs = || wanted.iter().flat_map(|it| &it.0.depends_on);
    let awaits_job = needs().any(|needed| needed.condition == COMPLETED);
    for (key, record) in cluster.state.scheduling.iter() {
        let state = record.rollout.as_ref().map(|rollout| rollout.state);
        let goes_on = state == Some(RolloutState::InProgress);
        prop_assert!(!goes_on || awaits_job, "{key}: {}", shown(&cluster));
    }
    Ok(())
}

fn report(cluster: &mut Cluster, at: usize, state: ReplicaState) {
    let ids: Vec<_> = cluster.state.slots.keys().cloned().collect();
    if let Some(id) = ids.get(at % ids.len().max(1)) {
        cluster.see(id.as_str(), state);
    }
}

/// One pass; each service that takes its first step in it must find what it depends on.
fn check_pass(cluster: &mut Cluster, wanted: &[Service]) -> Result<(), TestCaseError> {
    let was = cluster.clone();
    let plan = cluster.pass();
    let causes = Cluster::causes(&plan);
    for id in causes.iter().filter_map(|cause| cause.strip_suffix(":spec_changed")) {
        let slot = was.slot(id);
        let mut own = was.state.slots.values().filter(|other| other.service == slot.service);
        let is_first = own.all(|other| other.current.revision.0 < 2);
        let spec = &wanted.iter().find(|it| it.0.name == slot.service.service).unwrap().0;
        let is_rolled = slot.current.spec_hash != spec.hash;
        for needed in spec.depends_on.iter().filter(|_| is_first && is_rolled) {
            let record = cluster.state.scheduling.get(&key("shop", needed.service.as_str()));
            let other = record.and_then(|record| record.rollout.as_ref());
            let Some(other) = other.filter(|it| it.target_revision.0 == 2) else { continue };
            prop_assert!(other.state == RolloutState::Completed, "{id}: {}", shown(cluster));
            prop_assert!(holds(&was, needed), "{id} before {needed:?}: {}", shown(&was));
        }
    }
    Ok(())
}

/// R-ROLL-7: a replica that has completed serves nobody, though its node reports it as running again.
#[test]
fn completed_replica_is_not_healthy() {
    let (healthy, completed) = (Some(HEALTHY), Some(COMPLETED));
    let story = Story {
        order: vec![1, 0, 3, 2],
        needs: vec![None, None, None, None, healthy, completed],
        before: vec![2, 1, 2, 1],
        after: vec![1; 4],
        seen: vec![
            (4, ReplicaState::Stopped, 0),
            (0, ReplicaState::Pending, 30),
            (4, ReplicaState::Running, 30),
        ],
        end: End::AllStart,
    };
    check(story).unwrap();
}

proptest! {
    /// R-ROLL-7, PL-19: with any dependencies, and replicas that run, end or fail as they like, the first
    /// step of a service is taken when the rollouts of what it depends on are over and the conditions hold
    /// for the wanted revision; and every rollout ends.
    #[test]
    fn no_first_step_before_its_dependencies(
        order in Just(vec![0, 1, 2, 3]).prop_shuffle(),
        needs in needs(),
        before in prop::collection::vec(1..3u32, 4),
        after in prop::collection::vec(1..3u32, 4),
        seen in prop::collection::vec((0..8usize, crate::events::state(), 0..40u64), 0..60),
        end in prop_oneof![Just(End::AllRun), Just(End::AllStart)],
    ) {
        check(Story { order, needs, before, after, seen, end })?;
    }
}
