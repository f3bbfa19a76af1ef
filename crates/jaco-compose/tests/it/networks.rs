//! What a network of a deployment is made of, in which order a service is attached, and under which names. R-IN-2.

use std::collections::BTreeMap;

use jaco_compose::facts::{Dns, NetworkAttachment, NetworkFacts, NetworkOwner};
use jaco_compose::{Resolved, from_model};
use proptest::prelude::*;
use serde_json::json;

use crate::util::{load_text, problems_of, resolve_text};

fn resolved(text: &str, overlay: Option<&str>) -> Resolved {
    resolve_text(text, overlay).unwrap_or_else(|problems| panic!("{problems}"))
}

/// A service with these members, beside one that has an image alone.
fn service(members: &str) -> String {
    format!(
        "services:\n  db: {{image: d}}\n  web:\n    image: i\n    {members}\nnetworks: {{a: , b: , c: }}\n"
    )
}

/// The networks of `web` in order, each with its names.
fn attached(text: &str, overlay: Option<&str>) -> Vec<String> {
    let resolved = resolved(text, overlay);
    let facts = &resolved.services["web"].facts;
    let networks = facts.networks.iter();
    let line = |network: &NetworkAttachment| {
        let names: Vec<&str> = facts.names.union(&network.aliases).map(String::as_str).collect();
        format!("{}: {}", network.network, names.join(" "))
    };
    networks.map(line).collect()
}

/// The first error of a text: its code, place and message.
fn refused(text: &str) -> (String, u32, u32, String) {
    let problems = resolve_text(text, None).expect_err(text);
    let first = problems.errors().next().expect("it is refused");
    assert!(first.expected.is_some(), "{problems}");
    assert_eq!(problems.errors().count(), 1, "{problems}");
    (first.code.as_str().to_owned(), first.line, first.column, first.message.clone())
}

/// The order is that of the engine: `gw_priority`, then `priority`, the highest first; then the key.
#[test]
fn networks_are_attached_in_order() {
    for (networks, expected) in [
        ("[b, a]", ["a", "b"].as_slice()),
        ("{a: {priority: 1}, b: {priority: 2}}", &["b", "a"]),
        ("{a: {priority: 9}, b: {priority: 1, gw_priority: 1}}", &["b", "a"]),
        ("{a: {priority: -1}, b: }", &["b", "a"]),
        ("{a: {priority: 0.5}, b: {priority: 0.25}, c: {priority: 1}}", &["c", "a", "b"]),
        ("{a: , b: {priority: .inf}}", &["a", "b"]),
    ] {
        let text = service(&format!("networks: {networks}"));
        let found = resolved(&text, None).services["web"].facts.networks.clone();
        let found: Vec<_> = found.into_iter().map(|each| each.network).collect();
        assert_eq!(found, expected, "{networks}");
    }
}

proptest! {
    /// The order depends on the numbers and the keys alone, and is the same for what is sent.
    #[test]
    fn the_order_of_networks_is_that_of_their_numbers(
        numbers in prop::collection::btree_map("[a-d]", (-2..3i64, -2..3i64), 1..5),
    ) {
        let member = |(key, (gateway, priority)): (&String, &(i64, i64))| {
            (key.clone(), json!({"gw_priority": gateway, "priority": priority}))
        };
        let networks: serde_json::Map<_, _> = numbers.iter().map(member).collect();
        let declared: BTreeMap<_, _> = numbers.keys().map(|key| (key, json!({}))).collect();
        let file = json!({
            "services": {"web": {"image": "i", "networks": networks}},
            "networks": declared,
        });
        let mut expected: Vec<_> = numbers.iter().collect();
        expected.sort_by_key(|(key, (gateway, priority))| (-gateway, -priority, (*key).clone()));
        let expected: Vec<_> = expected.into_iter().map(|(key, _)| key.clone()).collect();
        let project = load_text(&file.to_string()).unwrap().project;
        let sent = from_model(project.sent_model().to_string().as_bytes()).unwrap();
        for project in [project, sent] {
            let resolved = jaco_compose::resolve(&project, None, &Default::default()).unwrap();
            let networks = &resolved.services["web"].facts.networks;
            let found: Vec<_> = networks.iter().map(|each| each.network.clone()).collect();
            prop_assert_eq!(&found, &expected);
        }
    }
}

