//! What goes wrong is said, and made up for as soon as it can be.

use jaco_acme::{BACKOFF_FIRST, Terms};
use jaco_types::Millis;

use crate::cluster::{Fate, Rows};
use crate::pebble::Pebble;
use crate::responder::{answer_http, answer_http_with};

/// ACME: a refused nonce is no failure; the protocol has the request sent again.
#[tokio::test(flavor = "multi_thread")]
async fn refused_nonces_are_no_failures() {
    let mut pebble = Pebble::stopped(86_400, &[("PEBBLE_WFE_NONCEREJECT", "15")]).await;
    pebble.start().await;
    let rows = Rows::new();
    let _edge = answer_http(pebble.address, &rows).await;
    let _leader = rows.lead(pebble.authority(), Fate::Lives);
    let names: Vec<String> = (0..8).map(|number| format!("d{number}.example.org")).collect();
    for name in &names {
        rows.want(name);
    }
    for name in &names {
        rows.issued(name, 1).await;
    }
    assert_eq!(rows.failures(), [""; 0]);
}

/// ACME: an account that the authority has lost is made anew, and the order goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_account_is_made_anew() {
    let (mut pebble, rows) = (Pebble::started().await, Rows::new());
    let _edge = answer_http(pebble.address, &rows).await;
    let _leader = rows.lead(pebble.authority(), Fate::Lives);
    rows.want("a.example.org");
    rows.issued("a.example.org", 1).await;
    let before = rows.records().account.clone().unwrap();
    pebble.stop();
    pebble.start().await;
    // Several at a time, which make one account among them.
    let names = ["b.example.org", "c.example.org", "d.example.org"];
    for name in names {
        rows.want(name);
    }
    for name in names {
        rows.issued(name, 1).await;
    }
    assert_ne!(rows.records().account.as_ref().unwrap().key, before.key);
    assert_eq!(rows.failures(), [""; 0]);
    assert_eq!(rows.account_count(), 2, "one before and one after");
}

/// ACME: an authority that is down is a reason and a later try, not a loop.
#[tokio::test(flavor = "multi_thread")]
async fn an_authority_that_is_down_is_tried_again_later() {
    let mut pebble = Pebble::stopped(86_400, &[("PEBBLE_WFE_NONCEREJECT", "0")]).await;
    let rows = Rows::new();
    let _edge = answer_http(pebble.address, &rows).await;
    let _leader = rows.lead(pebble.authority(), Fate::Lives);
    let begin = rows.now();
    rows.want("shop.example.org");
    let attempt = rows.failed("shop.example.org").await;
    assert_eq!(attempt.failures, 1);
    assert!(attempt.reason.contains("does not answer"), "{}", attempt.reason);
    assert!(attempt.reason.contains("edge.acme.directory"), "{}", attempt.reason);
    assert!(attempt.next_try.since(begin) >= BACKOFF_FIRST);
    pebble.start().await;
    assert_eq!(rows.failures().len(), 1, "it was not tried before its time");
    rows.pass(BACKOFF_FIRST.0 / 1000 + 60);
    rows.issued("shop.example.org", 1).await;
}

/// ACME: who leads next takes an order up from the records alone: with the same account, to one certificate; and a
/// third leader has nothing to do.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_killed_amid_an_order_is_replaced_without_loss() {
    let (pebble, rows) = (Pebble::started().await, Rows::new());
    let _edge = answer_http(pebble.address, &rows).await;
    let first = rows.lead(pebble.authority(), Fate::DiesWithItsChallenge);
    rows.want("shop.example.org");
    first.ended().await;
    let account = rows.records().account.clone().unwrap();
    assert_eq!(rows.certificates("shop.example.org"), []);
    assert_eq!(rows.challenge_count(), 1, "it was killed between the challenge and the authority");
    let second = rows.lead(pebble.authority(), Fate::Lives);
    rows.issued("shop.example.org", 1).await;
    second.kill().await;
    let _third = rows.lead(pebble.authority(), Fate::Lives);
    rows.want("other.example.org");
    rows.issued("other.example.org", 1).await;
    assert_eq!(rows.certificates("shop.example.org").len(), 1);
    assert_eq!(rows.records().account, Some(account));
    assert_eq!(rows.failures(), [""; 0]);
}

/// ACME: where something else answers for the domain, the reason is what the authority saw, with what to do.
#[tokio::test(flavor = "multi_thread")]
async fn a_domain_that_leads_elsewhere_says_so() {
    let (pebble, rows) = (Pebble::started().await, Rows::new());
    let _stranger = answer_http_with(pebble.address, |_| Some("welcome".into())).await;
    let _leader = rows.lead(pebble.authority(), Fate::Lives);
    rows.want("shop.example.org");
    let attempt = rows.failed("shop.example.org").await;
    assert!(attempt.reason.contains("welcome"), "{}", attempt.reason);
    assert!(attempt.reason.contains("nodes of this cluster only"), "{}", attempt.reason);
    assert!(attempt.next_try.since(rows.now()) > Millis(0));
}

/// ACME: without the operator's word nothing is ordered, and the reason says how to give it.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_ordered_before_the_terms_are_agreed_to() {
    let (pebble, rows) = (Pebble::started().await, Rows::new());
    let _edge = answer_http(pebble.address, &rows).await;
    let authority = jaco_acme::Authority { terms: Terms::NotAgreed, ..pebble.authority() };
    let leader = rows.lead(authority, Fate::Lives);
    rows.want("shop.example.org");
    let attempt = rows.failed("shop.example.org").await;
    assert!(attempt.reason.contains("agree_terms: true"), "{}", attempt.reason);
    assert_eq!(rows.records().account, None);
    leader.kill().await;
    let _agreed = rows.lead(pebble.authority(), Fate::Lives);
    rows.issued("shop.example.org", 1).await;
}
