//! Several daemons that form a cluster.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use jaco_client::Client;
use jaco_proto::v1;
use jaco_types::voter_target;
use tempfile::TempDir;

use crate::binary::binary;
use crate::docker;
use crate::node::Node;
use crate::router;
use crate::wait::eventually;

/// Tells clusters of one test process apart by their loopback addresses.
static CLUSTERS: AtomicU32 = AtomicU32::new(0);

/// How long nothing is committed in an idle cluster.
const IDLE: Duration = Duration::from_secs(2);

/// What runs the containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// Nothing: they are pretended, and survive the daemon in a file.
    Fake,
    /// The machine's Docker Engine.
    Docker,
}

impl Engine {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Fake => "fake",
            Self::Docker => "docker",
        }
    }
}

/// A cluster under test. Dropping it ends its daemons and removes its folder; a failing test keeps
/// the folder where `JACO_KEEP_TEST_FOLDERS` is set.
#[derive(Debug)]
pub struct Cluster {
    /// Its nodes, `n1` first.
    pub nodes: Vec<Node>,
    /// Its identity; empty before it has one.
    pub id: String,
    // After the nodes, so that the daemons end before their data goes.
    folder: TempDir,
    network: String,
    /// The UDP port of its router.
    port: u16,
    engine: Engine,
    settings: String,
}

impl Cluster {
    /// Starts `size` daemons and makes them one cluster whose nodes are all ready.
    pub async fn start(size: usize, engine: Engine) -> Self {
        Self::start_with(size, engine, "").await
    }

    /// As [`Cluster::start`], with further lines of `jacod.yaml` for every node.
    pub async fn start_with(size: usize, engine: Engine, settings: &str) -> Self {
        let mut cluster = Self::without_nodes(engine);
        settings.clone_into(&mut cluster.settings);
        for _ in 0..size {
            cluster.add_daemon();
        }
        let first = cluster.nodes[0].client();
        answering(&cluster.nodes[0]).await;
        let founded = first.init(v1::InitRequest::default()).await;
        cluster.id = founded.expect("a cluster can be created").cluster_id;
        for node in 1..size {
            cluster.join(node).await;
        }
        cluster.settled().await;
        cluster
    }

    /// A cluster without nodes.
    ///
    /// # Panics
    /// When there is no room for temporary files.
    #[must_use]
    pub fn without_nodes(engine: Engine) -> Self {
        let number = CLUSTERS.fetch_add(1, Ordering::Relaxed);
        let pid = std::process::id();
        // Each test process and each of its clusters has loopback addresses of its own.
        let network = format!("127.{}.{}", 64 + (pid % 128), (pid / 128 + number * 37) % 250 + 1);
        let mut folder = tempfile::Builder::new();
        let folder = folder.prefix("jaco-").tempdir().expect("temporary files can be made");
        Self {
            nodes: Vec::new(),
            id: String::new(),
            folder,
            network,
            port: u16::try_from(40_000 + (pid * 16 + number) % 20_000).unwrap_or(40_000),
            engine,
            settings: String::new(),
        }
    }

    /// Starts one more daemon, without a cluster.
    pub fn add_daemon(&mut self) -> &mut Node {
        let number = self.nodes.len() + 1;
        let name = format!("n{number}");
        let address = format!("{}.{number}:7000", self.network);
        let folder = self.folder.path().join(&name);
        // One engine, one router.
        let router = format!("{{runtime_dir: {}, port: {}}}", self.router().display(), self.port);
        let engine = self.engine.as_str();
        let settings = format!("engine: {engine}\nnet: {router}\n{}", self.settings);
        let mut node = Node::create(folder, &name, &address, &settings);
        node.start();
        self.nodes.push(node);
        self.nodes.last_mut().expect("just added")
    }

    /// Starts one more daemon at an address of its own, with further lines of `jacod.yaml`: `command` ends where
    /// the daemon's arguments begin.
    pub fn add_daemon_at(
        &mut self,
        address: &str,
        settings: &str,
        command: &mut Command,
    ) -> &mut Node {
        let name = format!("n{}", self.nodes.len() + 1);
        let folder = self.folder.path().join(&name);
        let settings = format!("engine: {}\n{settings}", self.engine.as_str());
        let mut node = Node::create(folder, &name, address, &settings);
        node.start_under(command);
        self.nodes.push(node);
        self.nodes.last_mut().expect("just added")
    }

    /// The folder of the router that its nodes share, if their networks are the cluster's.
    #[must_use]
    pub fn router(&self) -> PathBuf {
        self.folder.path().join("net")
    }

    /// Makes a daemon join the cluster of the first one.
    pub async fn join(&self, node: usize) {
        let token = self.join_token().await;
        answering(&self.nodes[node]).await;
        let server = self.nodes[0].address.clone();
        let joined = self.nodes[node].client();
        let joined = joined.join_cluster(v1::JoinClusterRequest { server, token }).await;
        joined.expect("a node with a token can join");
    }

    /// A join token for one node.
    pub async fn join_token(&self) -> String {
        let request = v1::IssueJoinTokenRequest { uses: 1, ..Default::default() };
        let answer = self.client().issue_join_token(request).await;
        answer.expect("a token can be issued").token
    }

