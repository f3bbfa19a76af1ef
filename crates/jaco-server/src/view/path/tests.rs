//! Where walks end, by example.

#![allow(clippy::wildcard_enum_match_arm, reason = "the helpers of tests may panic like the tests")]

#[path = "../../../../jaco-state/tests/it/history.rs"]
#[allow(dead_code, reason = "shared with the tests of the state, which use more of it")]
pub(crate) mod history;
#[path = "outside_tests.rs"]
mod outside;

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use jaco_proto::v1;
use jaco_state::Change;
use jaco_state::command::{DeploymentApply, NetworkBegin, NodeReport, Observe};
use jaco_types::spec::{Attachment, NetworkRef, NetworkSpec, ServiceSpec};
use jaco_types::{
    DesiredState, NetworkName, NodeFacts, NodeId, NodeRouter, NodeStatus, Ordinal, ReplicaId,
    ReplicaState, RouterLink, TunnelBackend,
};

use super::{Course, Walk, askers, destination, walk};
use crate::router::Reports;
use history::{History, deployment, key, replica, seen, service, spec};

const N1: NodeId = NodeId::FIRST;

/// `shop/web` on `n1` and `shop/db` on `n2`, both in `shop/default`; `blog/api` on `n2`, alone in its network.
struct Cluster {
    history: History,
    n2: NodeId,
    reports: Reports,
}

fn attached(name: &str) -> ServiceSpec {
    let network = NetworkRef::Own(NetworkName::new("default").unwrap());
    let networks = vec![Attachment { network, aliases: Vec::new() }];
    ServiceSpec { networks, ..service(name, name) }
}

impl Cluster {
    fn new() -> Self {
        let mut history = History::founded();
        history.apply(NetworkBegin::new("10.64.0.0/12".parse().unwrap(), 1420).into());
        let n2 = history.join("n2");
        for (node, number) in [(N1, 1), (n2, 2)] {
            let link =
                RouterLink { key: [number; 32], port: 51820, backend: TunnelBackend::Userspace };
            let router = NodeRouter { link: Some(link), problem: None };
            let facts = NodeFacts { router: Some(router), ..NodeFacts::default() };
            history.apply(NodeReport::new(node, format!("192.0.2.{number}:7000"), facts).into());
            let status = NodeStatus::Ready;
            history.batch(vec![Change::NodeStatusSet { node, status, reason: String::new() }]);
        }
        for (name, services) in [("shop", &["web", "db"][..]), ("blog", &["api"])] {
            let services: Vec<_> = services.iter().map(|name| attached(name)).collect();
            let mut spec = spec(&services);
            let own = NetworkName::new("default").unwrap();
            spec.networks = BTreeMap::from([(own, NetworkSpec::default())]);
            history.apply(DeploymentApply::new(deployment(name), spec).into());
        }
        let mut cluster = Self { history, n2, reports: Reports::new() };
        cluster.start("shop", "web", N1);
        cluster.start("shop", "db", n2);
        cluster.start("blog", "api", n2);
        let peer = |key: u8, endpoint: &str| v1::ProbedPeer {
            key: vec![key; 32].into(),
            endpoint: endpoint.to_owned(),
            handshake_ms: Some(12_000),
            hears: true,
            hears_full: true,
            answered_us: Some(640),
            answered_full: true,
            ..v1::ProbedPeer::default()
        };
        let index = cluster.history.state.index.0;
        let at = |peer| v1::ProbeRouterResponse {
            state_index: index,
            planned: index,
            applied: index,
            peers: vec![peer],
            ..v1::ProbeRouterResponse::default()
        };
        let address = cluster.address("shop-db-0");
        let connection = v1::ProbedConnection {
            address: address.clone(),
            result: "accepted".to_owned(),
            taken_us: 700,
        };
        let asker = v1::ProbeRouterResponse {
            name_known: true,
            addresses: vec![address],
            connections: vec![connection],
            ..at(peer(2, "192.0.2.2:51820"))
        };
        cluster.reports.insert(N1, Ok(asker));
        cluster.reports.insert(n2, Ok(at(peer(1, "192.0.2.1:51820"))));
        cluster
    }

