//! What the edge of a site should do: a fixed example, readiness step by step, and that a plan that follows is the
//! plan from scratch (NET-13).

use std::num::NonZeroU16;
use std::sync::Arc;

use expect_test::expect;
use jaco_dataplane::edge::{
    EdgePlan, EndpointReadiness, Forwarding, Listener, ListenerKey, Locality, Target,
};
use jaco_dataplane::{EdgePlanner, Exposure, Topology, plan_edge};
use jaco_state::acme::AcmeChallenge;
use jaco_state::command::{AcmeNote, ConsumerAttach, DeploymentApply, EdgeBegin, Previous};
use jaco_state::{Change, Command};
use jaco_types::port::{PortRange, ProxyProtocol, Transport};
use jaco_types::route::{
    AllowedUsers, BodyLimit, DrainTime, ForwardedPath, HeaderName, HeaderRules, HeaderValue,
    HstsAge, PasswordHash, Redirect, RedirectRest, RedirectStatus, RedirectTarget, RouteAction,
    RouteHeaders, RouteProtocol, RouteTimeout, RouteTls, SessionAffinity, Upstream, UserName,
};
use jaco_types::spec::{Attachment, NetworkRef, NetworkSpec, ServiceSpec};
use jaco_types::unit::Bytes;
use jaco_types::{
    ChallengeKind, IngressPort, InstanceId, Millis, NodeId, NodeStatus, ReplicaState, Route,
    RouteKey, Timestamp,
};
use proptest::prelude::*;

use crate::attached::{network_name, networked, start, start_again};
use crate::histories::{Step, carry_out, observe, report, steps_and_deletions};
use crate::history::{History, deployment, replica, service, spec};

const N1: NodeId = NodeId::FIRST;

fn route_key(domain: &str, path: &str) -> RouteKey {
    RouteKey { domain: domain.parse().unwrap(), path: path.parse().unwrap() }
}

fn upstream(name: &str) -> Upstream {
    Upstream::new(name.parse().unwrap(), NonZeroU16::new(8080).unwrap())
}

fn in_clear(name: &str) -> Route {
    Route { tls: RouteTls::Off, ..Route::new(RouteAction::Forward(upstream(name))) }
}

/// An apply of one service `web` in two networks, with these routes.
fn deploy(name: &str, image: &str, drain: Option<u64>, routes: Vec<(RouteKey, Route)>) -> Command {
    publish(name, image, drain, routes, &[])
}

fn port(published: (u16, u16), target: u16, address: Option<&str>) -> IngressPort {
    IngressPort {
        transport: if target == 53 { Transport::Udp } else { Transport::Tcp },
        target: NonZeroU16::new(target).unwrap(),
        published: PortRange::new(published.0, published.1).unwrap(),
        address: address.map(|text| text.parse().unwrap()),
        proxy_protocol: if target == 90 { ProxyProtocol::V2 } else { ProxyProtocol::Off },
    }
}

/// The same, with published ports.
fn publish(
    name: &str,
    image: &str,
    drain: Option<u64>,
    routes: Vec<(RouteKey, Route)>,
    ports: &[IngressPort],
) -> Command {
    let keys = ["front", "back"];
    let attach = |key| Attachment { network: NetworkRef::Own(network_name(key)), aliases: vec![] };
    let networks = keys.map(attach).to_vec();
    let drain = drain.map(|ms| DrainTime::new(Millis(ms)).unwrap());
    let ingress_ports = ports.iter().copied().collect();
    let mut spec = spec(&[ServiceSpec { networks, drain, ingress_ports, ..service("web", image) }]);
    spec.networks = keys.map(|key| (network_name(key), NetworkSpec::default())).into();
    spec.routes = routes.into_iter().collect();
    DeploymentApply::new(deployment(name), spec).into()
}

/// A cluster of two nodes, each a site of its own, whose members know routes.
fn cluster() -> (History, NodeId) {
    let mut history = networked();
    let n2 = history.join("n2");
    history.apply(EdgeBegin.into());
    report(&mut history, N1, 1, None);
    report(&mut history, n2, 2, None);
    (history, n2)
}

fn current(history: &History, name: &str) -> InstanceId {
    history.state.slots.get(&replica(name)).unwrap().current_id()
}

/// Where the edge of a node sends requests of a plan with one service: address, locality, readiness.
fn endpoints(plan: &EdgePlan) -> Vec<(String, Locality, EndpointReadiness)> {
    let services = plan.services.values().flat_map(|service| service.endpoints.values());
    services.map(|one| (one.address.to_string(), one.locality, one.readiness)).collect()
}

