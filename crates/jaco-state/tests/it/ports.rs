//! Published ports: which service gets which, what is refused, and what the audit log says of it.

use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::sync::Arc;

use jaco_state::command::{
    DeploymentApply, DeploymentDelete, DeploymentRollback, EdgeBegin, SpecChange,
};
use jaco_state::invariants::violations;
use jaco_state::{Command, Outcome};
use jaco_types::port::{
    CLUSTER_PORTS_MAX, DEPLOYMENT_PORTS_MAX, PortRange, ProxyProtocol, Transport,
};
use jaco_types::route::RouteTls;
use jaco_types::spec::{DeploymentSpec, HostPort, Protocol};
use jaco_types::{
    ErrorCode, IngressPort, NodeRouter, Rejection, Revision, RouterLink, TunnelBackend,
};

use crate::attached::networked;
use crate::history::{History, deployment};
use crate::routes::{route_key, route_to, spec_with, with_edges};

/// `PUBLISHED:TARGET`, `FIRST-LAST:TARGET` or `TARGET`, after `ADDRESS@` and before `/udp` or `/proxy`.
pub(crate) fn port(text: &str) -> IngressPort {
    let (text, kind) = text.split_once('/').unwrap_or((text, "tcp"));
    let (address, text) = match text.split_once('@') {
        Some((address, text)) => (Some(address.parse().unwrap()), text),
        None => (None, text),
    };
    let number = |text: &str| text.parse::<u16>().unwrap();
    let (published, target) = match text.split_once(':') {
        Some((published, target)) => {
            let (first, last) = published.split_once('-').unwrap_or((published, published));
            (PortRange::new(number(first), number(last)).unwrap(), target)
        }
        None => (PortRange::ANY, text),
    };
    IngressPort {
        transport: if kind == "udp" { Transport::Udp } else { Transport::Tcp },
        target: NonZeroU16::new(number(target)).unwrap(),
        published,
        address,
        proxy_protocol: if kind == "proxy" { ProxyProtocol::V2 } else { ProxyProtocol::Off },
    }
}

/// A spec whose service `web` publishes these ports, and whose service `lone` takes those on its nodes.
pub(crate) fn spec_of(image: &str, ports: &[&str], host_ports: &[u16]) -> DeploymentSpec {
    let mut spec = spec_with(image, &[]);
    edit(&mut spec, "web").ingress_ports = ports.iter().map(|text| port(text)).collect();
    let host_port = |port: &u16| HostPort { port: *port, protocol: Protocol::Tcp };
    edit(&mut spec, "lone").host_ports = host_ports.iter().map(host_port).collect();
    spec
}

fn edit<'a>(spec: &'a mut DeploymentSpec, service: &str) -> &'a mut jaco_types::ServiceSpec {
    Arc::make_mut(spec.services.get_mut(&service.parse().unwrap()).unwrap())
}

fn publish(name: &str, image: &str, ports: &[&str]) -> Command {
    DeploymentApply::new(deployment(name), spec_of(image, ports, &[])).into()
}

fn take(name: &str, host_ports: &[u16]) -> Command {
    DeploymentApply::new(deployment(name), spec_of("web:1", &[], host_ports)).into()
}

fn with_route(name: &str, ports: &[&str], domain: &str) -> Command {
    let mut spec = spec_of("web:1", ports, &[]);
    spec.routes.insert(route_key(domain), route_to("web", RouteTls::Off));
    DeploymentApply::new(deployment(name), spec).into()
}

/// The claims, as `PORT SERVICE:TARGET`.
pub(crate) fn ports(history: &History) -> Vec<String> {
    let claims = history.state.edges.ports.iter();
    claims.map(|(key, claim)| format!("{key} {}:{}", claim.service, claim.target)).collect()
}

fn refusal(history: &mut History, command: Command) -> Rejection {
    let before = history.state.edges.clone();
    let Outcome::Rejected(refused) = history.apply(command) else { panic!("it is refused") };
    assert_eq!(history.state.edges, before, "a refusal changes nothing");
    refused
}

/// The events of the last entry, without their first word if it is of the apply itself.
fn events(history: &History) -> Vec<String> {
    let events = history.state.audit.events.iter();
    let own = events.filter(|(key, _)| key.index == history.state.index);
    let shown = own.map(|(_, event)| {
        let facts: Vec<_> =
            event.payload.iter().map(|(key, value)| format!("{key}={value}")).collect();
        format!("{} {}", event.kind.as_str(), facts.join(" "))
    });
    shown.collect()
}

