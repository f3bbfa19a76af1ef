//! Simulated clusters: real crate code, simulated network, clock and disks, one seed per process.
//!
//! One process per seed, because a little state of the libraries leaks from one run to the next
//! within a process, and a failure must replay from its seed alone.
//!
//! ```text
//! cargo test -p jaco-raft --test sim                          all of it
//! JACO_SIM_SEEDS=5000 cargo test -p jaco-raft --test sim      more seeds
//! cargo test -p jaco-raft --test sim -- --seed 17             one seed, with its trace
//! cargo test -p jaco-raft --test sim -- --seed 17 --fsync-removed
//! ```

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test program talks to a terminal and ends at the first surprise"
)]

mod line;
mod net;
mod oracle;
mod restore;
mod succession;
mod world;

use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use jaco_raft::testing::Syncing;

/// Seeds per run unless `JACO_SIM_SEEDS` says otherwise.
const SEEDS: u64 = 120;
/// Seeds run with fsync removed; the harness must find the loss in every one.
const CONTROL_SEEDS: u64 = 20;

/// What one process is to do.
struct Arguments {
    seed: Option<u64>,
    syncing: Syncing,
}

fn main() -> ExitCode {
    let arguments = parse(std::env::args().skip(1));
    if let Some(seed) = arguments.seed {
        return run_one(seed, arguments.syncing);
    }
    let seeds = std::env::var("JACO_SIM_SEEDS").ok();
    let seeds = seeds.map_or(SEEDS, |count| count.parse().expect("JACO_SIM_SEEDS is a number"));
    let started = Instant::now();
    let restored = restore::check();
    if let Err(wrong) = &restored {
        println!("leader restore: {wrong}");
    }
    let succeeded = succession::check();
    if let Err(wrong) = &succeeded {
        println!("succession: {wrong}");
    }
    let lost = failures(0..seeds, Syncing::Honest);
    let caught = failures(0..CONTROL_SEEDS, Syncing::Removed);
    println!(
        "sim: {seeds} seeds, {} failed; {CONTROL_SEEDS} control seeds with fsync removed, {} \
         caught; {:.0?}",
        lost.len(),
        caught.len(),
        started.elapsed()
    );
    for seed in &lost {
        println!("replay: cargo test -p jaco-raft --test sim -- --seed {seed}");
    }
    if caught.len() as u64 != CONTROL_SEEDS {
        println!("the harness missed the loss that a removed fsync causes; caught: {caught:?}");
    }
    let missed = CONTROL_SEEDS - caught.len() as u64;
    let failed =
        lost.len() as u64 + missed + u64::from(restored.is_err()) + u64::from(succeeded.is_err());
    let passed = seeds + CONTROL_SEEDS + 2 - failed;
    let word = if failed == 0 { "ok" } else { "FAILED" };
    // As the standard harness ends, so that whoever adds up test results counts each seed.
    println!(
        "\ntest result: {word}. {passed} passed; {failed} failed; 0 ignored; 0 measured; \
         0 filtered out; finished in {:.2}s\n",
        started.elapsed().as_secs_f64()
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Arguments of the standard test harness are accepted and mean nothing here.
fn parse(arguments: impl Iterator<Item = String>) -> Arguments {
    let mut parsed = Arguments { seed: None, syncing: Syncing::Honest };
    let mut arguments = arguments.peekable();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--seed" => parsed.seed = arguments.next().map(|seed| seed.parse().expect("a seed")),
            "--fsync-removed" => parsed.syncing = Syncing::Removed,
            _ => {}
        }
    }
    parsed
}

fn run_one(seed: u64, syncing: Syncing) -> ExitCode {
    match world::run(seed, syncing) {
        Ok(report) => {
            println!("seed {seed}: {report}");
            ExitCode::SUCCESS
        }
        Err(violation) => {
            println!("seed {seed}: VIOLATION {violation}");
            ExitCode::FAILURE
        }
    }
}

/// Runs each seed in a process of its own, one at a time per core; returns those that failed.
fn failures(seeds: std::ops::Range<u64>, syncing: Syncing) -> Vec<u64> {
    let next = AtomicU64::new(seeds.start);
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let worker = || {
        let mut failed = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return failed;
            }
            if !passes(seed, syncing) {
                failed.push(seed);
            }
        }
    };
    let mut failed: Vec<u64> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
        handles
            .into_iter()
            .flat_map(|handle| handle.join().expect("workers do not panic"))
            .collect()
    });
    failed.sort_unstable();
    failed
}

fn passes(seed: u64, syncing: Syncing) -> bool {
    let program = std::env::current_exe().expect("a running program has a path");
    let mut command = Command::new(program);
    command.args(["--seed", &seed.to_string()]).stdin(Stdio::null());
    if syncing == Syncing::Removed {
        command.arg("--fsync-removed");
    }
    let output = command.output().expect("the same program can be run again");
    if !output.status.success() && syncing == Syncing::Honest {
        print!("{}", String::from_utf8_lossy(&output.stdout));
        print!("{}", String::from_utf8_lossy(&output.stderr));
    }
    output.status.success()
}