fn ports(plan: &EdgePlan) -> Vec<u16> {
    plan.listeners.keys().map(|ListenerKey { port, .. }| *port).collect()
}

/// R-EDGE-2: each published port is a socket on every node, on its address if it has one, and what comes in there goes
/// to the port of the containers.
#[test]
fn published_ports_are_sockets_of_every_edge() {
    let (mut history, n2) = cluster();
    let wanted = [
        port((8000, 8002), 80, None),
        port((9090, 9090), 90, Some("10.0.0.1")),
        port((53, 53), 53, None),
    ];
    history.apply(publish("shop", "web:1", None, vec![], &wanted));
    start(&mut history, 0);
    let id = current(&history, "shop-web-0");
    let status = NodeStatus::Ready;
    history.batch(vec![Change::NodeStatusSet { node: N1, status, reason: String::new() }]);
    observe(&mut history, &id, N1, ReplicaState::Running);
    let plan = plan_edge(&history.state, n2);
    let shown: Vec<String> = plan
        .listeners
        .iter()
        .map(|(key, listener)| {
            let Listener::Forward(Forwarding { target, proxy_protocol }) = listener else {
                panic!("{listener:?}")
            };
            let ListenerKey { transport, address, port } = key;
            let Target { service, port: to } = target;
            format!("{transport} {address:?} {port} -> {service}:{to} {proxy_protocol:?}")
        })
        .collect();
    let expected = [
        "tcp None 8000 -> shop/web:80 Off",
        "tcp Some(10.0.0.1) 9090 -> shop/web:90 V2",
        "udp None 53 -> shop/web:53 Off",
    ];
    assert_eq!(shown, expected);
    let address = "10.65.1.3".to_owned();
    assert_eq!(endpoints(&plan), [(address, Locality::Elsewhere, EndpointReadiness::Ready)]);
    assert_eq!(exposure(&history, &id), Exposure::Edges);
}

fn exposure(history: &History, id: &InstanceId) -> Exposure {
    Topology::of(&history.state).instances[id].exposure
}

/// R-EDGE-1: what is in flight when a route or a port is taken away is not cut off: edges of other sites reach the
/// instances while a kept revision has one, and get nothing new for them.
#[test]
fn a_route_that_is_taken_away_cuts_nothing_off() {
    let (mut history, n2) = cluster();
    history.apply(deploy("shop", "web:1", None, vec![]));
    start(&mut history, 0);
    let id = current(&history, "shop-web-0");
    assert_eq!(exposure(&history, &id), Exposure::Members, "it never had one");
    history.apply(deploy("shop", "web:1", None, vec![(route_key("a.de", ""), in_clear("web"))]));
    assert_eq!(exposure(&history, &id), Exposure::Edges);
    history.apply(deploy("shop", "web:1", None, vec![]));
    assert_eq!(plan_edge(&history.state, n2), EdgePlan::default());
    assert_eq!(exposure(&history, &id), Exposure::Edges);
}

/// R-EDGE-2: nothing listens until a route exists, and nothing for TLS if no route has it.
#[test]
fn nothing_listens_without_routes() {
    let (mut history, _) = cluster();
    assert_eq!(plan_edge(&history.state, N1), EdgePlan::default());
    history.apply(deploy("shop", "web:1", None, vec![]));
    assert_eq!(plan_edge(&history.state, N1), EdgePlan::default());
    history.apply(deploy("shop", "web:1", None, vec![(route_key("a.de", ""), in_clear("web"))]));
    assert_eq!(ports(&plan_edge(&history.state, N1)), [80]);
    let tls = Route { tls: RouteTls::Auto, ..in_clear("web") };
    history.apply(deploy("shop", "web:1", None, vec![(route_key("a.de", ""), tls)]));
    assert_eq!(ports(&plan_edge(&history.state, N1)), [80, 443]);
    history.apply(deploy("shop", "web:1", None, vec![]));
    assert_eq!(plan_edge(&history.state, N1), EdgePlan::default());
}

