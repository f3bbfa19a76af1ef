//! Ports that every node answers: which ones, what is left of them for containers, and what is refused. R-EDGE-2.

use std::collections::BTreeSet;

use jaco_compose::facts::PortMode;
use jaco_compose::{Code, JacoYaml, Networks, Options, Problems, Resolved, from_model, resolve};
use jaco_types::port::ProxyProtocol;

use crate::util::{load_text, problems_of};

/// A service `web` with these members, in a cluster that has networks of its own.
fn in_cluster(members: &str) -> Result<Resolved, Problems> {
    let options =
        Options { networks: Networks::Cluster { shared: BTreeSet::new() }, ..Options::default() };
    let text = format!("services:\n  web:\n    image: i\n    {members}\n");
    let project = load_text(&text)?.project;
    // What a cluster gets is what was sent.
    let sent = from_model(project.sent_model().to_string().as_bytes())?;
    resolve(&sent, None::<&JacoYaml>, &options)
}

fn resolved(members: &str) -> Resolved {
    in_cluster(members).unwrap_or_else(|problems| panic!("{problems}"))
}

/// The ports of `web`, as `MODE FIRST-LAST ADDRESS TARGET/PROTOCOL`.
fn ports(resolved: &Resolved) -> Vec<String> {
    let ports = resolved.services["web"].facts.ports.iter();
    ports
        .map(|port| {
            let address = port.ingress().map_or_else(
                || port.host_ip.clone(),
                |ingress| ingress.address.map(|address| address.to_string()),
            );
            let address = address.unwrap_or_else(|| "*".to_owned());
            let (mode, first, last) = (port.mode, port.first, port.last);
            format!("{mode:?} {first}-{last} {address} {}/{:?}", port.target, port.protocol)
        })
        .collect()
}

fn canonical(members: &str) -> String {
    resolved(members).services["web"].container.canonical.clone()
}

fn refused(members: &str) -> (Code, String) {
    let problems = in_cluster(members).expect_err(members);
    let first = problems.errors().next().expect("it is refused");
    (first.code, first.message.clone())
}

/// R-EDGE-2: every form but `mode: host`, in clusters with networks alone.
#[test]
fn ports_without_a_mode_are_answered_everywhere() {
    let members = "ports: ['8080:80', '53:53/udp', '127.0.0.1:90-91:90-91', '9000-9009:9000', 70, {target: 60, \
                   published: '6060', mode: ingress}, '0.0.0.0:50:50', {target: 5, published: '55', mode: host}]";
    assert_eq!(
        ports(&resolved(members)),
        [
            "Ingress 0-0 * 70/Tcp",
            "Ingress 50-50 * 50/Tcp",
            "Ingress 53-53 * 53/Udp",
            "Host 55-55 * 5/Tcp",
            "Ingress 90-90 127.0.0.1 90/Tcp",
            "Ingress 91-91 127.0.0.1 91/Tcp",
            "Ingress 6060-6060 * 60/Tcp",
            "Ingress 8080-8080 * 80/Tcp",
            "Ingress 9000-9009 * 9000/Tcp",
        ]
    );
    let on_nodes = ["network_mode: host\n    ports: ['80:80']", "ports: [{target: 5, mode: host}]"];
    for members in on_nodes {
        let modes: BTreeSet<_> =
            resolved(members).services["web"].facts.ports.iter().map(|port| port.mode).collect();
        assert_eq!(modes, BTreeSet::from([PortMode::Host]), "{members}");
    }
}

/// R-EDGE-2, R-HASH-1: a container has nothing of such a port, so that a change of it replaces none; of others it has
/// what it had before.
#[test]
fn ports_of_edges_are_no_part_of_containers() {
    assert_eq!(canonical("ports: ['80:80', 53]"), canonical("stop_signal: ''"));
    let host = canonical("ports: [{target: 5, published: '55', mode: host}, '80:80']");
    assert!(host.contains(r#""ports":[{"protocol":"tcp","published":"55","target":5}]"#), "{host}");
}

/// R-EDGE-2: containers are told who the client is where that is asked for.
#[test]
fn a_port_may_ask_for_the_proxy_protocol() {
    let told = |members: &str| {
        let ports = resolved(members).services["web"].facts.ports.clone();
        ports.iter().filter_map(|port| Some(port.ingress()?.proxy_protocol)).collect::<Vec<_>>()
    };
    let v2 = "ports: [{target: 80, published: '8080', x-jaco: {proxy_protocol: v2}}]";
    assert_eq!(told(v2), [ProxyProtocol::V2]);
    assert_eq!(told("ports: [{target: 80, x-other: {proxy_protocol: v2}}]"), [ProxyProtocol::Off]);
    let (code, message) = refused("ports: [{target: 80, x-jaco: {proxy_protocol: v1}}]");
    assert_eq!((code, &*message), (Code::InvalidValue, "`v1` is no version of the PROXY protocol"));
    let host = resolved("ports: [{target: 80, mode: host, x-jaco: {proxy_protocol: v2}}]");
    let warnings = problems_of(&host.warnings);
    assert!(warnings.contains("`proxy_protocol` has no effect"), "{warnings}");
}

/// R-EDGE-2: what edges cannot publish is refused, with what to write instead.
#[test]
fn what_cannot_be_answered_everywhere_is_refused() {
    let problems = in_cluster("ports: ['90:91/sctp']").unwrap_err();
    let first = problems.errors().next().unwrap();
    assert_eq!(first.code, Code::Unsupported);
    assert!(problems.to_string().contains("mode: host"), "{problems}");
    for (ports, expected) in [
        ("{target: 80, mode: global}", "`global` is not a mode of a port"),
        ("{target: 80, host_ip: 224.0.0.1}", "`224.0.0.1` is no address of nodes"),
        ("{target: 80, published: 0-5}", "`0-5` is not a valid range of ports"),
    ] {
        let (code, message) = refused(&format!("ports: [{ports}]"));
        assert_eq!((code, &*message), (Code::InvalidValue, expected));
    }
    let sctp = resolved("ports: [{target: 5, published: '55', protocol: sctp, mode: host}]");
    assert_eq!(ports(&sctp), ["Host 55-55 * 5/Sctp"]);
}

/// R-EDGE-2, R-RES-4: a port that every node answers meets every other one, wherever the services are pinned to.
#[test]
fn services_do_not_share_a_port_that_every_node_answers() {
    let options =
        Options { networks: Networks::Cluster { shared: BTreeSet::new() }, ..Options::default() };
    let jaco = "deployment: shop\nservices:\n  - {name: a, placement: hosts, hosts: [n1]}\n  - {name: b, \
                placement: hosts, hosts: [n2]}\n";
    let overlay = JacoYaml::parse("jaco.yaml", jaco.as_bytes()).unwrap();
    let conflicts = |a: &str, b: &str| {
        let text = format!(
            "name: shop\nservices:\n  a: {{image: i, ports: [{a}]}}\n  b: {{image: i, ports: [{b}]}}\n"
        );
        let project = load_text(&text).unwrap().project;
        let problems = resolve(&project, Some(&overlay), &options).err();
        problems.is_some_and(|problems| problems.errors().any(|one| one.code == Code::PortConflict))
    };
    let host = "{target: 80, published: '80', mode: host}";
    assert!(conflicts("'80:80'", "'80:80'"));
    assert!(conflicts("'80:80'", host));
    assert!(!conflicts(host, host), "they never meet");
    assert!(!conflicts("'80:80'", "'80:80/udp'"));
}
