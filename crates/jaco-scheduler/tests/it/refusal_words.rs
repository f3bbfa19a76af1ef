//! Every reason against a node: its stable name, its words, and what `explain` suggests to do about it
//! (R-LOOP-6, R-CLI-3).

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use jaco_scheduler::Ineligible;
use jaco_scheduler::explain::{NodeAnswer, explain};
use jaco_scheduler::input::EngineSignal;
use jaco_scheduler::suggestion::smallest_change;
use jaco_state::command::Disabling;
use jaco_types::spec::{HostPort, Operator, Placement, Protocol};
use jaco_types::{AllocationScope, Availability, Millis};

use crate::cluster::{Cluster, Service, key, resources, service};

fn web() -> Service {
    service("web", "w")
}

/// One node `n1` with 1 core and 1 GiB, where this happened before a user asks about `web`.
fn answer(happen: impl FnOnce(&mut Cluster), web: Service) -> NodeAnswer {
    let mut cluster = Cluster::empty();
    cluster.join_with("n1", resources(1000, 1 << 30));
    cluster.pass();
    cluster.apply("shop", &[web.replicas(0)]);
    happen(&mut cluster);
    let mut answers = explain(&cluster.input(), &key("shop", "web")).expect("it is desired");
    assert_eq!(answers.len(), 1);
    answers.remove(0)
}

/// The name, the words and the suggestion of the one reason that there is.
fn check(happen: impl FnOnce(&mut Cluster), web: Service, expected: [&str; 3]) {
    let answer = answer(happen, web);
    let [reason] = &answer.failed[..] else { panic!("{expected:?}: {:?}", answer.failed) };
    let smallest = smallest_change(std::slice::from_ref(&answer)).expect("it is not eligible");
    let steps: Vec<_> = smallest.describe().collect();
    assert_eq!([reason.as_str(), &reason.to_string(), &steps.join("; ")], expected);
}

fn none(_: &mut Cluster) {}

#[test]
fn eligible_nodes_have_nothing_against_it() {
    let answer = answer(none, web().reserves(1000, 1 << 30));
    assert_eq!(answer.failed, []);
    assert_eq!(smallest_change(&[answer]), None);
}

#[test]
fn states_of_nodes() {
    check(
        |cluster| cluster.advance(Millis::from_secs(16), &["n1"]),
        web(),
        ["not_ready", "not ready", "bring n1 back"],
    );
    let engine = |signal: EngineSignal| {
        move |cluster: &mut Cluster| {
            let node = cluster.node("n1");
            cluster.signals.nodes.get_mut(&node).unwrap().engine = signal;
        }
    };
    check(
        engine(EngineSignal::Down("refused".to_owned())),
        web(),
        ["engine_down", "its engine does not answer", "repair the container engine of n1"],
    );
    check(
        engine(EngineSignal::DiskFull("the disk of /var is 97% full".to_owned())),
        web(),
        ["disk_full", "the disk of /var is 97% full", "free disk space on n1"],
    );
    for availability in [Availability::Cordoned, Availability::Draining] {
        check(
            |cluster| cluster.set_availability("n1", availability),
            web(),
            [availability.as_str(), availability.as_str(), "uncordon n1"],
        );
    }
    check(
        |cluster| {
            let scope = AllocationScope::Node(cluster.node("n1"));
            cluster.set_disabled(Disabling::Disable, &[scope]);
        },
        web(),
        ["disabled", "the service is disabled there", "enable the service on n1"],
    );
}

#[test]
fn policies() {
    let selecting = web().with(|spec| spec.scheduling.selectors = ["ssd".to_owned()].into());
    check(
        none,
        selecting,
        [
            "missing_label",
            "carries no label \"ssd\"",
            "select by label ssd no more, or give it to n1",
        ],
    );
    check(
        none,
        web().constrained("node.zone", Operator::Equal, "b"),
        [
            "constraint_fails",
            "does not satisfy node.zone = b",
            "drop the constraint node.zone = b, or make it hold of n1",
        ],
    );
    check(
        none,
        web().constrained("ssd", Operator::IsSet, ""),
        [
            "constraint_fails",
            "does not satisfy ssd is_set",
            "drop the constraint ssd is_set, or make it hold of n1",
        ],
    );
    check(
        none,
        web().with(|spec| spec.scheduling.minimum = resources(1500, 512 << 20)),
        [
            "below_minimum",
            "has less left than 1500m of cpu and 512 MiB of memory",
            "ask for no more cpu and ram than n1 has left",
        ],
    );
}

