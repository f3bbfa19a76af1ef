//! `jaco dev`: a cluster whose nodes share one machine, and with it the engine and its networks.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use jaco_testkit::{binary, eventually_within};
use serde_json::Value;
use tempfile::TempDir;

use jaco_testkit::engines::PATIENCE;
use jaco_testkit::engines::{Dockerd, LiveRestore};
use jaco_testkit::{ran, succeeded};

/// Two services on two nodes.
fn shop(version: &str) -> String {
    format!(
        "
name: shop
services:
  web: {{image: 'jaco-hello:v1', command: [serve]}}
  db: {{image: 'jaco-hello:v1', command: [serve], environment: {{HELLO_VERSION: {version}}}}}
"
    )
}

const PLACES: &str = "
services:
  - {name: web, placement: hosts, hosts: [n2]}
  - {name: db, placement: hosts, hosts: [n3]}
";

/// A machine with an engine, on which a user runs `jaco dev`. Dropping it ends the clusters.
struct Laptop {
    engine: Dockerd,
    home: TempDir,
}

impl Laptop {
    async fn start() -> Self {
        let engine = Dockerd::start(LiveRestore::Off).await;
        let laptop =
            Self { engine, home: tempfile::tempdir().expect("temporary files can be made") };
        ran(laptop.inside().args(["ip", "link", "set", "lo", "up"]));
        laptop
    }

    /// Runs what is appended there.
    fn inside(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.engine.namespace()));
        command
    }

    /// What is appended are arguments of `jaco`, behind another program and its arguments.
    fn jaco(&self, behind: &[&str]) -> Command {
        let mut command = self.inside();
        command.args(behind).arg(binary("jaco"));
        command.env("DOCKER_HOST", self.engine.host()).env("XDG_STATE_HOME", self.home.path());
        command.env("JACO_JACOD", binary("jacod")).env_remove("SYSTEMD_EXEC_PID");
        command.env_remove("JACO_SERVER").env_remove("JACO_CONTEXT").env_remove("JACO_SOCKET");
        command
    }

    /// `jaco dev up`, which ends well; what it said.
    fn up(&self, behind: &[&str], name: &str) -> String {
        let output = self.jaco(behind).args(["dev", "up", "--name", name]).output();
        let output = output.expect("jaco can be started");
        succeeded(&output);
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    fn down(&self, name: &str) -> Output {
        let output = self.jaco(&[]).args(["dev", "down", "--name", name]).output();
        output.expect("jaco can be started")
    }

    /// The nodes of a cluster, as `jaco dev ls` lists them.
    fn nodes(&self, name: &str) -> Vec<Value> {
        let mut list = self.jaco(&[]);
        let listed = ran(list.args(["dev", "ls", "--name", name, "--output", "json"]));
        serde_json::from_str(&listed).expect("it is JSON")
    }

    /// `jaco` as a user of the cluster, through its second node.
    fn user(&self, name: &str, args: &[&str]) -> Output {
        let socket = self.nodes(name)[1]["socket"].as_str().expect("a path").to_owned();
        let output = self.jaco(&[]).args(args).env("JACO_SOCKET", socket).output();
        output.expect("jaco can be started")
    }

    fn apply(&self, name: &str, version: &str) {
        let folder = tempfile::tempdir().expect("temporary files can be made");
        std::fs::write(folder.path().join("compose.yaml"), shop(version)).expect("written");
        std::fs::write(folder.path().join("jaco.yaml"), PLACES).expect("written");
        let path = folder.path().to_str().expect("a path in ASCII");
        succeeded(&self.user(name, &["apply", path, "--timeout", "60s"]));
    }

    /// What `db` answers to `web`.
    fn answer(&self) -> Result<String, String> {
        let filter = "label=jaco.service=web";
        let web = ran(&mut self.engine.command(&["ps", "--quiet", "--filter", filter]));
        let args = ["exec", &web, "/hello", "check", "http://db:8080/"];
        let output = self.engine.command(&args).output().expect("docker runs");
        match output.status.success() {
            true => Ok(succeeded(&output)),
            false => Err(format!("{output:?}")),
        }
    }

    /// What there is of networks: those of the engine, and bridges.
    fn networks(&self) -> String {
        let filter = "label=jaco.network_id";
        let of_engine = ran(&mut self.engine.command(&["network", "ls", "-q", "--filter", filter]));
        let interfaces = ran(self.inside().args(["ip", "-brief", "link"]));
        let bridges = interfaces.lines().filter(|line| line.starts_with("jn"));
        bridges.fold(of_engine, |all, line| all + line)
    }
}

