//! Plans of single situations, and laws over any.

use jaco_state::acme::IssuedCertificate;
use jaco_state::edge::SealedKey;
use jaco_types::RenewalWindow;
use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;

use super::*;
use crate::records::AccountRecord;

const DIRECTORY: &str = "https://authority.example/directory";
const DAY: u64 = 24 * 60 * 60 * 1000;
const NOW: Timestamp = Timestamp(1_000 * DAY);

/// A situation with its parts.
#[derive(Debug, Clone)]
struct Scene {
    records: Records,
    terms: Terms,
    busy: BTreeSet<RouteDomain>,
    begun: Vec<Timestamp>,
    paused_until: Option<Timestamp>,
    ask_at: BTreeMap<RouteDomain, Timestamp>,
    asking: Asking,
}

impl Scene {
    /// Domains without certificates, and an account.
    fn wanting(names: &[&str]) -> Self {
        let records = Records {
            wanted: names.iter().map(|name| domain(name)).collect(),
            account: Some(account(DIRECTORY)),
            ..Records::default()
        };
        Self {
            records,
            terms: Terms::Agreed,
            busy: BTreeSet::new(),
            begun: Vec::new(),
            paused_until: None,
            ask_at: BTreeMap::new(),
            asking: Asking::Yes,
        }
    }

    fn issued(mut self, name: &str, from: Timestamp, directory: &str) -> Self {
        let issued = IssuedCertificate {
            chain: name.into(),
            key: SealedKey([1].into()),
            fingerprint: [1; 32],
            directory: directory.into(),
            not_before: from,
            not_after: Timestamp(from.0 + 90 * DAY),
            issued_at: from,
            window: None,
        };
        self.records.issued.insert(domain(name), issued);
        self
    }

    fn plan(&self, now: Timestamp) -> Plan {
        plan(&Situation {
            records: &self.records,
            directory: DIRECTORY,
            terms: self.terms,
            busy: &self.busy,
            begun: &self.begun,
            paused_until: self.paused_until,
            ask_at: &self.ask_at,
            asking: self.asking,
            now,
        })
    }

    fn ordered(&self, now: Timestamp) -> Vec<String> {
        let domain = |step: &Step| {
            let Step::Order(order) = step else { return None };
            Some(order.domain.to_string())
        };
        self.plan(now).steps.iter().filter_map(domain).collect()
    }

    /// The scene once the steps of a plan have begun.
    fn begin(&mut self, plan: &Plan, now: Timestamp) {
        for step in &plan.steps {
            match step {
                Step::Order(order) => {
                    self.busy.insert(order.domain.clone());
                    self.begun.push(now);
                }
                Step::Explain(domain, attempt) => {
                    self.records.attempts.insert(domain.clone(), attempt.clone());
                }
                Step::Ask(..) => self.asking = Asking::Yes,
            }
        }
    }
}

fn domain(name: &str) -> RouteDomain {
    RouteDomain::new(name).unwrap()
}

fn account(directory: &str) -> Arc<AccountRecord> {
    let url = "https://authority.example/account/1".to_owned();
    Arc::new(AccountRecord { directory: directory.to_owned(), url, key: vec![1].into() })
}

fn failed(next_try: Timestamp) -> IssueAttempt {
    IssueAttempt { failures: 1, reason: "dns".into(), next_try, kind: ChallengeKind::Http01 }
}

#[test]
fn few_are_ordered_at_once_and_the_most_urgent_first() {
    let mut scene = Scene::wanting(&["a.x", "b.x", "c.x", "d.x", "e.x", "f.x"])
        .issued("a.x", Timestamp(NOW.0 - 61 * DAY), DIRECTORY)
        .issued("b.x", Timestamp(NOW.0 - 62 * DAY), DIRECTORY)
        .issued("c.x", Timestamp(NOW.0 - 10 * DAY), DIRECTORY);
    assert_eq!(scene.ordered(NOW), ["d.x", "e.x", "f.x", "b.x"]);
    scene.busy.insert(domain("d.x"));
    assert_eq!(scene.ordered(NOW), ["e.x", "f.x", "b.x"]);
}

#[test]
fn nothing_is_ordered_before_two_thirds_of_the_life() {
    let scene = Scene::wanting(&["a.x"]).issued("a.x", NOW, DIRECTORY);
    assert_eq!(scene.plan(NOW), Plan { steps: vec![], wake_at: Some(Timestamp(NOW.0 + 60 * DAY)) });
    assert_eq!(scene.ordered(Timestamp(NOW.0 + 60 * DAY)), ["a.x"]);
}

