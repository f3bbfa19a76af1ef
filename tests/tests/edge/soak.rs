//! Everything at once, for as long as one asks for.

use std::time::{Duration, Instant};

use jaco_testkit::{memory, router};
use rustix::process::Signal;

use crate::asked::asked;
use crate::ends::{hang_up, kill_router, router_is_back};
use crate::load::Load;
use crate::outside::{Outside, Replicas};
use crate::rate::Rate;
use crate::rounds::Rounds;

/// Rounds that there are at least: memory is compared with what it was after one.
const ROUNDS: usize = 2;

/// By how much a process may have grown since it was warm, beside a tenth: what allocators keep differs by as much.
const GROWTH_BYTES: u64 = 4 << 20;

/// R-EDGE-1: round after round, replicas are replaced in every way, the daemon that leads is killed and comes back, the
/// first router is killed, the first edge is replaced by another process and the second engine is stopped and started,
/// under load at all three edges. No request fails, no POST arrives twice, and the edges and routers that stay have as
/// much memory at the end as when they were warm.
///
/// `JACO_EDGE_MINUTES` and `JACO_EDGE_RATE` ask for more of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_soak_fails_no_request_and_memory_stays() {
    let wanted = Duration::from_secs(60 * asked("JACO_EDGE_MINUTES", 1));
    let rate = Rate(asked("JACO_EDGE_RATE", 300));
    let mut outside = Outside::start(Replicas::Everywhere).await;
    outside.crash_beside();
    let mut rounds = Rounds::of(&outside).await;
    let load = outside.load(&[0, 1, 2], rate);
    let begun = Instant::now();
    let mut memory = Vec::new();
    while begun.elapsed() < wanted || memory.len() < ROUNDS {
        rounds.one(&outside).await;
        processes_end(&mut outside, &load).await;
        memory.push(Memory::of(&outside));
        println!(
            "{:?}: {} replaced, {} requests failed, {:?}",
            begun.elapsed(),
            rounds.replaced(),
            load.failed(),
            memory.last()
        );
    }
    let outcome = load.end();
    println!(
        "{} replacements in {:?} under {} requests, {} a second: {:?}",
        rounds.replaced(),
        begun.elapsed(),
        outcome.requests,
        outcome.per_second,
        outcome.kinds
    );
    outcome.nothing_failed();
    // A quarter of the time is for what grows until it is warm: caches, pools, the arenas of allocators.
    let (warm, last) = (&memory[memory.len() / 4], &memory[memory.len() - 1]);
    for (warm, last) in warm.that_stay().zip(last.that_stay()) {
        assert_eq!(warm.pid, last.pid, "nobody ended it: {memory:#?}");
        let bound = warm.bytes + warm.bytes / 10 + GROWTH_BYTES;
        assert!(last.bytes <= bound, "{last:?}, and {warm:?} when it was warm: {memory:#?}");
    }
}

/// The daemon that leads, a router, an edge and an engine end and come back, one after the other.
async fn processes_end(outside: &mut Outside, load: &Load) {
    let leader = outside.machines.cluster.leader().await;
    outside.machines.cluster.nodes[leader].kill();
    outside.machines.cluster.leader().await;
    load.goes_on().await;
    outside.machines.restart(leader).await;
    outside.machines.cluster.settled().await;

    kill_router(outside, 0);
    router_is_back(outside, 0).await;
    load.goes_on().await;

    let edge = outside.edge(0);
    hang_up(edge);
    outside.has_another_edge(0, edge).await;
    load.goes_on().await;

    let engine = &mut outside.machines.engines[1];
    engine.end(Signal::TERM);
    engine.boot().await;
    load.goes_on().await;
}

/// A process, and its resident memory in bytes.
#[derive(Debug, Clone, Copy)]
struct Resident {
    pid: u32,
    bytes: u64,
}

/// The processes, by machine.
#[derive(Debug)]
struct Memory {
    edges: [Resident; 3],
    routers: [Resident; 3],
    #[expect(dead_code, reason = "it is printed: each of them is killed now and then")]
    daemons: [Resident; 3],
}

impl Memory {
    fn of(outside: &Outside) -> Self {
        let router = |at| router::pid(&outside.machines.router(at)).expect("there is a router");
        let daemon = |at: usize| outside.machines.cluster.nodes[at].pid();
        let resident = |pid| Resident { pid, bytes: memory::resident(pid) };
        Self {
            edges: [0, 1, 2].map(|at| resident(outside.edge(at))),
            routers: [0, 1, 2].map(|at| resident(router(at))),
            daemons: [0, 1, 2].map(|at| resident(daemon(at))),
        }
    }

    /// The processes that nobody ends: a new one would be small.
    fn that_stay(&self) -> impl Iterator<Item = Resident> {
        self.edges[1..].iter().chain(&self.routers[1..]).copied()
    }
}
