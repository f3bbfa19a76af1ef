//! Where requests from outside end, by example.

use expect_test::{Expect, expect};
use jaco_state::Outcome;
use jaco_state::command::{CertificateStore, DeploymentApply, EdgeBegin};
use jaco_state::edge::SealedKey;
use jaco_types::route::{RouteAction, RouteTls, Upstream};
use jaco_types::spec::NetworkSpec;
use jaco_types::{NetworkName, Route, RouteKey, Timestamp};

use super::super::outside::{asked, walk_from_outside};
use super::*;
use crate::edge::EdgeReports;

/// Two nodes with edges, and two instances of `shop/web` and `shop/db`, of which only `web` has routes.
struct Served {
    cluster: Cluster,
    reports: EdgeReports,
    now: Timestamp,
}

fn route(domain: &str, path: &str, tls: RouteTls) -> (RouteKey, Route) {
    let domain = domain.parse().unwrap();
    let upstream = Upstream::new("web".parse().unwrap(), 8080.try_into().unwrap());
    let route = Route { tls, ..Route::new(RouteAction::Forward(upstream)) };
    (RouteKey { domain, path: path.parse().unwrap() }, route)
}

impl Served {
    fn new() -> Self {
        let mut cluster = Cluster::new();
        cluster.history.apply(EdgeBegin.into());
        let certificate = CertificateStore {
            name: "wild".parse().unwrap(),
            chain: "PEM".into(),
            key: SealedKey([7; 40].into()),
            names: ["*.example.com".into()].into(),
            not_before: Timestamp(1),
            not_after: Timestamp(9 * 86_400_000),
            fingerprint: [0xab; 32],
        };
        cluster.history.apply(certificate.into());
        let mut spec = spec(&[attached("web"), attached("db")]);
        let own = NetworkName::new("default").unwrap();
        spec.networks = BTreeMap::from([(own, NetworkSpec::default())]);
        let named = RouteTls::Certificate("wild".parse().unwrap());
        let ordered = route("new.example.com", "/", RouteTls::Auto);
        spec.routes = [route("shop.example.com", "/cart", named), ordered].into();
        let applied = cluster.history.apply(DeploymentApply::new(deployment("shop"), spec).into());
        assert!(matches!(applied, Outcome::Deployed { .. }), "{applied:?}");
        let id = cluster.history.state.slots.get(&replica("shop-web-0")).unwrap().current_id();
        let report = v1::ProbeEdgeResponse {
            applied: cluster.history.state.index.0,
            listeners: vec!["tcp/80".to_owned(), "tcp/443".to_owned()],
            route_domain: "shop.example.com".to_owned(),
            route_path: "/cart".parse::<jaco_types::route::RoutePath>().unwrap().to_string(),
            has_certificate: true,
            instances: vec![v1::ProbedInstance {
                replica: id.replica.to_string(),
                raft_index: id.raft_index.0,
                passed_over: false,
                result: "accepted".to_owned(),
            }],
            ..v1::ProbeEdgeResponse::default()
        };
        let reports = [(N1, Ok(report.clone())), (cluster.n2, Ok(report))].into();
        Self { cluster, reports, now: Timestamp(2 * 86_400_000) }
    }

    fn report(&mut self) -> &mut v1::ProbeEdgeResponse {
        self.reports.get_mut(&self.cluster.n2).unwrap().as_mut().unwrap()
    }

    fn walked(&self, url: &str) -> Walk {
        let asked = asked(url).unwrap();
        walk_from_outside(&self.cluster.history.state, &asked, self.now, &self.reports)
    }

    /// The last step alone.
    fn ends(&self, url: &str, expected: &Expect) {
        let steps = self.walked(url).steps();
        let v1::PathStep { step, holds, detail, fix } = steps.last().unwrap();
        expected.assert_eq(&format!("{step} {holds}: {detail}\nfix: {fix}"));
    }
}

const CART: &str = "https://shop.example.com/cart/7?secret";

