//! Engines of a test's own; and machines: network namespaces with an engine, a daemon and a router each, wired to one switch. They are no cluster yet.

mod dockerd;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Child, Command, Output};
use std::time::Duration;

use jaco_proto::v1;

pub use dockerd::{Dockerd, LiveRestore};

use crate::binary::binary;
use crate::clock::Clock;
use crate::cluster::{Cluster, Engine};
use crate::command::{ran, succeeded};
use crate::machines;
use crate::node::Node;
use crate::router;
use crate::wait::eventually_within;

/// How long a test with several engines waits for anything.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Machines, `n1` first. Dropping them ends everything that runs on them.
#[derive(Debug)]
pub struct Machines {
    /// Their daemons.
    pub cluster: Cluster,
    /// Their engines.
    pub engines: Vec<Dockerd>,
    /// Keeps the namespace of the switch.
    switch: Child,
    /// The `PATH` of the daemons.
    path: String,
    /// The daemon of each, at its next start.
    daemons: Vec<PathBuf>,
    /// Their clocks, where they have their own.
    clocks: Vec<Clock>,
}

impl Machines {
    /// Machines whose daemons have this `PATH`; containers survive their engines.
    ///
    /// # Panics
    /// When namespaces cannot be made, which takes root, or an engine or a daemon does not answer.
    pub async fn start(count: usize, path: &str) -> Self {
        Self::start_with(count, path, "").await
    }

