//! Replicas are replaced under load.

use std::fs;

use jaco_testkit::engines::PATIENCE;
use jaco_testkit::eventually_within;

use crate::outside::{Outside, Replicas};

/// R-EDGE-1: replicas are replaced fifty times by restarts, rolls, scaling and a drain while requests
/// come in at all three edges: none fails, and no POST arrives twice. The edge has no rights. `jaco top` and the access log
/// have the requests.
#[tokio::test(flavor = "multi_thread")]
async fn fifty_replacements_fail_no_request() {
    let outside = Outside::start(Replicas::Everywhere).await;
    for at in 0..3 {
        let pid = outside.edge(at);
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it is there");
        let of = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        for set in ["CapEff:", "CapPrm:", "CapInh:", "CapAmb:"] {
            assert_eq!(of(set), Some("0000000000000000"), "{set}");
        }
        assert_ne!(of("Uid:").and_then(|ids| ids.split_whitespace().next()), Some("0"));
        assert_eq!(of("NoNewPrivs:"), Some("1"));
    }
    let before = outside.containers().await;
    let load = outside.load(&[0, 1, 2]);
    let mut replaced = 0;
    for _ in 0..3 {
        outside.cli(&["restart", "shop/web", "--timeout", "120s"]);
        replaced += 6;
    }
    for revision in 2..5 {
        outside.apply(revision);
        replaced += 6;
    }
    outside.cli(&["scale", "shop/web=2", "--timeout", "60s"]);
    outside.cli(&["scale", "shop/web=6", "--timeout", "60s"]);
    outside.cli(&["node", "drain", "n3", "--timeout", "60s"]);
    outside.cli(&["node", "uncordon", "n3"]);
    replaced += 4 + 2;
    outside.cli(&["restart", "shop/web", "--timeout", "120s"]);
    outside.cli(&["restart", "shop/web", "--timeout", "120s"]);
    replaced += 12;
    outside.requests_are_seen();
    let outcome = load.end();
    // At rest: it says so if an instance does not accept within the 250 ms that an edge waits for it.
    outside.requests_are_explained();
    assert!(replaced >= 50, "{replaced}");
    eventually_within(PATIENCE, "all requests are in the access log", || async {
        let lines = outside.logs.lines();
        let of_route = lines.iter().filter(|line| line["route"] == "shop.example.com").count();
        if of_route as u64 >= outcome.requests { Ok(()) } else { Err(format!("{of_route} lines")) }
    })
    .await;
    let after = outside.containers().await;
    assert!(after.iter().all(|id| !before.contains(id)), "all were replaced: {before:?} {after:?}");
    outcome.nothing_failed();
    println!("{} requests, {} a second", outcome.requests, outcome.per_second);
    // 40 for each replacement: how many there are depends on the machine.
    assert!(outcome.requests >= 40 * replaced, "there was load: {} requests", outcome.requests);
}
