//! A machine is lost under load.

use std::time::{Duration, Instant};

use jaco_testkit::engines::PATIENCE;
use jaco_testkit::{eventually_within, router};

use crate::load::Kind;
use crate::outside::{Outside, Replicas};
use crate::rate::USUAL;

/// How long after the loss a request may be sent to the lost machine that is not repeated: connections to instances are
/// used for such requests while they were used within a second.
const UNNOTICED: Duration = Duration::from_secs(3);

/// R-EDGE-1, R-NODE-1: a machine is cut off with all that runs on it. At the edges of the others no request fails that
/// can be repeated; of the rest only what was in flight to the lost machine, or sent to it within seconds. No POST
/// arrives twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_machine_fails_what_it_had_in_flight() {
    let mut outside = Outside::start(Replicas::Elsewhere).await;
    let load = outside.load(&[0, 1], USUAL);
    load.goes_on().await;
    outside.machines.cut(2);
    let lost = Instant::now();
    outside.machines.cluster.nodes[2].kill();
    router::remove(&outside.machines.router(2));
    load.goes_on().await;
    eventually_within(PATIENCE, "everything runs elsewhere", || async {
        let replicas = outside.replicas().await;
        let is_there =
            |one: &jaco_testkit::v1::ReplicaInfo| one.node != "n3" && one.state == "running";
        let there = replicas.iter().filter(|one| is_there(one)).count();
        if there == 6 { Ok(()) } else { Err(format!("{replicas:?}")) }
    })
    .await;
    load.goes_on().await;
    let outcome = load.end();
    outcome.nothing_failed_but(|failure| {
        failure.kind != Kind::Get && failure.asked <= lost + UNNOTICED
    });
    println!("{} of {} failed", outcome.failures.len(), outcome.requests);
}
