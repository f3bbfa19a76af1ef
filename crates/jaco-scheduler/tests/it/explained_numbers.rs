//! The numbers that `explain` shows of each node, against the state that they are about (R-CLI-3, R-LOOP-6).

use jaco_scheduler::explain::{NodeAnswer, explain};
use jaco_types::spec::{Affinity, Operator, Placement};
use jaco_types::unit::{Bytes, MilliCores};
use jaco_types::{Availability, Slot};
use proptest::prelude::*;

use crate::cluster::{Cluster, Service, constraint, key, resources, service};
use crate::events::{events, happen};

fn answers(cluster: &Cluster, name: &str) -> Vec<NodeAnswer> {
    explain(&cluster.input(), &key("shop", name)).expect("it is desired")
}

fn of<'a>(answers: &'a [NodeAnswer], host: &str) -> &'a NodeAnswer {
    answers.iter().find(|answer| answer.hostname.as_str() == host).expect("every node answers")
}

fn web() -> Service {
    service("web", "w")
}

/// Replicas of the service and of all services, each by itself.
#[test]
fn replicas_are_counted_by_service_and_in_all() {
    let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
    cluster.apply("blog", &[service("api", "a").replicas(2).hosts(&["n1", "n2"])]);
    cluster.apply("shop", &[web().replicas(2).placement(Placement::Pack)]);
    cluster.settle();
    let counts = |cluster: &Cluster| {
        let answers = answers(cluster, "web");
        answers.iter().map(|it| (it.facts.of_service, it.facts.of_all)).collect::<Vec<_>>()
    };
    assert_eq!(counts(&cluster), [(0, 1), (0, 1), (2, 2)]);
    // During a handover a replica counts where it goes to.
    cluster.set_availability("n3", Availability::Draining);
    cluster.pass();
    assert!(cluster.show().contains("<n3"), "{}", cluster.show());
    let (of_service, of_all): (Vec<_>, Vec<_>) = counts(&cluster).into_iter().unzip();
    assert_eq!((of_service.iter().sum::<u32>(), of_all.iter().sum::<u32>()), (2, 4));
    assert_eq!((of_service[2], of_all[2]), (0, 0));
}

/// What is left is the capacity without all reservations, also of an instance that retires; nothing is
/// said where nothing is declared.
#[test]
fn room_is_what_no_instance_reserves() {
    let mut cluster = Cluster::empty();
    for (host, cpu, memory) in [("n1", 2000, 4096), ("n2", 1000, 0), ("n3", 0, 1024)] {
        cluster.join_with(host, resources(cpu, memory));
    }
    cluster.pass();
    cluster.apply("shop", &[web().replicas(1).hosts(&["n1"]).reserves(300, 1000)]);
    cluster.settle();
    let left = |cluster: &Cluster, host: &str| {
        let facts = of(&answers(cluster, "web"), host).facts;
        (facts.cpu_left.map(|cpu| cpu.0), facts.memory_left.map(|memory| memory.0))
    };
    assert_eq!(left(&cluster, "n1"), (Some(1700), Some(3096)));
    assert_eq!(left(&cluster, "n2"), (Some(1000), None));
    assert_eq!(left(&cluster, "n3"), (None, Some(1024)));
    cluster.apply(
        "shop",
        &[web().replicas(1).hosts(&["n1"]).reserves(300, 1000).with(|spec| {
            spec.image = "w:2".into();
            spec.hash = jaco_types::SpecHash([7; 32]);
        })],
    );
    cluster.pass();
    assert_eq!(cluster.show(), "shop-web-0@n1<n1");
    assert_eq!(left(&cluster, "n1"), (Some(1400), Some(2096)), "both have their reservation");
}

/// The weights of the affinities that hold are summed up, negative ones included.
#[test]
fn affinities_are_summed() {
    let mut cluster = Cluster::empty();
    cluster.join_as("n1", resources(0, 0), &[("ssd", "yes"), ("zone", "a")]);
    cluster.join_as("n2", resources(0, 0), &[("zone", "a")]);
    cluster.join_as("n3", resources(0, 0), &[]);
    cluster.pass();
    let affinity = |attribute: &str, operator, value: &str, weight| Affinity {
        constraint: constraint(attribute, operator, value),
        weight,
    };
    let likes = web().replicas(1).with(|spec| {
        spec.scheduling.affinities = vec![
            affinity("ssd", Operator::IsSet, "", 30),
            affinity("zone", Operator::Equal, "a", -100),
            affinity("zone", Operator::NotEqual, "a", 5),
            affinity("node.hostname", Operator::Regexp, "n[12]", 7),
        ];
    });
    cluster.apply("shop", &[likes]);
    cluster.settle();
    let sums: Vec<_> = answers(&cluster, "web").iter().map(|it| it.facts.affinity).collect();
    assert_eq!(sums, [-63, -93, 5]);
    assert_eq!(cluster.show(), "shop-web-0@n3", "the greatest sum is taken");
}

/// Nodes answer in the order of their names, and nobody answers about what is not desired.
#[test]
fn nodes_answer_by_name() {
    let mut cluster = Cluster::of(&["n2", "n10", "n1"]);
    cluster.apply("shop", &[web().replicas(1)]);
    let names: Vec<_> = answers(&cluster, "web").iter().map(|it| it.hostname.to_string()).collect();
    assert_eq!(names, ["n1", "n10", "n2"]);
    assert_eq!(explain(&cluster.input(), &key("shop", "db")), None);
    assert_eq!(explain(&cluster.input(), &key("blog", "web")), None);
    let before = cluster.clone();
    let _answers = answers(&cluster, "web");
    assert_eq!(cluster.state, before.state, "who asks changes nothing");
}

proptest! {
    /// R-CLI-3: whatever happened, the numbers are those of the state once nothing is left to do.
    #[test]
    fn numbers_are_those_of_the_state(events in events(1..20)) {
        let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
        for event in &events {
            happen(&mut cluster, event);
        }
        cluster.apply("shop", &[service("web", "w").replicas(1)]);
        cluster.settle();
        for answer in answers(&cluster, "web") {
            let node = cluster.state.nodes.get(&answer.node).unwrap();
            let slots = || cluster.state.slots.values();
            let active = |slot: &&Slot| {
                slot.current.node == node.id
                    && slot.desired_state == jaco_types::DesiredState::Active
            };
            let all = slots().filter(active).count();
            let own = slots().filter(active).filter(|slot| slot.service == key("shop", "web"));
            prop_assert_eq!(answer.facts.of_all as usize, all, "{}", answer.hostname);
            prop_assert!(own.count() <= answer.facts.of_service as usize);
            let reserved = slots().flat_map(|slot| {
                let here = slot.instances().filter(|(_, instance)| instance.node == node.id);
                let specs = here.filter_map(|(_, instance)| {
                    cluster.state.service_spec(&slot.service, instance.revision)
                });
                specs.map(|spec| spec.reservation).collect::<Vec<_>>()
            });
            let reserved = reserved.fold(resources(0, 0), |sum, one| sum.plus(one));
            let capacity = node.facts.capacity;
            let left = capacity.minus(reserved);
            let (cpu, memory) = (capacity.cpu.0 > 0, capacity.memory.0 > 0);
            prop_assert_eq!(answer.facts.cpu_left, cpu.then_some(MilliCores(left.cpu.0)));
            prop_assert_eq!(answer.facts.memory_left, memory.then_some(Bytes(left.memory.0)));
        }
    }
}
