//! What the cluster asks of nodes, and operators that need more than a comparison.

use jaco_scheduler::attribute::holds;
use jaco_scheduler::contradiction::contradictions;
use jaco_scheduler::{Noncompliant, noncompliant};
use jaco_state::Outcome;
use jaco_state::command::ConstraintsSet;
use jaco_types::spec::{Constraint, Operator, Placement};
use jaco_types::{Hostname, Node};
use proptest::prelude::*;

use crate::cluster::{Cluster, Service, resources, service};

/// Three nodes of 1, 2 and 4 cores, in zones.
fn cluster() -> Cluster {
    let mut cluster = Cluster::empty();
    for (host, cores, zone) in [("n1", 1, "a"), ("n2", 2, "a"), ("n4", 4, "b")] {
        cluster.join_as(host, resources(cores * 1000, 0), &[("zone", zone), ("docker", "28.1.0")]);
    }
    cluster
}

fn own(key: &'static str) -> impl Fn(Service) -> Service {
    move |service| {
        service.with(|spec| {
            spec.scheduling.own_keys.insert(key.to_owned());
        })
    }
}

/// R-CONS-1, R-CONS-2, R-CONS-3: a key that is not set falls back to the default of the cluster,
/// each by itself; one that the service sets stays its own, even if it demands nothing.
#[test]
fn each_key_falls_back_to_the_default_of_the_cluster() {
    let mut cluster = cluster();
    cluster.constrain("cores", "1.5");
    cluster.constrain("zone", "a");
    let web = |name: &str| service(name, name).replicas(1);
    let of_its_own = own("zone")(web("own")).constrained("zone", Operator::Equal, "b");
    cluster.apply("shop", &[web("web"), own("zone")(own("cpu")(web("free"))), of_its_own]);
    cluster.settle();
    assert_eq!(cluster.slot("shop-web-0").current.node, cluster.node("n2"));
    assert_eq!(cluster.slot("shop-own-0").current.node, cluster.node("n4"));
    let free = cluster.apply("blog", &[own("zone")(own("cpu")(web("free"))).hosts(&["n1"])]);
    assert!(matches!(free, Outcome::Deployed { .. }));
    cluster.settle();
    assert_eq!(cluster.slot("blog-free-0").current.node, cluster.node("n1"));
}

/// R-CONS-4: changed defaults move no replica that was placed before, and are reported for those that
/// wait for it.
#[test]
fn changed_defaults_move_no_replica() {
    let mut cluster = cluster();
    cluster.apply("shop", &[service("web", "w").replicas(3)]);
    cluster.settle();
    let before = cluster.show();
    cluster.constrain("zone", "c");
    cluster.settle();
    assert_eq!(cluster.show(), before);
    cluster.apply("shop", &[service("web", "w").replicas(4)]);
    cluster.settle();
    assert_eq!(cluster.reasons("shop", "web"), "1 no_eligible_node constraint_fails=3");
    cluster.constrain("zone", "");
    cluster.settle();
    assert_eq!(cluster.reasons("shop", "web"), "");
}

/// R-CLI-2: a rule that changed moves nobody; the replicas that do not comply any more are named, with the rule.
#[test]
fn replicas_that_do_not_comply_are_named() {
    let mut cluster = cluster();
    let web = || service("web", "w").replicas(3).reserves(500, 0);
    let named = |cluster: &Cluster| -> Vec<String> {
        let found = noncompliant(&cluster.input()).into_iter();
        let text = |one: Noncompliant| {
            let failed: Vec<_> = one.failed.iter().map(ToString::to_string).collect();
            format!("{} {}", one.replica, failed.join("; "))
        };
        found.map(text).collect()
    };
    cluster.apply("shop", &[web()]);
    cluster.settle();
    assert_eq!(named(&cluster), Vec::<String>::new());
    let before = cluster.show();
    let on = |host: &str| {
        let node = cluster.node(host);
        let mut slots = cluster.state.slots.values();
        slots.find(|slot| slot.current.node == node).expect("one on each").id.to_string()
    };
    let (on_n1, on_n4) = (on("n1"), on("n4"));
    let mut check = |web: Service, expected: &[String]| {
        cluster.apply("shop", &[web]);
        cluster.settle();
        assert_eq!(cluster.show(), before, "nobody moves");
        assert_eq!(named(&cluster), expected);
    };
    let elsewhere = format!("{on_n4} does not satisfy node.zone = a");
    check(web().constrained("node.zone", Operator::Equal, "a"), &[elsewhere]);
    check(web(), &[]);
    // n1 has one core: what is reserved there already is its own, and not enough.
    let short = format!("{on_n1} 1000m of cpu left, 1500m needed");
    check(web().reserves(1500, 0), &[short]);
}

