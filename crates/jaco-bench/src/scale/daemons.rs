//! Real daemons on loopback with pretended containers: at rest, changes, watchers, and what becomes of replicas when daemons
//! restart, are lost or drained.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use jaco_client::{Client, fresh_request_id};
use jaco_proto::v1;
use jaco_testkit::{Cluster, Engine, Node};
use serde_json::json;

use super::follow::{Followers, Indices};
use super::{Busy, PATIENCE, SETTLE, Table, change, resident_mib};
use crate::Plan;
use crate::figure::say;
use crate::ours::Ours;

const DEPLOYMENTS: usize = 3;
const REPLICAS: usize = 100;

/// Watchers of one daemon, beside the one that each daemon has.
const MORE_WATCHERS: usize = 200;

/// How often it is looked whether all replicas run.
const LOOK: Duration = Duration::from_millis(50);

/// Who does what in the cluster, as positions among the daemons.
struct Roles {
    leader: usize,
    /// A voter that does not lead.
    voter: usize,
    learners: Vec<usize>,
}

pub(super) async fn measure(plan: Plan, count: usize, table: &mut Table) -> Result<()> {
    let name = |what: &str| format!("scale, {count} daemons: {what}");
    let begun = Instant::now();
    let mut ours = form(count).await?;
    table.note(name("formed"), "s", begun.elapsed().as_secs_f64());
    let begun = Instant::now();
    for number in 0..DEPLOYMENTS {
        ours.apply(&ours.client(0)?, model(number)).await?;
    }
    converged(&ours, None).await?;
    table.note(name("300 replicas running"), "s", begun.elapsed().as_secs_f64());

    let roles = Roles::of(&ours).await?;
    ours.cluster.idle_index(0).await;
    tokio::time::sleep(SETTLE).await;
    let mut rest = 0.0;
    for _ in 0..plan.rounds {
        rest = at_rest(&ours, &roles, plan.stretch, count, table).await?;
    }
    changes(&ours, &roles, rest, plan, count, table).await?;
    for _ in 0..plan.rounds {
        let lost = *roles.learners.last().context("there are learners")?;
        table.note(name("node lost to all replicas running"), "s", lose(&mut ours, lost).await?);
        let drained = *roles.learners.first().context("there are learners")?;
        table.note(name("node drained"), "s", drain(&ours, drained).await?);
    }
    let (each, all) = restart(&mut ours, &roles).await?;
    for took in each {
        table.note(name("daemon restarted"), "s", took);
    }
    table.note(name("all daemons restarted, one by one"), "s", all);
    Ok(())
}

/// A cluster of so many daemons, that joined one after the other.
async fn form(count: usize) -> Result<Ours> {
    let mut cluster = Cluster::without_nodes(Engine::Fake);
    cluster.add_daemon();
    let mut ours = Ours::form(cluster, Engine::Fake).await?;
    for node in 1..count {
        ours.cluster.add_daemon();
        ours.cluster.join(node).await;
    }
    ours.cluster.settled().await;
    Ok(ours)
}

fn model(number: usize) -> serde_json::Value {
    json!({"name": format!("d{number}"), "services": {"web": {
        "image": "jaco-hello:v1", "deploy": {"replicas": REPLICAS},
    }}})
}

/// Waits until all replicas run, and none of them on the node `without`.
async fn converged(ours: &Ours, without: Option<&str>) -> Result<()> {
    let begun = Instant::now();
    let wanted = DEPLOYMENTS * REPLICAS;
    let mut running = 0;
    while begun.elapsed() < PATIENCE {
        if let Ok(status) = ours.cluster.overview(0).await {
            let elsewhere = |it: &&v1::ReplicaInfo| without.is_none_or(|node| it.node != node);
            let replicas = status.replicas.iter().filter(elsewhere);
            running = replicas.filter(|it| it.state == "running").count();
            if running == wanted && status.replicas.len() == wanted {
                return Ok(());
            }
        }
        tokio::time::sleep(LOOK).await;
    }
    bail!("{running} of {wanted} replicas run after {PATIENCE:?}")
}