    /// Waits until every running node answers and is ready, there is a leader, and as many nodes vote as the
    /// policy wants: before that, the cluster does not survive what a test may do next. One that was just
    /// started again is still ready for the others, and takes no request yet.
    pub async fn settled(&self) {
        let wanted = self.nodes.iter().filter(|node| node.is_running()).count();
        eventually("all nodes are ready", || async {
            for node in self.nodes.iter().filter(|node| node.is_running()) {
                let answer = node.client().status(v1::ClusterStatusRequest {}).await;
                answer.map_err(|error| format!("{}: {error}", node.name))?;
            }
            let status = self.status().await?;
            let ready = status.nodes.iter().filter(|node| node.status == "ready").count();
            let known = status.nodes.iter().all(|node| node.suffrage != "none");
            let voters = status.nodes.iter().filter(|node| node.suffrage == "voter").count();
            let voting = voters == voter_target(status.nodes.len());
            if ready >= wanted && known && voting && !status.leader.is_empty() {
                return Ok(());
            }
            Err(format!("{status:?}"))
        })
        .await;
    }

    async fn status(&self) -> Result<v1::ClusterStatusResponse, String> {
        let status = self.client().status(v1::ClusterStatusRequest {}).await;
        status.map_err(|error| error.to_string())
    }

    /// The node that leads, as soon as there is one that all running nodes agree on.
    pub async fn leader(&self) -> usize {
        eventually("there is a leader", || async {
            let mut leaders = Vec::new();
            for node in self.nodes.iter().filter(|node| node.is_running()) {
                let status = node.client().status(v1::ClusterStatusRequest {}).await;
                leaders.push(status.map_err(|error| error.to_string())?.leader);
            }
            leaders.dedup();
            let found = self.nodes.iter().position(|node| leaders == [node.name.clone()]);
            found.filter(|at| self.nodes[*at].is_running()).ok_or(format!("{leaders:?}"))
        })
        .await
    }

    /// A client of the first running node.
    ///
    /// # Panics
    /// When none runs.
    #[must_use]
    pub fn client(&self) -> Client {
        let node = self.nodes.iter().find(|node| node.is_running());
        node.expect("some node runs").client()
    }

    /// Runs the `jaco` program against a node.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn cli(&self, node: usize, args: &[&str]) -> Output {
        self.cli_of(&binary("jaco"), node, args)
    }

    /// Runs the `jaco` program of a version against a node.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn cli_of(&self, program: &Path, node: usize, args: &[&str]) -> Output {
        let mut command = Command::new(program);
        command.args(args).env("JACO_SOCKET", self.nodes[node].socket());
        command.env_remove("JACO_SERVER").env_remove("JACO_CONTEXT");
        command.output().expect("jaco can be started")
    }

    /// Everything at this moment, as a node sees it.
    ///
    /// # Errors
    /// When the node does not answer.
    pub async fn overview(&self, node: usize) -> Result<v1::StatusResponse, String> {
        let overview = self.nodes[node].client().read_status(v1::StatusRequest::default()).await;
        overview.map_err(|error| error.to_string())
    }

    /// Waits until the cluster is idle: nothing was committed for two seconds, by which the last
    /// observation and the last pass of the controller are written. Returns the raft index.
    ///
    /// # Panics
    /// When entries are still committed after what [`eventually`] waits.
    pub async fn idle_index(&self, node: usize) -> u64 {
        let mut last = (0, Instant::now());
        loop {
            let overview = eventually("the node answers", || self.overview(node)).await;
            if overview.raft_index != last.0 {
                last = (overview.raft_index, Instant::now());
            }
            if last.1.elapsed() >= IDLE {
                return last.0;
            }
            tokio::time::sleep(IDLE / 20).await;
        }
    }

    /// Waits until a deployment is `active`, as a node sees it, and shows it. The node first learns what
    /// was agreed on before: one that lags would show the convergence of the revision before.
    pub async fn converged(&self, node: usize, deployment: &str) -> v1::StatusResponse {
        eventually(&format!("{deployment} converges"), || async {
            let request = v1::StatusRequest { linearizable: true, ..v1::StatusRequest::default() };
            let status = self.nodes[node].client().read_status(request).await;
            let status = status.map_err(|error| error.to_string())?;
            let found = status.deployments.iter().find(|found| found.name == deployment);
            match found.map(|found| found.status.as_str()) {
                Some("active") => Ok(status),
                _ => Err(format!("{status:?}")),
            }
        })
        .await
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The daemons first: a living agent would put back what is removed here.
        self.nodes.clear();
        if self.engine == Engine::Docker && !self.id.is_empty() {
            docker::remove_all(&self.id);
        }
        router::remove(&self.router());
    }
}

/// Waits until a daemon answers on its socket.
async fn answering(node: &Node) {
    eventually(&format!("{} answers", node.name), || async {
        let status = node.client().status(v1::ClusterStatusRequest {}).await;
        status.map(drop).map_err(|error| format!("{error}; log:\n{}", node.log_tail()))
    })
    .await;
}
