//! Networks of the cluster over two machines: each is a network namespace with an engine, a daemon and a router of its
//! own, and only a wire leads from one to the other.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use jaco_testkit::{Cluster, Engine, binary, eventually_within, router, v1};

use jaco_testkit::engines::{Dockerd, LiveRestore};

pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// `web` on one machine, `db` on the other.
const SHOP: &str = "
name: shop
services:
  web: {image: 'jaco-hello:v1', command: [serve]}
  db:
    image: 'jaco-hello:v1'
    command: [serve]
    hostname: base.lan
    environment: {HELLO_VERSION: one, HELLO_DRAIN_MS: '20000'}
    stop_grace_period: 30s
";

const PLACES: &str = "
services:
  - {name: web, placement: hosts, hosts: [n1]}
  - {name: db, placement: hosts, hosts: [n2]}
";

/// Another deployment, beside `web`.
pub(crate) const BLOG: &str = "
name: blog
services:
  web: {image: 'jaco-hello:v1', command: [serve]}
";

pub(crate) const BLOG_PLACES: &str = "
services:
  - {name: web, placement: hosts, hosts: [n1]}
";

/// A service on both machines, and a client of it on each.
fn watched(version: &str, replicas: u32) -> String {
    format!(
        "
name: shop
services:
  web: {{image: 'jaco-hello:v1', command: [serve]}}
  db:
    image: 'jaco-hello:v1'
    command: [serve]
    environment: {{HELLO_VERSION: {version}}}
    deploy: {{replicas: {replicas}}}
    healthcheck:
      test: [CMD, /hello, check, 'http://127.0.0.1:8080/healthz']
      interval: 1s
"
    )
}

const WATCHED_PLACES: &str = "
services:
  - {name: web, placement: global}
  - {name: db, placement: spread}
";

pub(crate) struct Mesh {
    pub(crate) cluster: Cluster,
    pub(crate) engines: Vec<Dockerd>,
}

impl Mesh {
    pub(crate) async fn start() -> Self {
        let mut mesh =
            Self { cluster: Cluster::without_nodes(Engine::Docker), engines: Vec::new() };
        for _ in 0..2 {
            mesh.engines.push(Dockerd::start(LiveRestore::Off).await);
        }
        let [first, second] = [0, 1].map(|at| mesh.engines[at].namespace().to_string());
        let peer = ["type", "veth", "peer", "name", "wire", "netns", &second];
        ran(Command::new("ip").args(["link", "add", "wire", "netns", &first]).args(peer));
        for at in 0..2 {
            let address = format!("10.99.0.{}/24", at + 1);
            ran(mesh.inside(at).args(["ip", "address", "add", &address, "dev", "wire"]));
            ran(mesh.inside(at).args(["ip", "link", "set", "wire", "up"]));
            ran(mesh.inside(at).args(["ip", "link", "set", "lo", "up"]));
            let settings = format!(
                "docker_host: {}\nnet: {{runtime_dir: {}, port: 51820}}\n",
                mesh.engines[at].host(),
                mesh.router(at).display()
            );
            let mut command = mesh.inside(at);
            let address = format!("10.99.0.{}:7000", at + 1);
            mesh.cluster.add_daemon_at(&address, &settings, command.arg(binary("jacod")));
        }
        let first = mesh.cluster.nodes[0].client();
        let founded = eventually_within(PATIENCE, "the first daemon answers", || async {
            first.init(v1::InitRequest::default()).await.map_err(|error| error.to_string())
        });
        mesh.cluster.id = founded.await.cluster_id;
        mesh.cluster.join(1).await;
        mesh.cluster.settled().await;
        mesh
    }