/// R-EDGE-1: an instance gets requests while it is in the endpoints, is left alone from then on, and is in the plan
/// until it is told to stop. Each site sees the same one at the same address.
#[test]
fn instances_are_offered_while_they_are_endpoints() {
    let (mut history, n2) = cluster();
    let routes = || vec![(route_key("a.de", ""), in_clear("web"))];
    history.apply(deploy("shop", "web:1", Some(30_000), routes()));
    start(&mut history, 0);
    let status = NodeStatus::Ready;
    history.batch(vec![Change::NodeStatusSet { node: N1, status, reason: String::new() }]);
    let id = current(&history, "shop-web-0");
    assert_eq!(endpoints(&plan_edge(&history.state, N1)), [], "it is starting");
    observe(&mut history, &id, N1, ReplicaState::Running);
    let (here, elsewhere) = (Locality::Here, Locality::Elsewhere);
    let (ready, leaving) = (EndpointReadiness::Ready, EndpointReadiness::Leaving);
    let address = || "10.65.1.3".to_owned();
    let of_first = plan_edge(&history.state, N1);
    assert_eq!(endpoints(&of_first), [(address(), here, ready)]);
    let drains: Vec<Millis> = of_first.services.values().map(|service| service.drain).collect();
    assert_eq!(drains, [Millis(30_000)]);
    assert_eq!(endpoints(&plan_edge(&history.state, n2)), [(address(), elsewhere, ready)]);
    history.apply(ConsumerAttach::new("edge-n1".parse().unwrap(), N1, Millis(5000)).into());
    start_again(&mut history, 0, Previous::Drop);
    assert_eq!(endpoints(&plan_edge(&history.state, N1)), [(address(), here, leaving)]);
    history.batch(vec![Change::TerminatingRemove { id }]);
    assert_eq!(endpoints(&plan_edge(&history.state, N1)), [], "it was told to stop");
    history.apply(deploy("shop", "web:1", None, routes()));
    let plan = plan_edge(&history.state, N1);
    let drains: Vec<Millis> = plan.services.values().map(|service| service.drain).collect();
    assert_eq!(drains, [DrainTime::DEFAULT.length()]);
}