    fn start(&mut self, deployment_name: &str, service: &str, node: NodeId) {
        let key = key(deployment_name, service);
        let wanted = self.history.state.deployments.get(&key.deployment).unwrap();
        let spec_hash = wanted.spec().services[&key.service].hash;
        let revision = wanted.revision;
        let ordinal = Ordinal::Index(0);
        let id = ReplicaId::new(&key, &ordinal);
        self.history.batch(vec![Change::SlotCreate {
            id: id.clone(),
            service: key,
            ordinal,
            instance: jaco_state::NewInstance { node, revision, spec_hash, gpus: Vec::new() },
            desired_state: DesiredState::Active,
        }]);
        self.observe(id.as_str(), ReplicaState::Running);
    }

    fn observe(&mut self, name: &str, state: ReplicaState) {
        let slot = self.history.state.slots.get(&replica(name)).unwrap();
        let (id, node) = (slot.current_id(), slot.current.node);
        self.history.apply(Observe::new(node).observed(vec![seen(id, node, state)]).into());
    }

    fn address(&self, name: &str) -> String {
        let slot = self.history.state.slots.get(&replica(name)).unwrap();
        slot.current.addresses[0].address.to_string()
    }

    fn report(&mut self, node: NodeId) -> &mut v1::ProbeRouterResponse {
        self.reports.get_mut(&node).unwrap().as_mut().unwrap()
    }

    fn peer(&mut self, node: NodeId) -> &mut v1::ProbedPeer {
        &mut self.report(node).peers[0]
    }

    fn walked(&self, to: &str, port: u16) -> Walk {
        let state = &self.history.state;
        let (from, to) =
            (askers(state, "shop/web").unwrap(), destination(state, to, port).unwrap());
        match Course::begin(state, &from[0], &to) {
            Ok(course) => walk(state, &course, &to, &self.reports),
            Err(broken) => broken,
        }
    }

    /// The last step alone.
    fn ends(&self, to: &str, port: u16, expected: &Expect) {
        let steps = self.walked(to, port).steps();
        let last = steps.last().unwrap();
        let v1::PathStep { step, holds, detail, fix } = last;
        expected.assert_eq(&format!("{step} {holds}: {detail}\nfix: {fix}"));
    }
}