/// R-EDGE-2, NET-5: services have the ports of the desired revision, through apply, rollback and delete.
#[test]
fn ports_follow_the_desired_revision() {
    let mut history = with_edges();
    history.apply(publish("shop", "web:1", &["8080:80", "53:53/udp", "10.0.0.1@90:90"]));
    let first = ["10.0.0.1:90/tcp shop/web:90", "*:8080/tcp shop/web:80", "*:53/udp shop/web:53"];
    assert_eq!(ports(&history), first);
    history.apply(publish("shop", "web:1", &["8080:81", "53:53/udp"]));
    assert_eq!(ports(&history), ["*:8080/tcp shop/web:81", "*:53/udp shop/web:53"]);
    assert_eq!(
        events(&history),
        [
            "apply changes=web: ingress_ports deployment=shop revision=2 services=lone, web",
            "port_removed deployment=shop port=10.0.0.1:90/tcp target=web:90",
            "port_removed deployment=shop port=*:8080/tcp target=web:80",
            "port_added deployment=shop port=*:8080/tcp target=web:81",
        ]
    );
    history.apply(DeploymentRollback::new(deployment("shop")).to(Some(Revision(1))).into());
    assert_eq!(ports(&history), first);
    history.apply(DeploymentDelete::new(deployment("shop")).into());
    assert_eq!(ports(&history), Vec::<String>::new());
    assert_eq!(events(&history).len(), 4, "the deletion, and a port each");
    assert_eq!(violations(&history.state), []);
}

/// R-EDGE-2: what differs in nothing but ports is a new revision, and the same again is none.
#[test]
fn ports_alone_are_a_new_revision() {
    let mut history = with_edges();
    let deployed = |revision, change| Outcome::Deployed { revision: Revision(revision), change };
    history.apply(publish("shop", "web:1", &[]));
    let with_ports = publish("shop", "web:1", &["80"]);
    assert_eq!(history.apply(with_ports.clone()), deployed(2, SpecChange::Updated));
    assert_eq!(history.apply(with_ports), deployed(2, SpecChange::Unchanged));
    assert_eq!(ports(&history), ["*:30000/tcp shop/web:80"]);
}

/// R-EDGE-2, NET-5: a port that another deployment has is refused with its name, on whatever address it is.
#[test]
fn a_port_has_one_owner() {
    let mut history = with_edges();
    history.apply(publish("blog", "web:1", &["8080:80"]));
    for taken in ["8080:90", "10.0.0.1@8080:80"] {
        let refused = refusal(&mut history, publish("shop", "web:1", &["9090:80", taken]));
        assert_eq!(refused.code, ErrorCode::PortConflict);
        assert_eq!(refused.message, "deployment blog publishes port *:8080/tcp already");
        assert_eq!(&*refused.details["owner"], "blog");
    }
    // Another transport, and other addresses, are other sockets.
    history.apply(publish(
        "shop",
        "web:1",
        &["8080:80/udp", "10.0.0.1@9090:80", "10.0.0.2@9090:80"],
    ));
    assert_eq!(history.state.edges.ports.len(), 4);
    // A rollback meets the same rule: the port was given away meanwhile.
    history.apply(publish("blog", "web:1", &[]));
    history.apply(publish("shop", "web:1", &["8080:80"]));
    let rollback = DeploymentRollback::new(deployment("blog")).to(Some(Revision(1)));
    assert_eq!(history.refused(rollback.into()), ErrorCode::PortConflict);
}

/// R-EDGE-2: a port on which members reach each other is published by nobody, and chosen for nobody.
#[test]
fn ports_of_members_are_not_published() {
    let mut history = with_edges();
    let first = *history.state.nodes.keys().next().unwrap();
    let facts = &mut history.state.nodes.get_mut(&first).unwrap().facts;
    let link = RouterLink { key: [7; 32], port: 51820, backend: TunnelBackend::Kernel };
    facts.router = Some(NodeRouter { link: Some(link), problem: None });
    for (port, process) in [("7000:80", "jacod"), ("51820:53/udp", "jacod net")] {
        let refused = refusal(&mut history, publish("shop", "web:1", &[port]));
        assert_eq!(refused.code, ErrorCode::PortConflict);
        let expected =
            format!("is that of `{process}` on node n1: publish another port for shop/web");
        assert!(refused.message.ends_with(&expected), "{}", refused.message);
    }
    history.apply(publish("shop", "web:1", &["7000-7001:80", "7000:53/udp"]));
    assert_eq!(ports(&history), ["*:7001/tcp shop/web:80", "*:7000/udp shop/web:53"]);
}

