//! The daemon. `main` reads the settings and runs; everything is wired in `daemon` and `member`.

mod audit_chain;
mod capacity;
mod config;
mod daemon;
mod data_lock;
mod digest;
mod disk;
mod facts;
mod gpu;
mod heartbeat;
mod member;
mod membership;
mod pressure;
mod rebalancing;
mod renewal;
mod telemetry;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use crate::config::Config;
use crate::daemon::Daemon;
use crate::data_lock::DataLock;

/// Where the settings are unless said otherwise.
const DEFAULT_CONFIG: &str = "/etc/jaco/jacod.yaml";

/// The daemon of JACO: one on every node.
///
/// Without a cluster it only listens on its unix socket, for `jaco cluster init` or
/// `jaco cluster join`.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Args {
    /// The settings. Every key is explained in the sample, deploy/jacod.yaml
    #[arg(long, env = "JACO_CONFIG", default_value = DEFAULT_CONFIG)]
    config: PathBuf,
    /// Check the settings, say what is wrong, and exit
    #[arg(long)]
    check: bool,
    /// Print what the state in the data folder is, as one line, and exit
    ///
    /// The line is `index <n> sha256 <hex>`: the last log entry that is part of the state, and the
    /// hash of the state as a snapshot would hold it. Nodes at the same index print the same line.
    /// Nothing is sent to other nodes; it is refused while the daemon runs. A daemon that was killed
    /// may not have noted its last few entries as committed.
    #[arg(long, conflicts_with = "check")]
    digest: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Before or after logging is set up, the reason must reach whoever started it.
            error!(error = format!("{error:#}"), "the daemon stops");
            eprint_chain(&error);
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stderr, reason = "the last word of a daemon that cannot start")]
fn eprint_chain(error: &anyhow::Error) {
    eprintln!("error: {error:#}");
}

fn run(args: &Args) -> anyhow::Result<()> {
    let config = Config::load(&args.config, Path::new(DEFAULT_CONFIG))?;
    config.hostname()?;
    config.advertised()?;
    config.snapshots()?;
    config.rebalance()?;
    if args.check {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    if args.digest {
        return runtime.block_on(digest::print(&config));
    }
    telemetry::init(&config)?;
    std::fs::create_dir_all(&config.data_dir)
        .with_context(|| format!("cannot create {}", config.data_dir.display()))?;
    // Before anything else: a second daemon would take over this one's socket.
    let _held = DataLock::take(&config.data_dir)?;
    runtime.block_on(async {
        let shutdown = CancellationToken::new();
        stop_on_signal(&shutdown)?;
        Daemon::run(config, shutdown).await
    })
}

/// The first signal stops the daemon in good order, the second one at once.
fn stop_on_signal(shutdown: &CancellationToken) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let shutdown = shutdown.clone();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if shutdown.is_cancelled() {
                std::process::exit(130);
            }
            info!("stopping");
            shutdown.cancel();
        }
    });
    Ok(())
}
