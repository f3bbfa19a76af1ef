//! A deployment whose networks were those of each node moves to those of the cluster while it is asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jaco_testkit::{eventually_within, v1};
use tokio::sync::RwLock;
use tokio::task::JoinHandle;

use crate::mesh::{Mesh, PATIENCE, ran, succeeded};

/// `web` asks `api` for each request, by its name. Which of them is replaced first follows from `depends`.
fn deployment(name: &str, depends: [&str; 2]) -> String {
    let check =
        "healthcheck: {test: [CMD, /hello, check, 'http://127.0.0.1:8080/healthz'], interval: 1s}";
    let service = "image: 'jaco-hello:v1'\n    command: [serve]\n    stop_grace_period: 5s";
    let [web, api] = depends.map(|other| match other {
        "" => String::new(),
        other => format!("depends_on: [{other}]"),
    });
    format!(
        "
name: {name}
services:
  web:
    {service}
    environment: {{HELLO_UPSTREAM: 'http://api:8080/'}}
    {check}
    {web}
  api:
    {service}
    {check}
    {api}
"
    )
}

const PLACES: &str = "
services:
  - {name: web, placement: global}
  - {name: api, placement: global}
";

/// The first address of a container, which is that in the network of its node as long as it has one, and how many it has.
fn address(mesh: &Mesh, at: usize, container: &str) -> Option<(String, usize)> {
    let format = "{{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}";
    let inspect = mesh.engines[at].command(&["inspect", "--format", format, container]).output();
    let shown = String::from_utf8(inspect.expect("docker runs").stdout).expect("text");
    let mut addresses = shown.split_whitespace();
    let first = addresses.next()?.to_owned();
    Some((first, addresses.count() + 1))
}

/// Clients of `web`, one on each machine, behind a balancer that follows the endpoints: a request holds a read lock, so that
/// a list is acknowledged once no request to an endpoint that left it is under work.
struct Clients {
    ended: Arc<AtomicBool>,
    asking: Vec<JoinHandle<(usize, Vec<String>)>>,
    following: JoinHandle<()>,
}