/// R-EDGE-2: within a deployment, too.
#[test]
fn services_of_a_deployment_do_not_share_ports() {
    let mut history = with_edges();
    let refused = refusal(&mut history, publish("shop", "web:1", &["8080:80", "8080:81"]));
    assert_eq!(refused.message, "service shop/web publishes port *:8080/tcp twice");
    let mut spec = spec_of("web:1", &["8080:80"], &[]);
    let web = Arc::clone(&spec.services[&"web".parse().unwrap()]);
    let other = jaco_types::ServiceSpec { name: "api".parse().unwrap(), ..(*web).clone() };
    spec.services.insert(other.name.clone(), Arc::new(other));
    let apply = DeploymentApply::new(deployment("shop"), spec);
    let refused = refusal(&mut history, apply.into());
    assert_eq!(refused.message, "services api and web of shop both publish port *:8080/tcp");
}

/// R-EDGE-2: a port that is left open is the lowest free one, stays while it is asked for, and is free again after.
#[test]
fn open_ports_are_chosen_and_kept() {
    let mut history = with_edges();
    history.apply(publish("blog", "web:1", &["30000:80"]));
    history.apply(publish("shop", "web:1", &["80", "81"]));
    let chosen = ["*:30001/tcp shop/web:80", "*:30002/tcp shop/web:81"];
    assert_eq!(ports(&history)[1..], chosen);
    // The lower ones become free, and the first container port goes.
    history.apply(publish("blog", "web:1", &[]));
    history.apply(publish("shop", "web:2", &["80", "81"]));
    assert_eq!(ports(&history), chosen);
    history.apply(publish("shop", "web:3", &["70", "81"]));
    assert_eq!(ports(&history), ["*:30000/tcp shop/web:70", "*:30002/tcp shop/web:81"]);
    // What the client is told keeps the port.
    history.apply(publish("shop", "web:3", &["70", "81/proxy"]));
    assert_eq!(ports(&history), ["*:30000/tcp shop/web:70", "*:30002/tcp shop/web:81"]);
    let told: Vec<_> = history.state.edges.ports.values().map(|one| one.proxy_protocol).collect();
    assert_eq!(told, [ProxyProtocol::Off, ProxyProtocol::V2]);
    history.apply(DeploymentDelete::new(deployment("shop")).into());
    history.apply(publish("wiki", "web:1", &["80"]));
    assert_eq!(ports(&history), ["*:30000/tcp wiki/web:80"]);
    assert_eq!(violations(&history.state), []);
}

/// R-EDGE-2: of a range one is chosen, and a range that is taken is refused by name.
#[test]
fn ranges_are_chosen_from_and_run_out() {
    let mut history = with_edges();
    history.apply(publish("blog", "web:1", &["8000-8001:80"]));
    history.apply(publish("shop", "web:1", &["8000-8001:80"]));
    assert_eq!(ports(&history), ["*:8000/tcp blog/web:80", "*:8001/tcp shop/web:80"]);
    let refused = refusal(&mut history, publish("wiki", "web:1", &["8000-8001:70"]));
    assert_eq!(refused.code, ErrorCode::PortConflict);
    assert_eq!(
        refused.message,
        "no port of 8000-8001/tcp is free for port 70 of wiki/web: each of them is published, or taken on some \
         node; publish another one"
    );
    // A fixed port of the deployment comes before what it leaves open.
    history.apply(publish("blog", "web:1", &["8000:70", "8000-8002:80"]));
    let own = ["*:8000/tcp blog/web:70", "*:8001/tcp shop/web:80", "*:8002/tcp blog/web:80"];
    assert_eq!(ports(&history), own);
    assert_eq!(violations(&history.state), []);
}