/// A service is found by its own name, with and without the deployment's, by its container's, by the host name of its
/// containers, by its aliases on that network, and by those that others link to it with.
#[test]
fn services_are_found_by_all_their_names() {
    assert_eq!(attached(&service("tty: true"), None), ["default: web web.shop"]);
    assert_eq!(
        attached(&service("container_name: front.1"), None),
        ["default: front.1 web web.shop"]
    );
    assert_eq!(attached(&service("hostname: www.lan"), None), ["default: web web.shop www.lan"]);
    let odd = service("hostname: a..b");
    assert_eq!(attached(&odd, None), ["default: web web.shop"], "nobody can ask for it");
    let members = "networks: {a: {aliases: [www, web, x_y]}, b: }";
    assert_eq!(attached(&service(members), None), ["a: web web.shop www x_y", "b: web web.shop"]);
    let linked = "services:
  web: {image: i, networks: [a, b]}
  one: {image: i, networks: [a], links: ['web:site', web]}
  two: {image: i, networks: [b, c], links: ['web:site', 'web:backend']}
networks: {a: , b: , c: }
";
    assert_eq!(attached(linked, None), ["a: site web web.shop", "b: backend site web web.shop"]);
    assert_eq!(attached(&service("network_mode: host"), None), [""; 0]);
}

/// R-IN-1: the networks of jaco.yaml replace those of the file, and keep what the file says of them.
#[test]
fn networks_of_the_overlay_are_attached() {
    let text = service("networks: {a: {aliases: [www]}, b: }");
    let overlay = |list: &str| format!("services: [{{name: web, networks: {list}}}]\n");
    assert_eq!(
        attached(&text, Some(&overlay("[c, a]"))),
        ["a: web web.shop www", "c: web web.shop"]
    );
    let networks = resolved(&text, Some(&overlay("[c]"))).networks;
    assert_eq!(networks.keys().collect::<Vec<_>>(), ["c", "default"]);
}

/// The facts of the network `n`.
fn network(keys: &str) -> NetworkFacts {
    let text = format!("services: {{web: {{image: i, networks: [n]}}}}\nnetworks: {{n: {keys}}}\n");
    resolved(&text, None).networks.remove("n").expect("the service is attached to it")
}

/// A network is the deployment's own, or that of all who give it a name, or exists beforehand.
#[test]
fn networks_have_an_owner() {
    let named = |name: &str| NetworkOwner::Name(name.to_owned());
    let cluster = |name: &str| NetworkOwner::Cluster(name.to_owned());
    for (keys, owner) in [
        ("", NetworkOwner::Deployment),
        ("{name: shop_n}", NetworkOwner::Deployment),
        ("{name: n}", named("n")),
        ("{name: other_n}", named("other_n")),
        ("{external: true}", cluster("n")),
        ("{external: true, name: shop_n}", cluster("shop_n")),
        ("{external: {name: old}}", cluster("old")),
        ("{external: false, name: x}", named("x")),
    ] {
        assert_eq!(network(keys).owner, owner, "{keys}");
    }
    for (keys, reach) in
        [("", "Outside"), ("{internal: true}", "Internal"), ("{internal: no}", "Outside")]
    {
        assert_eq!(format!("{:?}", network(keys).reach), reach, "{keys}");
    }
}

fn mtu(value: &str) -> String {
    format!("{{driver_opts: {{com.docker.network.driver.mtu: {value}}}}}")
}

fn subnets(list: &str) -> String {
    format!("{{ipam: {{config: [{list}]}}}}")
}

/// The size of packets and of the subnet, at their bounds; none for a network that exists beforehand.
#[test]
fn networks_have_sizes() {
    for (value, expected) in
        [("1400", Some(1400)), ("'576'", Some(576)), ("65535", Some(65_535)), ("0", None)]
    {
        assert_eq!(network(&mtu(value)).mtu, expected, "{value}");
    }
    assert_eq!(network("{driver_opts: {other: x}}").mtu, None);
    for (list, expected) in [
        ("{subnet: 10.5.0.0/24}", Some(24)),
        ("{subnet: 10.0.0.0/8}", Some(8)),
        ("{subnet: 10.5.0.8/29}", Some(29)),
        ("{subnet: 10.5.0.1/16, gateway: 10.5.0.1}", Some(16)),
        ("{subnet: 'fd00::/64'}", None),
        ("{subnet: 'fd00::/128'}, {subnet: 10.5.0.0/20}", Some(20)),
        ("{subnet: 10.5.0.0/20}, {subnet: 10.6.0.0/24}", Some(20)),
        ("{gateway: 10.5.0.1}", None),
        ("{subnet: ''}", None),
        ("", None),
    ] {
        assert_eq!(network(&subnets(list)).prefix_length, expected, "{list}");
    }
    let external = "{external: true, driver_opts: {com.docker.network.driver.mtu: 9}, ipam: {config: [{subnet: x}]}}";
    let external = network(external);
    assert_eq!((external.mtu, external.prefix_length), (None, None));
}