/// R-CLI-3: all steps, where all of them hold.
#[test]
fn a_way_that_holds_has_all_steps() {
    let cluster = Cluster::new();
    let walk = cluster.walked("shop/db", 5432);
    assert!(walk.holds());
    let lines: String =
        walk.steps().iter().map(|step| format!("{}: {}\n", step.step, step.detail)).collect();
    expect![[r#"
        network: both are attached to shop/default
        name: db leads to 10.65.0.4
        endpoints: shop-db-0 on n2 ready
        tunnel: n1 to n2 in 0.6 ms (at 192.0.2.2:51820, last handshake 12 s ago)
        applied: n1 holds index 17, n2 holds index 17, the cluster is at 17
        connect: shop-db-0 on n2 accepts at 10.65.0.4:5432 in 0.7 ms
    "#]]
    .assert_eq(&lines);
    assert_eq!(cluster.walked("shop/db-0", 0).steps().len(), 5, "nothing connects without a port");
}

#[test]
fn without_a_shared_network_there_is_no_way() {
    let cluster = Cluster::new();
    cluster.ends("blog/api", 80, &expect![[r#"
        network false: no network connects them: shop-web-0 is attached to shop/default, blog/api to blog/default
        fix: name one network in `networks` of both services; between deployments, one of `jaco network create` with `external: true`"#]]);
}

#[test]
fn the_resolver_has_the_say_about_names() {
    let mut cluster = Cluster::new();
    cluster.report(N1).addresses = vec!["10.65.0.9".to_owned()];
    cluster.ends(
        "shop/db",
        0,
        &expect![[r#"
        name false: db leads shop-web-0 to 10.65.0.9, which is not shop/db
        fix: use the full name db.shop, and look for an alias of that name"#]],
    );
    cluster.report(N1).name_known = false;
    cluster.report(N1).applied = 3;
    cluster.ends("shop/db", 0, &expect![[r#"
        name false: the resolver of n1 does not know db for shop-web-0: its router holds index 3, the cluster is at 17
        fix: try again in a second; if it stays, see journalctl -u jacod -u jacod-net on n1"#]]);
    cluster.report(N1).error = "nft cannot be run".to_owned();
    cluster.ends(
        "shop/db",
        0,
        &expect![[r#"
        name false: the router of n1 does not work: nft cannot be run
        fix: see `jaco node ls`, and the log on n1: journalctl -u jacod-net"#]],
    );
    cluster.reports.insert(N1, Err("connection refused".to_owned()));
    cluster.ends(
        "shop/db",
        0,
        &expect![[r#"
        name false: n1 cannot be asked: connection refused
        fix: check its daemon and the way to it: jaco doctor; journalctl -u jacod on n1"#]],
    );
}

#[test]
fn what_is_not_ready_is_named() {
    let mut cluster = Cluster::new();
    cluster.observe("shop-db-0", ReplicaState::Degraded);
    cluster.ends(
        "shop/db",
        5432,
        &expect![[r#"
        endpoints false: no replica of shop/db is ready: shop-db-0 on n2 is degraded
        fix: make it ready: jaco status shop; jaco logs shop-db-0"#]],
    );
}

/// R-CLI-3: as long as nothing is ready, no name leads anywhere, and that is what is told.
#[test]
fn no_name_leads_to_what_is_not_ready() {
    let mut cluster = Cluster::new();
    cluster.observe("shop-db-0", ReplicaState::Degraded);
    cluster.report(N1).addresses.clear();
    cluster.report(N1).name_known = false;
    let steps = cluster.walked("shop/db", 5432).steps();
    let names: Vec<&str> = steps.iter().map(|step| step.step.as_str()).collect();
    assert_eq!(names, ["network", "name", "endpoints"], "{steps:?}");
    assert!(!steps[2].holds && steps[2].detail.contains("shop-db-0 on n2 is degraded"));
}

/// NET-8: what runs and is not attached to its networks yet is told by name, at either end.
#[test]
fn what_is_being_attached_is_named() {
    let mut cluster = Cluster::new();
    let join = |cluster: &mut Cluster, name: &str, since| {
        cluster.history.state.slots.get_mut(&replica(name)).unwrap().current.joining_since = since;
    };
    join(&mut cluster, "shop-db-0", Some(jaco_types::Timestamp(1)));
    cluster.report(N1).addresses.clear();
    cluster.ends(
        "shop/db",
        5432,
        &expect![[r#"
        endpoints false: no replica of shop/db is ready: shop-db-0 on n2 is being attached to shop/default
        fix: try again in a second; if it stays, see why the engine refuses: journalctl -u jacod on n2"#]],
    );
    join(&mut cluster, "shop-db-0", None);
    join(&mut cluster, "shop-web-0", Some(jaco_types::Timestamp(1)));
    cluster.ends(
        "shop/db",
        5432,
        &expect![[r#"
        network false: shop-web-0 on n1 is being attached to shop/default
        fix: try again in a second; if it stays, see why the engine refuses: journalctl -u jacod on n1"#]],
    );
}

#[test]
fn the_direction_of_a_broken_tunnel_is_named() {
    let mut cluster = Cluster::new();
    let n2 = cluster.n2;
    cluster.peer(N1).answered_full = false;
    cluster.ends("shop/db", 0, &expect![[r#"
        tunnel false: between n1 and n2 small packets pass, those of 1420 bytes do not (at 192.0.2.2:51820, last handshake 12 s ago)
        fix: let the links between the two take packets of 1500 bytes, or let routers on the way report what they take"#]]);
    cluster.peer(N1).answered_us = None;
    cluster.ends("shop/db", 0, &expect![[r#"
        tunnel false: n2 hears n1, and n1 does not hear n2 (at 192.0.2.2:51820, last handshake 12 s ago)
        fix: let UDP port 51820 pass from n2 to n1"#]]);
    cluster.peer(n2).hears = false;
    cluster.ends("shop/db", 0, &expect![[r#"
        tunnel false: n1 hears n2, and n2 does not hear n1 (at 192.0.2.2:51820, last handshake 12 s ago)
        fix: let UDP port 51820 pass from n1 to n2"#]]);
    cluster.peer(N1).hears = false;
    cluster.peer(N1).handshake_ms = None;
    cluster.ends(
        "shop/db",
        0,
        &expect![[r#"
        tunnel false: no packet passes between n1 and n2 (at 192.0.2.2:51820, no handshake yet)
        fix: let UDP port 51820 pass between n1 and n2, in both directions"#]],
    );
    cluster.reports.insert(n2, Err("it is down".to_owned()));
    cluster.ends(
        "shop/db",
        0,
        &expect![[r#"
        tunnel false: n2 cannot be asked: it is down
        fix: check its daemon and the way to it: jaco doctor; journalctl -u jacod on n2"#]],
    );
    cluster.report(N1).peers.clear();
    cluster.ends("shop/db", 0, &expect![[r#"
        tunnel false: the tunnel of n1 has no way to n2: its router holds index 17, the cluster is at 17
        fix: try again in a second; if it stays, see journalctl -u jacod -u jacod-net on n1"#]]);
}

/// While a key is replaced, who has not taken it is named, and no firewall is blamed.
#[test]
fn a_tunnel_with_the_key_before_is_named() {
    let mut cluster = Cluster::new();
    let n2 = cluster.n2;
    cluster.report(N1).key = vec![1; 32].into();
    cluster.report(n2).key = vec![9; 32].into();
    assert!(cluster.walked("shop/db", 0).holds(), "packets decide");
    cluster.peer(N1).answered_us = None;
    cluster.ends(
        "shop/db",
        0,
        &expect![[r#"
        tunnel false: the key of n2 is being replaced: its tunnel has not taken the new one yet
        fix: try again in a second; if it stays, see journalctl -u jacod -u jacod-net on n2"#]],
    );
    cluster.report(N1).key = vec![8; 32].into();
    cluster.ends(
        "shop/db",
        0,
        &expect![[r#"
        tunnel false: the key of n1 is being replaced: its tunnel has not taken the new one yet
        fix: try again in a second; if it stays, see journalctl -u jacod -u jacod-net on n1"#]],
    );
}

#[test]
fn a_router_that_is_behind_is_named() {
    let mut cluster = Cluster::new();
    let n2 = cluster.n2;
    let network = cluster.history.state.slots.get(&replica("shop-db-0")).unwrap();
    let network = network.current.addresses[0].network.0;
    cluster.report(n2).failed_networks.insert(network, "there is no bridge jn1".to_owned());
    cluster.ends(
        "shop/db",
        0,
        &expect![[r#"
        applied false: the router of n2 has no port in shop/default: there is no bridge jn1
        fix: look for the bridge on n2: docker network ls, ip link"#]],
    );
    cluster.report(n2).applied = 3;
    cluster.ends(
        "shop/db",
        0,
        &expect![[r#"
        applied false: the router of n2 holds index 3, its plan is of 17
        fix: see journalctl -u jacod-net on n2"#]],
    );
    cluster.report(n2).state_index = 2;
    cluster.ends(
        "shop/db",
        0,
        &expect![[r#"
        applied false: n2 has the state of index 2, the cluster is at 17
        fix: check the way from n2 to the leader: jaco doctor"#]],
    );
}

#[test]
fn a_connection_is_refused_or_not_answered() {
    let mut cluster = Cluster::new();
    cluster.report(N1).connections[0].result = "refused".to_owned();
    cluster.ends("shop/db", 5432, &expect![[r#"
        connect false: refused: nothing listens on 10.65.0.4:5432 in shop-db-0 on n2
        fix: let it listen on 0.0.0.0:5432, not on 127.0.0.1, or use the port that it listens on: jaco logs shop-db-0"#]]);
    cluster.report(N1).connections[0].result = "silent".to_owned();
    cluster.ends(
        "shop/db",
        5432,
        &expect![[r#"
        connect false: no answer from 10.65.0.4:5432 in shop-db-0 on n2 within 2 s
        fix: look for a firewall in the container, and whether it hangs: jaco logs shop-db-0"#]],
    );
}

/// What does not exist is refused with what does.
#[test]
fn both_ends_exist() {
    let cluster = Cluster::new();
    let state = &cluster.history.state;
    let refused = |text: &str| destination(state, text, 0).unwrap_err().message;
    expect![[r#"
        deployment shop has no service and no replica "cache"; its services are db, web
        there is no replica "nothing": write DEPLOYMENT/SERVICE, or a name that `jaco get replicas` shows
        there is no deployment "x""#]]
        .assert_eq(&[refused("shop/cache"), refused("nothing"), refused("x/db")].join("\n"));
    assert!(askers(state, "shop-web-0").is_ok() && askers(state, "shop/web-0").is_ok());
}
