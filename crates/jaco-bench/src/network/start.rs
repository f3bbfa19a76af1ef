//! How long ten replicas in a network of their own take from the request to running, over three nodes.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::{IMAGE, LIMIT, Nodes};
use crate::Plan;
use crate::docker::{get_at, post_at};
use crate::figure::{Figure, say};
use crate::load::millis;
use crate::model::{self, Health, Network, REPLICAS};
use crate::swarm::{LOOK, WHO};

const DEPLOYMENT: &str = "start";

/// The names of Swarm's service and of its network.
const SERVICE: &str = "jaco-bench-start";

/// Measures both in turns. Each makes its network, too.
pub(super) async fn measure(nodes: &Nodes, plan: Plan) -> Result<Vec<Figure>> {
    let mut took = (Vec::new(), Vec::new());
    for round in 1..=plan.rounds {
        let own = deploy(nodes).await?;
        let theirs = tokio::task::block_in_place(|| deploy_swarm(nodes))?;
        say(&format!("10 replicas in a network, round {round}: {own:?}; {WHO} {theirs:?}"));
        took.0.push(millis(own) / 1e3);
        took.1.push(millis(theirs) / 1e3);
    }
    let name = "net, 10 replicas running, in a network over three nodes";
    Ok(vec![Figure::beside(name, "s", took.0, WHO, took.1)])
}

async fn deploy(nodes: &Nodes) -> Result<Duration> {
    let model = model::compose(DEPLOYMENT, IMAGE, Health::Unchecked, Network::Project);
    let begun = Instant::now();
    nodes.ours.apply(&nodes.client(), model).await?;
    let running = |replicas: &[jaco_proto::v1::ReplicaInfo]| {
        replicas.iter().filter(|replica| replica.state == "running").count()
    };
    while running(&nodes.replicas(DEPLOYMENT).await?) < REPLICAS {
        ensure!(begun.elapsed() < LIMIT, "{REPLICAS} replicas do not run after {LIMIT:?}");
        tokio::time::sleep(LOOK).await;
    }
    let took = begun.elapsed();
    nodes.delete(DEPLOYMENT, 0).await?;
    Ok(took)
}

fn deploy_swarm(nodes: &Nodes) -> Result<Duration> {
    let manager = nodes.engines.members.first().context("there are three")?;
    let socket = manager.socket();
    let service = json!({
        "Name": SERVICE,
        "TaskTemplate": {"ContainerSpec": {"Image": IMAGE}, "Networks": [{"Target": SERVICE}]},
        "Mode": {"Replicated": {"Replicas": REPLICAS}},
        "EndpointSpec": {"Mode": "dnsrr"},
    });
    let begun = Instant::now();
    post_at(&socket, "/networks/create", &json!({"Name": SERVICE, "Driver": "overlay"}))?;
    post_at(&socket, "/services/create", &service)?;
    let filters = format!("%7B%22service%22%3A%5B%22{SERVICE}%22%5D%7D");
    let tasks = format!("/tasks?filters={filters}");
    loop {
        let found = get_at(&socket, &tasks)?;
        let found = found.as_array().context("tasks are a list")?;
        if found.iter().filter(|task| task["Status"]["State"] == "running").count() == REPLICAS {
            break;
        }
        ensure!(begun.elapsed() < LIMIT, "swarm did not start {REPLICAS} replicas");
        std::thread::sleep(LOOK);
    }
    let took = begun.elapsed();
    manager.docker(&["service", "rm", SERVICE])?;
    nodes.until_running(0)?;
    remove_network(nodes)?;
    Ok(took)
}

/// Waits until the manager takes the removal of the network: the tasks of a removed service end a moment after their containers.
fn remove_network(nodes: &Nodes) -> Result<()> {
    let manager = nodes.engines.members.first().context("there are three")?;
    let begun = Instant::now();
    while let Err(error) = manager.docker(&["network", "rm", SERVICE]) {
        ensure!(begun.elapsed() < LIMIT, "{error:#}");
        std::thread::sleep(LOOK);
    }
    Ok(())
}