    /// Runs what is appended on a machine.
    pub(crate) fn inside(&self, at: usize) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.engines[at].namespace()));
        command
    }

    pub(crate) fn router(&self, at: usize) -> PathBuf {
        self.cluster.router().join(format!("n{}", at + 1))
    }

    pub(crate) async fn has_routers(&self) {
        eventually_within(PATIENCE, "all nodes have a router", || async {
            let nodes = self.cluster.overview(0).await?.nodes;
            let works = |node: &v1::NodeInfo| ["kernel", "userspace"].contains(&node.net.as_str());
            if nodes.len() == 2 && nodes.iter().all(works) {
                Ok(())
            } else {
                Err(format!("{nodes:?}"))
            }
        })
        .await;
    }

    pub(crate) fn apply(&self, compose: &str, overlay: &str) {
        let folder = tempfile::tempdir().expect("temporary files can be made");
        std::fs::write(folder.path().join("compose.yaml"), compose).expect("written");
        std::fs::write(folder.path().join("jaco.yaml"), overlay).expect("written");
        let folder = folder.path().to_str().expect("a path in ASCII");
        succeeded(&self.cluster.cli(0, &["apply", folder, "--timeout", "60s"]));
    }

    /// The container of a service on a machine.
    pub(crate) fn container(&self, at: usize, deployment: &str, service: &str) -> String {
        let labels = [
            format!("label=jaco.deployment={deployment}"),
            format!("label=jaco.service={service}"),
        ];
        let args = ["ps", "--quiet", "--filter", &labels[0], "--filter", &labels[1]];
        ran(&mut self.engines[at].command(&args))
    }

    /// Asks a URL from a container again and again, until [`Watch::end`].
    pub(crate) fn watch(&self, at: usize, container: &str, url: &str) -> Watch {
        let args = ["exec", "--interactive", container, "/hello", "watch", url];
        let mut command = self.engines[at].command(&args);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Watch(child.spawn().expect("docker runs"))
    }

    /// Asks a URL from a container, by its own resolver and its own way.
    fn check(&self, at: usize, container: &str, url: &str) -> Command {
        self.engines[at].command(&["exec", container, "/hello", "check", url])
    }
}

impl Drop for Mesh {
    fn drop(&mut self) {
        self.cluster.nodes.clear();
        for at in 0..self.engines.len() {
            router::remove(&self.router(at));
        }
    }
}

/// A client that asks again and again.
pub(crate) struct Watch(Child);

impl Watch {
    /// Ends it, and hands back how many requests it made.
    ///
    /// # Panics
    /// If any of them failed.
    pub(crate) fn end(mut self) -> usize {
        drop(self.0.stdin.take());
        let said = succeeded(&self.0.wait_with_output().expect("docker runs"));
        let asked = said.lines().last().and_then(|line| line.split(' ').next()?.parse().ok());
        asked.unwrap_or_else(|| panic!("no number of requests in {said:?}"))
    }
}

pub(crate) fn ran(command: &mut Command) -> String {
    let output = command.output().expect("the program is there");
    succeeded(&output)
}

pub(crate) fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// NET-7, NET-8: a service reaches another one on another machine by its name; another deployment finds neither its name
/// nor its address. A killed router cuts no connection, and routers do without their daemons.
#[tokio::test]
async fn services_reach_each_other_by_name_over_machines() {
    let mut mesh = Mesh::start().await;
    succeeded(&mesh.cluster.cli(0, &["network", "enable"]));
    mesh.has_routers().await;
    mesh.apply(SHOP, PLACES);
    mesh.apply(BLOG, BLOG_PLACES);
    let (web, db) = (mesh.container(0, "shop", "web"), mesh.container(1, "shop", "db"));
    let blog = mesh.container(0, "blog", "web");
    for name in ["db", "db.shop", "db.shop.jaco.internal", "tasks.db", "db-0", "base.lan"] {
        let url = format!("http://{name}:8080/healthz");
        eventually_within(PATIENCE, "the name leads there", || async {
            let output = mesh.check(0, &web, &url).output().expect("docker runs");
            if output.status.success() { Ok(()) } else { Err(format!("{output:?}")) }
        })
        .await;
    }
    let format = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}";
    let address = ran(&mut mesh.engines[1].command(&["inspect", "--format", format, &db]));
    for place in ["db", "db.shop.jaco.internal", &address] {
        let url = format!("http://{place}:8080/healthz");
        let output = mesh.check(0, &blog, &url).output().expect("docker runs");
        assert!(!output.status.success(), "{place}: {output:?}");
    }
    answers_what_it_was_asked(&mesh, &web, &db).await;
    // One request that takes longer than both restarts.
    let slow = mesh.check(0, &web, "http://db:8080/slow?ms=4000").stdout(Stdio::piped()).spawn();
    let slow = slow.expect("docker runs");
    tokio::time::sleep(Duration::from_secs(1)).await;
    for at in 0..2 {
        let before = router::pid(&mesh.router(at)).expect("it runs");
        router::kill(&mesh.router(at));
        eventually_within(PATIENCE, "another process keeps the router", || async {
            let pid = router::pid(&mesh.router(at));
            pid.filter(|pid| *pid != before).map(drop).ok_or_else(|| format!("{pid:?}"))
        })
        .await;
    }
    succeeded(&slow.wait_with_output().expect("docker runs"));
    mesh.cluster.nodes.iter_mut().for_each(jaco_testkit::Node::kill);
    succeeded(&mesh.check(0, &web, "http://db:8080/healthz").output().expect("docker runs"));
}

