//! Pairs that ask for the greatest amount that any node has, and for labels.

use jaco_scheduler::Planner;
use jaco_scheduler::attribute::count_admitted;
use jaco_scheduler::contradiction::contradictions;
use jaco_state::Outcome;
use jaco_state::command::{ConstraintsSet, NodeReport};
use jaco_types::demand::Demand;
use jaco_types::spec::{Operator, Placement, SchedulingPolicy};
use jaco_types::unit::Bytes;
use jaco_types::{Node, NodeFacts};

use crate::cluster::{Cluster, Service, constraint, resources, service};

/// Four nodes: `cores` has the most of the processor, `ram` of the memory, `disk` of the disk, and
/// `none` declares nothing.
fn cluster() -> Cluster {
    let mut cluster = Cluster::empty();
    for (host, cores, gibibytes, disk) in
        [("cores", 8, 4, 10), ("disk", 2, 4, 90), ("none", 0, 0, 0), ("ram", 2, 64, 10)]
    {
        let node = cluster.join_as(host, resources(cores * 1000, gibibytes << 30), &[]);
        set_disk(&mut cluster, host, disk);
        assert_eq!(cluster.node(host), node);
    }
    cluster
}

fn set_disk(cluster: &mut Cluster, host: &str, gibibytes: u64) {
    let node = cluster.state.nodes.get(&cluster.node(host)).unwrap();
    let (id, address) = (node.id, node.address.clone());
    let facts = NodeFacts { storage: Bytes(gibibytes << 30), ..node.facts.clone() };
    cluster.commit(NodeReport::new(id, address, facts).into());
}

/// A service with these pairs of its own.
fn asks(pairs: &[(&str, &str)]) -> Service {
    service("web", "w").with(|spec| {
        for (key, value) in pairs {
            match Demand::parse(key, value) {
                Ok(Demand::Rules(rules)) => spec.scheduling.constraints.extend(rules),
                Ok(Demand::Nothing) => {}
                other => panic!("{key}={value} is {other:?}"),
            }
            spec.scheduling.own_keys.insert((*key).to_owned());
        }
    })
}

/// R-CONS-6: each amount goes by what nodes have of it, and several replicas fit on the one that has
/// the most. It is what they have, not what is left of it.
#[test]
fn replicas_go_where_the_greatest_amount_is() {
    for (key, host) in [("cpu", "cores"), ("ram", "ram"), ("storage", "disk")] {
        let mut cluster = cluster();
        let web = asks(&[(key, "max")]).replicas(3).reserves(1, 1 << 30);
        cluster.apply("shop", &[web]);
        cluster.settle();
        assert_eq!(cluster.counts("shop", "web")[host], 3, "{key}: {}", cluster.show());
    }
}

