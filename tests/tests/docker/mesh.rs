//! Networks of the cluster over two machines: each is a network namespace with an engine, a daemon and a router of its
//! own, and only a wire leads from one to the other.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use jaco_testkit::{Cluster, Engine, eventually_within, router, v1};

use crate::engine_restart::{Dockerd, LiveRestore};

const PATIENCE: Duration = Duration::from_secs(60);

/// `web` on one machine, `db` on the other.
const SHOP: &str = "
name: shop
services:
  web: {image: 'jaco-hello:v1', command: [serve]}
  db: {image: 'jaco-hello:v1', command: [serve]}
";

const PLACES: &str = "
services:
  - {name: web, placement: hosts, hosts: [n1]}
  - {name: db, placement: hosts, hosts: [n2]}
";

/// Another deployment, beside `web`.
const BLOG: &str = "
name: blog
services:
  web: {image: 'jaco-hello:v1', command: [serve]}
";

const BLOG_PLACES: &str = "
services:
  - {name: web, placement: hosts, hosts: [n1]}
";

struct Mesh {
    cluster: Cluster,
    engines: Vec<Dockerd>,
}

impl Mesh {
    async fn start() -> Self {
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
            mesh.cluster.add_daemon_at(&address, &settings, &mut command);
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
    fn inside(&self, at: usize) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.engines[at].namespace()));
        command
    }

    fn router(&self, at: usize) -> PathBuf {
        self.cluster.router().join(format!("n{}", at + 1))
    }

    async fn has_routers(&self) {
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

    fn apply(&self, compose: &str, overlay: &str) {
        let folder = tempfile::tempdir().expect("temporary files can be made");
        std::fs::write(folder.path().join("compose.yaml"), compose).expect("written");
        std::fs::write(folder.path().join("jaco.yaml"), overlay).expect("written");
        let folder = folder.path().to_str().expect("a path in ASCII");
        succeeded(&self.cluster.cli(0, &["apply", folder, "--timeout", "60s"]));
    }

    /// The container of a service on a machine.
    fn container(&self, at: usize, deployment: &str, service: &str) -> String {
        let labels = [
            format!("label=jaco.deployment={deployment}"),
            format!("label=jaco.service={service}"),
        ];
        let args = ["ps", "--quiet", "--filter", &labels[0], "--filter", &labels[1]];
        ran(&mut self.engines[at].command(&args))
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

fn ran(command: &mut Command) -> String {
    let output = command.output().expect("the program is there");
    succeeded(&output)
}

fn succeeded(output: &Output) -> String {
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
    for name in ["db", "db.shop", "db.shop.jaco.internal", "tasks.db", "db-0"] {
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
