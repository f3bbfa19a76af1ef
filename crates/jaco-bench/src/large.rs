//! How long commands take in a cluster as large as one may be: 100,000 replicas on 100 nodes.
//!
//! One of the nodes is a real daemon, which leads; the others are played by this program ([`Played`]). What is timed is the
//! whole `jaco` program, from its start to its end, over the unix socket of the leader.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use jaco_testkit::{Cluster, Engine, binary};
use serde_json::json;
use tokio::task::block_in_place;

use crate::Plan;
use crate::figure::{Figure, say};
use crate::ours::Ours;
use crate::played::{Consensus, Played};
use crate::proc::resident_bytes;

const NODES: usize = 100;
const DEPLOYMENTS: usize = 10;
const REPLICAS: usize = 10_000;

/// Each command, and how the table calls it.
const COMMANDS: [(&str, &[&str]); 9] = [
    ("status", &["status"]),
    ("status of one deployment", &["status", "d3"]),
    ("node ls", &["node", "ls"]),
    ("get replicas", &["get", "replicas"]),
    ("get replicas, JSON", &["get", "replicas", "-o", "json"]),
    ("explain", &["explain", "d3/web"]),
    ("whatif", &["whatif", "--lose", "p50"]),
    ("top", &["top"]),
    ("audit", &["audit"]),
];

/// Fills a cluster, then asks in turns.
pub(crate) async fn measure(plan: Plan) -> Result<Vec<Figure>> {
    let mut cluster = Cluster::without_nodes(Engine::Fake);
    cluster.add_daemon();
    let ours = Ours::form(cluster, Engine::Fake).await?;
    let played = Played::join(&ours, NODES - 1, Consensus::Absent).await?;
    let client = ours.cluster.nodes[0].client();
    let mut took: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut note = |what: &str, time: Duration| {
        say(&format!("{what}: {time:?}"));
        took.entry(what.to_owned()).or_default().push(time.as_secs_f64());
    };
    let begun = Instant::now();
    for number in 0..DEPLOYMENTS {
        let time = apply(&ours, number, "web:1")?;
        if number + 1 == DEPLOYMENTS {
            note("apply of 10,000 more", time);
        }
        played.settle(&client, (number + 1) * REPLICAS).await?;
    }
    let placed = begun.elapsed();
    say(&format!("{} replicas on {NODES} nodes after {placed:?}", DEPLOYMENTS * REPLICAS));
    for _ in 0..plan.rounds.max(1) {
        for (what, arguments) in COMMANDS {
            note(what, jaco(&ours, arguments)?);
        }
        note("apply without a change", apply(&ours, 0, "web:1")?);
        note("plan", planned(&ours)?);
    }
    let memory = f64::from(u32::try_from(resident_bytes(ours.cluster.nodes[0].pid())? >> 20)?);
    for number in 0..plan.rounds.clamp(1, DEPLOYMENTS) {
        note("delete", jaco(&ours, &["delete", &format!("d{number}"), "--yes", "--detach"])?);
    }
    let mut figures: Vec<Figure> = took
        .into_iter()
        .map(|(what, all)| Figure::alone(format!("large, {what}"), "s", all))
        .collect();
    figures.push(Figure::alone("large, memory of the leader", "MiB", vec![memory]));
    Ok(figures)
}

/// Applies one of the deployments by the command line.
fn apply(ours: &Ours, number: usize, image: &str) -> Result<Duration> {
    let file = write_model(ours, number, image)?;
    jaco(ours, &["apply", "--detach", "-f", &file])
}

fn planned(ours: &Ours) -> Result<Duration> {
    let file = write_model(ours, 1, "web:2")?;
    jaco(ours, &["plan", "-f", &file])
}

fn write_model(ours: &Ours, number: usize, image: &str) -> Result<String> {
    let service =
        json!({"image": image, "deploy": {"replicas": REPLICAS}, "network_mode": "bridge"});
    let model = json!({"name": format!("d{number}"), "services": {"web": service}});
    let path = ours.cluster.nodes[0].folder().join(format!("compose-{number}.yaml"));
    std::fs::write(&path, model.to_string())?;
    path.to_str().map(str::to_owned).context("the path of temporary files is text")
}

/// Runs the program to its end.
fn jaco(ours: &Ours, arguments: &[&str]) -> Result<Duration> {
    let mut command = Command::new(binary("jaco"));
    command.args(arguments).env("JACO_SOCKET", ours.cluster.nodes[0].socket());
    command.env_remove("JACO_SERVER").env_remove("JACO_CONTEXT").stdin(Stdio::null());
    let begun = Instant::now();
    let output = block_in_place(|| command.output())?;
    let took = begun.elapsed();
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "jaco {arguments:?}: {}, {said}", output.status);
    Ok(took)
}