#[test]
fn a_failed_domain_waits_and_others_do_not() {
    let mut scene = Scene::wanting(&["a.x", "b.x"]);
    let later = Timestamp(NOW.0 + 60_000);
    scene.records.attempts.insert(domain("a.x"), failed(later));
    assert_eq!(scene.ordered(NOW), ["b.x"]);
    assert_eq!(scene.plan(NOW).wake_at, Some(later));
    assert_eq!(scene.ordered(later), ["b.x", "a.x"]);
}

#[test]
fn the_first_order_of_a_cluster_is_alone_until_there_is_an_account() {
    let mut scene = Scene::wanting(&["a.x", "b.x"]);
    scene.records.account = Some(account("https://other.example/directory"));
    assert_eq!(scene.ordered(NOW), ["a.x"]);
    scene.busy.insert(domain("a.x"));
    assert_eq!(scene.ordered(NOW), [""; 0]);
}

/// Who has tried with an authority for tries gets certificates that clients take as soon as the setting is changed.
#[test]
fn a_certificate_of_another_authority_is_replaced_at_once() {
    let scene = Scene::wanting(&["a.x"]).issued("a.x", NOW, "https://staging.example/directory");
    let steps = scene.plan(NOW).steps;
    let [Step::Order(order)] = steps.as_slice() else { panic!("{steps:?}") };
    assert_eq!(order.replaces, None, "the authority does not know it");
}

#[test]
fn terms_that_are_not_agreed_to_are_said_once_and_ordered_as_soon_as_they_are() {
    let mut scene = Scene::wanting(&["a.x"]);
    scene.terms = Terms::NotAgreed;
    let plan = scene.plan(NOW);
    let [Step::Explain(_, attempt)] = plan.steps.as_slice() else { panic!("{plan:?}") };
    assert!(attempt.reason.contains("agree_terms"), "{}", attempt.reason);
    scene.begin(&plan, NOW);
    assert_eq!(scene.plan(NOW), Plan::default());
    scene.terms = Terms::Agreed;
    assert_eq!(scene.ordered(NOW), ["a.x"]);
}

#[test]
fn an_account_has_no_more_orders_than_authorities_allow() {
    let mut scene = Scene::wanting(&["a.x", "b.x"]);
    let first = Timestamp(NOW.0 - 1000);
    scene.begun = vec![first; ORDERS_MAX - 1];
    assert_eq!(scene.ordered(NOW), ["a.x"]);
    scene.begun.push(first);
    assert_eq!(scene.ordered(NOW), [""; 0]);
    let again = first.after(ORDERS_PERIOD);
    assert_eq!(scene.plan(NOW).wake_at, Some(again));
    assert_eq!(scene.ordered(again), ["a.x", "b.x"]);
}

#[test]
fn while_the_authority_is_down_nothing_is_ordered() {
    let mut scene = Scene::wanting(&["a.x"]);
    let until = Timestamp(NOW.0 + 1);
    scene.paused_until = Some(until);
    assert_eq!(scene.plan(NOW), Plan { steps: vec![], wake_at: Some(until) });
    assert_eq!(scene.ordered(until), ["a.x"]);
}

#[test]
fn the_authority_is_asked_about_one_certificate_at_a_time() {
    let mut scene =
        Scene::wanting(&["a.x", "b.x"]).issued("a.x", NOW, DIRECTORY).issued("b.x", NOW, DIRECTORY);
    scene.asking = Asking::No;
    scene.ask_at.insert(domain("a.x"), Timestamp(NOW.0 + 5));
    assert_eq!(scene.plan(NOW).steps, [Step::Ask(domain("b.x"), "b.x".into())]);
    scene.ask_at.insert(domain("b.x"), Timestamp(NOW.0 + 9));
    assert_eq!(scene.plan(NOW), Plan { steps: vec![], wake_at: Some(Timestamp(NOW.0 + 5)) });
}

fn names() -> impl Strategy<Value = RouteDomain> {
    (0..12_u8).prop_map(|number| domain(&format!("d{number}.x")))
}

fn moments() -> impl Strategy<Value = Timestamp> {
    (NOW.0 - 100 * DAY..NOW.0 + 2 * DAY).prop_map(Timestamp)
}

