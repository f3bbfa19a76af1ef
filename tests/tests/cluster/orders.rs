//! Certificates that the leader orders, by real daemons from a real authority. It takes every domain as proven: these
//! daemons have no edges.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jaco_testkit::{Cluster, Engine, eventually, eventually_within, v1};
use serde_json::Value;

use crate::pebble::Pebble;
use crate::routes::{done, manifest, ran};

/// A day: nothing is renewed meanwhile.
const LONG: Duration = Duration::from_secs(24 * 60 * 60);

/// What has every domain taken as proven, at once.
const PROVEN: [(&str, &str); 2] = [("PEBBLE_VA_ALWAYS_VALID", "1"), ("PEBBLE_VA_NOSLEEP", "1")];

/// The authority of a test, at an address that no other has.
fn authority(own: u8, validity: Duration, environment: &[(&'static str, &'static str)]) -> Pebble {
    let [.., high, low] = std::process::id().to_be_bytes();
    // Clusters have 127.64.0.0 and above.
    let address = Ipv4Addr::new(127, 8 + own, high, low.max(1));
    Pebble::new(address, validity, environment)
}

/// Three daemons that order from it, and have networks of their own.
async fn cluster(authority: &Pebble) -> Cluster {
    let cluster = Cluster::start_with(3, Engine::Fake, &authority.settings()).await;
    eventually("all nodes have reported their versions", || async {
        let (code, _, err) = ran(&cluster, 1, &["network", "enable"]);
        if code == Some(0) { Ok(()) } else { Err(err) }
    })
    .await;
    cluster
}

/// Applies a deployment with a route for each of these domains.
fn route(cluster: &Cluster, node: usize, deployment: &str, domains: &[&str]) {
    let rows = domains.iter().map(|domain| format!("{{domain: {domain}, service: web, port: 80}}"));
    let rows: Vec<String> = rows.collect();
    let folder = manifest(cluster, deployment, &format!("[{}]", rows.join(", ")));
    let folder = folder.to_str().expect("text");
    // An order does not wait for replicas, and no test here does.
    done(cluster, node, &["apply", folder, "--detach"]);
}

/// What a node says of the certificate of a domain.
async fn listed(
    cluster: &Cluster,
    node: usize,
    domain: &str,
) -> Result<v1::CertificateInfo, String> {
    let listed =
        cluster.nodes[node].client().list_certificates(v1::ListCertificatesRequest {}).await;
    let listed = listed.map_err(|error| error.to_string())?.certificates;
    listed.into_iter().find(|one| one.name == domain).ok_or_else(|| format!("no {domain}"))
}

/// The certificate of a domain, once a node has one that is not `former`.
async fn issued(
    cluster: &Cluster,
    node: usize,
    domain: &str,
    former: &[u8],
) -> v1::CertificateInfo {
    eventually_within(Duration::from_secs(90), "a certificate is issued", || async {
        let found = listed(cluster, node, domain).await?;
        let is_new = !found.fingerprint.is_empty() && *found.fingerprint != *former;
        if is_new { Ok(found) } else { Err(format!("{found:?}")) }
    })
    .await
}

/// The failure of the last order of a domain.
async fn failed(cluster: &Cluster, node: usize, domain: &str) -> v1::CertificateInfo {
    eventually("an order has failed", || async {
        let found = listed(cluster, node, domain).await?;
        if found.problem.is_empty() { Err(format!("{found:?}")) } else { Ok(found) }
    })
    .await
}

/// How many audit events of a kind there are.
fn events(cluster: &Cluster, node: usize, kind: &str) -> usize {
    let (out, _) = done(cluster, node, &["audit", "--type", kind, "-o", "json"]);
    let events: Value = serde_json::from_str(&out).expect("json");
    events.as_array().expect("a list").len()
}

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
    i64::try_from(now.as_millis()).expect("it fits")
}

/// R-EDGE-2: a route's domain has its certificate within 3 s, and every node has it 200 ms after the leader recorded it
/// (medians of 5).
#[tokio::test(flavor = "multi_thread")]
async fn every_node_has_a_certificate_as_soon_as_it_is_issued() {
    let mut authority = authority(0, LONG, &PROVEN);
    authority.start().await;
    let cluster = cluster(&authority).await;
    let (mut ordered, mut spread) = (Vec::new(), Vec::new());
    for number in 0..5 {
        let domain = format!("shop{number}.example.org");
        let begun = Instant::now();
        route(&cluster, number % 3, &format!("shop{number}"), &[&domain]);
        let at = |node| {
            let (cluster, domain) = (&cluster, &domain);
            async move {
                let found = issued(cluster, node, domain, &[]).await;
                (found, now_ms())
            }
        };
        let (one, two, three) = tokio::join!(at(0), at(1), at(2));
        ordered.push(begun.elapsed());
        let last = one.1.max(two.1).max(three.1);
        spread.push(last - one.0.stored_at_ms);
        assert_eq!(one.0.source, "ordered");
        assert_eq!(
            (&two.0.fingerprint, &three.0.fingerprint),
            (&one.0.fingerprint, &one.0.fingerprint)
        );
    }
    ordered.sort_unstable();
    spread.sort_unstable();
    println!("from `jaco apply` to a certificate on three nodes: {ordered:?}");
    println!("from its record to all nodes: {spread:?} ms");
    assert!(ordered[2] <= Duration::from_secs(3), "{ordered:?}");
    assert!(spread[2] <= 200, "{spread:?}");
    assert_eq!(events(&cluster, 0, "acme_account_made"), 1);
    assert_eq!(events(&cluster, 0, "domain_certificate_issued"), 5);
}

