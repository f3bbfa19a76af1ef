//! How soon a change of the cluster is in all routers, and a container that was killed in no answer of any resolver.

use std::net::Ipv4Addr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use jaco_proto::v1;
use serde_json::{Value, json};

use super::asker::Asker;
use super::follow::{Follow, Followed};
use super::spread::Spread;
use super::{IMAGE, LIMIT, Nodes, place_of};
use crate::Plan;
use crate::docker::post_at;
use crate::figure::{Figure, say};
use crate::ours::NODES;

const DEPLOYMENT: &str = "names";

/// So many are killed in a round, one after the other, each once: a replica that fails again and again is not
/// restarted at once.
const REPLICAS: usize = 12;

/// A service, and one that asks for it on each node.
fn model() -> Value {
    json!({"name": DEPLOYMENT, "services": {
        "asker": {"image": IMAGE, "deploy": {"mode": "global"}},
        "db": {"image": IMAGE, "deploy": {"replicas": REPLICAS}},
    }})
}

/// Kills all replicas of a service in each round.
pub(super) async fn measure(nodes: &Nodes, plan: Plan) -> Result<Vec<Figure>> {
    let (mut gone, mut applied) = (Spread::default(), Spread::default());
    for round in 1..=plan.rounds {
        let (killed, told) = one_round(nodes).await?;
        let count = told.len();
        say(&format!("names, round {round}: {killed:.0?}; {count} changes applied: {told:.1?}"));
        gone.add(killed);
        applied.add(told);
    }
    let mut figures = gone.figures("killed to gone from all names");
    figures.extend(applied.figures("commit to applied in all routers and names"));
    Ok(figures)
}

async fn one_round(nodes: &Nodes) -> Result<(Vec<Duration>, Vec<Duration>)> {
    let replicas = nodes.deploy(model(), NODES + REPLICAS).await?;
    let (askers, victims): (Vec<_>, Vec<_>) =
        replicas.into_iter().partition(|replica| replica.service == "asker");
    let open = |replica: &v1::ReplicaInfo| {
        let member = &nodes.engines.members[place_of(replica)?];
        Asker::open(&member.process_of(&replica.container_id)?)
    };
    let askers = askers.iter().map(open).collect::<Result<Vec<_>>>()?;
    ensure!(askers.len() == NODES, "one asks on each node");
    let follow = Follow::start(nodes, DEPLOYMENT, Followed::Routers).await?;
    let mut killed = Vec::new();
    for victim in &victims {
        killed.push(tokio::task::block_in_place(|| kill(nodes, &askers, victim))?);
        nodes.ours.running(DEPLOYMENT, NODES + REPLICAS, LIMIT).await;
    }
    let told = follow.end().await?;
    ensure!(told.len() >= victims.len(), "only {} changes were applied", told.len());
    nodes.delete(DEPLOYMENT, 0).await?;
    Ok((killed, told))
}

/// From the request to kill a container to the last of the first answers without it.
fn kill(nodes: &Nodes, askers: &[Asker], victim: &v1::ReplicaInfo) -> Result<Duration> {
    let address = victim.addresses.first().context("it has an address")?;
    let address: Ipv4Addr = address.address.parse()?;
    askers.iter().try_for_each(|asker| asker.until_known("db", address))?;
    let socket = nodes.engines.members[place_of(victim)?].socket();
    let path = format!("/containers/{}/kill", victim.container_id);
    let begun = Instant::now();
    thread::scope(|scope| {
        let gone = |asker| scope.spawn(move || Asker::until_gone(asker, "db", address));
        let watchers: Vec<_> = askers.iter().map(gone).collect();
        post_at(&socket, &path, &Value::Null)?;
        let mut last = begun;
        for watcher in watchers {
            let at =
                watcher.join().map_err(|_| anyhow::anyhow!("a thread that asks has ended"))??;
            last = last.max(at);
        }
        Ok(last - begun)
    })
}
