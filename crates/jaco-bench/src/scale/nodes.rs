//! Seven real daemons that vote, and far more nodes that this program plays: they send heartbeats and answer appends as
//! learners.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use jaco_client::Client;
use jaco_proto::v1;
use jaco_testkit::{Cluster, Engine, eventually_within};
use serde_json::json;

use super::follow::Indices;
use super::{Busy, PATIENCE, SETTLE, Table, change, resident_mib};
use crate::Plan;
use crate::figure::say;
use crate::heard::by_all;
use crate::load::{millis, quantile};
use crate::ours::Ours;
use crate::played::{Consensus, Played};

/// As many as vote in a large cluster: none that is played votes.
const VOTERS: usize = 7;

/// Replicas of each played node.
const REPLICAS_PER_NODE: usize = 3;

/// Small deployments of a round, each of which is planned at once.
const PLANNED: usize = 20;

pub(super) async fn measure(plan: Plan, count: usize, table: &mut Table) -> Result<()> {
    let name = |what: &str| format!("scale, {count} played nodes: {what}");
    let mut cluster = Cluster::without_nodes(Engine::Fake);
    for _ in 0..VOTERS {
        cluster.add_daemon();
    }
    let ours = Ours::form(cluster, Engine::Fake).await?;
    ensure!(ours.cluster.leader().await == 0, "the first daemon does not lead");
    let (leader, follower) = (ours.cluster.nodes[0].pid(), ours.cluster.nodes[1].pid());
    let client = ours.cluster.nodes[0].client();

    let begun = Instant::now();
    let played = Played::join(&ours, count, Consensus::Learners).await?;
    all_ready(&client, VOTERS + count).await?;
    by_all(&played.heard, ours.raft_index().await?, PATIENCE).await?;
    table.note(name("joined"), "s", begun.elapsed().as_secs_f64());
    let begun = Instant::now();
    let replicas = count * REPLICAS_PER_NODE;
    ours.apply(&client, model("d0", replicas)).await?;
    played.settle(&client, replicas).await?;
    let took = begun.elapsed().as_secs_f64();
    table.note(name("three replicas of each running"), "s", took);

    tokio::time::sleep(SETTLE).await;
    let mut rest = 0.0;
    for _ in 0..plan.rounds {
        let index = ours.raft_index().await?;
        let (leads, votes, plays) =
            (Busy::of(leader)?, Busy::of(follower)?, Busy::of(std::process::id())?);
        tokio::time::sleep(plan.stretch).await;
        rest = leads.percent()?;
        table.note(name("leader at rest, processor"), "% core", rest);
        table.note(name("leader at rest, memory"), "MiB", resident_mib(leader)?);
        table.note(name("a voter at rest, processor"), "% core", votes.percent()?);
        table.note(name("a voter at rest, memory"), "MiB", resident_mib(follower)?);
        say(&format!("this program: {:.1} % of a core", plays.percent()?));
        let commits = u32::try_from(ours.raft_index().await? - index)?;
        table.note(name("raft commits at rest"), "", f64::from(commits));
    }
    let indices = Indices::follow(&client);
    for round in 0..plan.rounds {
        let told = change(&client, &indices, &played.heard, (leader, rest)).await?;
        table.note(name("change told to all p50"), "ms", told.p50_ms);
        table.note(name("change told to all p99"), "ms", told.p99_ms);
        table.note(name("leader, processor per change"), "ms", told.processor_ms);
        let mut took = Vec::new();
        for number in 0..PLANNED {
            took.push(planned(&ours, &client, &played, &format!("r{round}x{number}")).await?);
        }
        took.sort_unstable();
        table.note(
            name("deployment planned and told to all p50"),
            "ms",
            millis(quantile(&took, 50)),
        );
        table.note(
            name("deployment planned and told to all p99"),
            "ms",
            millis(quantile(&took, 99)),
        );
    }
    let mut silent = Vec::new();
    for round in 1..=plan.rounds {
        silent.push(format!("p{}", round * count / (plan.rounds + 1)));
        let (took, alarms) = silence(&client, &played, &silent).await?;
        table.note(name("unreachable node found"), "s", took.as_secs_f64());
        table.note(name("others taken for down"), "", f64::from(u32::try_from(alarms)?));
    }
    ensure!(ours.cluster.leader().await == 0, "the leader has changed meanwhile");
    Ok(())
}

fn model(name: &str, replicas: usize) -> serde_json::Value {
    json!({"name": name, "services": {"web": {
        "image": "web:1", "deploy": {"replicas": replicas}, "network_mode": "bridge",
    }}})
}

/// Waits until all nodes are ready and members of consensus.
async fn all_ready(client: &Client, wanted: usize) -> Result<()> {
    eventually_within(PATIENCE, "all nodes are ready", || async {
        let status = client.status(v1::ClusterStatusRequest {}).await;
        let status = status.map_err(|error| error.to_string())?;
        let is_there = |node: &&v1::NodeInfo| node.status == "ready" && node.suffrage != "none";
        match status.nodes.iter().filter(is_there).count() {
            ready if ready == wanted => Ok(()),
            ready => Err(format!("{ready} of {wanted}")),
        }
    })
    .await;
    Ok(())
}

/// From the request of a deployment of one replica to the moment when the last played node knows where it runs.
async fn planned(ours: &Ours, client: &Client, played: &Played, name: &str) -> Result<Duration> {
    let request = v1::StatusRequest { deployment: name.to_owned(), ..v1::StatusRequest::default() };
    let mut statuses = client.watch_status(request).await?;
    statuses.next().await?.context("a watch begins with the status")?;
    let asked = Instant::now();
    ours.apply(client, model(name, 1)).await?;
    loop {
        let status = statuses.next().await?.context("a watch does not end")?;
        if let Some(index) = status.replicas.iter().map(|it| it.raft_index).find(|it| *it > 0) {
            return Ok(by_all(&played.heard, index, PATIENCE).await?.duration_since(asked));
        }
    }
}

/// Ends the heartbeats of the last of `silent`: how long until it counts as down, and how many others were said to be down
/// on the way, those before it left out.
async fn silence(client: &Client, played: &Played, silent: &[String]) -> Result<(Duration, usize)> {
    let (new, _) = silent.split_last().context("one is to be silent")?;
    let request =
        v1::StatusRequest { scope: v1::StatusScope::Nodes.into(), ..v1::StatusRequest::default() };
    let mut statuses = client.watch_status(request).await?;
    played.silence(new);
    let begun = Instant::now();
    let mut alarms = 0;
    loop {
        let next = tokio::time::timeout(PATIENCE, statuses.next()).await?;
        let status = next?.context("a watch does not end")?;
        let down: Vec<&String> = status
            .nodes
            .iter()
            .filter(|node| node.status != "ready")
            .map(|node| &node.hostname)
            .collect();
        alarms = alarms.max(down.iter().filter(|name| !silent.contains(name)).count());
        if down.contains(&new) {
            return Ok((begun.elapsed(), alarms));
        }
    }
}