/// R-EDGE-2: the ports of HTTP and HTTPS are those of routes while there are any, whoever comes first.
#[test]
fn ports_of_routes_are_kept_for_them() {
    let mut history = with_edges();
    history.apply(with_route("blog", &[], "a.de"));
    for text in ["80:80", "443:80", "10.0.0.1@80:80"] {
        let refused = refusal(&mut history, publish("shop", "web:1", &[text]));
        assert_eq!(refused.code, ErrorCode::PortConflict, "{text}");
        assert!(refused.message.contains("deployment blog has the route a.de"), "{refused:?}");
    }
    history.apply(publish("shop", "web:1", &["80:80/udp", "443:80/udp"]));
    assert_eq!(history.refused(with_route("blog", &["80:80"], "a.de")), ErrorCode::PortConflict);
    history.apply(publish("blog", "web:1", &["80:80"]));
    let refused = refusal(&mut history, with_route("shop", &[], "b.de"));
    assert_eq!(refused.code, ErrorCode::PortConflict);
    assert!(refused.message.contains("deployment blog publishes *:80/tcp"), "{refused:?}");
    // A port that is chosen never stands in the way of routes.
    history.apply(publish("wiki", "web:1", &["442-444:80", "442-444:81"]));
    assert_eq!(ports(&history)[1..3], ["*:442/tcp wiki/web:80", "*:444/tcp wiki/web:81"]);
    // Who publishes them may turn them into routes.
    history.apply(with_route("blog", &[], "a.de"));
    assert_eq!(violations(&history.state), []);
}

/// R-EDGE-2: what all nodes answer, no service takes on its nodes, and the other way round.
#[test]
fn ports_of_nodes_are_not_published() {
    let mut history = with_edges();
    history.apply(take("blog", &[8080, 30000]));
    let refused = refusal(&mut history, publish("shop", "web:1", &["8080:80"]));
    assert_eq!(refused.code, ErrorCode::PortConflict);
    assert_eq!(
        refused.message,
        "port *:8080/tcp is answered on every node for shop/web, and blog/lone takes it on its nodes (`mode: \
         host`): use another port"
    );
    history.apply(publish("shop", "web:1", &["80", "9090:90"]));
    assert_eq!(ports(&history), ["*:9090/tcp shop/web:90", "*:30001/tcp shop/web:80"]);
    let refused = refusal(&mut history, take("blog", &[9090]));
    assert_eq!(refused.code, ErrorCode::PortConflict);
    assert_eq!(
        refused.message,
        "deployment shop publishes port *:9090/tcp on every node, so lone cannot take it on its nodes: use \
         another port"
    );
    let both = DeploymentApply::new(deployment("wiki"), spec_of("web:1", &["70:70"], &[70]));
    assert_eq!(history.refused(both.into()), ErrorCode::PortConflict);
    assert_eq!(violations(&history.state), []);
}

/// R-EDGE-2: nothing of this gets into the state before all members know it, nor for what no edge reaches.
#[test]
fn ports_wait_for_all_members_and_need_a_network() {
    let mut history = networked();
    assert_eq!(history.refused(publish("shop", "web:1", &["8080:80"])), ErrorCode::MembersOutdated);
    history.apply(EdgeBegin.into());
    let mut spec = spec_of("web:1", &[], &[]);
    edit(&mut spec, "lone").ingress_ports = BTreeSet::from([port("8080:80")]);
    let apply = DeploymentApply::new(deployment("shop"), spec);
    let refused = refusal(&mut history, apply.into());
    assert_eq!(refused.code, ErrorCode::InvalidManifest);
    assert_eq!(
        refused.message,
        "service lone publishes ports and is attached to no network of the cluster"
    );
}

/// R-EDGE-2: a deployment, and a cluster, publish at most so many ports.
#[test]
fn ports_are_bounded() {
    let mut history = with_edges();
    let many = |name: &str, first: usize, count: usize| {
        let ports: Vec<_> = (first..first + count).map(|number| format!("{number}:80")).collect();
        publish(name, "web:1", &ports.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let too_many = many("shop", 10_000, DEPLOYMENT_PORTS_MAX + 1);
    assert_eq!(history.refused(too_many), ErrorCode::TooLarge);
    for number in 0..CLUSTER_PORTS_MAX / DEPLOYMENT_PORTS_MAX {
        let (name, first) = (format!("d{number}"), 10_000 + number * DEPLOYMENT_PORTS_MAX);
        let outcome = history.apply(many(&name, first, DEPLOYMENT_PORTS_MAX));
        assert!(matches!(outcome, Outcome::Deployed { .. }), "{outcome:?}");
    }
    assert_eq!(history.refused(publish("shop", "web:1", &["8080:80"])), ErrorCode::TooLarge);
    assert_eq!(violations(&history.state), []);
}
