//! Three machines with a service behind edges, and a place outside from where they are asked.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Output;
use std::time::Duration;

use jaco_testkit::engines::{Machines, PATIENCE};
use jaco_testkit::{binary, eventually_within, ran, router, succeeded, v1};

use crate::access::AccessLog;
use crate::held::Held;
use crate::load::{LEDGER, Load};
use crate::rate::Rate;

/// A service with two routes, spread over three machines; each replica tells the ledger what is posted to it.
fn compose(replicas: Replicas, revision: u32) -> String {
    let update = "{parallelism: 3, monitor: 0s}";
    compose_of("[serve]", update, replicas, revision)
}

/// The same with a program that ends as soon as it starts.
fn compose_that_crashes(replicas: Replicas, revision: u32) -> String {
    let update = "{parallelism: 3, monitor: 1s, failure_action: rollback}";
    compose_of("[exit, '1']", update, replicas, revision)
}

fn compose_of(command: &str, update: &str, replicas: Replicas, revision: u32) -> String {
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
    command: {command}
    environment: {{HELLO_LEDGER: '10.99.0.100:{LEDGER}', REVISION: '{revision}'}}
    deploy: {{replicas: 6, update_config: {update}{placement}}}
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
  - {domain: grpc.example.com, service: web, port: 8080, tls: off, protocol: h2c}
";

/// Services that end soon after each start.
const CRASHING: &str = "
name: beside
services:
  fails:
    image: jaco-hello:v1
    command: [crash-loop]
    deploy: {replicas: 3}
";

/// How soon machines are at rest after the last change.
const AT_REST: Duration = Duration::from_secs(10);

/// The domains of the routes, by name.
pub(crate) const DOMAINS: [&str; 2] = ["grpc.example.com", "shop.example.com"];

/// Three machines with a service behind edges, and clients outside.
pub(crate) struct Outside {
    pub(crate) machines: Machines,
    pub(crate) log: AccessLog,
    replicas: Replicas,
    /// What is applied beside the compose file.
    pub(crate) overlay: String,
}

impl Outside {
    /// All edges serve.
    pub(crate) async fn start(replicas: Replicas) -> Self {
        Self::start_of(vec![binary("jacod"); 3], replicas).await
    }

    /// The same with these daemons, one for each machine.
    pub(crate) async fn start_of(daemons: Vec<PathBuf>, replicas: Replicas) -> Self {
        let path = std::env::var("PATH").expect("there is one");
        let log = AccessLog::new();
        let settings = format!("edge: {{access_log: {{path: {}}}}}\n", log.file().display());
        let path = format!("{path}:/usr/sbin:/sbin");
        let mut machines = Machines::start_of(daemons, &path, &settings).await;
        machines.found(&["--name", "edges"]).await;
        machines.have_routers().await;
        let at_switch = ["ip", "address", "add", "10.99.0.100/24", "dev", "switch"];
        ran(machines.at_switch().args(at_switch));
        let outside = Self { machines, log, replicas, overlay: ROUTES.to_owned() };
        outside.apply(1);
        outside.are_serving(3).await;
        outside
    }

    /// Rolls the service.
    pub(crate) fn apply(&self, revision: u32) {
        self.machines.apply(&compose(self.replicas, revision), Some(&self.overlay));
    }

    /// Rolls the service to a revision that crashes at its start, which is given up for the one before.
    pub(crate) fn apply_what_crashes(&self, revision: u32) -> Output {
        self.machines
            .apply_in_vain(&compose_that_crashes(self.replicas, revision), Some(&self.overlay))
    }

    /// Has services beside it that crash again and again.
    pub(crate) fn crash_beside(&self) {
        self.machines.apply_detached(CRASHING);
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
            let is_served = |route: &serde_json::Value| route["edges"] == count;
            let routes = routes.as_array().map(Vec::as_slice).unwrap_or_default();
            let serve = routes.len() == DOMAINS.len() && routes.iter().all(is_served);
            if serve { Ok(()) } else { Err(format!("{listed:?}")) }
        })
        .await;
    }

    /// Clients of the edges of these machines.
    pub(crate) fn load(&self, machines: &[usize], rate: Rate) -> Load {
        let edges: Vec<_> = machines.iter().map(|at| Self::address(*at)).collect();
        Load::start(self.namespace(), &edges, rate)
    }

    /// A connection through an edge that goes on until it is dropped.
    pub(crate) async fn hold(&self, at: usize) -> Held {
        Held::open(self.namespace(), Self::address(at)).await
    }

    pub(crate) fn namespace(&self) -> PathBuf {
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

    /// The containers of all replicas with routes, once each node has told its own.
    pub(crate) async fn containers(&self) -> Vec<String> {
        eventually_within(PATIENCE, "each replica has a container", || async {
            let status =
                self.machines.cluster.overview(0).await.map_err(|error| error.to_string())?;
            let own = status.replicas.iter().filter(|replica| replica.deployment == "shop");
            let ids: Vec<_> = own.map(|replica| replica.container_id.clone()).collect();
            if ids.iter().any(String::is_empty) { Err(format!("{status:?}")) } else { Ok(ids) }
        })
        .await
    }

    /// `jaco top` knows the requests of both routes at all edges.
    pub(crate) fn requests_are_seen(&self) {
        let top: serde_json::Value =
            serde_json::from_str(&self.cli(&["top", "-o", "json"])).expect("it is JSON");
        let routes = top["routes"].as_array().expect("a list");
        let mut domains: Vec<_> = routes.iter().map(|route| route["domain"].as_str()).collect();
        domains.sort_unstable();
        assert_eq!(domains, DOMAINS.map(Some), "{top}");
        for route in routes {
            Self::is_seen(route);
        }
        assert_eq!(top["unknown_edges"], serde_json::json!({}));
    }

    fn is_seen(route: &serde_json::Value) {
        assert_eq!(route["deployment"], "shop", "{route}");
        let of = |traffic: &serde_json::Value| {
            (traffic["requests"].as_u64(), traffic["failed"].as_u64(), traffic["refused"].as_u64())
        };
        let nodes = route["nodes"].as_array().expect("a list");
        let names: Vec<_> = nodes.iter().map(|node| node["hostname"].as_str()).collect();
        assert_eq!(names, [Some("n1"), Some("n2"), Some("n3")], "{route}");
        let sum: u64 = nodes.iter().filter_map(|node| of(&node["traffic"]).0).sum();
        assert_eq!(of(&route["traffic"]), (Some(sum), Some(0), Some(0)), "{route}");
        assert!(sum >= 100, "{sum} requests in 20 s");
        assert!(route["traffic"]["p99_above_micros"].is_u64(), "{route}");
    }

    /// `jaco explain` finds nothing that breaks, at no edge, once the machines have done what the last change left to do:
    /// an instance that does not accept within 250 ms is named, and that is so on a machine that is busy.
    pub(crate) async fn requests_are_explained(&self) {
        for domain in DOMAINS {
            let to = format!("http://{domain}/");
            eventually_within(AT_REST, "nothing breaks", || async {
                let explained =
                    self.machines.cluster.cli(0, &["explain", "--to", &to, "-o", "json"]);
                let all: serde_json::Value = serde_json::from_slice(&explained.stdout)
                    .map_err(|error| format!("{error}: {explained:?}"))?;
                let steps = all["steps"].as_array().map(Vec::as_slice).unwrap_or_default();
                let found = steps.last().map(|step| &step["detail"]);
                let holds = all["holds"] == true
                    && found.is_some_and(|found| {
                        found == "all 18 connections to port 8080 are accepted"
                    });
                if holds { Ok(()) } else { Err(format!("{all}\n{}", self.machines.shown())) }
            })
            .await;
        }
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
