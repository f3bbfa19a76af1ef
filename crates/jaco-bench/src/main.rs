//! Measures what only a client of a running cluster can: load, failover, rollouts, idleness; and
//! the same of others, in the same run on the same machine. `cargo xtask bench` builds and calls it.
//!
//! It only measures: what a figure should be is not known here. One line of JSON per figure on
//! stdout, progress on stderr. All that it starts listens on loopback and ends with it.

mod change;
mod degraded;
mod docker;
mod edge;
mod engines;
mod etcd;
mod failover;
mod figure;
mod heard;
mod hostile;
mod idle;
mod images;
mod large;
mod load;
mod model;
mod network;
mod observed;
mod ours;
mod page;
mod played;
mod proc;
mod rollout;
mod scale;
mod scrape;
mod status;
mod swarm;
mod swarm_trio;
mod volumes;
mod writes;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Parser, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};

use figure::Figure;

#[derive(Debug, Parser)]
struct Cli {
    /// What to measure
    what: Measurement,
    /// How often; the sides of a comparison take turns
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Seconds of each stretch of load or idleness
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Of the attacks only those whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// Of scale: how many daemons run
    #[arg(long, default_value_t = 100)]
    daemons: usize,
    /// Of scale: how many nodes are played beside seven daemons
    #[arg(long, default_value_t = 1_000)]
    nodes: usize,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Measurement {
    Writes,
    Failover,
    Rollout,
    Change,
    Degraded,
    Edge,
    Idle,
    IdleDocker,
    Status,
    Network,
    Page,
    Observed,
    Hostile,
    Large,
    Scale,
    Images,
    Volumes,
}

/// How a measurement is taken.
#[derive(Debug, Clone, Copy)]
struct Plan {
    rounds: usize,
    stretch: Duration,
}

/// Two workers, because that is what the machines of the project have: a load generator with more
/// threads than cores measures the scheduler of the system.
const WORKERS: usize = 2;

fn main() -> ExitCode {
    let outcome = match std::env::args().nth(1).as_deref() {
        Some(edge::served::COMMAND) => edge::served::run().map(|()| Vec::new()),
        Some(hostile::generator::COMMAND) => hostile::generator::run().map(|()| Vec::new()),
        _ => measured(&Cli::parse()),
    };
    let figures = match outcome {
        Ok(figures) => figures,
        Err(error) => {
            figure::say(&format!("error: {error:#}"));
            return ExitCode::FAILURE;
        }
    };
    figure::print(&figures);
    ExitCode::SUCCESS
}

fn measured(cli: &Cli) -> Result<Vec<Figure>> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build()?;
    runtime.block_on(async {
        tokio::select! {
            outcome = measure(cli) => outcome,
            outcome = interrupted() => outcome,
        }
    })
}

async fn measure(cli: &Cli) -> Result<Vec<Figure>> {
    let plan = Plan { rounds: cli.rounds.max(1), stretch: Duration::from_secs(cli.seconds.max(1)) };
    match cli.what {
        Measurement::Writes => Box::pin(writes::measure(plan)).await,
        Measurement::Failover => Box::pin(failover::measure(plan)).await,
        Measurement::Rollout => Box::pin(rollout::measure(plan)).await,
        Measurement::Change => Box::pin(change::measure(plan)).await,
        Measurement::Degraded => Box::pin(degraded::measure(plan)).await,
        Measurement::Edge => Box::pin(edge::measure(plan)).await,
        Measurement::Idle => Box::pin(idle::measure(plan, jaco_testkit::Engine::Fake)).await,
        Measurement::IdleDocker => {
            Box::pin(idle::measure(plan, jaco_testkit::Engine::Docker)).await
        }
        Measurement::Status => Box::pin(status::measure(plan)).await,
        Measurement::Network => Box::pin(network::measure(plan)).await,
        Measurement::Page => Box::pin(page::measure(plan)).await,
        Measurement::Observed => Box::pin(observed::measure(plan)).await,
        Measurement::Large => Box::pin(large::measure(plan)).await,
        Measurement::Scale => {
            let size = scale::Size { daemons: cli.daemons, nodes: cli.nodes };
            Box::pin(scale::measure(plan, size)).await
        }
        Measurement::Images => Box::pin(images::measure(plan)).await,
        Measurement::Volumes => Box::pin(volumes::measure(plan)).await,
        Measurement::Hostile => Box::pin(hostile::measure(plan, &cli.only)).await,
    }
}

/// Waits for Ctrl-C or SIGTERM; what was started ends as the measurement is dropped.
async fn interrupted() -> Result<Vec<Figure>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    bail!("interrupted")
}