/// R-EDGE-2: what a route says is what its edge is told, written out.
#[test]
fn a_route_is_what_the_edge_is_told() {
    let (mut history, _) = cluster();
    let header = |text: &str| HeaderName::new(text).unwrap();
    let set = [(header("x-a"), HeaderValue::new("b").unwrap())];
    let rules = HeaderRules::new(set.into(), [header("x-c")].into());
    let password = PasswordHash::new(10_000, &[5; 8], [6; 32]).unwrap();
    let users = [(UserName::new("ann").unwrap(), password)];
    let full = Route {
        action: RouteAction::Forward(Upstream {
            forwarded_path: ForwardedPath::Rest,
            protocol: RouteProtocol::H2c,
            affinity: SessionAffinity::Cookie,
            timeout: Some(RouteTimeout::new(Millis(30_000)).unwrap()),
            ..upstream("web")
        }),
        tls: RouteTls::Auto,
        hsts: Some(HstsAge::new(60).unwrap()),
        body_max: Some(BodyLimit::new(Bytes(1 << 20)).unwrap()),
        headers: RouteHeaders { request: rules.unwrap(), response: HeaderRules::default() },
        users: AllowedUsers::new(users.into()).unwrap(),
        ..in_clear("web")
    };
    let redirect = Route::new(RouteAction::Redirect(Redirect {
        to: RedirectTarget::new("https://b.de").unwrap(),
        rest: RedirectRest::Drop,
        status: RedirectStatus::Found,
    }));
    let routes = vec![(route_key("a.de", "/api"), full), (route_key("b.de", ""), redirect)];
    history.apply(deploy("shop", "web:1", None, routes));
    let plan = plan_edge(&history.state, N1);
    expect![[r#"
        {
            RouteKey {
                domain: "a.de",
                path: "/api",
            }: PlannedRoute {
                deployment: "shop",
                route: Route {
                    action: Forward(
                        Upstream {
                            service: "web",
                            port: 8080,
                            forwarded_path: Rest,
                            protocol: H2c,
                            affinity: Cookie,
                            timeout: Some(
                                RouteTimeout(
                                    Millis(
                                        30000,
                                    ),
                                ),
                            ),
                            weights: RevisionWeights(
                                {},
                            ),
                        },
                    ),
                    tls: Auto,
                    hsts: Some(
                        HstsAge(
                            60,
                        ),
                    ),
                    body_max: Some(
                        BodyLimit(
                            Bytes(
                                1048576,
                            ),
                        ),
                    ),
                    headers: RouteHeaders {
                        request: HeaderRules {
                            set: {
                                "x-a": "b",
                            },
                            remove: {
                                "x-c",
                            },
                        },
                        response: HeaderRules {
                            set: {},
                            remove: {},
                        },
                    },
                    users: AllowedUsers(
                        {
                            "ann": a password hash,
                        },
                    ),
                    sources: AllowedSources(
                        {},
                    ),
                },
            },
            RouteKey {
                domain: "b.de",
                path: "",
            }: PlannedRoute {
                deployment: "shop",
                route: Route {
                    action: Redirect(
                        Redirect {
                            to: "https://b.de",
                            rest: Drop,
                            status: Found,
                        },
                    ),
                    tls: Auto,
                    hsts: None,
                    body_max: None,
                    headers: RouteHeaders {
                        request: HeaderRules {
                            set: {},
                            remove: {},
                        },
                        response: HeaderRules {
                            set: {},
                            remove: {},
                        },
                    },
                    users: AllowedUsers(
                        {},
                    ),
                    sources: AllowedSources(
                        {},
                    ),
                },
            },
        }
    "#]]
    .assert_debug_eq(&plan.routes);
}

fn challenge(domain: &str, token: &str, kind: ChallengeKind) -> Command {
    let challenge = AcmeChallenge {
        domain: domain.parse().unwrap(),
        kind,
        key_authorization: format!("{token}.thumbprint").into(),
        expires: Timestamp(u64::MAX),
    };
    AcmeNote::Challenge { token: token.into(), challenge }.into()
}

/// R-EDGE-2: every site answers the same to an authority that asks for a token at port 80, until the order has ended.
#[test]
fn challenges_are_answered_by_all_sites() {
    let (mut history, n2) = cluster();
    let tls = Route { tls: RouteTls::Auto, ..in_clear("web") };
    history.apply(deploy("shop", "web:1", None, vec![(route_key("a.de", ""), tls)]));
    history.apply(challenge("a.de", "one", ChallengeKind::Http01));
    history.apply(challenge("a.de", "two", ChallengeKind::TlsAlpn01));
    for node in [N1, n2] {
        let challenges = plan_edge(&history.state, node).challenges;
        assert_eq!(challenges, [("one".to_owned(), "one.thumbprint".to_owned())].into());
    }
    history.apply(deploy("shop", "web:1", None, vec![]));
    assert_eq!(plan_edge(&history.state, N1).challenges, [].into());
}

/// One step of a history with routes.
#[derive(Debug, Clone)]
pub(crate) enum Routed {
    Plain(Step),
    /// A deployment; which of its routes it has, whether they have TLS, and whether it drains longer.
    Route(bool, Vec<bool>, bool, bool),
    /// A deployment, and which of some ports it publishes.
    Publish(bool, Vec<bool>),
    /// A challenge of one of two domains, of either kind.
    Challenge(bool, bool),
}

pub(crate) fn routed() -> impl Strategy<Value = Vec<Routed>> {
    let route =
        (any::<bool>(), prop::collection::vec(any::<bool>(), 3), any::<bool>(), any::<bool>())
            .prop_map(|(name, keys, tls, drain)| Routed::Route(name, keys, tls, drain));
    let publish = (any::<bool>(), prop::collection::vec(any::<bool>(), 5))
        .prop_map(|(name, ports)| Routed::Publish(name, ports));
    let challenge = (any::<bool>(), any::<bool>());
    let challenge = challenge.prop_map(|(domain, kind)| Routed::Challenge(domain, kind));
    let step = prop_oneof![3 => route, 1 => publish, 1 => challenge];
    (steps_and_deletions(), prop::collection::vec((any::<prop::sample::Index>(), step), 1..20))
        .prop_map(|(steps, routes)| {
            let mut all: Vec<Routed> = steps.into_iter().map(Routed::Plain).collect();
            for (place, route) in routes {
                all.insert(place.index(all.len() + 1), route);
            }
            all
        })
}

/// Carries a step out, if it means anything in this state.
pub(crate) fn carry_out_routed(history: &mut History, nodes: &[NodeId], step: &Routed) {
    match step {
        Routed::Plain(step) => carry_out(history, nodes, step),
        Routed::Route(shop, keys, tls, drain) => {
            let tls = if *tls { RouteTls::Auto } else { RouteTls::Off };
            let all = [("a.de", ""), ("a.de", "/x"), ("b.de", "")];
            let wanted = keys.iter().zip(all).filter(|(wanted, _)| **wanted);
            let routes = wanted.map(|(_, (domain, path))| {
                (route_key(domain, path), Route { tls: tls.clone(), ..in_clear("web") })
            });
            let drain = drain.then_some(60_000);
            let name = if *shop { "shop" } else { "blog" };
            history.apply(deploy(name, "web:1", drain, routes.collect()));
        }
        Routed::Publish(shop, wanted) => {
            let all = [
                port((80, 80), 80, None),
                port((443, 443), 80, Some("10.0.0.1")),
                port((8000, 8002), 80, None),
                port((8000, 8002), 90, None),
                port((53, 53), 53, None),
            ];
            let ports = wanted.iter().zip(all).filter(|(wanted, _)| **wanted);
            let ports: Vec<_> = ports.map(|(_, port)| port).collect();
            let name = if *shop { "shop" } else { "blog" };
            history.apply(publish(name, "web:1", None, vec![], &ports));
        }
        Routed::Challenge(first, by_file) => {
            let kind = if *by_file { ChallengeKind::Http01 } else { ChallengeKind::TlsAlpn01 };
            history.apply(challenge(if *first { "a.de" } else { "b.de" }, "token", kind));
        }
    }
}

/// Goes on to the state of now, and compares.
fn follow(planner: &mut EdgePlanner, node: NodeId, history: &History) -> Result<(), TestCaseError> {
    let before = planner.plan().clone();
    let anew = plan_edge(&history.state, node);
    let is_told = planner.next(&history.state).is_some();
    prop_assert_eq!(planner.plan(), &anew);
    prop_assert_eq!(is_told, before != anew);
    // What is the same is shared: who compares two plans need not read it.
    for row in planner.plan().routes.changed_since(&before.routes) {
        prop_assert_ne!(row.old, row.new, "{}", row.key);
    }
    for (key, held) in
        before.services.iter().filter(|(key, held)| anew.services.get(*key) == Some(*held))
    {
        prop_assert!(Arc::ptr_eq(held, &planner.plan().services[key]));
    }
    prop_assert!(planner.next(&history.state).is_none(), "nothing has changed");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// NET-13: over any history, and whichever states of it are seen.
    #[test]
    fn plans_of_edges_that_follow_are_those_from_scratch(
        steps in routed(),
        skipped in prop::collection::vec(prop::bool::weighted(0.3), 60),
    ) {
        let mut history = networked();
        let nodes = [NodeId::FIRST, history.join("n2"), history.join("n3")];
        history.apply(EdgeBegin.into());
        let mut planners = nodes.map(|node| (node, EdgePlanner::new(node)));
        for (step, skipped) in steps.iter().zip(skipped) {
            carry_out_routed(&mut history, &nodes, step);
            if !skipped {
                for (node, planner) in &mut planners {
                    follow(planner, *node, &history)?;
                }
            }
        }
        for (node, planner) in &mut planners {
            follow(planner, *node, &history)?;
        }
    }

    /// NET-8, R-EDGE-1: whatever happened, a plan has the routes that are claimed and offers instances exactly as
    /// names do: ready ones in a slot, leaving ones out of it, none that ended, each once.
    #[test]
    fn plans_of_edges_offer_what_names_do(steps in routed()) {
        let mut history = networked();
        let nodes = [NodeId::FIRST, history.join("n2"), history.join("n3")];
        history.apply(EdgeBegin.into());
        for step in &steps {
            carry_out_routed(&mut history, &nodes, step);
            let plan = plan_edge(&history.state, N1);
            prop_assert_eq!(plan.routes.len(), history.state.edges.claims.len());
            let forwarding = |one: &&Listener| matches!(one, Listener::Forward(_));
            let forwarded = plan.listeners.values().filter(forwarding).count();
            prop_assert_eq!(forwarded, history.state.edges.ports.len());
            let topology = jaco_dataplane::Topology::of(&history.state);
            for (key, service) in &plan.services {
                for (id, endpoint) in &service.endpoints {
                    let instance = &topology.instances[id];
                    let expected = match endpoint.readiness {
                        EndpointReadiness::Ready => jaco_dataplane::Readiness::Ready,
                        EndpointReadiness::Leaving => jaco_dataplane::Readiness::Terminating,
                    };
                    prop_assert_eq!(instance.readiness, expected);
                    prop_assert_eq!(&instance.deployment, &key.deployment);
                    prop_assert!(instance.addresses.iter().any(|(_, own)| *own == endpoint.address));
                }
                let ready = topology.instances.iter().filter(|(id, instance)| {
                    let slot = history.state.slots.get(&id.replica);
                    instance.readiness == jaco_dataplane::Readiness::Ready
                        && slot.is_some_and(|slot| slot.service == *key)
                });
                let offered = service.endpoints.values();
                let offered = offered.filter(|one| one.readiness == EndpointReadiness::Ready);
                prop_assert_eq!(ready.count(), offered.count());
            }
        }
    }
}
