//! The simulator as a program: runs scripts, and random histories by their seeds.

#![allow(clippy::print_stdout, reason = "the transcript is the result")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use clap::Parser;
use jaco_sim::{nemesis, script, shrink};

/// Simulated clusters: real planner, real state machine, real agents, on a fake clock.
#[derive(Debug, Parser)]
struct Args {
    /// A script to run; its transcript is printed
    file: Option<PathBuf>,
    /// One random history, printed as a script
    #[arg(long)]
    seed: Option<u64>,
    /// Random histories of many seeds, as `0..1000`; only those that fail are printed
    #[arg(long, value_parser = parse_seeds)]
    seeds: Option<(u64, u64)>,
    /// Number of random operations and faults before all is healed
    #[arg(long, default_value_t = nemesis::STEPS)]
    steps: usize,
    /// What the histories are made of
    #[arg(long, value_enum, default_value_t = StyleArg::Plain)]
    style: StyleArg,
    /// Shrink each history that breaks a law to the lines that matter, and print these as a script
    #[arg(long)]
    shrink: bool,
    /// After a failure, print this many of the newest log entries
    #[arg(long, default_value_t = 0)]
    log: usize,
}

/// What the histories are made of.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum StyleArg {
    /// Few nodes, and the keys that nearly every service uses
    Plain,
    /// More nodes, every key, and faults that come together
    Harsh,
}

impl StyleArg {
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Harsh => "harsh",
        }
    }

    fn style(self) -> nemesis::Style {
        match self {
            Self::Plain => nemesis::Style::Plain,
            Self::Harsh => nemesis::Style::Harsh,
        }
    }
}

fn parse_seeds(text: &str) -> Result<(u64, u64), String> {
    let seeds = text.split_once("..");
    let seeds = seeds.and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    seeds.ok_or_else(|| format!("{text:?} is not like 0..1000"))
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    if let Some(file) = &args.file {
        return run_script(file, args.log);
    }
    let (from, to) = match (args.seed, args.seeds) {
        (Some(seed), _) => (seed, seed + 1),
        (None, Some(seeds)) => seeds,
        (None, None) => (0, 0),
    };
    Ok(run_seeds(from, to, &args))
}

fn run_script(file: &Path, log: usize) -> anyhow::Result<ExitCode> {
    let script =
        std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut session = script::Session::new(0, None);
    let result = script::run_in(&mut session, &script);
    print!("{}", session.transcript());
    if result.is_err()
        && let Some(world) = session.world()
    {
        println!("# {}", world.newest_entries(log).join("\n# "));
    }
    result?;
    Ok(ExitCode::SUCCESS)
}

fn run_seeds(from: u64, to: u64, args: &Args) -> ExitCode {
    let (steps, print_all) = (args.steps, args.seed.is_some());
    let began = Instant::now();
    let (mut failed, mut lived, mut commits) = (Vec::new(), 0, 0);
    for seed in from..to {
        let run = nemesis::run(seed, steps, args.style.style(), None);
        lived += run.lived.0;
        commits += run.commits;
        if print_all || run.failure.is_some() {
            println!("{}", run.script.join("\n"));
        }
        if let Some(failure) = run.failure {
            for line in run.seen {
                println!("#   {line}");
            }
            println!("# seed {seed}: {failure}");
            let style = args.style.name();
            println!("# replay: cargo xtask sim --seed {seed} -- --steps {steps} --style {style}");
            if args.shrink {
                let few = shrink(&run.script, None);
                println!("# the same in {} lines:\n{}", few.len(), few.join("\n"));
            }
            failed.push(seed);
        }
    }
    if to > from {
        let took = began.elapsed().as_secs_f64();
        println!(
            "# {} seeds, {} failed {failed:?}; {:.1} hours simulated in {took:.1} s, {commits} entries",
            to - from,
            failed.len(),
            seconds(lived) / 3600.0,
        );
    }
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[allow(clippy::cast_precision_loss, reason = "for people")]
fn seconds(millis: u64) -> f64 {
    millis as f64 / 1000.0
}
