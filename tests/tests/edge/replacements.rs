//! Replicas are replaced under load.

use std::fs;
use std::time::Instant;

use jaco_testkit::engines::PATIENCE;
use jaco_testkit::eventually_within;

use crate::asked::asked;
use crate::outside::{DOMAINS, Outside, Replicas};
use crate::rate::Rate;
use crate::rounds::Rounds;

/// R-EDGE-1: replicas are replaced fifty times by restarts, rolls, scaling, a drain, a rebalance and a revision that
/// crashes, beside services that crash again and again, while requests come in at all three edges: none fails, and no
/// POST and no call arrives twice. The edge has no rights. `jaco top` and the access log have the requests.
///
/// `JACO_EDGE_REPLACEMENTS` and `JACO_EDGE_RATE` ask for more replacements, and for more requests a second.
#[tokio::test(flavor = "multi_thread")]
async fn replacements_fail_no_request() {
    let wanted = asked("JACO_EDGE_REPLACEMENTS", 50);
    let rate = Rate(asked("JACO_EDGE_RATE", 500));
    let outside = Outside::start(Replicas::Everywhere).await;
    for at in 0..3 {
        has_no_rights(outside.edge(at));
    }
    outside.crash_beside();
    let before = outside.containers().await;
    let mut rounds = Rounds::of(&outside).await;
    let load = outside.load(&[0, 1, 2], rate);
    while rounds.replaced() < wanted {
        let begun = Instant::now();
        rounds.one(&outside).await;
        println!(
            "{} of {wanted} replaced, the last after {:?}",
            rounds.replaced(),
            begun.elapsed()
        );
    }
    let replaced = rounds.replaced() as u64;
    outside.requests_are_seen();
    let outcome = load.end();
    outside.requests_are_explained().await;
    let mut log = outside.log.reader();
    eventually_within(PATIENCE, "all requests are in the access log", || {
        let logged = log.requests(&DOMAINS);
        async move {
            if logged >= outcome.requests { Ok(()) } else { Err(format!("{logged} lines")) }
        }
    })
    .await;
    let after = outside.containers().await;
    assert!(after.iter().all(|id| !before.contains(id)), "all were replaced: {before:?} {after:?}");
    println!(
        "{replaced} replacements under {} requests, {} a second: {:?}; {} calls declined",
        outcome.requests, outcome.per_second, outcome.kinds, outcome.declined
    );
    outcome.nothing_failed();
    assert_eq!(outcome.declined, 0, "no edge is replaced, so none ends a connection in use");
    // 40 for each replacement: how many there are depends on the machine.
    assert!(outcome.requests >= 40 * replaced, "there was load: {} requests", outcome.requests);
}

fn has_no_rights(edge: u32) {
    let status = fs::read_to_string(format!("/proc/{edge}/status")).expect("it is there");
    let of = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    for set in ["CapEff:", "CapPrm:", "CapInh:", "CapAmb:"] {
        assert_eq!(of(set), Some("0000000000000000"), "{set}");
    }
    assert_ne!(of("Uid:").and_then(|ids| ids.split_whitespace().next()), Some("0"));
    assert_eq!(of("NoNewPrivs:"), Some("1"));
}