fn issued() -> impl Strategy<Value = IssuedCertificate> {
    let window = proptest::option::of((moments(), 1..DAY));
    (moments(), prop_oneof![Just(DIRECTORY), Just("https://other.example/")], window).prop_map(
        |(from, directory, window)| IssuedCertificate {
            chain: "pem".into(),
            key: SealedKey([1].into()),
            fingerprint: [1; 32],
            directory: directory.into(),
            not_before: from,
            not_after: Timestamp(from.0 + 90 * DAY),
            issued_at: from,
            window: window
                .and_then(|(start, length)| RenewalWindow::new(start, Timestamp(start.0 + length))),
        },
    )
}

fn scenes() -> impl Strategy<Value = Scene> {
    let records = (
        btree_set(names(), 0..12),
        btree_map(names(), issued(), 0..8),
        btree_map(names(), moments().prop_map(failed), 0..8),
        any::<bool>(),
    );
    let in_progress = (
        btree_set(names(), 0..5),
        vec(moments(), 0..300),
        proptest::option::of(moments()),
        btree_map(names(), moments(), 0..8),
        any::<bool>(),
        any::<bool>(),
    );
    (records, in_progress).prop_map(|((wanted, issued, attempts, has_account), rest)| {
        let (busy, mut begun, paused_until, ask_at, asks, agreed) = rest;
        begun.sort_unstable();
        let account = has_account.then(|| account(DIRECTORY));
        Scene {
            records: Records {
                wanted,
                account,
                issued: issued.into_iter().collect(),
                attempts: attempts.into_iter().collect(),
            },
            terms: if agreed { Terms::Agreed } else { Terms::NotAgreed },
            busy,
            begun,
            paused_until,
            ask_at,
            asking: if asks { Asking::Yes } else { Asking::No },
        }
    })
}

proptest! {
    /// Law: an order is made only for what a route wants, has no certificate for long enough, failed long enough ago
    /// and is not being ordered; and never more at once, or in three hours, than is allowed.
    #[test]
    fn orders_are_wanted_due_and_few(scene in scenes()) {
        let orders = scene.ordered(NOW);
        for name in &orders {
            let domain = domain(name);
            prop_assert!(scene.records.wanted.contains(&domain));
            prop_assert!(!scene.busy.contains(&domain));
            if let Some(attempt) = scene.records.attempts.get(&domain) {
                prop_assert!(attempt.next_try <= NOW);
            }
            if let Some(issued) = scene.records.issued.get(&domain) {
                prop_assert!(*issued.directory != *DIRECTORY || renew_at(&domain, issued) <= NOW);
            }
        }
        if !orders.is_empty() {
            prop_assert!(scene.busy.len() + orders.len() <= ORDERS_AT_ONCE);
            let recent = scene.begun.iter().filter(|at| at.after(ORDERS_PERIOD) > NOW).count();
            prop_assert!(recent + orders.len() <= ORDERS_MAX);
            prop_assert!(scene.terms == Terms::Agreed);
        }
    }

    /// Law: once a plan has begun, there is nothing to do before it wakes.
    #[test]
    fn a_plan_that_has_begun_has_nothing_left(scene in scenes(), part in 0..1000_u64) {
        let mut scene = scene;
        let plan = scene.plan(NOW);
        scene.begin(&plan, NOW);
        let end = scene.plan(NOW).wake_at.map_or(NOW.0 + 1000 * DAY, |at| at.0.max(NOW.0 + 1));
        let moment = Timestamp(NOW.0 + (end - NOW.0 - 1) / 1000 * part);
        prop_assert_eq!(scene.plan(moment).steps, vec![]);
    }

    /// Law: no domain is forgotten. One at a time, each order ending with a certificate, all get theirs.
    #[test]
    fn every_domain_gets_its_certificate(scene in scenes()) {
        let mut scene = Scene { busy: BTreeSet::new(), terms: Terms::Agreed, ..scene };
        let mut now = NOW;
        for _ in 0..400 {
            let plan = scene.plan(now);
            for step in &plan.steps {
                let Step::Order(order) = step else { continue };
                scene.records.account = Some(account(DIRECTORY));
                scene.records.attempts.remove(&order.domain);
                scene = scene.issued(order.domain.as_str(), now, DIRECTORY);
            }
            if plan.steps.is_empty() {
                let Some(at) = plan.wake_at.filter(|at| at.0 < NOW.0 + 3 * DAY) else { break };
                now = at;
            }
            scene.asking = Asking::Yes;
        }
        for domain in &scene.records.wanted {
            let issued = scene.records.issued.get(domain);
            prop_assert!(issued.is_some_and(|issued| *issued.directory == *DIRECTORY), "{domain:?}");
        }
    }
}
