//! The records of a cluster, whose members come and go: what remains is what was recorded.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use jaco_acme::{
    Authority, Board, CertificateController, Challenge, NewCertificate, Note, NoteError, Records,
};
use jaco_state::acme::{IssueAttempt, IssuedCertificate};
use jaco_state::edge::SealedKey;
use jaco_store::{Clock, SystemClock};
use jaco_types::route::RouteDomain;
use jaco_types::{ChallengeKind, Timestamp};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::pebble::PATIENCE;

/// What is replicated.
pub(crate) struct Rows {
    inner: Mutex<Inner>,
    records: watch::Sender<Arc<Records>>,
    clock: Arc<Ahead>,
}

#[derive(Default)]
struct Inner {
    challenges: BTreeMap<String, Challenge>,
    /// All certificates that were ever recorded, the first one first.
    issued: Vec<(RouteDomain, NewCertificate)>,
    failed: Vec<(RouteDomain, IssueAttempt)>,
    accounts: usize,
}

/// A clock that can be set ahead.
pub(crate) struct Ahead(AtomicU64);

impl Clock for Ahead {
    fn now(&self) -> Timestamp {
        Timestamp(SystemClock.now().0 + self.0.load(Ordering::SeqCst))
    }
}

/// A leader: its controller runs until it is dropped.
pub(crate) struct Leader {
    stop: CancellationToken,
    controller: JoinHandle<()>,
}

impl Leader {
    /// Ends it in the midst of what it does.
    pub(crate) async fn kill(self) {
        self.stop.cancel();
        self.controller.await.unwrap();
    }

    /// Waits until it has ended by itself.
    pub(crate) async fn ended(self) {
        timeout(PATIENCE, self.controller).await.expect("the leader ends").unwrap();
    }
}

/// When a leader ends by itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Lives,
    /// As soon as its first challenge is recorded, before the authority hears of it.
    DiesWithItsChallenge,
}

struct LeaderBoard {
    rows: Arc<Rows>,
    fate: Fate,
    stop: CancellationToken,
}

impl Board for LeaderBoard {
    async fn note(&self, note: Note) -> Result<(), NoteError> {
        let is_challenge = matches!(note, Note::Challenge(_));
        self.rows.take(note);
        if is_challenge && self.fate == Fate::DiesWithItsChallenge {
            self.stop.cancel();
            std::future::pending::<()>().await;
        }
        Ok(())
    }
}

impl Rows {
    pub(crate) fn new() -> Arc<Self> {
        let clock = Arc::new(Ahead(AtomicU64::new(0)));
        Arc::new(Self { inner: Mutex::default(), records: watch::Sender::default(), clock })
    }

    /// Makes a leader with a controller.
    pub(crate) fn lead(self: &Arc<Self>, authority: Authority, fate: Fate) -> Leader {
        let stop = CancellationToken::new();
        let board = LeaderBoard { rows: Arc::clone(self), fate, stop: stop.clone() };
        let controller = CertificateController::new(
            Arc::new(board),
            authority,
            Arc::clone(&self.clock) as Arc<dyn Clock>,
        );
        let controller = tokio::spawn(controller.run(self.records.subscribe(), stop.clone()));
        Leader { stop, controller }
    }

    /// Adds a route with `tls: auto`.
    pub(crate) fn want(&self, name: &str) {
        self.change(|records| {
            records.wanted.insert(domain(name));
        });
    }

