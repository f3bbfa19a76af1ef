//! `cargo xtask <command>`: everything that this repository does to itself.
//!
//! Needs nothing but Rust; what else a command needs, it names or installs. It must never decide anything about the
//! product: it only builds, starts, checks and reports.

mod advisories;
mod bench;
mod chaos;
mod debian_engine;
mod demo;
mod edge;
mod engine;
mod finding;
mod http;
mod image;
mod interrupt;
mod long_test;
mod metrics;
mod package;
mod previous;
mod process;
mod requirements;
mod resident;
mod reuse;
mod say;
mod sim;
mod test;
mod tidy;
mod torture;
mod tree;
mod workspace;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Automation of this repository")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Args),
    Test(test::Args),
    Tidy(tidy::Args),
    Requirements(requirements::Args),
    Bench(bench::Args),
    Metrics(metrics::Args),
    Advisories(advisories::Args),
    Sim(sim::Args),
    Torture(torture::Args),
    Edge(edge::Args),
    Chaos(chaos::Args),
    Reuse(reuse::Args),
    Package(package::Args),
    Resident(resident::Args),
    /// Make sure a Docker Engine answers and build the images jaco-hello:v1 and jaco-hello:v2
    Image,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is::<interrupt::Interrupted>() => {
            say::note("interrupted");
            ExitCode::from(130)
        }
        Err(error) if error.is::<say::Reported>() => ExitCode::FAILURE,
        Err(error) => {
            say::error(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    interrupt::watch()?;
    let workspace = workspace::Workspace::load()?;
    match command {
        Command::Demo(args) => demo::run(&workspace, &args),
        Command::Test(args) => test::run(&workspace, &args, &Cli::command()),
        Command::Tidy(args) => tidy::run(&workspace, &args, &Cli::command()),
        Command::Requirements(args) => requirements::run(&workspace, &args),
        Command::Bench(args) => bench::run(&workspace, &args),
        Command::Metrics(args) => metrics::run(&workspace, &args),
        Command::Advisories(args) => advisories::run(&workspace, &args),
        Command::Sim(args) => sim::run(&workspace, &args),
        Command::Torture(args) => torture::run(&workspace, &args),
        Command::Edge(args) => edge::run(&workspace, &args),
        Command::Chaos(args) => chaos::run(&workspace, &args),
        Command::Reuse(args) => reuse::run(&workspace, &args),
        Command::Package(args) => package::run(&workspace, &args),
        Command::Resident(args) => resident::run(&workspace, &args),
        Command::Image => {
            // An image in an engine that is stopped again would be of no use to anybody.
            engine::ensure(&workspace)?.leave_running();
            image::build(&workspace)
        }
    }
}
