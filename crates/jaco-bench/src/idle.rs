//! What a daemon costs when there is nothing to do but keep ten replicas alive.

use std::time::Duration;

use anyhow::Result;
use jaco_testkit::Engine;
use serde_json::json;

use crate::Plan;
use crate::figure::{Figure, say};
use crate::ours::{NODES, Ours};
use crate::proc::{processor_time, resident_bytes};
use crate::scrape::scrape;

const DEPLOYMENT: &str = "idle";
const REPLICAS: usize = 10;

/// A cluster that has just started still has things to note about itself, and a daemon unmaps what its start has run once a
/// minute (ADR 0169).
const SETTLE: Duration = Duration::from_secs(75);

/// More often than scrapers do by default, so that a short stretch has some.
const SCRAPED_EVERY: Duration = Duration::from_secs(5);

/// Watches the daemons for `plan.rounds` stretches. Of the three daemons the worst counts.
pub(crate) async fn measure(plan: Plan, engine: Engine) -> Result<Vec<Figure>> {
    let ours = Ours::start(engine).await?;
    let model = json!({"name": DEPLOYMENT, "services": {"web": {
        "image": "jaco-hello:v1", "deploy": {"replicas": REPLICAS},
    }}});
    ours.apply(&ours.client(0)?, model).await?;
    ours.running(DEPLOYMENT, REPLICAS, Duration::from_secs(60)).await;
    tokio::time::sleep(SETTLE).await;
    let mut seen = Seen::default();
    for round in 1..=plan.rounds {
        let [memory, processor, commits] = stretch(&ours, plan.stretch).await?;
        say(&format!(
            "idle, round {round}: {memory:.1} MiB, {processor:.2} % of a core, {commits} commits"
        ));
        seen.memory.push(memory);
        seen.processor.push(processor);
        seen.commits.push(commits);
    }
    let scraped = scraped_stretches(&ours, plan, engine).await?;
    let with = match engine {
        Engine::Fake => "no engine",
        Engine::Docker => "Docker",
    };
    let mut figures = vec![
        Figure::alone(format!("idle memory, {with}"), "MiB", seen.memory),
        Figure::alone(format!("idle processor, {with}"), "% core", seen.processor),
        Figure::alone(format!("idle raft commits, {with}"), "", seen.commits),
    ];
    if !scraped.is_empty() {
        let name = format!("idle processor, {with}, metrics read every 5 s");
        figures.push(Figure::alone(name, "% core", scraped));
    }
    Ok(figures)
}

/// The processor time of the worst daemon while the metrics of all are read; only without an engine, whose own cost
/// varies by more.
async fn scraped_stretches(ours: &Ours, plan: Plan, engine: Engine) -> Result<Vec<f64>> {
    let mut processor = Vec::new();
    if engine != Engine::Fake {
        return Ok(processor);
    }
    for _ in 0..plan.rounds {
        let [_, busy, _] = tokio::select! {
            figures = stretch(ours, plan.stretch) => figures?,
            error = read_metrics(ours) => return Err(error),
        };
        say(&format!("idle, metrics read: {busy:.2} % of a core"));
        processor.push(busy);
    }
    Ok(processor)
}

/// Reads them again and again, until that fails.
async fn read_metrics(ours: &Ours) -> anyhow::Error {
    let mut turns = tokio::time::interval(SCRAPED_EVERY);
    loop {
        turns.tick().await;
        for node in &ours.cluster.nodes {
            if let Err(error) = scrape(node).await {
                return error;
            }
        }
    }
}

#[derive(Debug, Default)]
struct Seen {
    memory: Vec<f64>,
    processor: Vec<f64>,
    commits: Vec<f64>,
}

/// Memory in MiB and processor time in percent of a core, of the worst daemon; commits of all.
async fn stretch(ours: &Ours, length: Duration) -> Result<[f64; 3]> {
    let index = ours.raft_index().await?;
    let pids: Vec<u32> = ours.cluster.nodes.iter().map(jaco_testkit::Node::pid).collect();
    let used =
        |pids: &[u32]| pids.iter().map(|pid| processor_time(*pid)).collect::<Result<Vec<_>>>();
    let before = used(&pids)?;
    tokio::time::sleep(length).await;
    let after = used(&pids)?;
    let mut worst = [0.0_f64; 2];
    for node in 0..NODES {
        let busy = after[node].saturating_sub(before[node]);
        let bytes = u32::try_from(resident_bytes(pids[node])? / 1024)?;
        worst[0] = worst[0].max(f64::from(bytes) / 1024.0);
        worst[1] = worst[1].max(busy.as_secs_f64() / length.as_secs_f64() * 100.0);
    }
    let commits = u32::try_from(ours.raft_index().await? - index)?;
    Ok([worst[0], worst[1], f64::from(commits)])
}
