//! The daemon. `main` reads the configuration; `daemon` and `member` wire everything.

mod acme;
mod audit_chain;
mod backup;
mod backup_parts;
mod bootstrap;
mod config;
mod confirm;
mod consumer;
mod context;
mod daemon;
mod data_lock;
#[cfg(test)]
mod decoders;
mod digest;
mod disk;
mod edge;
mod examine;
mod facts;
mod gpu;
mod heap;
mod heartbeat;
mod images;
mod kek_rotation;
mod key_check;
mod leading;
mod limits;
mod man_pages;
mod member;
mod membership;
mod notify;
mod offline;
mod part;
mod pressure;
mod process;
mod readings;
mod recover;
mod rejoin;
mod renewal;
mod reset;
mod rotation;
mod router;
mod setup;
mod telemetry;
mod trace;
mod unreached;

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use jaco_process::{EdgeArgs, stop_on_signal};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use tracing::error;

use crate::config::Config;
use crate::daemon::{Daemon, Ended};
use crate::data_lock::DataLock;

/// Default path of the configuration.
const DEFAULT_CONFIG: &str = "/etc/jaco/jacod.yaml";

/// Exit status of a daemon whose node was removed from its cluster. The service manager must not start
/// it again (`RestartPreventExitStatus` in deploy/systemd/jacod.service).
const EXIT_REMOVED: u8 = 3;

/// The JACO daemon; one runs on every node
///
/// Until the node belongs to a cluster it only listens on its unix socket, for `jaco cluster init`
/// or `jaco cluster join`.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Args {
    /// Configuration file. The sample deploy/jacod.yaml, which packages install, explains every key
    #[arg(long, global = true, env = "JACO_CONFIG", default_value = DEFAULT_CONFIG)]
    config: PathBuf,
    /// Check the configuration, report errors, and exit
    #[arg(long)]
    check: bool,
    /// Print a digest of the state in the data directory, and exit
    ///
    /// The line is `index <n> sha256 <hex>`: the index of the last applied log entry, and the hash
    /// of the state's snapshot. Nodes at the same index print the same line. No connection is
    /// opened, and a running daemon is refused. A daemon that was killed may not have recorded its
    /// last few entries as committed.
    #[arg(long, conflicts_with = "check")]
    digest: bool,
    #[command(subcommand)]
    part: Option<Part>,
}

/// A part of the daemon that is a process of its own, or a command for when it is stopped.
#[derive(Debug, Clone, Subcommand)]
enum Part {
    /// Run the router of this node
    ///
    /// It joins the networks of this node's container engine to those of other nodes, as the daemon
    /// says. What it sets up stays when it ends: containers keep their connections. It needs
    /// CAP_NET_ADMIN, CAP_SYS_ADMIN, CAP_NET_BIND_SERVICE and CAP_NET_RAW, and the program `nft`; the daemon
    /// itself needs none of them.
    Net,
    /// Run the edge of this node
    ///
    /// It takes requests, connections and datagrams from outside for the services that have routes, as the daemon
    /// says. It runs in the router's namespace without any capability, as a user of its own, and gets its listeners
    /// from the router. SIGHUP has the program that is installed now take its place, without a lost request.
    Edge(EdgeArgs),
    Recover(recover::Args),
    Rejoin(rejoin::Args),
    Reset(reset::Args),
    Setup(setup::Args),
    #[command(hide = true)]
    BackupParts(backup_parts::Args),
    #[command(hide = true)]
    Examine(examine::Args),
    #[command(hide = true)]
    ManPages(man_pages::Args),
}

/// Requests are computed in a heap of their own.
#[global_allocator]
static ALLOCATOR: jaco_heap::Allocator = jaco_heap::Allocator;

fn main() -> ExitCode {
    jaco_heap::keep_little();
    let args = Args::parse();
    match run(&args) {
        Ok(Ended::Stopped) => ExitCode::SUCCESS,
        Ok(Ended::Removed) => ExitCode::from(EXIT_REMOVED),
        Err(error) => {
            // Logging may not be set up yet; the reason must reach whoever started the daemon.
            error!(error = format!("{error:#}"), "daemon failed");
            eprint_chain(&error);
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stderr, reason = "a daemon that cannot start has no log yet")]
fn eprint_chain(error: &anyhow::Error) {
    eprintln!("error: {error:#}");
}

fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()
}

/// One thread: with more, tasks that wait for each other are woken on another one. What takes long has a thread of its own beside it:
/// writes to the disk, snapshots, and the application of large entries.
fn raft_runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("raft")
        .enable_all()
        .build()
}

fn run(args: &Args) -> anyhow::Result<Ended> {
    if let Some(Part::Edge(args)) = &args.part {
        match part::become_edge(args)? {}
    }
    if let Some(Part::BackupParts(args)) = &args.part {
        limits::keep_private()?;
        offline::become_owner(args.data_dir())?;
        runtime()?.block_on(backup_parts::run(args))?;
        return Ok(Ended::Stopped);
    }
    if let Some(Part::Examine(args)) = &args.part {
        limits::keep_private()?;
        runtime()?.block_on(examine::run(args))?;
        return Ok(Ended::Stopped);
    }
    if let Some(Part::ManPages(args)) = &args.part {
        man_pages::run(args, Args::command())?;
        return Ok(Ended::Stopped);
    }
    if let Some(Part::Setup(setup)) = &args.part {
        let stdin = io::stdin();
        let mut user = stdin.is_terminal().then(|| stdin.lock());
        let default_place = Path::new(DEFAULT_CONFIG);
        setup::run(&args.config, default_place, setup, user.as_mut(), &mut io::stdout())?;
        return Ok(Ended::Stopped);
    }
    let config = Config::load(&args.config, Path::new(DEFAULT_CONFIG))?;
    config.check()?;
    jaco_process::filter(&config.log_level)?;
    if args.check {
        config.check_engine()?;
        return Ok(Ended::Stopped);
    }
    if args.digest {
        offline::become_owner(&config.data_dir)?;
        runtime()?.block_on(digest::print(&config))?;
        return Ok(Ended::Stopped);
    }
    if let Some(Part::Recover(args)) = &args.part {
        limits::keep_private()?;
        offline::become_owner(&config.data_dir)?;
        runtime()?.block_on(recover::run(&config, args))?;
        return Ok(Ended::Stopped);
    }
    if let Some(Part::Rejoin(args)) = &args.part {
        limits::keep_private()?;
        offline::become_owner(&config.data_dir)?;
        runtime()?.block_on(rejoin::run(config, args))?;
        return Ok(Ended::Stopped);
    }
    if let Some(Part::Reset(args)) = &args.part {
        limits::keep_private()?;
        offline::become_owner(&config.data_dir)?;
        runtime()?.block_on(reset::run(config, args))?;
        return Ok(Ended::Stopped);
    }
    if matches!(args.part, Some(Part::Net)) {
        match part::become_router(&config)? {}
    }
    let runtime = runtime()?;
    let log = telemetry::init(&config.log_level, config.log_format)?;
    limits::keep_private()?;
    limits::raise_descriptors();
    limits::private_dir(&config.data_dir)?;
    let raft = raft_runtime()?;
    // First of all: a second daemon would take over the socket of this one.
    let _held = DataLock::take(&config.data_dir)?;
    runtime.block_on(async {
        let shutdown = CancellationToken::new();
        stop_on_signal(&shutdown)?;
        Daemon::run(config, log, raft.handle().clone(), shutdown).await
    })
}