/// R-IN-3: sizes that mean nothing are refused where they stand, once, however many services are attached; those of
/// a network that nobody is attached to are not looked at.
#[test]
fn sizes_of_networks_are_checked() {
    let text = |keys: &str, attached: &str| {
        format!(
            "services:\n  web: {{image: i, networks: [{attached}]}}\n  db: {{image: d, networks: [{attached}]}}\nnetworks:\n  m:\n  n: {keys}\n"
        )
    };
    for value in ["575", "65536", "-1", "'+1400'", "x", "''", "1400.5", "99999999999999999999"] {
        let (code, line, column, _) = refused(&text(&mtu(value), "n"));
        assert_eq!((code.as_str(), line, column), ("invalid_value", 6, 52), "{value}");
        resolved(&text(&mtu(value), "m"), None);
    }
    for value in [
        "10.5.0.0",
        "10.5.0.0/",
        "10.5.0.0/7",
        "10.5.0.0/30",
        "10.5.0.0/33",
        "10.5.0.0/+24",
        "10.5.0/24",
        "10.5.0.0/256",
        "'fd00::/129'",
        "'fd00::/x'",
        "/24",
        "10.5.0.0/2 4",
    ] {
        let (code, line, column, message) =
            refused(&text(&subnets(&format!("{{subnet: {value}}}")), "n"));
        assert_eq!((code.as_str(), line, column), ("invalid_value", 6, 32), "{value}");
        assert!(message.contains(value.trim_matches('\'')), "{message}");
        resolved(&text(&subnets(&format!("{{subnet: {value}}}")), "m"), None);
    }
    let second = subnets("{subnet: 10.5.0.0/24}, {subnet: 10.6.0.0/99}");
    assert_eq!(refused(&text(&second, "n")).2, 55);
}

/// R-IN-3: an alias is a name that can be asked for; it is refused where it was written.
#[test]
fn aliases_are_names() {
    let long = "a".repeat(63);
    let whole = [long.as_str(), &long, &long, &long[..61]].join(".");
    for alias in ["a", "A-1", "_x.y_", "a1", &long, &whole] {
        let text = service(&format!("networks: {{a: {{aliases: [{alias}]}}}}"));
        assert!(attached(&text, None)[0].contains(alias), "{alias}");
    }
    for alias in [
        "''",
        "'a b'",
        "a..b",
        ".a",
        "a.",
        "ä",
        "'*.a'",
        "a/b",
        &format!("{long}a"),
        &format!("{whole}a"),
    ] {
        let text = service(&format!("networks: {{a: {{aliases: [www, {alias}]}}}}"));
        let (code, line, column, message) = refused(&text);
        assert_eq!((code.as_str(), line, column), ("invalid_value", 5, 35), "{alias}");
        assert!(message.len() < 150, "{message}");
        let text = service(&format!("links: ['db:base', 'db:{}']", alias.trim_matches('\'')));
        let (code, line, column, message) = refused(&text);
        assert_eq!((code.as_str(), line, column), ("invalid_value", 5, 24), "{alias}");
        assert!(message.starts_with("service `web` has the alias"), "{message}");
    }
}

/// The name of a container may be one that nobody can ask for: the file runs, and a warning says what it lacks.
#[test]
fn a_container_name_that_is_no_name_is_warned_about() {
    let text = service("container_name: a..b");
    assert_eq!(attached(&text, None), ["default: web web.shop"]);
    let warnings = resolved(&text, None).warnings;
    let told = problems_of(&warnings);
    assert!(
        told.contains(
            "5:21 warning no_effect: the container name of service `web` is not a DNS name"
        ),
        "{told}"
    );
    let rule = "expected letters, digits, `-` and `_` in parts of 1 to 63, separated by dots";
    assert!(told.contains(rule), "{told}");
    let fine = resolved(&service("container_name: a.b"), None).warnings;
    assert!(!problems_of(&fine).contains("DNS name"));
}

/// The servers, domains and options that the containers ask outside names with, in order.
#[test]
fn name_servers_are_addresses() {
    let dns = |members: &str| resolved(&service(members), None).services["web"].facts.dns.clone();
    assert_eq!(dns("tty: true"), Dns::default());
    let all = dns(
        "dns: [9.9.9.9, '::1', 1.1.1.1]\n    dns_search: b.example\n    dns_opt: ['ndots:2', rotate]",
    );
    let servers: Vec<_> = all.servers.iter().map(ToString::to_string).collect();
    assert_eq!(servers, ["9.9.9.9", "::1", "1.1.1.1"]);
    assert_eq!(
        (all.search, all.options),
        (vec!["b.example".to_owned()], vec!["ndots:2".to_owned(), "rotate".to_owned()])
    );
    for server in ["one.one.one.one", "9.9.9", "'9.9.9.9:53'", "''"] {
        let text = service(&format!("dns: [1.1.1.1, {server}]"));
        let found = resolved(&text, None);
        assert_eq!(found.services["web"].facts.dns.servers.len(), 1, "{server}");
        let told = problems_of(&found.warnings);
        let shown = server.trim_matches('\'');
        let expected =
            format!("5:20 warning no_effect: `{shown}` is not the address of a DNS server");
        let expected = format!("{expected}\n  expected an IPv4 or IPv6 address");
        assert!(told.contains(&expected), "{told}");
    }
}