/// PL-13: an instance that has been told to stop answers what it was asked before.
async fn answers_what_it_was_asked(mesh: &Mesh, web: &str, db: &str) {
    let slow = mesh.check(0, web, "http://db:8080/slow?ms=12000").stdout(Stdio::piped()).spawn();
    let mut slow = slow.expect("docker runs");
    tokio::time::sleep(Duration::from_secs(1)).await;
    mesh.apply(&SHOP.replace("one", "two"), PLACES);
    let filter = format!("container={db}");
    let past = ["events", "--since", "10m", "--until", "0s", "--filter", "event=kill", "--filter"];
    eventually_within(PATIENCE, "the replaced instance is told to stop", || async {
        let told = ran(mesh.engines[1].command(&past).arg(&filter));
        if told.is_empty() { Err("it is not".to_owned()) } else { Ok(()) }
    })
    .await;
    let ended = slow.try_wait().expect("it is ours");
    assert!(ended.is_none(), "it was answered before that: {ended:?}");
    succeeded(&slow.wait_with_output().expect("docker runs"));
}

/// PL-13, NET-8: while a service is replaced and scaled, no client that remembers names for as long as it may connects to
/// an instance that has been told to stop.
#[tokio::test]
async fn names_are_gone_before_their_replicas_stop() {
    let mesh = Mesh::start().await;
    succeeded(&mesh.cluster.cli(0, &["network", "enable"]));
    mesh.has_routers().await;
    mesh.apply(&watched("one", 4), WATCHED_PLACES);
    let watches: Vec<Watch> = (0..2)
        .map(|at| mesh.watch(at, &mesh.container(at, "shop", "web"), "http://db:8080/"))
        .collect();
    for (version, replicas) in [("one", 2), ("two", 2), ("two", 4), ("two", 1)] {
        mesh.apply(&watched(version, replicas), WATCHED_PLACES);
    }
    // What was removed last may be remembered for another second.
    tokio::time::sleep(Duration::from_secs(2)).await;
    for watch in watches {
        let asked = watch.end();
        assert!(asked > 500, "only {asked} requests were made");
    }
}

/// PL-13: a machine that is gone with its router holds up the stop of a replica for no longer than the deadline of the
/// endpoints' consumers.
#[tokio::test]
async fn a_router_that_is_away_is_waited_for_until_the_deadline() {
    let mut mesh = Mesh::start().await;
    succeeded(&mesh.cluster.cli(0, &["network", "enable"]));
    mesh.has_routers().await;
    let places = PLACES.replace("n2", "n1");
    mesh.apply(SHOP, &places);
    eventually_within(PATIENCE, "both routers are consumers", || async {
        let said = mesh.cluster.cli(0, &["audit", "--type", "consumer_attached"]);
        let said = succeeded(&said);
        let known = ["jacod-net-n1", "jacod-net-n2"].iter().all(|name| said.contains(name));
        if known { Ok(()) } else { Err(said) }
    })
    .await;
    let old = mesh.container(0, "shop", "db");
    mesh.cluster.nodes[1].kill();
    router::kill(&mesh.router(1));
    mesh.apply(&SHOP.replace("one", "two"), &places);
    // The apply has ended once the successor serves; the deadline counts from there.
    let deadline = Duration::from_secs(10) + Duration::from_secs(5);
    eventually_within(deadline, "the replaced instance is gone", || async {
        let shown = mesh.engines[0].command(&["top", &old]).output().expect("docker runs");
        if shown.status.success() { Err(format!("{shown:?}")) } else { Ok(()) }
    })
    .await;
}