    /// Sets the clock ahead, and lets the controller look at it.
    pub(crate) fn pass(&self, secs: u64) {
        self.clock.0.fetch_add(secs * 1000, Ordering::SeqCst);
        self.change(|_| ());
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn records(&self) -> Arc<Records> {
        Arc::clone(&self.records.borrow())
    }

    /// The certificates that a domain ever had.
    pub(crate) fn certificates(&self, name: &str) -> Vec<NewCertificate> {
        let inner = self.inner.lock().unwrap();
        let of_domain = inner.issued.iter().filter(|(domain, _)| domain.as_str() == name);
        of_domain.map(|(_, certificate)| certificate.clone()).collect()
    }

    /// The reasons of all failures.
    pub(crate) fn failures(&self) -> Vec<String> {
        let inner = self.inner.lock().unwrap();
        inner
            .failed
            .iter()
            .map(|(domain, attempt)| format!("{domain}: {}", attempt.reason))
            .collect()
    }

    pub(crate) fn answer(&self, kind: ChallengeKind, token: &str) -> Option<String> {
        let inner = self.inner.lock().unwrap();
        let challenge = inner.challenges.get(token).filter(|challenge| challenge.kind == kind);
        challenge.map(|challenge| challenge.key_authorization.clone())
    }

    pub(crate) fn challenge_of(&self, kind: ChallengeKind, name: &str) -> Option<Challenge> {
        let inner = self.inner.lock().unwrap();
        let is_it = |one: &&Challenge| one.kind == kind && one.domain.as_str() == name;
        inner.challenges.values().find(is_it).cloned()
    }

    pub(crate) fn challenge_count(&self) -> usize {
        self.inner.lock().unwrap().challenges.len()
    }

    /// How many accounts were ever made.
    pub(crate) fn account_count(&self) -> usize {
        self.inner.lock().unwrap().accounts
    }

    /// Waits until a domain has so many certificates.
    pub(crate) async fn issued(&self, name: &str, count: usize) {
        let what = || format!("certificate {count} of {name}; failures: {:?}", self.failures());
        self.until(what, |_| self.certificates(name).len() >= count).await;
    }

    /// Waits until the last order of a domain has failed.
    pub(crate) async fn failed(&self, name: &str) -> IssueAttempt {
        let attempt = |records: &Records| records.attempts.get(&domain(name)).cloned();
        self.until(|| format!("failure of {name}"), |records| attempt(records).is_some()).await;
        attempt(&self.records()).unwrap()
    }

    async fn until(&self, what: impl Fn() -> String, is_so: impl Fn(&Records) -> bool) {
        let mut seen = self.records.subscribe();
        let found = timeout(PATIENCE, seen.wait_for(|records| is_so(records))).await;
        assert!(found.is_ok(), "waited in vain for {}", what());
    }

    fn take(&self, note: Note) {
        let now = self.clock.now();
        self.change(|records| {
            let mut inner = self.inner.lock().unwrap();
            match note {
                Note::Account(account) => {
                    inner.accounts += 1;
                    records.account = Some(Arc::new(account));
                }
                Note::Challenge(challenge) => {
                    inner.challenges.insert(challenge.token.clone(), challenge);
                }
                Note::Issued { domain, certificate } => {
                    let record = record_of(&certificate, now);
                    inner.challenges.retain(|_, challenge| challenge.domain != domain);
                    inner.issued.push((domain.clone(), certificate));
                    records.attempts.remove(&domain);
                    records.issued.insert(domain, record);
                }
                Note::Failed { domain, attempt } => {
                    inner.challenges.retain(|_, challenge| challenge.domain != domain);
                    inner.failed.push((domain.clone(), attempt.clone()));
                    records.attempts.insert(domain, attempt);
                }
                Note::Window { domain, window } => {
                    if let Some(issued) = records.issued.get_mut(&domain) {
                        issued.window = window;
                    }
                }
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut Records)) {
        self.records.send_modify(|records| change(Arc::make_mut(records)));
    }
}

fn record_of(certificate: &NewCertificate, now: Timestamp) -> IssuedCertificate {
    IssuedCertificate {
        chain: certificate.chain.as_str().into(),
        directory: certificate.directory.as_str().into(),
        key: SealedKey([1].into()),
        fingerprint: certificate.fingerprint,
        not_before: certificate.not_before,
        not_after: certificate.not_after,
        issued_at: now,
        window: None,
    }
}

pub(crate) fn domain(name: &str) -> RouteDomain {
    RouteDomain::new(name).unwrap()
}