/// R-CONS-6: what no single node has the most of waits, and each node says which of it it lacks.
#[test]
fn greatest_amounts_of_two_nodes_have_no_place() {
    let mut cluster = cluster();
    cluster.apply("shop", &[asks(&[("cpu", "max"), ("ram", "max")])]);
    cluster.settle();
    assert_eq!(cluster.reasons("shop", "web"), "1 no_eligible_node constraint_fails=6");
    let plan = cluster.plan();
    let failed = |host: &str| {
        let nodes = &plan.report.unplaced[0].nodes;
        let node = nodes.iter().find(|node| node.hostname.as_str() == host).unwrap();
        node.failed.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    assert_eq!(failed("cores"), "does not satisfy node.reservable_memory_mib >= max");
    assert_eq!(failed("ram"), "does not satisfy node.reservable_cpu_millis >= max");
    assert_eq!(
        failed("none"),
        "does not satisfy node.reservable_cpu_millis >= max; does not satisfy \
         node.reservable_memory_mib >= max"
    );
    let large = cluster.join_as("large", resources(8000, 64 << 30), &[]);
    cluster.settle();
    assert_eq!(cluster.slot("shop-web-0").current.node, large);
}

/// R-CONS-6, R-CONS-4: a greater node takes what comes from then on, and moves no replica. Nodes that
/// have equally much share.
#[test]
fn greater_nodes_take_what_comes_later() {
    let mut cluster = cluster();
    cluster.apply("shop", &[asks(&[("storage", "max")]).replicas(2)]);
    cluster.settle();
    set_disk(&mut cluster, "ram", 91);
    cluster.settle();
    assert_eq!(cluster.counts("shop", "web")["disk"], 2, "{}", cluster.show());
    cluster.apply("shop", &[asks(&[("storage", "max")]).replicas(3)]);
    cluster.settle();
    let counts = cluster.counts("shop", "web");
    assert_eq!((counts["disk"], counts["ram"]), (2, 1));
    set_disk(&mut cluster, "cores", 91);
    cluster.apply("blog", &[asks(&[("storage", "max")]).replicas(4)]);
    cluster.settle();
    let counts = cluster.counts("blog", "web");
    assert_eq!((counts["cores"], counts["ram"]), (2, 2));
}

/// R-CONS-6: where no node says how much it has, none has the most.
#[test]
fn unknown_amounts_are_not_the_greatest() {
    let mut cluster = Cluster::of(&["n1", "n2"]);
    cluster.apply("shop", &[asks(&[("cpu", "max")])]);
    cluster.settle();
    assert_eq!(cluster.reasons("shop", "web"), "1 no_eligible_node constraint_fails=2");
}

/// R-CONS-1, R-CONS-2, R-CONS-6: the cluster asks for the greatest amount of those who say nothing; an
/// amount, `0` and nothing at all are said.
#[test]
fn greatest_amount_of_the_cluster_is_the_default() {
    let mut cluster = cluster();
    cluster.constrain("storage", "max");
    let named = |name: &str, service: Service| {
        service.placement(Placement::Global).with(|spec| spec.name = name.parse().unwrap())
    };
    let services = [
        named("amount", asks(&[("storage", "10G")])),
        named("empty", asks(&[("storage", "")])),
        named("silent", asks(&[])),
        named("zero", asks(&[("storage", "0")])),
    ];
    cluster.apply("shop", &services);
    cluster.settle();
    let count = |name| cluster.counts("shop", name).values().sum::<usize>();
    assert_eq!(["amount", "empty", "silent", "zero"].map(count), [3, 4, 1, 4]);
}

/// R-CONS-2: `zone=0` names a zone, of the cluster as of a service.
#[test]
fn zone_of_the_name_zero_is_a_zone() {
    for of_cluster in [true, false] {
        let mut cluster = Cluster::empty();
        cluster.join_as("n1", resources(0, 0), &[("zone", "1")]);
        let wanted = cluster.join_as("n2", resources(0, 0), &[("zone", "0")]);
        let pairs: &[(&str, &str)] = if of_cluster { &[] } else { &[("zone", "0")] };
        if of_cluster {
            cluster.constrain("zone", "0");
        }
        cluster.apply("shop", &[asks(pairs).replicas(2)]);
        cluster.settle();
        let nodes = cluster.state.slots.values().map(|slot| slot.current.node);
        assert_eq!(nodes.collect::<Vec<_>>(), [wanted, wanted]);
    }
}

/// R-CONS-6: `tags` asks for labels, all of them, whatever their values; a change of it moves no
/// replica (R-CONS-4).
#[test]
fn tags_ask_for_labels() {
    let mut cluster = Cluster::empty();
    cluster.join_as("n1", resources(0, 0), &[("ssd", "yes")]);
    let both = cluster.join_as("n2", resources(0, 0), &[("ssd", "no"), ("gpu", "")]);
    cluster.join_as("n3", resources(0, 0), &[("gpu", "yes"), ("kernel", "6")]);
    cluster.apply("shop", &[asks(&[("tags", "ssd,gpu,worker")]).replicas(2)]);
    cluster.settle();
    let homes = |cluster: &Cluster| {
        cluster.state.slots.values().map(|slot| slot.current.node).collect::<Vec<_>>()
    };
    assert_eq!(homes(&cluster), [both, both]);
    cluster.apply("shop", &[asks(&[("tags", "kernel")]).replicas(2)]);
    cluster.settle();
    assert_eq!(homes(&cluster), [both, both]);
    cluster.apply("shop", &[asks(&[("tags", "kernel,ssd")]).replicas(3)]);
    cluster.settle();
    assert_eq!(cluster.reasons("shop", "web"), "1 no_eligible_node constraint_fails=3");
    cluster.constrain("tags", "kernel");
    cluster.apply("blog", &[asks(&[])]);
    cluster.settle();
    assert_eq!(cluster.slot("blog-web-0").current.node, cluster.node("n3"));
}

/// R-CONS-1, R-CONS-6: of `max`, as `max-per-node` was called, a stored revision and the stored default
/// of the cluster are still understood, each beside the new name of the other.
#[test]
fn former_name_of_the_limit_per_node_counts() {
    for (of_cluster, own) in [("max", "max-per-node"), ("max-per-node", "max")] {
        let mut cluster = Cluster::of(&["n1"]);
        cluster.state.constraints.insert(of_cluster.to_owned(), "1".to_owned());
        let free = service("free", "f").replicas(2).with(|spec| {
            spec.scheduling.own_keys.insert(own.to_owned());
        });
        cluster.apply("shop", &[free, service("web", "w").replicas(2)]);
        cluster.settle();
        let placed = cluster.show();
        assert_eq!(placed, "shop-free-0@n1 shop-free-1@n1 shop-web-0@n1", "{own}");
        cluster.constrain("max-per-node", "3");
        let pairs: Vec<_> = cluster.state.constraints.clone().into_iter().collect();
        assert_eq!(pairs, [("max-per-node".to_owned(), "3".to_owned())], "one limit is set");
    }
    let mut cluster = Cluster::of(&["n1"]);
    let zero = [("max-per-node".to_owned(), "0".to_owned())].into();
    let refused = cluster.commit(ConstraintsSet::new(zero).into());
    assert!(matches!(refused, Outcome::Rejected(_)), "{refused:?}");
}

/// R-CONS-6: the leader's planner sees a greater node as soon as it joins.
#[test]
fn planner_that_goes_on_sees_greater_nodes() {
    let mut cluster = cluster();
    let mut planner = Planner::default();
    cluster.apply("shop", &[asks(&[("cpu", "max"), ("ram", "max")])]);
    cluster.settle();
    assert_eq!(planner.plan(&cluster.input()), cluster.plan());
    cluster.join_as("large", resources(9000, 65 << 30), &[]);
    assert_eq!(planner.plan(&cluster.input()), cluster.plan());
}

/// R-CONS-6, R-RES-4: for an apply, only the nodes that have the most count.
#[test]
fn nodes_with_the_greatest_amount_are_counted() {
    let cluster = cluster();
    let nodes: Vec<&Node> = cluster.state.nodes.values().collect();
    let count = |pairs: &[(&str, &str)]| count_admitted(&nodes, &asks(pairs).0.scheduling);
    assert_eq!([count(&[]), count(&[("cpu", "max")]), count(&[("storage", "10G")])], [4, 1, 3]);
    assert_eq!([count(&[("cpu", "max"), ("ram", "max")]), count(&[("tags", "ssd")])], [0, 0]);
    let selecting = SchedulingPolicy { selectors: ["ssd".to_owned()].into(), ..<_>::default() };
    assert_eq!(count_admitted(&nodes, &selecting), 0);
}

/// R-CONS-5, R-CONS-6: how much the greatest amount is depends on the nodes, so nothing contradicts it.
#[test]
fn greatest_amounts_contradict_nothing() {
    let greatest = constraint("node.storage_mib", Operator::GreaterOrEqual, "max");
    for (operator, value) in
        [(Operator::Equal, "5"), (Operator::Less, "5"), (Operator::LessOrEqual, "a")]
    {
        let other = constraint("node.storage_mib", operator, value);
        for both in [[greatest.clone(), other.clone()], [other, greatest.clone()]] {
            assert_eq!(contradictions(&both, &Placement::Spread), Vec::<String>::new());
        }
    }
}