impl Roles {
    async fn of(ours: &Ours) -> Result<Self> {
        let nodes = &ours.cluster.nodes;
        let client = nodes[0].client();
        let status = client.status(v1::ClusterStatusRequest {}).await?;
        let at = |suffrage: &str| -> Vec<usize> {
            let are = status.nodes.iter().filter(|node| node.suffrage == suffrage);
            are.filter_map(|are| nodes.iter().position(|node| node.name == are.hostname)).collect()
        };
        let leader = nodes.iter().position(|node| node.name == status.leader);
        let leader = leader.context("a daemon leads")?;
        let voters = at("voter");
        say(&format!("{} voters, {} leads", voters.len(), status.leader));
        let voter = voters.into_iter().find(|voter| *voter != leader).context("one voter")?;
        // The first node is asked, and has to stay.
        Ok(Self {
            leader,
            voter,
            learners: at("learner").into_iter().filter(|it| *it > 0).collect(),
        })
    }
}

/// A stretch without a change; returns what the leader used, in percent of a core.
async fn at_rest(
    ours: &Ours,
    roles: &Roles,
    length: Duration,
    count: usize,
    table: &mut Table,
) -> Result<f64> {
    let name = |what: &str| format!("scale, {count} daemons at rest: {what}");
    let pids: Vec<u32> = ours.cluster.nodes.iter().map(Node::pid).collect();
    let index = ours.raft_index().await?;
    let sent = sent_on_loopback()?;
    let busy = pids.iter().map(|pid| Busy::of(*pid)).collect::<Result<Vec<_>>>()?;
    tokio::time::sleep(length).await;
    let percent = busy.iter().map(Busy::percent).collect::<Result<Vec<_>>>()?;
    let sent = sent_on_loopback()? - sent;
    let memory = pids.iter().map(|pid| resident_mib(*pid)).collect::<Result<Vec<_>>>()?;
    let commits = u32::try_from(ours.raft_index().await? - index)?;
    let learners = |all: &[f64]| median(roles.learners.iter().map(|at| all[*at]).collect());
    table.note(name("leader, processor"), "% core", percent[roles.leader]);
    table.note(name("leader, memory"), "MiB", memory[roles.leader]);
    table.note(name("a voter, processor"), "% core", percent[roles.voter]);
    table.note(name("a voter, memory"), "MiB", memory[roles.voter]);
    table.note(name("median of the others, processor"), "% core", learners(&percent));
    table.note(name("median of the others, memory"), "MiB", learners(&memory));
    table.note(name("raft commits"), "", f64::from(commits));
    let rate = f64::from(u32::try_from(sent / 1000)?) / length.as_secs_f64();
    table.note(name("sent by all"), "kB/s", rate);
    Ok(percent[roles.leader])
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_unstable_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or_default()
}

/// Bytes that were sent over the loopback device so far, by whomever.
fn sent_on_loopback() -> Result<u64> {
    let text = std::fs::read_to_string("/sys/class/net/lo/statistics/tx_bytes")?;
    Ok(text.trim().parse()?)
}

