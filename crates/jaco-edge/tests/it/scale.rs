//! Ten thousand routes: what they cost in memory, and what a change costs in time.

use std::sync::Arc;
use std::time::Duration;

use jaco_dataplane::edge::PlannedRoute;
use jaco_types::route::BodyLimit;
use jaco_types::unit::Bytes;
use jaco_types::{RouteKey, StateIndex};

use crate::instances::saying;
use crate::lab::{Lab, route_key, to_web};

const ROUTES: usize = 10_000;

/// Says to the second process of [`ten_thousand_routes_are_small`] that it is the second.
const ALONE: &str = "JACO_EDGE_TEST_ALONE";

fn many() -> impl Iterator<Item = (RouteKey, PlannedRoute)> {
    (0..ROUTES).map(|number| {
        let key = route_key(&format!("shop-{number}.customers.example"), "/");
        (key, to_web())
    })
}

/// Memory of this process, in KiB.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// The plan is part of what they cost. Measured in a process of its own, where nothing else runs meanwhile.
#[tokio::test]
async fn ten_thousand_routes_are_small() {
    if std::env::var_os(ALONE).is_none() {
        let me = std::env::current_exe().unwrap();
        let test = ["--exact", "scale::ten_thousand_routes_are_small", "--nocapture"];
        let alone = std::process::Command::new(me).args(test).env(ALONE, "1").output().unwrap();
        let said = String::from_utf8_lossy(&alone.stdout);
        assert!(alone.status.success() && said.contains("KiB a route"), "{said}");
        return;
    }
    let mut lab = Lab::new();
    lab.apply();
    let before = resident();
    lab.plan.routes = many().collect();
    lab.apply();
    // And one that is changed a few times: what is old goes.
    for _ in 0..5 {
        lab.route("shop-1.customers.example", "/", |_| {});
        lab.apply();
    }
    let kib = resident() - before;
    println!("{:.2} KiB a route", kib as f64 / ROUTES as f64);
    assert!(kib <= 2 * ROUTES, "{kib} KiB");
    let found = crate::wire::get(&lab, "shop-9999.customers.example", "/").await;
    assert_eq!(found.reason(), "no_endpoints");
}

/// How long this thread was at work so far.
fn worked() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.try_into().unwrap()
}

/// The best of many, by the time of the processor: how long it takes on a machine that does nothing else.
#[tokio::test]
async fn one_change_of_ten_thousand_routes_is_quick() {
    let one = saying("one");
    let mut lab = Lab::new();
    lab.plan.routes = many().collect();
    lab.ready(&[one.address]);
    lab.apply();
    let mut best = Duration::MAX;
    for number in 0..30 {
        let body_max = BodyLimit::new(Bytes(number + 1)).unwrap();
        lab.route("shop-77.customers.example", "/", |route| route.body_max = Some(body_max));
        let (plan, certificates) = (Arc::new(lab.plan.clone()), Arc::new(lab.certificates.clone()));
        let began = worked();
        lab.edge.apply(StateIndex(100 + number), plan, certificates);
        best = best.min(worked() - began);
    }
    assert_eq!(lab.status().applied, Some(StateIndex(129)));
    println!("{best:?} for one change");
    // A tenth of what is promised (design of the edge: 10 ms), and a third of what reading all routes takes.
    assert!(best <= Duration::from_millis(1), "{best:?}");
    let large = "POST / HTTP/1.1\r\nHost: shop-77.customers.example\r\nContent-Length: 31\r\n\r\n";
    let reply = crate::wire::once(&lab, large).await;
    assert_eq!(reply.reason(), "body_too_large");
}