#[test]
fn room() {
    check(
        none,
        web().reserves(1500, 0),
        [
            "insufficient_cpu",
            "1000m of cpu left, 1500m needed",
            "free 500m of cpu on n1, or reserve that much less",
        ],
    );
    check(
        none,
        web().reserves(0, 3 << 29),
        [
            "insufficient_memory",
            "1 GiB of memory left, 1.5 GiB needed",
            "free 512 MiB of memory on n1, or reserve that much less",
        ],
    );
    let taken = |cluster: &mut Cluster| {
        cluster.apply("blog", &[service("api", "a").host_port(80).reserves(300, 0)]);
        cluster.settle();
    };
    check(
        taken,
        web().host_port(80),
        ["host_port_taken", "host port 80/tcp is taken", "free port 80 of n1"],
    );
    check(
        taken,
        web().reserves(701, 0),
        [
            "insufficient_cpu",
            "700m of cpu left, 701m needed",
            "free 1m of cpu on n1, or reserve that much less",
        ],
    );
    check(
        |cluster| cluster.give_gpus("n1", 1),
        web().gpus(3),
        [
            "insufficient_gpus",
            "GPUs: 1 of 1 free, 3 of nvidia needed",
            "free 2 more GPUs of n1, or ask for as many less",
        ],
    );
    check(
        none,
        web().volume("shop_data", "ssd", 0),
        [
            "no_volume_class",
            "offers no volumes of class ssd",
            "have n1 offer volumes of class ssd (`volume_classes` of its jacod.yaml), or ask for another class",
        ],
    );
    check(
        |cluster| cluster.offer_volumes("n1", "ssd", 5 << 30),
        web().volume("shop_data", "ssd", 7 << 30),
        [
            "insufficient_volume_space",
            "5 GiB left for volumes of class ssd, 7 GiB needed",
            "free 2 GiB of volumes of class ssd on n1, or ask for that much less",
        ],
    );
}

/// A port of one transport does not take that of another.
#[test]
fn ports_are_of_a_transport() {
    let udp =
        |port| web().with(|spec| spec.host_ports.push(HostPort { port, protocol: Protocol::Udp }));
    let taken = |cluster: &mut Cluster| {
        cluster.apply("blog", &[service("api", "a").host_port(80)]);
        cluster.settle();
    };
    assert_eq!(answer(taken, udp(80)).failed, []);
    assert_eq!(answer(taken, web().host_port(81)).failed, []);
    let both = udp(443).host_port(80).host_port(82);
    assert_eq!(answer(taken, both).failed.len(), 1);
    for (protocol, words) in [(Protocol::Udp, "udp"), (Protocol::Sctp, "sctp")] {
        let port = HostPort { port: 53, protocol };
        let reason = Ineligible::HostPortTaken { port };
        assert_eq!(reason.to_string(), format!("host port 53/{words} is taken"));
    }
}

/// Several reasons come in one order, all of them.
#[test]
fn all_reasons_are_told() {
    let asked = web()
        .constrained("node.zone", Operator::Equal, "b")
        .constrained("node.arch", Operator::Equal, "riscv")
        .reserves(2000, 2 << 30)
        .hosts(&["n2"])
        .with(|spec| {
            spec.scheduling.selectors = ["b".to_owned(), "a".to_owned()].into();
        });
    let mut cluster = Cluster::empty();
    cluster.join_with("n1", resources(1000, 1 << 30));
    cluster.join_with("n2", resources(9000, 9 << 30));
    cluster.pass();
    cluster.apply("shop", &[asked.replicas(0)]);
    cluster.set_availability("n1", Availability::Cordoned);
    let answers = explain(&cluster.input(), &key("shop", "web")).unwrap();
    let names = |at: usize| {
        let names: Vec<_> = answers[at].failed.iter().map(Ineligible::as_str).collect();
        names.join(" ")
    };
    assert_eq!(
        names(0),
        "cordoned not_pinned missing_label missing_label constraint_fails constraint_fails \
         insufficient_cpu insufficient_memory"
    );
    assert_eq!(names(1), "missing_label missing_label constraint_fails constraint_fails");
    assert_eq!(smallest_change(&answers).unwrap().node.as_str(), "n2", "it has fewer reasons");
    let labels: Vec<_> = answers[1].failed.iter().map(ToString::to_string).collect();
    assert_eq!(labels[..2], ["carries no label \"a\"", "carries no label \"b\""]);
}

