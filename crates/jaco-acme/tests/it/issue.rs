//! Certificates are issued and renewed.

use std::time::{Duration, Instant};

use jaco_pki::served::ServedCertificate;

use crate::cluster::{Fate, Rows};
use crate::pebble::{Pebble, own_address};
use crate::responder::{answer_http, answer_tls};

/// ACME: a domain has a certificate for its name, with a key of its own, within 3 s (median of 5).
#[tokio::test(flavor = "multi_thread")]
async fn a_domain_has_its_certificate_in_three_seconds() {
    let (pebble, rows) = (Pebble::started().await, Rows::new());
    let _edge = answer_http(pebble.address, &rows).await;
    let _leader = rows.lead(pebble.authority(), Fate::Lives);
    let mut times = Vec::new();
    for number in 0..5 {
        let name = format!("shop{number}.example.org");
        let begin = Instant::now();
        rows.want(&name);
        rows.issued(&name, 1).await;
        times.push(begin.elapsed());
        let [certificate] = &rows.certificates(&name)[..] else { panic!("one certificate") };
        let (chain, key) = (certificate.chain.as_bytes(), certificate.key.as_bytes());
        let found = ServedCertificate::check(chain, key, rows.now()).unwrap();
        assert_eq!(found.names.into_iter().collect::<Vec<_>>(), [name]);
    }
    times.sort_unstable();
    println!("from route to certificate: {times:?}");
    assert!(times[2] <= Duration::from_secs(3), "{times:?}");
    assert_eq!(rows.failures(), [""; 0]);
    assert_eq!(rows.challenge_count(), 0, "no challenge is left");
}

/// ACME: any edge answers, whichever of them the authority asks.
#[tokio::test(flavor = "multi_thread")]
async fn three_edges_answer_for_one_leader() {
    let (pebble, rows) = (Pebble::started().await, Rows::new());
    let names = ["a.example.org", "b.example.org", "c.example.org"];
    let addresses = [own_address(), own_address(), own_address()];
    for (name, address) in names.into_iter().zip(addresses) {
        pebble.point(name, address).await;
    }
    let _edges = [
        answer_http(addresses[0], &rows).await,
        answer_http(addresses[1], &rows).await,
        answer_http(addresses[2], &rows).await,
    ];
    let _leader = rows.lead(pebble.authority(), Fate::Lives);
    for name in names {
        rows.want(name);
    }
    for name in names {
        rows.issued(name, 1).await;
    }
    assert_eq!(rows.failures(), [""; 0]);
}

/// ACME: after two thirds of its life a certificate is replaced by one with another key.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_renewed_after_two_thirds_of_its_life() {
    let (pebble, rows) = (Pebble::started().await, Rows::new());
    let _edge = answer_http(pebble.address, &rows).await;
    let _leader = rows.lead(pebble.authority(), Fate::Lives);
    rows.want("shop.example.org");
    rows.issued("shop.example.org", 1).await;
    // A day less than two thirds of 90 days. The other domain shows that the controller has looked.
    rows.pass(59 * 24 * 60 * 60);
    rows.want("other.example.org");
    rows.issued("other.example.org", 1).await;
    assert_eq!(rows.certificates("shop.example.org").len(), 1);
    rows.pass(24 * 60 * 60);
    rows.issued("shop.example.org", 2).await;
    let [old, new] = &rows.certificates("shop.example.org")[..] else { panic!("two") };
    assert_ne!(old.key, new.key);
    assert_ne!(old.fingerprint, new.fingerprint);
    assert_eq!(rows.failures(), [""; 0]);
}

/// ACME: where port 80 is closed, port 443 proves the domain, without a wait.
#[tokio::test(flavor = "multi_thread")]
async fn a_closed_port_80_is_made_up_for_by_443() {
    let (pebble, rows) = (Pebble::started().await, Rows::new());
    let _edge = answer_tls(pebble.address, &rows).await;
    let _leader = rows.lead(pebble.authority(), Fate::Lives);
    rows.want("shop.example.org");
    rows.issued("shop.example.org", 1).await;
    let failures = rows.failures();
    let [failure] = &failures[..] else { panic!("{failures:?}") };
    assert!(failure.contains("connection") && failure.contains("ports 80 and 443"), "{failure}");
    assert!(rows.records().attempts.is_empty(), "nothing is left of the failure");
}