impl Clients {
    async fn start(mesh: &Arc<Mesh>, deployment: &str) -> Self {
        let attach = v1::RoutingAttach {
            consumer: format!("balancer-{deployment}"),
            deployment: deployment.to_owned(),
            ..v1::RoutingAttach::default()
        };
        let mut routes = mesh.cluster.nodes[0].client().routes(attach).await.expect("attached");
        let table: Arc<RwLock<Vec<Vec<String>>>> = Arc::new(RwLock::new(vec![Vec::new(); 2]));
        let (list, of) = (Arc::clone(&table), Arc::clone(mesh));
        let following = tokio::spawn(async move {
            while let Ok(Some(version)) = routes.next().await {
                let mut next = vec![Vec::new(); 2];
                let web = version.services.iter().filter(|service| service.service == "web");
                for endpoint in web.flat_map(|service| &service.endpoints) {
                    let at = if endpoint.node == "n1" { 0 } else { 1 };
                    next[at].extend(address(&of, at, &endpoint.container_id).map(|(ip, _)| ip));
                }
                *list.write().await = next;
                routes.acknowledge(version.version).await;
            }
        });
        eventually_within(PATIENCE, "both machines have an endpoint", || async {
            let known = table.read().await.clone();
            if known.iter().all(|here| !here.is_empty()) { Ok(()) } else { Err(known) }
        })
        .await;
        let ended = Arc::new(AtomicBool::new(false));
        let ask = |at: usize| {
            let (ended, table, mesh) = (Arc::clone(&ended), Arc::clone(&table), Arc::clone(mesh));
            tokio::spawn(async move {
                let (mut served, mut failed) = (0, Vec::new());
                while !ended.load(Ordering::Relaxed) {
                    let endpoints = table.read().await;
                    let here = &endpoints[at];
                    let Some(ip) = here.get(served % here.len().max(1)) else {
                        failed.push(format!("nobody serves on machine {at}"));
                        break;
                    };
                    let url = format!("http://{ip}:8080/upstream");
                    let mut curl = mesh.inside(at);
                    curl.args(["curl", "--silent", "--show-error", "--fail-with-body"]);
                    curl.args(["--max-time", "20", &url]);
                    let asked = tokio::task::spawn_blocking(move || curl.output()).await;
                    let output = asked.expect("no panic").expect("curl is there");
                    drop(endpoints);
                    match output.status.success() {
                        true => served += 1,
                        false => failed.push(format!("{url}: {output:?}")),
                    }
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                (served, failed)
            })
        };
        let asking = (0..2).map(ask).collect();
        Self { ended, asking, following }
    }

    /// How many requests were answered, and what became of the others.
    async fn end(self) -> (usize, Vec<String>) {
        self.ended.store(true, Ordering::Relaxed);
        let (mut served, mut failed) = (0, Vec::new());
        for client in self.asking {
            let (ok, bad) = client.await.expect("a client does not panic");
            served += ok;
            failed.extend(bad);
        }
        self.following.abort();
        (served, failed)
    }
}

/// The containers of a deployment, by machine.
fn containers(mesh: &Mesh, deployment: &str) -> Vec<(usize, String)> {
    let filter = format!("label=jaco.deployment={deployment}");
    let on = |at: usize| {
        let shown = ran(&mut mesh.engines[at].command(&["ps", "--quiet", "--filter", &filter]));
        shown.lines().map(|id| (at, id.to_owned())).collect::<Vec<_>>()
    };
    (0..2).flat_map(on).collect()
}

/// NET-4: two services of which one asks the other move to networks of the cluster with their next apply, and no request
/// fails, whichever of them is replaced first. What runs is attached to the new networks before the first of them is
/// replaced, and ends once nobody on its node knows it by the engine's names any more.
#[tokio::test(flavor = "multi_thread")]
async fn deployments_move_to_networks_of_the_cluster_without_a_failed_request() {
    let mesh = Arc::new(Mesh::start().await);
    let deployments = [("shop", ["api", ""]), ("blog", ["", "web"]), ("wiki", ["", ""])];
    for (name, depends) in deployments {
        mesh.apply(&deployment(name, depends), PLACES);
    }
    succeeded(&mesh.cluster.cli(0, &["network", "enable"]));
    mesh.has_routers().await;
    for (name, depends) in deployments {
        let old = containers(&mesh, name);
        assert_eq!(old.len(), 4, "{old:?}");
        let clients = Clients::start(&mesh, name).await;
        let folder = tempfile::tempdir().expect("temporary files can be made");
        std::fs::write(folder.path().join("compose.yaml"), deployment(name, depends))
            .expect("written");
        std::fs::write(folder.path().join("jaco.yaml"), PLACES).expect("written");
        let folder = folder.path().to_str().expect("a path in ASCII");
        succeeded(&mesh.cluster.cli(0, &["apply", folder, "--detach"]));
        eventually_within(PATIENCE, "what runs is in both networks", || async {
            let apart = old.iter().filter(|(at, id)| {
                address(&mesh, *at, id).is_none_or(|(_, networks)| networks != 2)
            });
            let apart: Vec<_> = apart.collect();
            if apart.is_empty() { Ok(()) } else { Err(format!("{apart:?}")) }
        })
        .await;
        eventually_within(PATIENCE, "all of them were replaced", || async {
            let now = containers(&mesh, name);
            let is_old = |one: &&(usize, String)| old.contains(one);
            let apart = |one: &&(usize, String)| {
                address(&mesh, one.0, &one.1).is_none_or(|(ip, _)| !ip.starts_with("10."))
            };
            let left: Vec<_> = now.iter().filter(|one| is_old(one) || apart(one)).collect();
            if now.len() == 4 && left.is_empty() { Ok(()) } else { Err(format!("{now:?}")) }
        })
        .await;
        let (served, failed) = clients.end().await;
        println!("{name}: {served} requests");
        assert_eq!(failed, Vec::<String>::new(), "{name}: of {served} requests");
        assert!(served > 100, "{name}: only {served} requests were made");
    }
}
