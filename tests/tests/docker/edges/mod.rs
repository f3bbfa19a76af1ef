//! Requests from outside, through the edges of three machines, while everything behind them changes.

mod load;

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use jaco_testkit::{eventually_within, router, v1};

use crate::machines::{Machines, PATIENCE, ran, succeeded};
use load::{Clients, Kind, LEDGER, Load, Outcome};

/// A service with a route, spread over three machines; each replica tells the ledger what is posted to it.
fn compose(revision: u32) -> String {
    format!(
        "
name: shop
services:
  web:
    image: jaco-hello:v1
    command: [serve]
    environment: {{HELLO_LEDGER: '10.99.0.100:{LEDGER}', REVISION: '{revision}'}}
    deploy: {{replicas: 6, update_config: {{parallelism: 3, monitor: 0s}}}}
    stop_grace_period: 2s
"
    )
}

const ROUTES: &str = "
deployment: shop
services:
  - {name: web, placement: spread}
routes:
  - {domain: shop.example.com, service: web, port: 8080, tls: off}
";

/// As much as a machine with two processors takes beside the engines, and beside other tests.
const CLIENTS: &Clients = &[
    (Kind::Get, 3, Duration::from_millis(80)),
    (Kind::Post, 2, Duration::from_millis(120)),
    (Kind::Events, 1, Duration::from_millis(200)),
    (Kind::Socket, 1, Duration::from_millis(200)),
];

/// Three machines with a service behind edges, and a file of what was posted.
struct Outside {
    machines: Machines,
}

impl Outside {
    async fn start() -> Self {
        let path = std::env::var("PATH").expect("there is one");
        let mut machines = Machines::start(3, &format!("{path}:/usr/sbin:/sbin")).await;
        machines.found(&["--name", "edges"]).await;
        machines.have_routers().await;
        let at_switch = ["ip", "address", "add", "10.99.0.100/24", "dev", "switch"];
        ran(machines.at_switch().args(at_switch));
        let outside = Self { machines };
        outside.apply(1);
        outside.are_serving(3).await;
        outside
    }

    fn apply(&self, revision: u32) {
        self.machines.apply(&compose(revision), Some(ROUTES));
    }

    fn cli(&self, args: &[&str]) -> String {
        succeeded(&self.machines.cluster.cli(0, args))
    }

    fn edges() -> Vec<SocketAddr> {
        (1..=3).map(|at| SocketAddr::from(([10, 99, 0, at], 80))).collect()
    }

    /// Waits until so many edges carry out the routes.
    async fn are_serving(&self, count: u64) {
        eventually_within(PATIENCE, "the edges serve", || async {
            let listed = self.machines.cluster.cli(0, &["route", "ls", "-o", "json"]);
            let text = String::from_utf8_lossy(&listed.stdout);
            let routes: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
            if routes[0]["edges"] == count { Ok(()) } else { Err(format!("{listed:?}")) }
        })
        .await;
    }

    fn load(&self, edges: &[SocketAddr], clients: &Clients) -> Load {
        let namespace = PathBuf::from(format!("/proc/{}/ns/net", self.machines.switch()));
        Load::start(namespace, edges, clients)
    }

    /// The process of a machine's edge.
    fn edge(&self, at: usize) -> u32 {
        let pids = router::edges(&self.machines.router(at));
        assert_eq!(pids.len(), 1, "one edge runs on machine {at}");
        pids[0]
    }

    async fn replicas(&self) -> Vec<v1::ReplicaInfo> {
        self.machines.cluster.overview(0).await.expect("it answers").replicas
    }

    /// No request failed, and each POST arrived once.
    fn nothing_failed(outcome: &Outcome) {
        assert!(
            outcome.failures.is_empty(),
            "{} of {}: {:#?}",
            outcome.failures.len(),
            outcome.requests,
            outcome.failures.iter().take(5).collect::<Vec<_>>()
        );
        no_post_twice(outcome);
        assert_eq!(outcome.arrived.len() as u64, outcome.posts, "each arrived");
    }
}

fn no_post_twice(outcome: &Outcome) {
    let twice: Vec<_> = outcome.arrived.iter().filter(|(_, count)| **count != 1).collect();
    assert!(twice.is_empty(), "twice: {twice:?}");
}

/// R-EDGE-1: replicas are replaced fifty times by restarts, rolls, scaling and a drain while requests
/// come in at all three edges: none fails, and no POST arrives twice. The edge has no rights.
#[tokio::test(flavor = "multi_thread")]
async fn fifty_replacements_fail_no_request() {
    let outside = Outside::start().await;
    for at in 0..3 {
        let pid = outside.edge(at);
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it is there");
        let of = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        for set in ["CapEff:", "CapPrm:", "CapInh:", "CapAmb:"] {
            assert_eq!(of(set), Some("0000000000000000"), "{set}");
        }
        assert_ne!(of("Uid:").and_then(|ids| ids.split_whitespace().next()), Some("0"));
        assert_eq!(of("NoNewPrivs:"), Some("1"));
    }
    let before: Vec<_> = outside.replicas().await.into_iter().map(|one| one.container_id).collect();
    let load = outside.load(&Outside::edges(), CLIENTS);
    let mut replaced = 0;
    for _ in 0..3 {
        outside.cli(&["restart", "shop/web", "--timeout", "120s"]);
        replaced += 6;
    }
    for revision in 2..5 {
        outside.apply(revision);
        replaced += 6;
    }
    outside.cli(&["scale", "shop/web=2", "--timeout", "60s"]);
    outside.cli(&["scale", "shop/web=6", "--timeout", "60s"]);
    outside.cli(&["node", "drain", "n3", "--timeout", "60s"]);
    outside.cli(&["node", "uncordon", "n3"]);
    replaced += 4 + 2;
    outside.cli(&["restart", "shop/web", "--timeout", "120s"]);
    outside.cli(&["restart", "shop/web", "--timeout", "120s"]);
    replaced += 12;
    let outcome = load.end();
    assert!(replaced >= 50, "{replaced}");
    let after = outside.replicas().await;
    assert!(after.iter().all(|one| !before.contains(&one.container_id)), "all were replaced");
    Outside::nothing_failed(&outcome);
    println!("{} requests, {} a second", outcome.requests, outcome.per_second);
    assert!(outcome.requests >= 3_000, "there was load: {} requests", outcome.requests);
}
