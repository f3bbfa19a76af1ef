//! Networks over three nodes, each with an engine, a daemon and a router of its own: how soon routers and names follow the
//! cluster, and how containers reach each other and start, beside Docker Swarm on the same engines.

mod asker;
mod edges;
mod follow;
mod names;
mod spread;
mod start;
mod traffic;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use jaco_client::{Client, fresh_request_id};
use jaco_proto::v1;
use jaco_testkit::{Cluster, Engine, binary, eventually_within, router};
use serde_json::Value;

use crate::Plan;
use crate::engines::Engines;
use crate::figure::Figure;
use crate::ours::Ours;
use crate::swarm::LOOK;
use crate::swarm_trio;

const IMAGE: &str = "jaco-hello:v1";
const LIMIT: Duration = Duration::from_secs(120);

/// Measures all of it.
pub(crate) async fn measure(plan: Plan) -> Result<Vec<Figure>> {
    let mut nodes = Nodes::start().await?;
    // These are ours alone, so the engines are no swarm yet.
    let mut figures = names::measure(&nodes, plan).await?;
    figures.extend(edges::measure(&nodes, plan).await?);
    tokio::task::block_in_place(|| swarm_trio::join(&nodes.engines))?;
    figures.extend(start::measure(&nodes, plan).await?);
    figures.extend(traffic::measure(&mut nodes, plan).await?);
    Ok(figures)
}

/// A cluster with networks of its own on three engines. The daemons end first, then the routers, then the engines.
struct Nodes {
    ours: Ours,
    routers: Routers,
    engines: Engines,
}

/// The folders of the routers. They outlive their daemons, so they are removed.
struct Routers(Vec<PathBuf>);

impl Drop for Routers {
    fn drop(&mut self) {
        self.0.iter().for_each(|folder| router::remove(folder));
    }
}

impl Nodes {
    async fn start() -> Result<Self> {
        let engines = tokio::task::block_in_place(|| Engines::start(IMAGE))?;
        let mut cluster = Cluster::without_nodes(Engine::Docker);
        let mut routers = Routers(Vec::new());
        for (at, member) in engines.members.iter().enumerate() {
            let router = engines.folder().join(format!("router{at}"));
            let settings = format!(
                "docker_host: unix://{}\nnet: {{runtime_dir: {}, port: 51820}}\n",
                member.socket().display(),
                router.display()
            );
            let address = format!("{}:7000", member.address);
            let mut command = member.inside();
            cluster.add_daemon_at(&address, &settings, command.arg(binary("jacod")));
            routers.0.push(router);
        }
        // What they leave is on these engines, and ends with them.
        let ours = Ours::form(cluster, Engine::Fake).await?;
        let nodes = Self { ours, routers, engines };
        let enabled = nodes.ours.cluster.cli(0, &["network", "enable"]);
        ensure!(enabled.status.success(), "networks cannot be enabled: {enabled:?}");
        nodes.have_routers().await;
        Ok(nodes)
    }

    async fn have_routers(&self) {
        eventually_within(LIMIT, "all nodes have a router", || async {
            let nodes = self.ours.cluster.overview(0).await?.nodes;
            let works = |node: &v1::NodeInfo| ["kernel", "userspace"].contains(&node.net.as_str());
            let done = nodes.len() == self.routers.0.len() && nodes.iter().all(works);
            if done { Ok(()) } else { Err(format!("{nodes:?}")) }
        })
        .await;
    }

    fn client(&self) -> Client {
        self.ours.cluster.nodes[0].client()
    }

    /// Applies a compose model and waits until so many replicas run; returns them.
    async fn deploy(&self, model: Value, replicas: usize) -> Result<Vec<v1::ReplicaInfo>> {
        let name = model["name"].as_str().context("a model has a name")?.to_owned();
        self.ours.apply(&self.client(), model).await?;
        self.ours.running(&name, replicas, LIMIT).await;
        self.replicas(&name).await
    }

    async fn replicas(&self, deployment: &str) -> Result<Vec<v1::ReplicaInfo>> {
        let mut all = self.ours.cluster.overview(0).await.map_err(anyhow::Error::msg)?.replicas;
        all.retain(|replica| replica.deployment == deployment);
        Ok(all)
    }

    /// Deletes a deployment, and waits until the engines run so many containers.
    async fn delete(&self, deployment: &str, left: usize) -> Result<()> {
        let (deployment, request_id) = (deployment.to_owned(), fresh_request_id());
        self.client().delete(v1::DeleteRequest { deployment, request_id }).await?;
        tokio::task::block_in_place(|| self.until_running(left))
    }

    /// Waits until the engines run so many containers, whoever started them.
    fn until_running(&self, wanted: usize) -> Result<()> {
        let begun = Instant::now();
        while self.engines.running()? != wanted {
            ensure!(begun.elapsed() < LIMIT, "the engines do not run {wanted} containers");
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

/// Which node runs a replica: `n1` is the first.
fn place_of(replica: &v1::ReplicaInfo) -> Result<usize> {
    let number = replica.node.strip_prefix('n').and_then(|number| number.parse::<usize>().ok());
    number.and_then(|number| number.checked_sub(1)).context("nodes are n1 and so on")
}
