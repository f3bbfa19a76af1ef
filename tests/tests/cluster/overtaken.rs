//! Changes that others overtake between what was read and what was changed.

use std::time::Duration;

use jaco_testkit::{Client, Cluster, Engine, v1};

use crate::scenario::deploy;

/// Rebalances, of one move each.
const MOVES: usize = 8;

/// How often nodes get another label: often enough that a move is overtaken now and then, seldom enough that one of ten
/// attempts is not.
const PAUSE: Duration = Duration::from_millis(30);

async fn set_availability(cluster: &Cluster, hostname: &str, availability: &str) {
    let request = v1::SetAvailabilityRequest {
        hostname: hostname.to_owned(),
        availability: availability.to_owned(),
        ..Default::default()
    };
    cluster.client().set_availability(request).await.expect("it is set");
}

/// Gives all nodes another label, again and again.
async fn relabel(client: Client) {
    for number in 0_u64.. {
        for hostname in ["n1", "n2", "n3"] {
            let set = [("number".to_owned(), number.to_string())].into();
            let hostname = hostname.to_owned();
            let request = v1::SetLabelsRequest { hostname, set, ..Default::default() };
            client.set_labels(request).await.expect("it is set");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// R-REB-9: a rebalance whose nodes change between the decision and its commit is decided again, and not left to its
/// user to repeat.
#[tokio::test(flavor = "multi_thread")]
async fn a_rebalance_that_is_overtaken_is_decided_again() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    for host in ["n2", "n3"] {
        set_availability(&cluster, host, "cordoned").await;
    }
    deploy(&cluster, "shop", "web:1", 12).await;
    for host in ["n2", "n3"] {
        set_availability(&cluster, host, "active").await;
    }
    let labels = tokio::spawn(relabel(cluster.client()));
    let mut overtaken = 0;
    for _ in 0..MOVES {
        let args = ["rebalance", "--goal", "spread", "--apply", "--max", "1"];
        let out = cluster.cli(0, &args);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success(), "{said}");
        overtaken += said.matches("trying again").count();
    }
    assert!(!labels.is_finished(), "labels change all the time");
    labels.abort();
    println!("{overtaken} attempts were overtaken");
    let homes = cluster.converged(0, "shop").await;
    let of = |host: &str| homes.replicas.iter().filter(|one| one.node == host).count();
    assert_eq!(["n1", "n2", "n3"].map(of), [4, 4, 4]);
}
