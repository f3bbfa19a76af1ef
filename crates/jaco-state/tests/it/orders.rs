//! Certificates that the leader orders: what is recorded, what is refused, and what remains when routes go.

use std::sync::Arc;

use jaco_state::acme::{AcmeAccount, AcmeChallenge, CHALLENGES_MAX, IssueAttempt, TOKEN_BYTES_MAX};
use jaco_state::command::{AcmeNote, CertificateIssue, DeploymentApply, DeploymentDelete};
use jaco_state::edge::SealedKey;
use jaco_state::invariants::{Law, violations};
use jaco_state::{ClusterState, Command, Outcome};
use jaco_types::route::{RouteDomain, RouteTls};
use jaco_types::{ChallengeKind, ErrorCode, Millis, RenewalWindow, Timestamp};

use crate::attached::networked;
use crate::history::{History, deployment};
use crate::routes::{route_key, route_to, spec_with, with_edges};

fn domain(name: &str) -> RouteDomain {
    name.parse().unwrap()
}

pub(crate) fn account(number: u8) -> Command {
    let account = AcmeAccount {
        directory: "https://a.example/directory".into(),
        url: format!("https://a.example/account/{number}").into(),
        key: SealedKey([number; 40].into()),
    };
    AcmeNote::Account(account).into()
}

pub(crate) fn challenge(name: &str, token: &str) -> Command {
    let challenge = AcmeChallenge {
        domain: domain(name),
        kind: ChallengeKind::Http01,
        key_authorization: format!("{token}.thumbprint").into(),
        expires: Timestamp(2_000_000),
    };
    AcmeNote::Challenge { token: token.into(), challenge }.into()
}

pub(crate) fn issued(name: &str, number: u8) -> Command {
    let issue = CertificateIssue {
        domain: domain(name),
        directory: "https://a.example/directory".into(),
        chain: "PEM".into(),
        key: SealedKey([number; 40].into()),
        not_before: Timestamp(1),
        not_after: Timestamp(3_000_000),
        fingerprint: [number; 32],
    };
    AcmeNote::Issued(issue).into()
}

pub(crate) fn failed(name: &str, failures: u32) -> Command {
    let attempt = IssueAttempt {
        failures,
        reason: "the authority refused: dns".into(),
        next_try: Timestamp(1_060_000),
        kind: ChallengeKind::Http01,
    };
    AcmeNote::Failed { domain: domain(name), attempt }.into()
}

fn window(name: &str, window: Option<RenewalWindow>) -> Command {
    AcmeNote::Window { domain: domain(name), window }.into()
}

fn deploy(name: &str, routes: &[(&str, RouteTls)]) -> Command {
    let routes: Vec<_> =
        routes.iter().map(|(key, tls)| (route_key(key), route_to("web", tls.clone()))).collect();
    DeploymentApply::new(deployment(name), spec_with("web:1", &routes)).into()
}

/// A cluster with `shop`, which has a domain with `tls: auto` and one without.
fn ordering() -> History {
    let mut history = with_edges();
    history.apply(deploy("shop", &[("a.de", RouteTls::Auto), ("off.de", RouteTls::Off)]));
    history
}

/// What is recorded, in short: issued, challenges, attempts.
fn rows(history: &History) -> (Vec<String>, Vec<String>, Vec<String>) {
    let acme = &history.state.edges.acme;
    (
        acme.issued.keys().map(ToString::to_string).collect(),
        acme.challenges.keys().map(ToString::to_string).collect(),
        acme.attempts.keys().map(ToString::to_string).collect(),
    )
}

fn texts<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(ToOwned::to_owned).into()
}

/// R-EDGE-2: an order goes from its challenge by a failure to a certificate, which ends both.
#[test]
fn an_order_ends_with_its_certificate() {
    let mut history = ordering();
    assert_eq!(history.apply(account(1)), Outcome::Done);
    assert!(history.last_event().starts_with("acme_account_made"), "{}", history.last_event());
    history.apply(challenge("a.de", "one"));
    assert_eq!(rows(&history), (vec![], texts(["one"]), vec![]));
    history.apply(failed("a.de", 1));
    assert_eq!(rows(&history), (vec![], vec![], texts(["a.de"])));
    assert!(history.last_event().starts_with("domain_certificate_failed"));
    history.apply(challenge("a.de", "two"));
    history.apply(issued("a.de", 1));
    assert_eq!(rows(&history), (texts(["a.de"]), vec![], vec![]));
    assert!(history.last_event().starts_with("domain_certificate_issued"));
    history.apply(issued("a.de", 2));
    assert!(history.last_event().starts_with("domain_certificate_renewed"));
    assert_eq!(violations(&history.state), vec![]);
}

/// The same note again changes nothing, and no event is written about it. Further failures leave none either.
#[test]
fn notes_are_idempotent() {
    let mut history = ordering();
    let notes = [
        account(1),
        challenge("a.de", "one"),
        failed("a.de", 1),
        issued("a.de", 1),
        window("a.de", RenewalWindow::new(Timestamp(5), Timestamp(6))),
    ];
    for note in notes {
        history.apply(note.clone());
        let (before, events) = (history.state.edges.clone(), history.state.audit.events.len());
        assert_eq!(history.apply(note), Outcome::Done);
        assert_eq!(history.state.edges, before);
        assert_eq!(history.state.audit.events.len(), events);
    }
    history.apply(failed("a.de", 1));
    let events = history.state.audit.events.len();
    history.apply(failed("a.de", 2));
    assert_eq!(history.state.audit.events.len(), events, "one for each row of failures");
}

