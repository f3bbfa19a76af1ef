//! What compose says about nodes and neighbours, in JACO's words. R-IN-2.

use jaco_compose::Code;
use jaco_compose::model::ContainerSpec;

use std::num::NonZeroU32;

use jaco_types::ServiceName;

use crate::util::resolve_text;

fn rules(members: &str) -> Vec<String> {
    let text = format!("services:\n  web:\n    image: i\n    {members}\n");
    let resolved = resolve_text(&text, None).unwrap_or_else(|problems| panic!("{problems}"));
    let rules = &resolved.services["web"].facts.constraints.rules;
    rules
        .iter()
        .map(|rule| format!("{} {} {}", rule.attribute, rule.operator.as_str(), rule.value))
        .collect()
}

fn constraints(list: &str) -> Vec<String> {
    rules(&format!("deploy: {{placement: {{constraints: [{list}]}}}}"))
}

/// R-IN-2, R-CONS-7: Swarm's names become those that JACO's nodes have; a label keeps its case.
#[test]
fn swarm_constraints_name_what_nodes_have() {
    assert_eq!(constraints("node.labels.Disk == ssd"), ["meta.Disk = ssd"]);
    assert_eq!(constraints("engine.labels.a!=b"), ["meta.a != b"]);
    assert_eq!(constraints("Node.Hostname == n1"), ["node.hostname = n1"]);
    assert_eq!(
        constraints("node.platform.os==linux, node.platform.arch == x86_64"),
        ["node.os = linux", "node.arch = amd64"]
    );
}

/// R-IN-2: every node is a manager and a worker, so asking for one of them is not a filter.
#[test]
fn roles_of_nodes_are_warned_about() {
    let text = "services:\n  web:\n    image: i\n    deploy: {placement: {constraints: [node.role == manager]}}\n";
    let resolved = resolve_text(text, None).unwrap();
    assert_eq!(resolved.services["web"].facts.constraints.rules, []);
    let mut warned = resolved.warnings.list.iter();
    let warned = warned.find(|problem| problem.message.starts_with("`node.role"));
    assert_eq!(warned.map(|problem| (problem.code, problem.line)), Some((Code::NoEffect, 4)));
}

/// R-IN-2: what no node has is a mistake with a place, not a replica that waits for ever.
#[test]
fn unknown_attributes_are_refused() {
    for (members, column) in [
        ("deploy: {placement: {constraints: [node.rack == a]}}", 40),
        ("deploy: {placement: {constraints: [ssd]}}", 40),
        ("deploy: {placement: {preferences: [{spread: node.role}]}}", 40),
    ] {
        let text = format!("services:\n  web:\n    image: i\n    {members}\n");
        let problems = resolve_text(&text, None).unwrap_err();
        let first = problems.errors().next().unwrap();
        assert_eq!((first.code, first.line, first.column), (Code::InvalidValue, 4, column));
        assert!(first.expected.as_ref().unwrap().contains("node.labels.KEY"), "{first}");
    }
}

/// R-IN-2: an image of one platform runs on nodes of that platform.
#[test]
fn a_platform_chooses_nodes() {
    assert_eq!(rules("platform: linux/arm64/v8"), ["node.os = linux", "node.arch = arm64"]);
    assert_eq!(rules("tty: true"), [""; 0]);
}

const LINKED: &str = "
services:
  web:
    image: i
    links: ['db:database', cache]
    networks: [front, back]
  db: {image: i, networks: {back: {aliases: [pg]}, own: }}
  cache: {image: i, networks: [back]}
  other: {image: i, networks: [front], links: ['db:never']}
networks: {front: , back: , own: }
";

fn aliases(text: &str, service: &str, network: &str) -> Vec<String> {
    let resolved = resolve_text(text, None).unwrap_or_else(|problems| panic!("{problems}"));
    let spec = ContainerSpec::parse(&resolved.services[service].container.canonical).unwrap();
    spec.service.networks[network].aliases.clone()
}

/// R-IN-2: a linked service answers to the alias on the networks it shares with who links to it.
#[test]
fn links_are_aliases_of_the_linked_service() {
    assert_eq!(aliases(LINKED, "db", "back"), ["pg", "database"]);
    assert_eq!(aliases(LINKED, "db", "own"), [""; 0]);
    assert_eq!(aliases(LINKED, "cache", "back"), [""; 0]);
    let overlay = "deployment: shop\nservices: [{name: other, networks: [back]}]\n";
    let resolved = resolve_text(LINKED, Some(overlay)).unwrap();
    let canonical = &resolved.services["db"].container.canonical;
    assert!(canonical.contains(r#""aliases":["pg","database","never"]"#), "{canonical}");
}

/// R-HASH-1: a new alias is a new container of the linked service, not of the one that links.
#[test]
fn a_new_link_recreates_the_linked_service_only() {
    let renamed = LINKED.replace("db:database", "db:base");
    for (service, same) in [("web", true), ("db", false), ("cache", true)] {
        let hash = |text| resolve_text(text, None).unwrap().services[service].container.hash;
        assert_eq!(hash(LINKED) == hash(&renamed), same, "{service}");
    }
}

/// R-IN-2, R-CONS-6: who shares a namespace is known by name, and so is whose volumes are mounted; and
/// nothing is warned about, for the planner keeps them together.
#[test]
fn neighbours_are_facts() {
    let compose = "
services:
  vpn: {image: i}
  web: {image: i, network_mode: 'service:vpn', ipc: 'service:log', pid: host}
  log: {image: i, volumes_from: ['vpn:ro']}
";
    let resolved = resolve_text(compose, None).expect("it is a project");
    let names = |set: &std::collections::BTreeSet<ServiceName>| {
        set.iter().map(ServiceName::as_str).collect::<Vec<_>>().join(" ")
    };
    let told = ["vpn", "web", "log"].map(|name| {
        let facts = &resolved.services[name].facts;
        (names(&facts.shares_namespaces_with), names(&facts.volumes_from))
    });
    let text = |beside: &str, volumes: &str| (beside.to_owned(), volumes.to_owned());
    assert_eq!(told, [text("", ""), text("log vpn", ""), text("", "vpn")]);
    let warned = resolved.warnings.list.iter();
    let warned: Vec<_> = warned.filter(|each| !each.message.contains("differently")).collect();
    assert!(warned.is_empty(), "{warned:?}");
}

/// R-IN-2, R-CONS-6: Swarm's limit is a fact, and no warning.
#[test]
fn a_limit_for_each_node_is_a_fact() {
    let text =
        "services:\n  web:\n    image: i\n    deploy: {placement: {max_replicas_per_node: 2}}\n";
    let resolved = resolve_text(text, None).unwrap();
    assert_eq!(resolved.services["web"].facts.max_replicas_per_node, NonZeroU32::new(2));
    let mut warned = resolved.warnings.list.iter().map(|problem| &problem.message);
    assert!(warned.all(|message| !message.contains("max_replicas_per_node")));
}
