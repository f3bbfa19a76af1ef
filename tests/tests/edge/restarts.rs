//! Processes of the product end and come back under load.

use std::time::{Duration, Instant};

use jaco_testkit::engines::PATIENCE;
use jaco_testkit::{eventually_within, router};
use tokio::time::sleep;

use crate::ends::{hang_up, kill_router, router_is_back, stop};
use crate::load::Failure;
use crate::outside::{Outside, Replicas};
use crate::rate::USUAL;

/// How soon clients are answered again whose edge was killed.
const BACK: Duration = Duration::from_secs(5);

/// How long an instance is seen to go on: more than its grace period.
const BUSY: Duration = Duration::from_secs(4);

/// How soon a process ends that is stopped while a client stays connected: 25 s are left to what is in flight.
const STOPPED: Duration = Duration::from_secs(30);

/// R-EDGE-1, R-NODE-1: the daemon of each machine is killed, the leader's first; then each router; then each edge is replaced
/// by another process, twice, also while its router or its daemon is away. No request fails, and no POST arrives twice.
#[tokio::test(flavor = "multi_thread")]
async fn daemons_routers_and_upgrades_fail_no_request() {
    let mut outside = Outside::start(Replicas::Elsewhere).await;
    let load = outside.load(&[0, 1, 2], USUAL);
    let leader = outside.machines.cluster.leader().await;
    for at in [leader, (leader + 1) % 3, (leader + 2) % 3] {
        outside.machines.cluster.nodes[at].kill();
        outside.machines.cluster.leader().await;
        load.goes_on().await;
        outside.machines.restart(at).await;
        outside.machines.cluster.settled().await;
        load.goes_on().await;
    }
    load.end().nothing_failed();

    let load = outside.load(&[0, 1, 2], USUAL);
    for at in 0..3 {
        kill_router(&outside, at);
        router_is_back(&outside, at).await;
        load.goes_on().await;
    }
    load.end().nothing_failed();

    let load = outside.load(&[0, 1, 2], USUAL);
    for at in [0, 1, 2, 0, 1, 2] {
        let edge = outside.edge(at);
        hang_up(edge);
        outside.has_another_edge(at, edge).await;
        load.goes_on().await;
    }
    load.end().nothing_failed();

    let load = outside.load(&[0, 1, 2], USUAL);
    let edge = outside.edge(0);
    kill_router(&outside, 0);
    hang_up(edge);
    router_is_back(&outside, 0).await;
    outside.has_another_edge(0, edge).await;
    load.goes_on().await;
    let edge = outside.edge(1);
    outside.machines.cluster.nodes[1].kill();
    hang_up(edge);
    load.goes_on().await;
    outside.machines.restart(1).await;
    outside.has_another_edge(1, edge).await;
    load.goes_on().await;
    let outcome = load.end();
    outcome.nothing_failed();
    println!("{} requests, {} a second", outcome.requests, outcome.per_second);

    a_daemon_that_starts_finds_an_edge_that_finishes(&mut outside).await;
}

/// R-EDGE-1: a daemon that ends and comes back while its edge is replaced starts no third one, and instances go on that
/// the replaced one is still busy with.
async fn a_daemon_that_starts_finds_an_edge_that_finishes(outside: &mut Outside) {
    let mut held = outside.hold(0).await;
    let former = outside.edge(0);
    outside.machines.cluster.nodes[0].kill();
    hang_up(former);
    outside.machines.restart(0).await;
    outside.machines.cluster.settled().await;
    is_replaced(outside).await;
    outside.cli(&["scale", "shop/web=0", "--detach"]);
    eventually_within(PATIENCE, "what nobody is busy with has ended", || async {
        let left = outside.replicas().await;
        if left.len() <= 1 { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
    let until = Instant::now() + BUSY;
    while Instant::now() < until {
        held.answers().await;
        assert_eq!(outside.replicas().await.len(), 1, "the instance that serves goes on");
        assert_eq!(router::edges(&outside.machines.router(0)).len(), 2, "and no third edge");
        sleep(Duration::from_millis(100)).await;
    }
    drop(held);
    outside.has_another_edge(0, former).await;
}

/// Waits until the successor of the first machine's edge serves.
async fn is_replaced(outside: &Outside) {
    let log = outside.machines.cluster.nodes[0].log_path();
    eventually_within(PATIENCE, "the successor serves", || async {
        let said = std::fs::read_to_string(&log).map_err(|error| error.to_string())?;
        let last = said.rfind("edge started").map(|at| &said[at..]);
        let is_replaced = last.is_some_and(|said| said.contains("replaced; finishing"));
        if is_replaced { Ok(()) } else { Err(said) }
    })
    .await;
}

/// R-EDGE-1: each edge is killed; then one that has just taken the place of another, which still has something to
/// finish. Only what was connected to the killed one fails; clients that connect again are served within seconds. The
/// one that still has something to finish ends soon when it is stopped, though its client stays.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_edge_fails_its_own_connections_alone() {
    let outside = Outside::start(Replicas::Elsewhere).await;
    for at in 0..3 {
        let load = outside.load(&[0, 1, 2], USUAL);
        load.goes_on().await;
        let edge = outside.edge(at);
        router::end(edge);
        let killed = Instant::now();
        outside.has_another_edge(at, edge).await;
        load.goes_on().await;
        let outcome = load.end();
        outcome.nothing_failed_but(|failure| is_of(failure, at, killed));
        assert!(outcome.recovery <= BACK, "{:?}", outcome.recovery);
    }

    let mut held = outside.hold(0).await;
    let load = outside.load(&[0, 1, 2], USUAL);
    load.goes_on().await;
    let former = outside.edge(0);
    hang_up(former);
    is_replaced(&outside).await;
    let pids = router::edges(&outside.machines.router(0));
    let successor = pids.into_iter().find(|pid| *pid != former).expect("it has a successor");
    router::end(successor);
    let killed = Instant::now();
    eventually_within(PATIENCE, "a third process is the edge", || async {
        let mut pids = router::edges(&outside.machines.router(0));
        pids.retain(|pid| ![former, successor].contains(pid));
        if pids.len() == 1 { Ok(()) } else { Err(format!("{pids:?}")) }
    })
    .await;
    load.goes_on().await;
    held.answers().await;
    stop(former);
    let stopped = Instant::now();
    outside.has_another_edge(0, former).await;
    assert!(stopped.elapsed() <= STOPPED, "{:?}", stopped.elapsed());
    drop(held);
    let outcome = load.end();
    outcome.nothing_failed_but(|failure| is_of(failure, 0, killed));
    assert!(outcome.recovery <= BACK, "{:?}", outcome.recovery);
}

/// Whether a request was in flight, or its connection open, where an edge was killed.
fn is_of(failure: &Failure, at: usize, killed: Instant) -> bool {
    failure.edge == Outside::address(at)
        && failure.connected.is_some_and(|connected| connected <= killed)
}
