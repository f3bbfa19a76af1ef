//! The simulator as a program: runs scripts, and random histories by their seeds.

#![allow(clippy::print_stdout, reason = "the transcript is the result")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use clap::Parser;
use jaco_sim::{nemesis, script};

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
    /// How many things befall a cluster before there is peace
    #[arg(long, default_value_t = nemesis::STEPS)]
    steps: usize,
}

fn parse_seeds(text: &str) -> Result<(u64, u64), String> {
    let seeds = text.split_once("..");
    let seeds = seeds.and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    seeds.ok_or_else(|| format!("{text:?} is not like 0..1000"))
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    if let Some(file) = &args.file {
        run_script(file)?;
    }
    let (from, to) = match (args.seed, args.seeds) {
        (Some(seed), _) => (seed, seed + 1),
        (None, Some(seeds)) => seeds,
        (None, None) => (0, 0),
    };
    Ok(run_seeds(from, to, args.steps, args.seed.is_some()))
}

fn run_script(file: &Path) -> anyhow::Result<()> {
    let script =
        std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    print!("{}", script::run(&script)?);
    Ok(())
}

fn run_seeds(from: u64, to: u64, steps: usize, print_all: bool) -> ExitCode {
    let began = Instant::now();
    let (mut failed, mut lived, mut commits) = (Vec::new(), 0, 0);
    for seed in from..to {
        let run = nemesis::run(seed, steps, None);
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
            println!("# replay: cargo xtask sim --seed {seed} -- --steps {steps}");
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