/// R-EDGE-2: a certificate is renewed in time, also by the leader after the one that ordered it.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_renewed_by_whoever_leads() {
    let mut authority = authority(1, Duration::from_secs(45), &PROVEN);
    authority.start().await;
    let mut cluster = cluster(&authority).await;
    route(&cluster, 0, "shop", &["shop.example.org"]);
    let first = issued(&cluster, 0, "shop.example.org", &[]).await;
    let leader = cluster.leader().await;
    cluster.nodes[leader].kill();
    let node = (leader + 1) % 3;
    let second = issued(&cluster, node, "shop.example.org", &first.fingerprint).await;
    assert!(second.stored_at_ms >= first.renew_at_ms, "{first:?} {second:?}");
    assert!(second.stored_at_ms < first.not_after_ms, "{first:?} {second:?}");
    assert_eq!(events(&cluster, node, "acme_account_made"), 1, "the account is used again");
    assert!(events(&cluster, node, "domain_certificate_renewed") >= 1);
}

/// R-EDGE-2: an authority that is down is a reason that people see, and is asked again after the wait that the cluster has
/// recorded, whoever leads by then.
#[tokio::test(flavor = "multi_thread")]
async fn an_authority_that_is_down_is_asked_again_after_the_wait() {
    let mut authority = authority(2, LONG, &PROVEN);
    let mut cluster = cluster(&authority).await;
    let leader = cluster.leader().await;
    route(&cluster, leader, "shop", &["shop.example.org"]);
    let failure = failed(&cluster, leader, "shop.example.org").await;
    assert!(failure.problem.contains("the authority does not answer"), "{failure:?}");
    assert!(failure.problem.contains("edge.acme.directory"), "{failure:?}");
    let (out, _) = done(&cluster, leader, &["route", "ls", "-o", "json"]);
    assert!(out.contains("the authority does not answer"), "{out}");
    cluster.nodes[leader].kill();
    authority.start().await;
    let node = (leader + 1) % 3;
    let found = issued(&cluster, node, "shop.example.org", &[]).await;
    assert!(found.stored_at_ms >= failure.next_try_ms, "{failure:?} {found:?}");
    assert_eq!(found.problem, "", "the failure is over");
    assert_eq!(events(&cluster, node, "domain_certificate_failed"), 1);
}

/// R-EDGE-2: an account that the authority has lost is made anew, and the order goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_account_is_made_anew() {
    let mut authority = authority(3, LONG, &PROVEN);
    authority.start().await;
    let cluster = cluster(&authority).await;
    route(&cluster, 0, "shop", &["shop.example.org"]);
    issued(&cluster, 0, "shop.example.org", &[]).await;
    authority.stop();
    authority.start().await;
    route(&cluster, 0, "blog", &["blog.example.org", "www.example.org"]);
    issued(&cluster, 0, "blog.example.org", &[]).await;
    issued(&cluster, 0, "www.example.org", &[]).await;
    assert_eq!(events(&cluster, 0, "acme_account_made"), 2, "one before and one after");
    assert_eq!(events(&cluster, 0, "domain_certificate_failed"), 0);
}

/// R-EDGE-2: a leader that ends amid an order loses nothing but its time: the next one orders with the same account.
#[tokio::test(flavor = "multi_thread")]
async fn an_order_is_taken_up_by_the_next_leader() {
    // It thinks for some seconds before it believes in a proof.
    let slowly = [("PEBBLE_VA_ALWAYS_VALID", "1"), ("PEBBLE_VA_SLEEPTIME", "5")];
    let mut authority = authority(4, LONG, &slowly);
    authority.start().await;
    let mut cluster = cluster(&authority).await;
    let leader = cluster.leader().await;
    route(&cluster, leader, "shop", &["shop.example.org"]);
    eventually("an order has begun", || async {
        if events(&cluster, leader, "acme_account_made") == 1 { Ok(()) } else { Err("no account") }
    })
    .await;
    cluster.nodes[leader].kill();
    let killed = Instant::now();
    let node = (leader + 1) % 3;
    assert!(listed(&cluster, node, "shop.example.org").await.unwrap().fingerprint.is_empty());
    issued(&cluster, node, "shop.example.org", &[]).await;
    println!("from the end of the leader to the certificate: {:?}", killed.elapsed());
    assert_eq!(events(&cluster, node, "acme_account_made"), 1);
    assert_eq!(events(&cluster, node, "domain_certificate_issued"), 1);
    assert_eq!(events(&cluster, node, "domain_certificate_failed"), 0);
}

/// R-EDGE-2: nothing is ordered before the operator agrees to the terms, and every domain says how to do that.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_ordered_before_the_terms_are_agreed_to() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    eventually("the node has reported its version", || async {
        let (code, _, err) = ran(&cluster, 0, &["network", "enable"]);
        if code == Some(0) { Ok(()) } else { Err(err) }
    })
    .await;
    route(&cluster, 0, "shop", &["shop.example.org"]);
    let failure = failed(&cluster, 0, "shop.example.org").await;
    assert!(failure.problem.contains("edge.acme.agree_terms: true"), "{failure:?}");
    assert_eq!(events(&cluster, 0, "acme_account_made"), 0);
}