impl Drop for Laptop {
    fn drop(&mut self) {
        for cluster in std::fs::read_dir(self.home.path().join("jaco/dev")).into_iter().flatten() {
            let name = cluster.ok().and_then(|one| one.file_name().into_string().ok());
            if let Some(name) = name {
                let _down = self.down(&name).status.success();
            }
        }
    }
}

/// R-CLI-6, NET-8: services of a development cluster reach each other by name, whichever of its nodes they are on, and go
/// on doing so when the daemon is killed that told the router; nothing is left once it is down.
#[tokio::test]
async fn services_of_a_development_cluster_reach_each_other() {
    let laptop = Laptop::start().await;
    let said = laptop.up(&[], "dev");
    assert!(!said.contains("warning"), "{said}");
    laptop.apply("dev", "one");
    let answer = laptop.answer().expect("it is answered");
    assert!(answer.starts_with("hello one from "), "{answer}");
    let beside = laptop.user("dev", &["run", "shop/web", "--", "check", "http://db:8080/"]);
    assert!(succeeded(&beside).starts_with("hello one from "), "it has the names of the replica");

    let first = laptop.nodes("dev").swap_remove(0);
    ran(Command::new("kill").args(["-KILL", &first["pid"].to_string()]));
    eventually_within(PATIENCE, "the first node is down", || async {
        let status = laptop.user("dev", &["node", "ls", "--output", "json"]);
        let text = String::from_utf8_lossy(&status.stdout).into_owned();
        if text.contains("\"down\"") { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await;
    assert_eq!(laptop.nodes("dev")[0]["running"], false, "its router is no daemon");
    laptop.apply("dev", "two");
    eventually_within(Duration::from_secs(5), "the name leads to the new one", || async {
        let answer = laptop.answer()?;
        if answer.starts_with("hello two from ") { Ok(()) } else { Err(answer) }
    })
    .await;

    let out = laptop.down("dev");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success() && !said.contains("warning"), "{said}");
    assert_eq!(laptop.networks(), "");
    assert!(!laptop.home.path().join("jaco/dev/dev").exists());
    assert!(processes_below(laptop.home.path()).is_empty(), "its router has ended");
}

/// One engine has the networks of one cluster: another one says whose they are, and one that may not make a router says so.
/// Both run what they can.
#[tokio::test]
async fn development_clusters_without_networks_say_why() {
    let laptop = Laptop::start().await;
    let said = laptop.up(&["setpriv", "--bounding-set", "-sys_admin"], "weak");
    for words in ["warning: services on different nodes", "not permitted", "jaco dev up"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    laptop.apply("weak", "one");
    assert!(laptop.answer().is_err(), "they are on different nodes");
    succeeded(&laptop.down("weak"));

    assert!(!laptop.up(&[], "dev").contains("warning"));
    let said = laptop.up(&[], "blue");
    for words in ["warning: services on different nodes", "jaco dev down --name dev"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    laptop.apply("blue", "one");
    succeeded(&laptop.down("blue"));

    laptop.apply("dev", "one");
    let mut down = laptop.jaco(&[]);
    ran(down.args(["dev", "down", "--name", "dev", "--keep-containers"]));
    let said = laptop.up(&[], "blue");
    for words in ["warning: services on different nodes", "bridge jn1", "docker network ls"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    succeeded(&laptop.down("blue"));
}

/// The processes that were started with files below a folder.
fn processes_below(folder: &Path) -> Vec<String> {
    let folder = folder.display().to_string();
    let entries = std::fs::read_dir("/proc").expect("it is there").flatten();
    let lines = entries.filter_map(|one| std::fs::read(one.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(&folder)).collect()
}