/// R-CLI-3: all steps from outside, where all of them hold.
#[test]
fn a_request_that_is_answered_has_all_steps() {
    let mut served = Served::new();
    served.report().instances[0].passed_over = true;
    let walk = served.walked(CART);
    assert!(walk.holds());
    let lines: String =
        walk.steps().iter().map(|step| format!("{}: {}\n", step.step, step.detail)).collect();
    expect![[r#"
        route: shop.example.com/cart goes to shop/web:8080
        certificate: certificate wild is valid for 7 more days
        edges: on tcp/443 listen n1, n2
        endpoints: shop-web-0 on n1 ready
        applied: n1 sends to 1, n2 sends to 1
        connect: all 2 connections to port 8080 are accepted; n2 passes over shop-web-0, which refused or broke a connection in the last 5 s
    "#]].assert_eq(&lines);
}

/// R-CLI-3: what breaks first is named, with what to do.
#[test]
fn the_first_step_that_breaks_is_named() {
    let mut served = Served::new();
    served.ends("http://shop.example.com/", &expect![[r#"
        route false: no route is for shop.example.com/: those of this host are shop.example.com/cart
        fix: compare with `jaco route ls`, and add a route to `routes` in the jaco.yaml of its deployment"#]]);
    served.ends("http://blog.example.com/", &expect![[r#"
        route false: no route is for blog.example.com/: no route has this host
        fix: compare with `jaco route ls`, and add a route to `routes` in the jaco.yaml of its deployment"#]]);
    served.ends("https://new.example.com/", &expect![[r#"
        certificate false: new.example.com has no certificate yet
        fix: see `jaco certificate ls`: the authority must reach port 80 or 443 of a node by this name"#]]);
    served.report().instances[0].result = "refused".to_owned();
    served.ends(CART, &expect![[r#"
        connect false: shop-web-0 refuses connections at port 8080, asked by the edge of n2
        fix: let it listen on 0.0.0.0:8080, or give the route the `port` that it listens on: jaco logs shop-web-0"#]]);
    served.report().instances.clear();
    served.ends(CART, &expect![[r#"
        applied false: the edge of n2 does not have shop-web-0: it holds index 20, the cluster is at 20
        fix: try again in a second; if it stays, see journalctl -u jacod -u jacod-edge on n2"#]]);
    served.report().route_domain.clear();
    served.ends(CART, &expect![[r#"
        applied false: the edge of n2 does not have the route shop.example.com/cart: it holds index 20, the cluster is at 20
        fix: try again in a second; if it stays, see journalctl -u jacod -u jacod-edge on n2"#]]);
    served.cluster.observe("shop-web-0", ReplicaState::Degraded);
    served.ends(
        CART,
        &expect![[r#"
        endpoints false: no replica of shop/web is ready: shop-web-0 on n1 is degraded
        fix: make it ready: jaco status shop; jaco logs shop-web-0"#]],
    );
    served.report().listeners.pop();
    served.ends(CART, &expect![[r#"
        edges false: the edge of n2 does not listen on tcp/443
        fix: see whether another program has the port, and the router's log, on n2: ss -ltnp; journalctl -u jacod-net"#]]);
    served.report().problem = "no such file".to_owned();
    served.ends(
        CART,
        &expect![[r#"
        edges false: the edge of n2 does not answer: no such file
        fix: see `jaco route ls`, and the log on n2: journalctl -u jacod-edge -u jacod"#]],
    );
    served.reports.insert(served.cluster.n2, Err("connection refused".to_owned()));
    served.ends(
        CART,
        &expect![[r#"
        edges false: n2 cannot be asked: connection refused
        fix: check its daemon and the way to it: jaco doctor; journalctl -u jacod on n2"#]],
    );
    served.now = Timestamp(10 * 86_400_000);
    served.ends(CART, &expect![[r#"
        certificate false: certificate wild has expired
        fix: replace it: jaco certificate set; of an ordered one, `jaco certificate ls` says why it was not renewed"#]]);
}

/// R-CLI-3: a node that is down stops no request at the others.
#[test]
fn edges_of_nodes_that_are_down_are_left_out() {
    let mut served = Served::new();
    served.reports.insert(served.cluster.n2, Err("connection refused".to_owned()));
    let (node, status) = (served.cluster.n2, NodeStatus::Down);
    let down = Change::NodeStatusSet { node, status, reason: String::new() };
    served.cluster.history.batch(vec![down]);
    let steps = served.walked(CART).steps();
    let edges = steps.iter().find(|step| step.step == "edges").unwrap();
    assert_eq!((edges.detail.as_str(), edges.holds), ("on tcp/443 listen n1; down: n2", true));
    assert!(steps.iter().all(|step| step.holds), "{steps:?}");
}

/// What is no address, or would be another one at an edge, is refused.
#[test]
fn addresses_are_those_that_routes_have() {
    for text in
        ["shop/web", "ftp://x/", "https://", "https://x:8443/", "https://u@x/", "https://*.x"]
    {
        assert!(asked(text).is_err(), "{text}");
    }
    for path in ["/a//b", "/%61", "/a/../b", "/."] {
        assert!(asked(&format!("http://x{path}")).is_err(), "{path}");
    }
    assert_eq!(asked("https://X.Example.").unwrap(), asked("https://x.example/?a#b").unwrap());
}