    /// The same with further lines of `jacod.yaml` for every daemon.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub async fn start_with(count: usize, path: &str, settings: &str) -> Self {
        Self::start_of(vec![binary("jacod"); count], path, settings).await
    }

    /// The same, a machine for each of these daemons.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub async fn start_of(daemons: Vec<PathBuf>, path: &str, settings: &str) -> Self {
        let count = daemons.len();
        let (cluster, engines) = (Cluster::without_nodes(Engine::Docker), Vec::new());
        let make = "ip link add switch type bridge && ip link set switch up && exec sleep infinity";
        let mut holder = Command::new("unshare");
        let switch =
            holder.args(["--net", "sh", "-c", make]).spawn().expect("there is a namespace");
        let (path, clocks) = (path.to_owned(), Vec::new());
        let mut machines = Self { cluster, engines, switch, path, daemons, clocks };
        eventually_within(PATIENCE, "the switch is there", || async {
            let shown = machines.at_switch().args(["ip", "link", "show", "switch"]).output();
            let shown = shown.expect("nsenter is there");
            if shown.status.success() { Ok(()) } else { Err(format!("{shown:?}")) }
        })
        .await;
        for at in 0..count {
            machines.engines.push(Dockerd::start(LiveRestore::On).await);
            machines.wire(at);
            let settings = format!(
                "docker_host: {}\nnet: {{runtime_dir: {}, port: 51820}}\n{settings}",
                machines.engines[at].host(),
                machines.router(at).display()
            );
            let mut command = machines.daemon(at);
            machines.cluster.add_daemon_at(&address(at), &settings, &mut command);
        }
        for node in &machines.cluster.nodes {
            answers(node).await;
        }
        machines
    }

    /// Runs what is appended in the namespace of the switch.
    #[must_use]
    pub fn at_switch(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.switch.id()));
        command
    }

    /// The process whose network namespace has the switch.
    #[must_use]
    pub fn switch(&self) -> u32 {
        self.switch.id()
    }

    fn wire(&self, at: usize) {
        let (machine, port) = (self.engines[at].namespace().to_string(), port(at));
        let mut command = self.at_switch();
        command.args(["ip", "link", "add", &port, "type", "veth", "peer", "name", "wire", "netns"]);
        ran(command.arg(machine));
        ran(self.at_switch().args(["ip", "link", "set", &port, "master", "switch", "up"]));
        let ip = format!("10.99.0.{}/24", at + 1);
        ran(self.inside(at).args(["ip", "address", "add", &ip, "dev", "wire"]));
        ran(self.inside(at).args(["ip", "link", "set", "wire", "up"]));
        ran(self.inside(at).args(["ip", "link", "set", "lo", "up"]));
    }

    /// Runs what is appended on a machine.
    #[must_use]
    pub fn inside(&self, at: usize) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.engines[at].namespace()));
        command
    }

    /// Where a daemon's arguments are appended.
    fn daemon(&self, at: usize) -> Command {
        let mut command = self.inside(at);
        command.arg("env").arg(format!("PATH={}", self.path));
        for (name, value) in self.clocks.get(at).iter().flat_map(|clock| clock.environment()) {
            let mut variable = OsString::from(name);
            variable.push("=");
            variable.push(value);
            command.arg(variable);
        }
        command.arg(&self.daemons[at]);
        command
    }

    /// Gives the processes of each machine's daemon a clock that can be set, from its next start on.
    ///
    /// # Panics
    /// When their folders cannot be written.
    pub fn give_clocks(&mut self) {
        let clock = |node: &Node| Clock::new(node.folder().join("clock"));
        self.clocks = self.cluster.nodes.iter().map(clock).collect();
    }

    /// Sets a machine's clock to so many seconds ahead of the true time, or behind it.
    ///
    /// # Panics
    /// When it has none of its own.
    pub fn set_clock(&self, at: usize, seconds_ahead: i64) {
        self.clocks[at].set(seconds_ahead);
    }

    /// Starts a daemon again that has ended.
    pub async fn restart(&mut self, at: usize) {
        let mut command = self.daemon(at);
        let node = &mut self.cluster.nodes[at];
        node.start_under(&mut command);
        answers(node).await;
    }

    /// The folder of a machine's router.
    #[must_use]
    pub fn router(&self, at: usize) -> PathBuf {
        self.cluster.router().join(format!("n{}", at + 1))
    }

    /// `jaco cluster init` on the first machine, with these flags; the others join.
    ///
    /// # Panics
    /// When no cluster comes of it.
    pub async fn found(&mut self, flags: &[&str]) -> Output {
        let created = self.found_of(self.engines.len(), flags).await;
        self.cluster.settled().await;
        created
    }

    /// The same of the first machines alone, so many of them.
    ///
    /// # Panics
    /// When no cluster comes of it.
    pub async fn found_of(&mut self, count: usize, flags: &[&str]) -> Output {
        let created =
            self.cluster.cli(0, &[&["cluster", "init", "--output", "json"], flags].concat());
        let text = String::from_utf8_lossy(&created.stdout).into_owned();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|error| {
            panic!("{error}: {created:?}");
        });
        self.cluster.id = json["cluster_id"].as_str().expect("it has an id").to_owned();
        for at in 1..count {
            self.cluster.join(at).await;
        }
        created
    }

    /// Applies a compose file with its overlay, if it has one, and waits for it.
    ///
    /// # Panics
    /// When it is refused, or takes too long.
    pub fn apply(&self, compose: &str, overlay: Option<&str>) {
        succeeded(&self.applied(compose, overlay, &["--timeout", "90s"]));
    }

    /// Applies a compose file, and does not wait for what comes of it.
    ///
    /// # Panics
    /// When it is refused.
    pub fn apply_detached(&self, compose: &str) {
        succeeded(&self.applied(compose, None, &["--detach"]));
    }

    /// Applies what does not succeed, waits for its end, and returns what the command said.
    ///
    /// # Panics
    /// When it succeeds.
    pub fn apply_in_vain(&self, compose: &str, overlay: Option<&str>) -> Output {
        let output = self.applied(compose, overlay, &["--timeout", "90s"]);
        assert!(!output.status.success(), "{output:?}");
        output
    }

    fn applied(&self, compose: &str, overlay: Option<&str>, flags: &[&str]) -> Output {
        let folder = tempfile::tempdir().expect("temporary files can be made");
        std::fs::write(folder.path().join("compose.yaml"), compose).expect("written");
        if let Some(overlay) = overlay {
            std::fs::write(folder.path().join("jaco.yaml"), overlay).expect("written");
        }
        let folder = folder.path().to_str().expect("a path in ASCII");
        self.cluster.cli(0, &[&["apply", folder], flags].concat())
    }

    /// Pulls the plug of a machine's wire: what it sends and what is sent to it is lost, and nobody is told.
    pub fn cut(&self, at: usize) {
        ran(self.at_switch().args(["ip", "link", "set", &port(at), "nomaster"]));
    }

    /// Loses packets of a machine on the wire, and nobody is told.
    pub fn lose(&self, at: usize, lost: Lost) {
        let port = port(at);
        let (sent, received) = (format!("iifname {port} drop"), format!("oifname {port} drop"));
        let (sent, received) = match lost {
            Lost::Sent => (sent.as_str(), ""),
            Lost::Received => ("", received.as_str()),
            Lost::Everything => (sent.as_str(), received.as_str()),
        };
        let table = format!(
            "table bridge lost {{\nchain sent {{\ntype filter hook prerouting priority 0\n{sent}\n}}\n\
             chain received {{\ntype filter hook postrouting priority 0\n{received}\n}}\n}}\n"
        );
        machines::load(&mut self.at_switch(), &table);
    }

    /// Ends every [`Machines::lose`].
    pub fn lose_nothing(&self) {
        machines::load(&mut self.at_switch(), "flush ruleset\n");
    }

    /// Leads a machine's wire through what carries frames from one of these interfaces of the switch's namespace to the
    /// other one: `near` is the machine's side.
    ///
    /// # Panics
    /// When there is no such interface.
    pub fn lead_through(&self, at: usize, near: &str, far: &str) {
        let (port, bridge) = (port(at), format!("bridge{at}"));
        let link = |args: &[&str]| ran(self.at_switch().args(["ip", "link"]).args(args));
        link(&["add", &bridge, "type", "bridge"]);
        link(&["set", &bridge, "up"]);
        link(&["set", near, "master", &bridge, "up"]);
        link(&["set", far, "master", "switch", "up"]);
        link(&["set", &port, "master", &bridge]);
    }

    /// Ends [`Machines::lead_through`].
    ///
    /// # Panics
    /// When the wire is as it was.
    pub fn lead_straight(&self, at: usize) {
        let link = |args: &[&str]| ran(self.at_switch().args(["ip", "link"]).args(args));
        link(&["set", &port(at), "master", "switch"]);
        link(&["delete", &format!("bridge{at}")]);
    }

    /// Runs what is appended in the namespace of a machine's router.
    #[must_use]
    pub fn at_router(&self, at: usize) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.router(at).join("router").display()));
        command
    }

    /// What all routers know of addresses, and what the engines run, for messages.
    ///
    /// # Panics
    /// When the programs are not there.
    #[must_use]
    pub fn shown(&self) -> String {
        let text = |mut command: Command| {
            let output = command.output().expect("it is there");
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let of = |at: usize| {
            let [routes, neighbours] = ["route", "neighbour"].map(|what| {
                let mut command = self.at_router(at);
                command.args(["ip", "-4", what]);
                text(command)
            });
            let containers = text(self.engines[at].command(&["ps", "--all"]));
            format!("n{}:\n{routes}{neighbours}{containers}", at + 1)
        };
        (0..self.engines.len()).map(of).collect()
    }

    /// Waits until all machines have a router.
    pub async fn have_routers(&self) {
        eventually_within(PATIENCE, "all nodes have a router", || async {
            let nodes = self.cluster.overview(0).await?.nodes;
            let works = |node: &v1::NodeInfo| ["kernel", "userspace"].contains(&node.net.as_str());
            let done = nodes.len() == self.engines.len() && nodes.iter().all(works);
            if done { Ok(()) } else { Err(format!("{nodes:?}")) }
        })
        .await;
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        self.cluster.nodes.clear();
        for at in 0..self.engines.len() {
            router::remove(&self.router(at));
        }
        // Each takes seconds to end its containers.
        std::thread::scope(|scope| {
            for engine in self.engines.drain(..) {
                scope.spawn(move || drop(engine));
            }
        });
        let _gone = self.switch.kill().is_err();
        let _gone = self.switch.wait().is_err();
    }
}

/// Which packets of a machine are lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lost {
    /// Those that it sends.
    Sent,
    /// Those that are sent to it.
    Received,
    /// All of them.
    Everything,
}

/// The port of the switch that a machine is wired to.
fn port(at: usize) -> String {
    format!("port{at}")
}

/// Where the daemon of a machine listens.
#[must_use]
pub fn address(at: usize) -> String {
    format!("10.99.0.{}:7000", at + 1)
}

async fn answers(node: &Node) {
    eventually_within(PATIENCE, "the daemon answers", || async {
        let status = node.client().status(v1::ClusterStatusRequest {}).await;
        status.map(drop).map_err(|error| error.to_string())
    })
    .await;
}
