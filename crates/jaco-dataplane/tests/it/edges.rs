//! What the edge of a site should do: a fixed example, readiness step by step, and that a plan that follows is the
//! plan from scratch (NET-13).

use std::num::NonZeroU16;
use std::sync::Arc;

use expect_test::expect;
use jaco_dataplane::edge::{EdgePlan, EndpointReadiness, ListenerKey, Locality};
use jaco_dataplane::{EdgePlanner, plan_edge};
use jaco_state::command::{ConsumerAttach, DeploymentApply, EdgeBegin, Previous};
use jaco_state::{Change, Command};
use jaco_types::route::{
    AllowedUsers, BodyLimit, DrainTime, ForwardedPath, HeaderName, HeaderRules, HeaderValue,
    HstsAge, PasswordHash, Redirect, RedirectRest, RedirectStatus, RedirectTarget, RouteAction,
    RouteHeaders, RouteProtocol, RouteTimeout, RouteTls, SessionAffinity, Upstream, UserName,
};
use jaco_types::spec::{Attachment, NetworkRef, NetworkSpec, ServiceSpec};
use jaco_types::unit::Bytes;
use jaco_types::{InstanceId, Millis, NodeId, NodeStatus, ReplicaState, Route, RouteKey};
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
    let keys = ["front", "back"];
    let attach = |key| Attachment { network: NetworkRef::Own(network_name(key)), aliases: vec![] };
    let networks = keys.map(attach).to_vec();
    let drain = drain.map(|ms| DrainTime::new(Millis(ms)).unwrap());
    let mut spec = spec(&[ServiceSpec { networks, drain, ..service("web", image) }]);
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
            }: Route {
                action: Forward(
                    Upstream {
                        target: Target {
                            service: ServiceKey {
                                deployment: "shop",
                                service: "web",
                            },
                            port: 8080,
                        },
                        protocol: H2c,
                        path: Strip,
                        timeout: Some(
                            Millis(
                                30000,
                            ),
                        ),
                        sticky: Some(
                            StickyCookie {
                                name: "jaco-instance",
                            },
                        ),
                        weights: {},
                    },
                ),
                tls: Auto,
                hsts: Some(
                    Hsts {
                        max_age_secs: 60,
                        scope: Host,
                    },
                ),
                body_max: Some(
                    1048576,
                ),
                request_headers: HeaderEdits {
                    set: {
                        "x-a": "b",
                    },
                    remove: {
                        "x-c",
                    },
                },
                response_headers: HeaderEdits {
                    set: {},
                    remove: {},
                },
                basic_auth: Some(
                    BasicAuth {
                        realm: "restricted",
                        users: [
                            "ann",
                        ],
                    },
                ),
                allowed_sources: {},
            },
            RouteKey {
                domain: "b.de",
                path: "/",
            }: Route {
                action: Redirect(
                    Redirect {
                        location: "https://b.de",
                        rest: Drop,
                        status: Found,
                    },
                ),
                tls: Auto,
                hsts: None,
                body_max: None,
                request_headers: HeaderEdits {
                    set: {},
                    remove: {},
                },
                response_headers: HeaderEdits {
                    set: {},
                    remove: {},
                },
                basic_auth: None,
                allowed_sources: {},
            },
        }
    "#]]
    .assert_debug_eq(&plan.routes);
}

/// One step of a history with routes.
#[derive(Debug, Clone)]
enum Routed {
    Plain(Step),
    /// A deployment; which of its routes it has, whether they have TLS, and whether it drains longer.
    Route(bool, Vec<bool>, bool, bool),
}

fn routed() -> impl Strategy<Value = Vec<Routed>> {
    let route =
        (any::<bool>(), prop::collection::vec(any::<bool>(), 3), any::<bool>(), any::<bool>())
            .prop_map(|(name, keys, tls, drain)| Routed::Route(name, keys, tls, drain));
    (steps_and_deletions(), prop::collection::vec((any::<prop::sample::Index>(), route), 1..15))
        .prop_map(|(steps, routes)| {
            let mut all: Vec<Routed> = steps.into_iter().map(Routed::Plain).collect();
            for (place, route) in routes {
                all.insert(place.index(all.len() + 1), route);
            }
            all
        })
}

fn carry_out_routed(history: &mut History, nodes: &[NodeId], step: &Routed) {
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
    for (key, held) in
        before.routes.iter().filter(|(key, held)| anew.routes.get(*key) == Some(*held))
    {
        prop_assert!(Arc::ptr_eq(held, &planner.plan().routes[key]));
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
