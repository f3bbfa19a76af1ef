//! What compose says about nodes and neighbours, in JACO's words. R-IN-2.

use jaco_compose::Code;
use jaco_compose::model::ContainerSpec;

use crate::util::resolve_text;

fn rules(members: &str) -> Vec<String> {
    let text = format!("services:\n  web:\n    image: i\n    {members}\n");
    let resolved = resolve_text(&text, None).unwrap_or_else(|problems| panic!("{problems}"));
    let rules = &resolved.services["web"].facts.constraints.rules;
    rules
        .iter()
        .map(|rule| format!("{} {} {}", rule.attribute, rule.operator, rule.value))
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

/// R-IN-2: who shares with another service is told where nothing keeps the two on one node.
#[test]
fn neighbours_that_are_not_kept_together_are_told() {
    let compose = "
services:
  vpn: {image: i}
  web: {image: i, network_mode: 'service:vpn'}
  log: {image: i, volumes_from: [vpn]}
  other: {image: i}
";
    let told = |overlay: &str| {
        let overlay = format!("deployment: shop\nservices:\n{overlay}");
        let resolved = resolve_text(compose, Some(&overlay)).expect("it is a project");
        let told = resolved.warnings.list.into_iter();
        told.filter(|each| each.message.contains("on one node")).map(|each| each.line).collect()
    };
    let placed = |placement: &str| {
        ["vpn", "web", "log"].map(|name| format!("  - {{name: {name}, {placement}}}\n")).concat()
    };
    let lines: Vec<u32> = told("  - {name: other}\n");
    assert_eq!(lines, [4, 5], "at each of them");
    assert_eq!(told(&placed("placement: hosts, hosts: [n1]")), Vec::<u32>::new());
    assert_eq!(told(&placed("placement: global")), Vec::<u32>::new());
    assert_eq!(told(&placed("placement: hosts, hosts: [n1, n2]")), [4, 5]);
    assert_eq!(told("  - {name: vpn, placement: hosts, hosts: [n1]}\n"), [4, 5]);
}
