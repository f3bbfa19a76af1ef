//! The router of a node, which `jacod net` becomes: the networks of the cluster on this node, in the kernel.

use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};
use jaco_net::{ServiceOptions, serve};
use jaco_process::{NetArgs, error_file, notify_ready, stop_on_signal};
use tokio_util::sync::CancellationToken;
use tracing::error;

/// The command line of the program that becomes this one.
#[derive(Debug, Parser)]
#[command(version, about = "The router of a node; `jacod net` becomes it")]
struct Line {
    #[command(subcommand)]
    part: Part,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// Run the router of this node
    Net(NetArgs),
}

fn main() -> ExitCode {
    jaco_heap::keep_little();
    let Part::Net(args) = Line::parse().part;
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!(error = format!("{error:#}"), "router failed");
            ExitCode::FAILURE
        }
    }
}

fn run(args: NetArgs) -> anyhow::Result<()> {
    jaco_process::init(&args.log_level, args.log_format)?;
    let errors = error_file(&args.runtime_dir);
    // Nothing is there to remove but for what an earlier process left.
    drop(std::fs::remove_file(&errors));
    let served = route(args);
    if let Err(error) = &served {
        // Where not even this can be written, the log has it.
        drop(std::fs::write(&errors, format!("{error:#}")));
    }
    served
}

/// Keeps the router until a signal.
fn route(args: NetArgs) -> anyhow::Result<()> {
    let NetArgs { runtime_dir, port, edge_socket, .. } = args;
    let options = ServiceOptions { runtime_dir, port, backend: None, edge_socket };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let stop = CancellationToken::new();
        stop_on_signal(&stop)?;
        serve(options, notify_ready, stop.cancelled_owned()).await.context("the router has failed")
    })
}