#[test]
fn a_window_is_that_of_one_certificate() {
    let mut history = ordering();
    let some = RenewalWindow::new(Timestamp(5), Timestamp(6));
    assert_eq!(history.refused(window("a.de", some)), ErrorCode::CertificateNotFound);
    history.apply(issued("a.de", 1));
    history.apply(window("a.de", some));
    assert_eq!(history.state.edges.acme.issued.get(&domain("a.de")).unwrap().window, some);
    history.apply(issued("a.de", 2));
    assert_eq!(history.state.edges.acme.issued.get(&domain("a.de")).unwrap().window, None);
}

/// NET-16: nothing is recorded for what no route orders a certificate for. A refusal leaves no event: nobody but the
/// leader asked.
#[test]
fn what_no_route_wants_is_refused() {
    let mut history = ordering();
    let before = history.state.edges.clone();
    let events = history.state.audit.events.len();
    for name in ["off.de", "b.de"] {
        for note in [challenge(name, "one"), issued(name, 1), failed(name, 1)] {
            assert_eq!(history.refused(note), ErrorCode::InvalidRequest);
        }
    }
    assert_eq!(history.state.edges, before);
    assert_eq!(history.state.audit.events.len(), events);
}

#[test]
fn members_have_to_know_orders_first() {
    let mut history = networked();
    assert_eq!(history.refused(account(1)), ErrorCode::MembersOutdated);
}

/// NET-16: with its last route a domain's orders are forgotten, and with its encryption; but not while another path or
/// another deployment has it. Its certificate waits for a route that comes back until it has expired.
#[test]
fn orders_go_with_the_last_route() {
    let mut history = ordering();
    history.apply(deploy("blog", &[("a.de/blog", RouteTls::Auto)]));
    let order = |history: &mut History| {
        history.apply(issued("a.de", 1));
        history.apply(failed("a.de", 1));
        history.apply(challenge("a.de", "one"));
    };
    let all = (texts(["a.de"]), texts(["one"]), texts(["a.de"]));
    order(&mut history);
    history.apply(DeploymentDelete::new(deployment("shop")).into());
    assert_eq!(rows(&history), all);
    history.apply(deploy("blog", &[("a.de/new", RouteTls::Auto)]));
    assert_eq!(rows(&history), all, "another path of the same domain");
    history.apply(deploy("blog", &[("a.de/new", RouteTls::Off)]));
    assert_eq!(rows(&history), (texts(["a.de"]), vec![], vec![]));
    history.apply(deploy("blog", &[("a.de/new", RouteTls::Auto), ("b.de", RouteTls::Auto)]));
    order(&mut history);
    history.apply(deploy("blog", &[("b.de", RouteTls::Auto)]));
    assert_eq!(rows(&history), (texts(["a.de"]), vec![], vec![]));
    history.now = Timestamp(3_000_000);
    history.apply(issued("b.de", 2));
    assert_eq!(rows(&history), (texts(["b.de"]), vec![], vec![]), "it has expired");
    assert_eq!(violations(&history.state), vec![]);
}

#[test]
fn challenges_expire_and_are_bounded() {
    let mut history = ordering();
    for number in 0..CHALLENGES_MAX {
        assert_eq!(history.apply(challenge("a.de", &format!("t{number}"))), Outcome::Done);
    }
    assert_eq!(history.refused(challenge("a.de", "other")), ErrorCode::TooLarge);
    assert_eq!(history.apply(challenge("a.de", "t0")), Outcome::Done);
    let long = "t".repeat(TOKEN_BYTES_MAX + 1);
    assert_eq!(history.refused(challenge("a.de", &long)), ErrorCode::TooLarge);
    assert_eq!(history.refused(challenge("a.de", "../secret")), ErrorCode::InvalidRequest);
    history.now = Timestamp(2_000_000);
    history.apply(account(1));
    assert_eq!(rows(&history).1, texts([]));
}

/// NET-16: each way to break it is found.
#[test]
fn broken_orders_are_found() {
    let spoil: [&dyn Fn(&mut ClusterState); 4] = [
        &|state| {
            let attempt = state.edges.acme.attempts.get(&domain("a.de")).unwrap().clone();
            state.edges.acme.attempts.insert(domain("b.de"), attempt);
        },
        &|state| {
            let challenge = state.edges.acme.challenges.get(&Arc::from("one")).unwrap().clone();
            let challenge = AcmeChallenge { domain: domain("off.de"), ..challenge };
            state.edges.acme.challenges.insert("two".into(), challenge);
        },
        &|state| {
            let challenge = state.edges.acme.challenges.get(&Arc::from("one")).unwrap().clone();
            for number in 0..CHALLENGES_MAX {
                let token = format!("t{number}").into();
                state.edges.acme.challenges.insert(token, challenge.clone());
            }
        },
        &|state| state.edges.begun = None,
    ];
    for (number, spoil) in spoil.iter().enumerate() {
        let mut history = ordering();
        history.apply(failed("a.de", 1));
        history.apply(challenge("a.de", "one"));
        let mut state = history.state;
        assert_eq!(violations(&state), vec![]);
        spoil(&mut state);
        let found = violations(&state);
        assert!(found.iter().any(|one| one.law == Law::OrdersWanted), "{number}: {found:?}");
    }
}

/// Entry time is the leader's: a certificate is as old as its entry.
#[test]
fn a_certificate_has_the_time_of_its_entry() {
    let mut history = ordering();
    history.now = history.now.after(Millis(5));
    history.apply(issued("a.de", 1));
    let issued = history.state.edges.acme.issued.get(&domain("a.de")).unwrap();
    assert_eq!(issued.issued_at, history.now);
}
