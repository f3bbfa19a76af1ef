//! How soon a change of the cluster is in the edges of all nodes, and what router and edge cost where nothing happens.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use jaco_edge::service::EdgeClient;
use jaco_testkit::{eventually_within, router};
use serde_json::{Value, json};
use tokio::task::block_in_place;

use super::follow::{Follow, Followed, edge_folder};
use super::spread::Spread;
use super::{IMAGE, LIMIT, Nodes, place_of};
use crate::Plan;
use crate::docker::post_at;
use crate::figure::{Figure, say};
use crate::ours::NODES;
use crate::proc::{processor_time, resident_bytes};

const DEPLOYMENT: &str = "edges";

/// So many are killed in a round, each once.
const REPLICAS: usize = 12;

/// Two nodes that have just been busy still have things to note.
const SETTLE: Duration = Duration::from_secs(10);

/// A service that all nodes answer for.
fn model() -> Value {
    let port = json!({"target": 80, "published": "28080"});
    json!({"name": DEPLOYMENT, "services": {
        "web": {"image": IMAGE, "deploy": {"replicas": REPLICAS}, "ports": [port]},
    }})
}

/// Kills all replicas of a service in each round; then looks at the processes while nothing happens.
pub(super) async fn measure(nodes: &Nodes, plan: Plan) -> Result<Vec<Figure>> {
    let mut applied = Spread::default();
    for round in 1..=plan.rounds {
        let told = one_round(nodes).await?;
        let count = told.len();
        say(&format!("edges, round {round}: {count} changes applied: {told:.1?}"));
        applied.add(told);
    }
    let mut figures = applied.figures("commit to applied in all edges");
    figures.extend(idle(nodes, plan).await?);
    nodes.delete(DEPLOYMENT, 0).await?;
    Ok(figures)
}

async fn one_round(nodes: &Nodes) -> Result<Vec<Duration>> {
    let victims = nodes.deploy(model(), REPLICAS).await?;
    for folder in &nodes.routers.0 {
        let folder = edge_folder(folder);
        eventually_within(LIMIT, "all nodes have an edge", || async {
            EdgeClient::connect(&folder).await.map(drop).map_err(|error| error.to_string())
        })
        .await;
    }
    let follow = Follow::start(nodes, DEPLOYMENT, Followed::Edges).await?;
    for victim in &victims {
        let socket = nodes.engines.members[place_of(victim)?].socket();
        let path = format!("/containers/{}/kill", victim.container_id);
        block_in_place(|| post_at(&socket, &path, &Value::Null))?;
        restarted(nodes, &victim.container_id).await?;
    }
    let told = follow.end().await?;
    ensure!(told.len() >= victims.len(), "only {} changes were applied", told.len());
    nodes.delete(DEPLOYMENT, 0).await?;
    Ok(told)
}

/// Waits until another container runs in the place of one that was killed.
async fn restarted(nodes: &Nodes, killed: &str) -> Result<()> {
    let begun = Instant::now();
    loop {
        let replicas = nodes.replicas(DEPLOYMENT).await?;
        let running = replicas.iter().filter(|replica| replica.state == "running");
        let running: Vec<_> = running.map(|replica| replica.container_id.as_str()).collect();
        if running.len() == REPLICAS && !running.contains(&killed) {
            return Ok(());
        }
        ensure!(begun.elapsed() < LIMIT, "a replica that was killed has no successor");
        tokio::time::sleep(crate::swarm::LOOK).await;
    }
}

/// The resident memory of a router and an edge together, in MiB, and what they use of a processor, in percent. Of the
/// nodes the worst counts.
async fn idle(nodes: &Nodes, plan: Plan) -> Result<Vec<Figure>> {
    nodes.deploy(model(), REPLICAS).await?;
    tokio::time::sleep(SETTLE).await;
    let (mut memory, mut processor) = (Vec::new(), Vec::new());
    for round in 1..=plan.rounds {
        let pairs = nodes.routers.0.iter().map(|folder| {
            let router = router::pid(folder).context("a node has no router")?;
            let edge = router::edges(folder);
            Ok([router, *edge.first().context("a node has no edge")?])
        });
        let pairs = pairs.collect::<Result<Vec<_>>>()?;
        ensure!(pairs.len() == NODES, "one pair on each node");
        let used = |pair: &[u32; 2]| pair.iter().map(|pid| processor_time(*pid)).sum();
        let before = pairs.iter().map(used).collect::<Result<Vec<Duration>>>()?;
        tokio::time::sleep(plan.stretch * 2).await;
        let (mut most, mut busiest) = (0.0_f64, 0.0_f64);
        for (pair, before) in pairs.iter().zip(before) {
            let after: Duration = pair.iter().map(|pid| processor_time(*pid)).sum::<Result<_>>()?;
            let share = (after - before).as_secs_f64() / (plan.stretch * 2).as_secs_f64();
            let bytes: u64 = pair.iter().map(|pid| resident_bytes(*pid)).sum::<Result<_>>()?;
            most = most.max(f64::from(u32::try_from(bytes / 1024)?) / 1024.0);
            busiest = busiest.max(share * 100.0);
        }
        say(&format!("router and edge, round {round}: {most:.1} MiB, {busiest:.2} % of a core"));
        memory.push(most);
        processor.push(busiest);
    }
    Ok(vec![
        Figure::alone("net, idle memory of router and edge", "MiB", memory),
        Figure::alone("net, idle processor of router and edge", "% core", processor),
    ])
}