/// R-CONS-2: pairs that are not understood are refused together, and nothing is set.
#[test]
fn unknown_demands_are_refused() {
    let mut cluster = cluster();
    let pairs = [("cpu", "many"), ("ram", "1G"), ("instance-type", "m5")];
    let pairs = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let outcome = cluster.commit(ConstraintsSet::new(pairs).into());
    let Outcome::Rejected(rejection) = outcome else { panic!("{outcome:?}") };
    assert!(rejection.message.contains("cpu=many: write a number of cores"));
    assert!(rejection.message.contains("instance-type=m5: JACO knows cpu"));
    assert!(cluster.state.constraints.is_empty());
}

/// R-CONS-7: patterns and semantic versions decide like every other operator.
#[test]
fn patterns_and_semantic_versions_choose_nodes() {
    let holds = |operator, attribute: &str, value: &str| {
        let mut cluster = cluster();
        let web = service("web", "w").replicas(0).placement(jaco_types::spec::Placement::Global);
        cluster.apply("shop", &[web.constrained(attribute, operator, value)]);
        cluster.settle();
        cluster.state.slots.len()
    };
    assert_eq!(holds(Operator::Regexp, "node.hostname", "^n[14]$"), 2);
    assert_eq!(holds(Operator::Regexp, "node.hostname", "n"), 3);
    assert_eq!(holds(Operator::Regexp, "node.hostname", "("), 0);
    assert_eq!(holds(Operator::Regexp, "nowhere", ".*"), 0);
    assert_eq!(holds(Operator::Semver, "docker", ">= 28.0.0, < 29.0.0-0"), 3);
    assert_eq!(holds(Operator::Semver, "docker", "< 28.1.0"), 0);
}

fn constraint(attribute: &str, operator: Operator, value: &str) -> Constraint {
    Constraint { attribute: attribute.to_owned(), operator, value: value.to_owned() }
}

/// R-CONS-5: constraints that cannot hold together are named, however they are written.
#[test]
fn contradictions_name_both_sides() {
    use Operator::*;
    let reported = |constraints: &[Constraint]| contradictions(constraints, &Placement::Spread);
    let zone = constraint("node.zone", Equal, "a");
    let both = |b: Constraint| reported(&[zone.clone(), b]);
    assert_eq!(
        both(constraint("${meta.zone}", Equal, "b")),
        ["no node can satisfy both node.zone = a and ${meta.zone} = b"]
    );
    for other in [
        constraint("zone", IsNotSet, ""),
        constraint("zone", NotEqual, "a"),
        constraint("zone", Regexp, "^[b-z]"),
        constraint("zone", SetContainsAny, "b,c"),
        constraint("zone", Greater, "a"),
    ] {
        assert_eq!(both(other.clone()).len(), 1, "{other:?}");
    }
    let ranges = |from: &str, to: &str| {
        reported(&[constraint("gen", Greater, from), constraint("gen", Less, to)]).len()
    };
    assert_eq!(
        [ranges("7", "5"), ranges("5", "6"), ranges("b", "a"), ranges("5", "5")],
        [1, 0, 1, 1]
    );
    assert_eq!([ranges("5", "7"), ranges("10", "9"), ranges("a", "b"), ranges("5", "a")], [0; 4]);
    let hosts = Placement::Hosts([Hostname::new("n1").unwrap()].into());
    assert_eq!(
        contradictions(&[constraint("node.hostname", Equal, "n2")], &hosts),
        ["none of the hosts of the service satisfies node.hostname = n2"]
    );
}

proptest! {
    /// PL-16: constraints that are reported to contradict each other hold of no node together; R-CONS-5.
    #[test]
    fn reported_contradictions_are_real(
        operators in [0..Operator::ALL.len(), 0..Operator::ALL.len()],
        values in ["[0-9a-c.,]{0,3}", "[0-9a-c.,]{0,3}"],
        label in proptest::option::of("[0-9a-c.,]{0,3}"),
    ) {
        let both: Vec<_> = operators.iter().zip(&values)
            .map(|(at, value)| constraint("x", Operator::ALL[*at], value))
            .collect();
        let mut cluster = Cluster::empty();
        let labels: Vec<_> = label.iter().map(|value| ("x", value.as_str())).collect();
        cluster.join_as("n1", resources(0, 0), &labels);
        let node: &Node = cluster.state.nodes.values().next().unwrap();
        if both.iter().all(|constraint| holds(node, constraint)) {
            prop_assert_eq!(contradictions(&both, &Placement::Spread), Vec::<String>::new());
        }
    }
}
