//! Latency of `jaco status` on a cluster with 1,000 replicas.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use jaco_proto::v1;
use jaco_testkit::{Engine, binary};
use serde_json::json;

use crate::Plan;
use crate::figure::{Figure, say};
use crate::load::{millis, quantile};
use crate::ours::Ours;
use crate::scrape::scrape;

const DEPLOYMENT: &str = "many";
const REPLICAS: usize = 1_000;

/// Questions of a round: enough for a 99th percentile.
const QUESTIONS: usize = 100;

/// Asks by the program and by its call alone, in turns.
pub(crate) async fn measure(plan: Plan) -> Result<Vec<Figure>> {
    let ours = Ours::start(Engine::Fake).await?;
    let model = json!({"name": DEPLOYMENT, "services": {"web": {
        "image": "jaco-hello:v1", "deploy": {"replicas": REPLICAS},
    }}});
    let begun = Instant::now();
    ours.apply(&ours.client(0)?, model).await?;
    ours.running(DEPLOYMENT, REPLICAS, Duration::from_secs(120)).await;
    say(&format!("{REPLICAS} replicas run after {:?}", begun.elapsed()));
    let mut programs = [Vec::new(), Vec::new()];
    let mut calls = [Vec::new(), Vec::new()];
    for _ in 0..plan.rounds {
        let program = spread((0..QUESTIONS).map(|_| ask_program(&ours)).collect::<Result<_>>()?);
        let mut took = Vec::new();
        for _ in 0..QUESTIONS {
            took.push(ask(&ours).await?);
        }
        let call = spread(took);
        say(&format!("jaco status {program:?} ms, the call alone {call:?} ms (p50, p99)"));
        for at in 0..2 {
            programs[at].push(program[at]);
            calls[at].push(call[at]);
        }
    }
    let mut scrapes = [Vec::new(), Vec::new()];
    let mut kilobytes = Vec::new();
    for _ in 0..plan.rounds {
        let mut took = Vec::new();
        for _ in 0..QUESTIONS {
            let scrape = scrape(&ours.cluster.nodes[0]).await?;
            took.push(scrape.took);
            kilobytes.push(f64::from(u32::try_from(scrape.bytes)?) / 1e3);
        }
        let round = spread(took);
        say(&format!("the metrics {round:?} ms (p50, p99)"));
        for at in 0..2 {
            scrapes[at].push(round[at]);
        }
    }
    let [scrape_p50, scrape_p99] = scrapes;
    let [program_p50, program_p99] = programs;
    let [call_p50, call_p99] = calls;
    Ok(vec![
        Figure::alone("jaco status p50, 1,000 replicas", "ms", program_p50),
        Figure::alone("jaco status p99, 1,000 replicas", "ms", program_p99),
        Figure::alone("its call alone p50", "ms", call_p50),
        Figure::alone("its call alone p99", "ms", call_p99),
        Figure::alone("metrics p50, 1,000 replicas", "ms", scrape_p50),
        Figure::alone("metrics p99, 1,000 replicas", "ms", scrape_p99),
        Figure::alone("metrics, 1,000 replicas", "kB", kilobytes),
    ])
}

/// The whole program, from its start to its end.
fn ask_program(ours: &Ours) -> Result<Duration> {
    let mut command = Command::new(binary("jaco"));
    command.args(["status", "-o", "json"]).env("JACO_SOCKET", ours.cluster.nodes[0].socket());
    command.env_remove("JACO_SERVER").env_remove("JACO_CONTEXT").stdin(Stdio::null());
    let begun = Instant::now();
    let output = command.output()?;
    let took = begun.elapsed();
    ensure!(output.status.success(), "jaco status ended with {}", output.status);
    let shown = String::from_utf8_lossy(&output.stdout).matches("\"running\"").count();
    ensure!(shown >= REPLICAS, "jaco status shows {shown} of {REPLICAS} replicas");
    Ok(took)
}

/// The call over an open connection to the node's socket.
async fn ask(ours: &Ours) -> Result<Duration> {
    let client = ours.cluster.nodes[0].client();
    client.status(v1::ClusterStatusRequest {}).await?;
    let begun = Instant::now();
    let status = client.read_status(v1::StatusRequest::default()).await?;
    let took = begun.elapsed();
    ensure!(status.replicas.len() == REPLICAS, "{} replicas are shown", status.replicas.len());
    Ok(took)
}

/// Median and 99th percentile, in milliseconds.
fn spread(mut took: Vec<Duration>) -> [f64; 2] {
    took.sort_unstable();
    [50, 99].map(|percent| millis(quantile(&took, percent)))
}
