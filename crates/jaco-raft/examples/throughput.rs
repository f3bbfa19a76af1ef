//! Writes per second of three nodes in one process, each with its own log on a real disk.
//!
//! ```text
//! cargo run --release -p jaco-raft --example throughput --features testing [directory]
//! ```
//! Clients are closed loops of 256-byte writes at the leader. There is no network and no TLS: this
//! is the ceiling that the disk and this crate set, to be compared with itself over time.

#![allow(clippy::print_stdout, reason = "an example talks to a terminal")]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bytes::Bytes;
use jaco_raft::testing::{Journal, Loopback};
use jaco_raft::{Options, Raft};

const STEP: Duration = Duration::from_secs(4);
const VALUE: usize = 256;

#[tokio::main]
async fn main() {
    let held = tempfile::tempdir().expect("a temporary directory");
    let dir = std::env::args().nth(1).map_or_else(|| held.path().to_owned(), PathBuf::from);
    let leader = cluster(&dir).await;
    println!("{:>8} {:>10} {:>9} {:>9} {:>9}", "clients", "writes/s", "p50 ms", "p99 ms", "max ms");
    for clients in [1, 16, 64, 256] {
        // The first, shorter round fills caches and is not shown.
        load(&leader, clients, STEP / 4).await;
        let mut latencies = load(&leader, clients, STEP).await;
        latencies.sort_unstable();
        let at = |permille: usize| latencies[(latencies.len() - 1) * permille / 1000];
        let millis = |latency: Duration| latency.as_secs_f64() * 1e3;
        println!(
            "{clients:>8} {:>10.0} {:>9.2} {:>9.2} {:>9.2}",
            latencies.len() as f64 / STEP.as_secs_f64(),
            millis(at(500)),
            millis(at(990)),
            millis(at(1000)),
        );
    }
    reads(&leader).await;
    idle(&leader).await;
}

async fn cluster(dir: &std::path::Path) -> Raft<Journal> {
    let network = Loopback::default();
    let mut nodes = Vec::new();
    for id in 1..=3 {
        let options = Options::new(id, "throughput", dir.join(id.to_string()));
        let node = Raft::open(options, Journal::default(), network.transport(id)).await;
        let node = node.expect("an empty directory opens");
        network.attach(node.clone());
        nodes.push(node);
    }
    let leader = nodes[0].clone();
    leader.initialize("1").await.expect("a new cluster");
    for id in 2..=3 {
        leader.add_learner(id, id.to_string()).await.expect("a new member");
    }
    leader.set_voters(BTreeSet::from([1, 2, 3])).await.expect("three voters");
    leader
}

async fn load(leader: &Raft<Journal>, clients: usize, length: Duration) -> Vec<Duration> {
    let end = Instant::now() + length;
    let tasks: Vec<_> = (0..clients)
        .map(|_| {
            let leader = leader.clone();
            tokio::spawn(async move {
                let mut latencies = Vec::new();
                while Instant::now() < end {
                    let start = Instant::now();
                    let value = Bytes::from(vec![b'.'; VALUE]);
                    leader.propose(value).await.expect("nothing fails here");
                    latencies.push(start.elapsed());
                }
                latencies
            })
        })
        .collect();
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await.expect("clients do not panic"));
    }
    all
}

async fn reads(leader: &Raft<Journal>) {
    let end = Instant::now() + STEP;
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let leader = leader.clone();
            tokio::spawn(async move {
                let mut count = 0_u64;
                while Instant::now() < end {
                    leader.linearizable().await.expect("nothing fails here");
                    count += 1;
                }
                count
            })
        })
        .collect();
    let mut total = 0;
    for task in tasks {
        total += task.await.expect("clients do not panic");
    }
    println!("linearizable reads/s, 64 clients: {:.0}", total as f64 / STEP.as_secs_f64());
}

/// What three nodes cost when nobody asks for anything.
async fn idle(leader: &Raft<Journal>) {
    let before = (cpu_ticks(), leader.status().last_log);
    let window = Duration::from_secs(10);
    tokio::time::sleep(window).await;
    let after = (cpu_ticks(), leader.status().last_log);
    // The kernel counts in hundredths of a second.
    let share = (after.0 - before.0) as f64 / window.as_secs_f64();
    println!(
        "idle: {share:.1} % of one core for three nodes, entries written: {}",
        after.1.unwrap_or(0) - before.1.unwrap_or(0)
    );
}

/// User and system time of this process so far, in clock ticks.
fn cpu_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux has it");
    let after_name = stat.rsplit(')').next().expect("the name is in parentheses");
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    [11, 12].iter().map(|at| fields[*at].parse::<u64>().expect("a number")).sum()
}
