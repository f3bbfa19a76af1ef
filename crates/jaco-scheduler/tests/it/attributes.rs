//! What is known of nodes by name, and that all of it can be spread over and asked for.

use std::collections::BTreeMap;

use jaco_scheduler::attribute::{attributes, holds, is_built_in, value_of};
use jaco_state::command::{NodeReport, NodeSetLabels};
use jaco_types::spec::Operator;
use jaco_types::unit::Bytes;
use jaco_types::{Gpu, Machine, NodeFacts};

use crate::cluster::{Cluster, constraint, resources, service};

/// Two kinds of machines that differ in everything that a node reports about itself.
fn facts(kind: &str) -> NodeFacts {
    let (old, number) = (kind == "old", if kind == "old" { 1 } else { 2 });
    let gpu = |id: &str| Gpu {
        id: id.into(),
        driver: if old { "nvidia" } else { "amdgpu" }.to_owned(),
        model: format!("{kind} T4"),
        memory: Bytes(0),
    };
    NodeFacts {
        version: format!("0.{number}.0"),
        os: format!("{kind}-os"),
        arch: format!("{kind}-arch"),
        engine: format!("{kind}-engine {number}.0"),
        capacity: resources(number * 1000, number << 30),
        storage: Bytes(number << 30),
        gpus: if old { vec![gpu("0")] } else { vec![gpu("0"), gpu("1")] },
        machine: Machine {
            kernel: format!("{number}.1.0"),
            cores: u32::try_from(number).unwrap(),
            mhz: 1000 * u32::try_from(number).unwrap(),
            memory: Bytes(number << 30),
            disk: Bytes(number << 31),
            disk_free: Bytes(0),
        },
        labels: [("datacenter", kind), ("rack", kind)]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        router: None,
        edge: None,
        instances_max: None,
        volume_classes: [(kind.parse().unwrap(), Bytes(0))].into(),
    }
}

/// Three machines of one kind and two of the other.
fn cluster() -> Cluster {
    let kinds = [("n1", "old"), ("n2", "old"), ("n3", "old"), ("n4", "new"), ("n5", "new")];
    let mut cluster = Cluster::of(&kinds.map(|(host, _)| host));
    for (host, kind) in kinds {
        let node = cluster.node(host);
        let address = format!("{host}:7000");
        cluster.commit(NodeReport::new(node, address, facts(kind)).into());
        let set = [("zone".to_owned(), format!("zone-{kind}"))].into();
        cluster.commit(NodeSetLabels::new(node).set(set).unset([].into()).into());
    }
    cluster.pass();
    cluster
}

/// R-SPREAD-1: any attribute can be spread over: what nodes are, what was found of them, the labels
/// of their configuration and those that operators gave, in every way of writing it.
#[test]
fn spread_accepts_any_attribute() {
    let labels = ["node.datacenter", "node.zone", "meta.rack", "rack", "zone", "meta.zone"];
    let built_in = attributes().into_iter().map(|attribute| attribute.name);
    let all = labels.into_iter().chain(built_in.filter(|name| *name != "node.hostname"));
    for name in all.flat_map(|name| [name.to_owned(), format!("${{{name}}}")]) {
        let mut cluster = cluster();
        let web = service("web", "web:1").replicas(12).spread(&name, 100, &[]);
        cluster.apply("shop", &[web]);
        cluster.settle();
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for node in cluster.state.nodes.values() {
            let value = value_of(node, &name).unwrap_or_else(|| panic!("{name} has no value"));
            let here = cluster.counts("shop", "web")[node.hostname.as_str()];
            *counts.entry(value.into_owned()).or_default() += here;
        }
        // By machines it would be 7 and 5.
        assert_eq!(counts.values().collect::<Vec<_>>(), [&6, &6], "{name}: {counts:?}");
    }
    let mut cluster = cluster();
    let each = service("web", "web:1").replicas(10).spread("${node.hostname}", 100, &[]);
    cluster.apply("shop", &[each]);
    cluster.settle();
    assert!(cluster.counts("shop", "web").values().all(|count| *count == 2));
}

/// R-RES-6, R-CONS-7: what was found of a machine can be asked for.
#[test]
fn constraints_accept_detected_attributes() {
    let cluster = cluster();
    let node = |host: &str| cluster.state.nodes.get(&cluster.node(host)).unwrap();
    let (old, new) = (node("n1"), node("n4"));
    for (attribute, operator, value) in [
        ("node.cores", Operator::GreaterOrEqual, "2"),
        ("node.memory_mib", Operator::Greater, "1024"),
        ("node.reservable_cpu_millis", Operator::GreaterOrEqual, "2000"),
        ("node.reservable_memory_mib", Operator::GreaterOrEqual, "2048"),
        ("node.storage_mib", Operator::GreaterOrEqual, "2048"),
        ("node.kernel", Operator::Version, ">= 2"),
        ("${node.engine_version}", Operator::Version, "> 1.0"),
        ("node.engine", Operator::Equal, "new-engine"),
        ("node.gpus", Operator::Greater, "1"),
        ("node.gpu_drivers", Operator::SetContains, "amdgpu"),
        ("node.gpu_models", Operator::SetContains, "new T4"),
    ] {
        let asked = constraint(attribute, operator, value);
        assert!(holds(new, &asked) && !holds(old, &asked), "{attribute} {value}");
    }
}

/// R-RES-6: of a node that reports nothing about its machine nothing is assumed, and what operators say
/// goes before what was found.
#[test]
fn labels_override_detected_attributes() {
    let mut cluster = Cluster::empty();
    cluster.join_as("n1", resources(0, 0), &[("kernel", "mine")]);
    let node = cluster.state.nodes.values().next().unwrap();
    let known = attributes().into_iter().filter(|it| value_of(node, it.name).is_some());
    let known: Vec<_> = known.map(|it| it.name).collect();
    assert_eq!(known, ["node.gpus", "node.hostname", "node.kernel"]);
    assert_eq!(value_of(node, "node.kernel").as_deref(), Some("mine"));
    assert_eq!(value_of(node, "node.gpus").as_deref(), Some("0"));
    assert!(is_built_in("${node.cores}") && !is_built_in("cores") && !is_built_in("meta.cores"));
}

/// R-SPREAD-1: the documented list is the list.
#[test]
fn every_attribute_is_documented() {
    let text = include_str!("../../../../docs/concepts.md");
    for attribute in attributes() {
        let row = format!("| `{}` | {} |", attribute.name, attribute.meaning);
        assert!(text.contains(&row), "docs/concepts.md lacks the row\n{row}");
    }
}