/// What depends on other replicas: the most per node, and the services that it is colocated with.
#[test]
fn other_replicas() {
    let mut cluster = Cluster::of(&["n1"]);
    let limited = |replicas| {
        web().replicas(replicas).with(|spec| spec.scheduling.max_per_node = NonZeroU32::new(2))
    };
    cluster.apply("shop", &[limited(2)]);
    cluster.settle();
    let reasons = |cluster: &Cluster, name: &str| {
        let answers = explain(&cluster.input(), &key("shop", name)).unwrap();
        let change = smallest_change(&answers);
        let steps = change.map(|change| change.describe().collect::<Vec<_>>().join("; "));
        let reasons: Vec<_> = answers[0].failed.iter().map(ToString::to_string).collect();
        (reasons.join("; "), steps.unwrap_or_default())
    };
    let (reason, step) = reasons(&cluster, "web");
    assert_eq!(reason, "has 2 of the service, the most that one node may have");
    assert_eq!(step, "let one node have more than 2 of the service");
    let agent = service("agent", "a").with(|spec| {
        spec.scheduling.place_with.insert("db".parse().unwrap());
    });
    cluster.apply("shop", &[limited(2), agent, service("db", "d").replicas(0)]);
    let (reason, step) = reasons(&cluster, "agent");
    assert_eq!(reason, "has no db that runs");
    assert_eq!(step, "bring a replica of db up on n1, or do not ask for one there");
}

/// The names are part of the interface, and distinct.
#[test]
fn names_are_distinct() {
    let mut cluster = Cluster::of(&["n1"]);
    cluster.apply("shop", &[web().placement(Placement::Global)]);
    cluster.settle();
    let unlike = [
        Ineligible::NotReady,
        Ineligible::EngineDown,
        Ineligible::DiskFull { reason: "full".to_owned() },
        Ineligible::Cordoned,
        Ineligible::Draining,
        Ineligible::Disabled,
        Ineligible::NotPinned,
        Ineligible::MissingLabel { label: "a".to_owned() },
        Ineligible::ConstraintFails { constraint: "a".to_owned() },
        Ineligible::BelowMinimum { minimum: resources(1, 1) },
        Ineligible::PartnerMissing { service: "db".parse().unwrap() },
        Ineligible::PartnerPending { service: "db".parse().unwrap() },
        Ineligible::MaxPerNode { max: NonZeroU32::MIN },
        Ineligible::DataElsewhere,
        Ineligible::OnePerNode,
        Ineligible::TooManyInstances { instances: 8, max: NonZeroU32::MIN },
    ];
    let names: Vec<_> = unlike.iter().map(Ineligible::as_str).collect();
    assert_eq!(
        names.join(" "),
        "not_ready engine_down disk_full cordoned draining disabled not_pinned missing_label \
         constraint_fails below_minimum not_beside partner_to_come max_per_node data_elsewhere \
         one_per_node too_many_instances"
    );
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    let words = |reason: &Ineligible| reason.to_string();
    assert_eq!(words(&unlike[2]), "full", "what the node says itself");
    assert_eq!(words(&unlike[6]), "not among the pinned hosts");
    assert_eq!(words(&unlike[11]), "a db that is about to run is for it");
    assert_eq!(words(&unlike[13]), "the data is on another node");
    assert_eq!(words(&unlike[14]), "has its replica already");
    assert_eq!(words(&unlike[15]), "has 8 instances and takes 1");
}
