//! The forecast is what happens.

use expect_test::expect;
use jaco_scheduler::forecast::{End, Move};
use jaco_scheduler::{Hypothesis, PlanInput, forecast, suppose};
use jaco_state::command::DeploymentDelete;
use jaco_types::spec::{Placement, RestartPolicy, ServiceMode, ServiceSpec, UpdatePolicy};
use jaco_types::{Availability, FirstWatch, Millis, NodeFacts, RolloutState, ServiceName};
use proptest::prelude::*;

use crate::cluster::{Cluster, hostname, key, resources, service};
use crate::events::{HOSTS, any_service};

fn show(cluster: &Cluster, moves: &[Move]) -> String {
    let name = |id| cluster.state.nodes.get(&id).map_or("?", |node| node.hostname.as_str());
    let line = |m: &Move| {
        let from = m.from.map_or("-", name);
        let to = m.to.map_or("-", name);
        format!("{} {} {from}>{to} {}", m.action.as_str(), m.replica, m.cause)
    };
    moves.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// R-CLI-2: the forecast has every step of a rollout, not only the first, and what is removed and moved.
#[test]
fn forecast_names_all_steps() {
    let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
    cluster.apply("shop", &[service("web", "w:1").replicas(4)]);
    cluster.settle();
    cluster.set_availability("n3", Availability::Draining);
    cluster.attach("proxy", Millis::from_secs(20));
    let slow = service("web", "w:2").replicas(3).with(|spec| {
        spec.update.delay = Millis::from_secs(40);
        spec.update.monitor = Some(Millis::from_secs(5));
    });
    cluster.apply("shop", &[slow, service("api", "a:1").replicas(1)]);
    let forecast_now = forecast(&cluster.input());
    assert_eq!(forecast_now.end, End::Rest);
    expect![[r#"
        create shop-api-0 ->n2 spread
        replace shop-web-0 n2>n2 spec_changed
        move shop-web-1 n3>n1 spec_changed
        replace shop-web-2 n1>n1 spec_changed
        stop shop-web-3 n2>- fewer are wanted"#]]
    .assert_eq(&show(&cluster, &forecast_now.moves));
    assert!(forecast_now.now > cluster.now, "delays are waited out on the copy");
    assert_eq!(forecast(&forecast_now.input(&cluster.config)).moves, vec![], "the end is an end");
}

/// R-CLI-2: replicas that are removed once others are proven are in the forecast too, where those others have
/// no rollout: their service is new.
#[test]
fn forecast_waits_for_the_first_watch() {
    let mut cluster = Cluster::of(&["n1", "n2"]);
    let web = service("web", "w:1").replicas(1);
    let api = service("api", "a:1");
    cluster.apply("shop", &[api.clone().placement(Placement::Global)]);
    cluster.settle();
    let beside = api.replicas(1).with(|spec| {
        spec.scheduling.shares_namespaces_with.insert(ServiceName::new("web").unwrap());
    });
    cluster.apply("shop", &[web, beside]);
    let forecast_now = forecast(&cluster.input());
    expect![[r#"
        create shop-api-0 ->n1 spread
        stop shop-api-n1 n1>- fewer are wanted
        stop shop-api-n2 n2>- fewer are wanted
        create shop-web-0 ->n1 spread"#]]
    .assert_eq(&show(&cluster, &forecast_now.moves));
    cluster.settle();
    let ids = |state: &jaco_state::ClusterState| -> Vec<_> {
        state.slots.values().map(|slot| slot.id.to_string()).collect()
    };
    assert_eq!(ids(&forecast_now.state), ids(&cluster.state));
}

/// R-CLI-2: what a forecast cannot get to is listed and left open, in bounded time.
#[test]
fn long_rollout_is_forecast_as_open() {
    let mut cluster = Cluster::of(&["n1", "n2"]);
    cluster.apply("shop", &[service("web", "w:1").replicas(3)]);
    cluster.settle();
    let slow = service("web", "w:2")
        .replicas(3)
        .with(|spec| spec.update.delay = Millis::from_secs(24 * 3600));
    cluster.apply("shop", &[slow]);
    let forecast_now = forecast(&cluster.input());
    assert_eq!(forecast_now.end, End::Open);
    let later = forecast_now.moves.iter().filter(|m| m.to.is_none()).count();
    assert_eq!(
        (forecast_now.moves.len(), later),
        (3, 2),
        "{}",
        show(&cluster, &forecast_now.moves)
    );
}

/// R-CLI-2: what is left of a service whose deployment was deleted while it was new holds up no forecast, and the next
/// pass forgets it.
#[test]
fn nothing_is_left_open_of_what_was_deleted() {
    let mut cluster = Cluster::of(&["n1", "n2"]);
    let slow = service("web", "w:1").with(|spec| spec.update.monitor = Some(Millis::from_secs(60)));
    cluster.apply("old", &[slow]);
    cluster.settle();
    let open = |cluster: &Cluster| {
        let record = cluster.state.scheduling.get(&key("old", "web")).expect("it was planned");
        record.first_watch == FirstWatch::Open
    };
    assert!(open(&cluster));
    cluster.commit(DeploymentDelete::new("old".parse().unwrap()).into());
    cluster.apply("shop", &[service("api", "a:1")]);
    assert_eq!(forecast(&cluster.input()).end, End::Rest);
    cluster.settle();
    assert!(!open(&cluster));
}

/// R-CLI-2: a rollout that was given up is no step that a forecast could not get to.
#[test]
fn what_was_given_up_is_not_forecast() {
    let mut cluster = Cluster::of(&["n1", "n2"]);
    cluster.apply("shop", &[service("web", "w:1").replicas(2)]);
    cluster.settle();
    cluster.apply("shop", &[service("web", "w:2").replicas(2)]);
    cluster.pass();
    cluster.advance(UpdatePolicy::default().step_timeout, &[]);
    cluster.pass();
    cluster.obey();
    cluster.settle();
    let record = cluster.state.scheduling.get(&key("shop", "web")).unwrap();
    assert_eq!(record.rollout.as_ref().unwrap().state, RolloutState::Aborted);
    // A rollout of another service that takes longer than is looked at.
    let slow = |image| {
        let slow = service("db", image).replicas(3);
        slow.with(|spec| spec.update.delay = Millis::from_secs(24 * 3600))
    };
    cluster.apply("blog", &[slow("d:1")]);
    cluster.settle();
    cluster.apply("blog", &[slow("d:2")]);
    let forecast_now = forecast(&cluster.input());
    assert_eq!(forecast_now.end, End::Open);
    let of_shop = forecast_now.moves.iter().filter(|it| it.service == key("shop", "web"));
    assert_eq!(of_shop.count(), 0, "{}", show(&cluster, &forecast_now.moves));
}

/// R-CLI-3: nodes that come and go and another number of replicas, all at once.
#[test]
fn what_if_is_answered_by_the_planner() {
    let mut cluster = Cluster::empty();
    for host in ["n1", "n2"] {
        cluster.join_with(host, resources(1000, 0));
    }
    cluster.pass();
    cluster.apply("shop", &[service("web", "w:1").replicas(4).reserves(500, 0)]);
    cluster.settle();
    let ask = |hypothesis: &Hypothesis| {
        let (state, signals) = suppose(&cluster.input(), hypothesis).expect("it can be hypothesis");
        let forecast_now =
            forecast(&PlanInput { state: &state, signals: &signals, ..cluster.input() });
        let waits: u32 = forecast_now.last.report.unplaced.iter().map(|entry| entry.count).sum();
        let moves =
            forecast_now.moves.iter().map(|m| format!("{}:{}", m.action.as_str(), m.replica));
        format!("{}; {waits} wait", moves.collect::<Vec<_>>().join(" "))
    };
    let lost = [cluster.node("n1")].into();
    let facts = NodeFacts { capacity: resources(2000, 0), ..NodeFacts::default() };
    let added = [(hostname("n9"), facts)].into();
    let scaled = [(key("shop", "web"), 6)].into();
    assert_eq!(ask(&Hypothesis::default()), "; 0 wait");
    assert_eq!(ask(&Hypothesis { lost, ..Hypothesis::default() }), "; 2 wait");
    let lost = [cluster.node("n1")].into();
    expect!["move:shop-web-0 move:shop-web-3 create:shop-web-4 create:shop-web-5; 0 wait"]
        .assert_eq(&ask(&Hypothesis { lost, added, scaled, ..Hypothesis::default() }));
    let drained = [cluster.node("n2")].into();
    expect!["; 2 wait"].assert_eq(&ask(&Hypothesis { drained, ..Hypothesis::default() }));
}

proptest! {
    /// R-CLI-2, R-CLI-3: the forecast of a change is what a cooperative cluster ends with.
    #[test]
    fn forecast_equals_what_happens(
        before in prop::collection::vec(any_service(), 1..3),
        after in prop::collection::vec(any_service(), 1..3),
    ) {
        let mut cluster = Cluster::empty();
        for (number, host) in HOSTS[..3].iter().enumerate() {
            let labels = [("datacenter", if number % 2 == 0 { "a" } else { "b" }), ("rack", "r1")];
            cluster.join_as(host, resources(2000, 600), &labels);
        }
        cluster.pass();
        // Jobs, and services that wait for one, are another test's subject.
        let alone = |services: Vec<crate::cluster::Service>| -> Vec<_> {
            let plain = |spec: &mut ServiceSpec| {
                spec.depends_on.clear();
                (spec.mode, spec.restart) = (ServiceMode::Service, RestartPolicy::Always);
            };
            services.into_iter().map(|s| s.with(plain)).collect()
        };
        cluster.apply("shop", &alone(before));
        cluster.settle();
        cluster.apply("shop", &alone(after));
        let forecast_now = forecast(&cluster.input());
        cluster.settle();
        let rolls = |record: &jaco_types::Scheduling| {
            record.rollout.as_ref().is_some_and(|roll| roll.state == RolloutState::InProgress)
        };
        // A step without room ends by its timeout, which settling does not wait for.
        prop_assume!(!cluster.state.scheduling.values().any(rolls));
        let ends = |state: &jaco_state::ClusterState| -> Vec<_> {
            let slots = state.slots.values();
            slots.map(|s| (s.id.clone(), s.current.node, s.current.spec_hash)).collect()
        };
        prop_assert_eq!(ends(&forecast_now.state), ends(&cluster.state));
        prop_assert_eq!(forecast_now.last.report.unplaced, cluster.plan().report.unplaced);
    }
}
