//! Three machines with a service behind edges, and a place outside from where they are asked.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use jaco_testkit::engines::{Machines, PATIENCE};
use jaco_testkit::{eventually_within, ran, router, succeeded, v1};

use crate::held::Held;
use crate::load::{Clients, Kind, LEDGER, Load};

/// A service with a route, spread over three machines; each replica tells the ledger what is posted to it.
fn compose(replicas: Replicas, revision: u32) -> String {
    let placement = match replicas {
        Replicas::Everywhere => "",
        Replicas::Elsewhere => ", placement: {constraints: ['node.hostname != n1']}",
    };
    format!(
        "
name: shop
services:
  web:
    image: jaco-hello:v1
    command: [serve]
    environment: {{HELLO_LEDGER: '10.99.0.100:{LEDGER}', REVISION: '{revision}'}}
    deploy: {{replicas: 6, update_config: {{parallelism: 3, monitor: 0s}}{placement}}}
    stop_grace_period: 2s
"
    )
}

/// Where the replicas are.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Replicas {
    /// On all machines: each edge has some beside it, and prefers those.
    Everywhere,
    /// On the second and the third machine: the edge of the first one reaches them through the tunnel.
    Elsewhere,
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

/// Three machines with a service behind edges, and clients outside.
pub(crate) struct Outside {
    pub(crate) machines: Machines,
    pub(crate) logs: AccessLogs,
    replicas: Replicas,
}

/// A folder that any user may pass, for the access log of the edges.
pub(crate) struct AccessLogs(PathBuf);

impl AccessLogs {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("jaco-access-{}-{number}", std::process::id())))
    }

    /// One file for all edges: each only adds to it.
    fn file(&self) -> PathBuf {
        self.0.join("access.log")
    }

    /// The lines of all edges.
    pub(crate) fn lines(&self) -> Vec<serde_json::Value> {
        let text = fs::read_to_string(self.file()).expect("there is an access log");
        text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
    }
}

impl Drop for AccessLogs {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.0);
    }
}

impl Outside {
    /// All edges serve.
    pub(crate) async fn start(replicas: Replicas) -> Self {
        let path = std::env::var("PATH").expect("there is one");
        let logs = AccessLogs::new();
        let log = format!("edge: {{access_log: {{path: {}}}}}\n", logs.file().display());
        let path = format!("{path}:/usr/sbin:/sbin");
        let mut machines = Machines::start_with(3, &path, &log).await;
        machines.found(&["--name", "edges"]).await;
        machines.have_routers().await;
        let at_switch = ["ip", "address", "add", "10.99.0.100/24", "dev", "switch"];
        ran(machines.at_switch().args(at_switch));
        let outside = Self { machines, logs, replicas };
        outside.apply(1);
        outside.are_serving(3).await;
        outside
    }

    /// Rolls the service.
    pub(crate) fn apply(&self, revision: u32) {
        self.machines.apply(&compose(self.replicas, revision), Some(ROUTES));
    }

    pub(crate) fn cli(&self, args: &[&str]) -> String {
        succeeded(&self.machines.cluster.cli(0, args))
    }

    /// Where the edge of a machine is asked.
    pub(crate) fn address(at: usize) -> SocketAddr {
        let number = u8::try_from(at + 1).expect("there are few machines");
        SocketAddr::from(([10, 99, 0, number], 80))
    }

    /// Waits until so many edges carry out the routes.
    pub(crate) async fn are_serving(&self, count: u64) {
        eventually_within(PATIENCE, "the edges serve", || async {
            let listed = self.machines.cluster.cli(0, &["route", "ls", "-o", "json"]);
            let text = String::from_utf8_lossy(&listed.stdout);
            let routes: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
            if routes[0]["edges"] == count { Ok(()) } else { Err(format!("{listed:?}")) }
        })
        .await;
    }

    /// Clients of the edges of these machines.
    pub(crate) fn load(&self, machines: &[usize]) -> Load {
        let edges: Vec<_> = machines.iter().map(|at| Self::address(*at)).collect();
        Load::start(self.namespace(), &edges, CLIENTS)
    }

    /// A connection through an edge that goes on until it is dropped.
    pub(crate) async fn hold(&self, at: usize) -> Held {
        Held::open(self.namespace(), Self::address(at)).await
    }

    fn namespace(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/ns/net", self.machines.switch()))
    }

    /// The process of a machine's edge.
    pub(crate) fn edge(&self, at: usize) -> u32 {
        let pids = router::edges(&self.machines.router(at));
        assert_eq!(pids.len(), 1, "one edge runs on machine {at}");
        pids[0]
    }

    pub(crate) async fn replicas(&self) -> Vec<v1::ReplicaInfo> {
        self.machines.cluster.overview(0).await.expect("it answers").replicas
    }

    /// The containers of all replicas, once each node has told its own.
    pub(crate) async fn containers(&self) -> Vec<String> {
        eventually_within(PATIENCE, "each replica has a container", || async {
            let status =
                self.machines.cluster.overview(0).await.map_err(|error| error.to_string())?;
            let ids = status.replicas.iter().map(|replica| replica.container_id.clone());
            let ids: Vec<_> = ids.collect();
            if ids.iter().any(String::is_empty) { Err(format!("{status:?}")) } else { Ok(ids) }
        })
        .await
    }

    /// `jaco top` knows the requests of the route at all edges.
    pub(crate) fn requests_are_seen(&self) {
        let top: serde_json::Value =
            serde_json::from_str(&self.cli(&["top", "-o", "json"])).expect("it is JSON");
        let route = &top["routes"][0];
        let named = (&route["domain"], &route["deployment"]);
        assert_eq!(named, (&"shop.example.com".into(), &"shop".into()));
        let of = |traffic: &serde_json::Value| {
            (traffic["requests"].as_u64(), traffic["failed"].as_u64(), traffic["refused"].as_u64())
        };
        let nodes = route["nodes"].as_array().expect("a list");
        let names: Vec<_> = nodes.iter().map(|node| node["hostname"].as_str()).collect();
        assert_eq!(names, [Some("n1"), Some("n2"), Some("n3")], "{top}");
        let sum: u64 = nodes.iter().filter_map(|node| of(&node["traffic"]).0).sum();
        assert_eq!(of(&route["traffic"]), (Some(sum), Some(0), Some(0)), "{top}");
        assert!(sum >= 100, "{sum} requests in 20 s");
        assert!(route["traffic"]["p99_above_micros"].is_u64(), "{top}");
        assert_eq!(top["unknown_edges"], serde_json::json!({}));
    }

    /// `jaco explain` finds nothing that breaks, at no edge.
    pub(crate) fn requests_are_explained(&self) {
        let explained = self.cli(&["explain", "--to", "http://shop.example.com/", "-o", "json"]);
        let all: serde_json::Value = serde_json::from_str(&explained).expect("it is JSON");
        assert_eq!(all["holds"], true, "{all}");
        let steps = all["steps"].as_array().expect("a list");
        let found = steps.last().expect("there are some")["detail"].as_str();
        assert_eq!(found, Some("all 18 connections to port 8080 are accepted"), "{all}");
    }

    /// Waits until another process is the edge of a machine, and the only one.
    pub(crate) async fn has_another_edge(&self, at: usize, before: u32) {
        eventually_within(PATIENCE, "another process is the edge", || async {
            let pids = router::edges(&self.machines.router(at));
            if pids.len() == 1 && pids[0] != before { Ok(()) } else { Err(format!("{pids:?}")) }
        })
        .await;
    }
}
