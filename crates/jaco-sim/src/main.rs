//! The simulator as a program: runs scripts, and random histories by their seeds.

#![allow(clippy::print_stdout, reason = "the transcript is the result")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Parser;
use jaco_sim::coverage::Coverage;
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
    /// Begin no further history of `--seeds` after so many minutes
    #[arg(long)]
    minutes: Option<u64>,
    /// Print what the planner decided in which states
    #[arg(long)]
    coverage: bool,
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
    /// The same, but each seed draws which keys and faults there are
    Swarm,
}

impl StyleArg {
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Harsh => "harsh",
            Self::Swarm => "swarm",
        }
    }

    fn style(self) -> nemesis::Style {
        match self {
            Self::Plain => nemesis::Style::Plain,
            Self::Harsh => nemesis::Style::Harsh,
            Self::Swarm => nemesis::Style::Swarm,
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

/// What came of many histories.
#[derive(Debug, Default)]
struct Tally {
    seeds: u64,
    failed: Vec<u64>,
    lived: u64,
    commits: usize,
    coverage: Coverage,
}

/// As many histories at a time as there are processors, each by one thread.
fn run_seeds(from: u64, to: u64, args: &Args) -> ExitCode {
    let began = Instant::now();
    let limit = args.minutes.map(|minutes| Duration::from_secs(60 * minutes));
    let (next, tally) = (AtomicU64::new(from), Mutex::new(Tally::default()));
    let work = || {
        while limit.is_none_or(|limit| began.elapsed() < limit) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= to {
                return;
            }
            let run = nemesis::run(seed, args.steps, args.style.style(), None);
            let mut tally = tally.lock().expect("nobody panics while counting");
            tally.seeds += 1;
            tally.lived += run.lived.0;
            tally.commits += run.commits;
            tally.coverage.add(&run.coverage);
            if run.failure.is_some() {
                tally.failed.push(seed);
            }
            // Still locked, so that the lines of two histories do not mix.
            show(seed, &run, args);
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let mut tally = tally.into_inner().expect("nobody panicked while counting");
    tally.failed.sort_unstable();
    if to > from {
        let took = began.elapsed().as_secs_f64();
        let (visited, all) = tally.coverage.visited();
        println!(
            "# {} seeds, {} failed {:?}; {:.1} hours simulated in {took:.1} s, {} entries; \
             {visited} of {all} pairs of decision and state",
            tally.seeds,
            tally.failed.len(),
            tally.failed,
            seconds(tally.lived) / 3600.0,
            tally.commits,
        );
    }
    if args.coverage {
        println!("{}", tally.coverage);
    }
    if tally.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints a history that was asked for alone, or failed.
fn show(seed: u64, run: &nemesis::Run, args: &Args) {
    if args.seed.is_some() || run.failure.is_some() {
        println!("{}", run.script.join("\n"));
    }
    let Some(failure) = &run.failure else { return };
    for line in &run.seen {
        println!("#   {line}");
    }
    println!("# seed {seed}: {failure}");
    let style = args.style.name();
    println!("# replay: cargo xtask sim --seed {seed} -- --steps {} --style {style}", args.steps);
    if args.shrink {
        let few = shrink(&run.script, None);
        println!("# the same in {} lines:\n{}", few.len(), few.join("\n"));
    }
}

#[allow(clippy::cast_precision_loss, reason = "for people")]
fn seconds(millis: u64) -> f64 {
    millis as f64 / 1000.0
}