/// Changes while the audit log of each daemon is followed, while the status of each is watched, and while many more watch
/// that of the leader.
async fn changes(
    ours: &Ours,
    roles: &Roles,
    rest: f64,
    plan: Plan,
    count: usize,
    table: &mut Table,
) -> Result<()> {
    let name = |what: &str| format!("scale, {count} daemons: {what}");
    let nodes = &ours.cluster.nodes;
    let leader = (nodes[roles.leader].pid(), rest);
    let client = nodes[roles.leader].client();
    let indices = Indices::follow(&client);
    let of_each = || -> Vec<Client> { nodes.iter().map(Node::client).collect() };
    for _ in 0..plan.rounds {
        let followers = Followers::of_audit(of_each()).await?;
        let seen = change(&client, &indices, &followers.heard, leader).await?;
        drop(followers);
        table.note(name("change seen by all p50"), "ms", seen.p50_ms);
        table.note(name("change seen by all p99"), "ms", seen.p99_ms);
        table.note(name("leader, processor per change"), "ms", seen.processor_ms);
        let mut watchers = of_each();
        let followers = Followers::of_status(watchers.clone()).await?;
        let seen = change(&client, &indices, &followers.heard, leader).await?;
        drop(followers);
        table.note(name("status of all shows a change p50"), "ms", seen.p50_ms);
        table.note(name("status of all shows a change p99"), "ms", seen.p99_ms);
        watchers.extend((0..MORE_WATCHERS).map(|_| nodes[roles.leader].client()));
        let followers = Followers::of_status(watchers).await?;
        let seen = change(&client, &indices, &followers.heard, leader).await?;
        table.note(name("status of all shows a change, 200 more watchers p99"), "ms", seen.p99_ms);
        let what = name("leader, processor per change, 200 more watchers");
        table.note(what, "ms", seen.processor_ms);
    }
    Ok(())
}

/// Kills a daemon with all that it runs, until all replicas run elsewhere, and brings it back.
async fn lose(ours: &mut Ours, node: usize) -> Result<f64> {
    ours.cluster.nodes[node].kill();
    let name = ours.cluster.nodes[node].name.clone();
    let begun = Instant::now();
    converged(ours, Some(&name)).await?;
    let took = begun.elapsed().as_secs_f64();
    ours.cluster.nodes[node].start();
    ours.cluster.settled().await;
    Ok(took)
}

/// Drains a node until none of its replicas is left, and takes it back.
async fn drain(ours: &Ours, node: usize) -> Result<f64> {
    let name = &ours.cluster.nodes[node].name;
    let client = ours.cluster.nodes[0].client();
    let set = async |availability: &str| -> Result<()> {
        let request = v1::SetAvailabilityRequest {
            hostname: name.clone(),
            availability: availability.to_owned(),
            request_id: fresh_request_id(),
            drain_timeout_ms: 0,
        };
        client.set_availability(request).await?;
        Ok(())
    };
    let begun = Instant::now();
    set("draining").await?;
    converged(ours, Some(name)).await?;
    let took = begun.elapsed().as_secs_f64();
    set("active").await?;
    Ok(took)
}

/// Restarts the daemons one after the other, the leader last: seconds of each, and of all. The next one waits until one has
/// all that is committed.
async fn restart(ours: &mut Ours, roles: &Roles) -> Result<(Vec<f64>, f64)> {
    let count = ours.cluster.nodes.len();
    let order = (0..count).filter(|node| *node != roles.leader).chain([roles.leader]);
    let begun = Instant::now();
    let mut each = Vec::new();
    for node in order {
        let began = Instant::now();
        ours.cluster.nodes[node].stop();
        ours.cluster.nodes[node].start();
        returned(&ours.cluster.nodes[node]).await?;
        each.push(began.elapsed().as_secs_f64());
    }
    ours.cluster.settled().await;
    converged(ours, None).await?;
    Ok((each, begun.elapsed().as_secs_f64()))
}

/// Waits until a daemon answers with everything that is committed.
async fn returned(node: &Node) -> Result<()> {
    let begun = Instant::now();
    loop {
        let request = v1::StatusRequest {
            linearizable: true,
            scope: v1::StatusScope::Nodes.into(),
            ..v1::StatusRequest::default()
        };
        match node.client().read_status(request).await {
            Ok(_) => return Ok(()),
            Err(error) if begun.elapsed() > PATIENCE => return Err(error.into()),
            Err(_) => tokio::time::sleep(LOOK).await,
        }
    }
}
