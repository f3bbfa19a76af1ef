//! What it costs to be observed: two clusters, one of which is scraped and sends traces, and ten nodes that are asked for
//! everything at once.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use jaco_testkit::{Cluster, Collector, CollectorAnswer, Engine, Node};

use crate::Plan;
use crate::figure::{Figure, say};
use crate::load::{self, millis};
use crate::ours;
use crate::proc::processor_time;
use crate::scrape::scrape;

/// Clients that write at once, each over a connection of its own.
const CLIENTS: usize = 16;

/// How often a scraper asks in `examples/monitoring`.
const SCRAPE_INTERVAL: Duration = Duration::from_secs(5);

/// Nodes of a cluster whose support bundle is made.
const BUNDLED: usize = 10;

const OTHER: &str = "unobserved";

/// Both clusters in turns.
pub(crate) async fn measure(plan: Plan) -> Result<Vec<Figure>> {
    let collector = Collector::start(CollectorAnswer::Takes);
    let seen = Cluster::start_with(3, Engine::Fake, &collector.settings()).await;
    let unseen = Cluster::start(3, Engine::Fake).await;
    let mut rate = (Vec::new(), Vec::new());
    let mut each = (Vec::new(), Vec::new());
    let mut idle = (Vec::new(), Vec::new());
    for round in 1..=plan.rounds {
        let (ours, other) =
            (while_scraped(&seen, write(&seen, plan)).await?, write(&unseen, plan).await?);
        say(&format!("writes per second and µs each, round {round}: {ours:?}, {OTHER} {other:?}"));
        rate.0.push(ours.0);
        rate.1.push(other.0);
        each.0.push(ours.1);
        each.1.push(other.1);
        idle.0.push(while_scraped(&seen, rest(&seen, plan)).await?);
        idle.1.push(rest(&unseen, plan).await?);
    }
    let row = |name, unit, (observed, other)| Figure::beside(name, unit, observed, OTHER, other);
    Ok(vec![
        row("observed, writes, 16 clients", "/s", rate),
        row("observed, processor per write", "µs", each),
        row("observed, idle processor of three", "ms/s", idle),
        Figure::alone("observed, bundle of 10 nodes", "s", bundles(plan).await?),
    ])
}

/// Writes per second, and the processor time of each in microseconds.
async fn write(cluster: &Cluster, plan: Plan) -> Result<(f64, f64)> {
    let leader = cluster.leader().await;
    let clients = (0..CLIENTS).map(|_| cluster.nodes[leader].client()).collect();
    let before = busy(cluster)?;
    let load =
        load::run(clients, plan.stretch, |client, _| async move { ours::write(&client).await });
    let load = load.await?;
    let busy = busy(cluster)? - before;
    let answered = f64::from(u32::try_from(load.answered)?);
    Ok((load.per_second, busy.as_secs_f64() * 1e6 / answered))
}

/// Processor time in milliseconds a second while nothing is asked.
async fn rest(cluster: &Cluster, plan: Plan) -> Result<f64> {
    let before = busy(cluster)?;
    tokio::time::sleep(plan.stretch).await;
    Ok(millis(busy(cluster)? - before) / plan.stretch.as_secs_f64())
}

async fn while_scraped<T>(
    cluster: &Cluster,
    measured: impl Future<Output = Result<T>>,
) -> Result<T> {
    tokio::select! {
        measured = measured => measured,
        error = scraped(cluster) => Err(error),
    }
}

fn busy(cluster: &Cluster) -> Result<Duration> {
    cluster.nodes.iter().map(Node::pid).map(processor_time).sum()
}

/// Reads the metrics of all nodes for ever; ends with what went wrong.
async fn scraped(cluster: &Cluster) -> anyhow::Error {
    loop {
        for node in &cluster.nodes {
            if let Err(error) = scrape(node).await {
                return error;
            }
        }
        tokio::time::sleep(SCRAPE_INTERVAL).await;
    }
}

/// Seconds that `jaco doctor --bundle` takes for ten nodes.
async fn bundles(plan: Plan) -> Result<Vec<f64>> {
    let cluster = Cluster::start(BUNDLED, Engine::Fake).await;
    let folder = tempfile::tempdir()?;
    let mut took = Vec::new();
    for round in 0..plan.rounds {
        let file = folder.path().join(format!("{round}.tar"));
        let begun = Instant::now();
        let output = cluster.cli(0, &["doctor", "--bundle", &file.display().to_string()]);
        took.push(begun.elapsed().as_secs_f64());
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(std::fs::metadata(&file)?.len() > 10_000, "no bundle was written: {said}");
    }
    Ok(took)
}
