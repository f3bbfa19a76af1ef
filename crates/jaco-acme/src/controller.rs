//! The leader's loop that carries out what [`plan()`] wants. It decides nothing; what it keeps besides the records is
//! lost with the leader, and not missed by the next one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jaco_state::acme::{IssueAttempt, IssuedCertificate};
use jaco_store::Clock;
use jaco_types::route::RouteDomain;
use jaco_types::{Millis, RenewalWindow, Timestamp};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::account::{Accounts, Wanted};
use crate::attempt::attempt_after;
use crate::authority::Authority;
use crate::failure::Failure;
use crate::order::{OtherKind, Request};
use crate::plan::{Asking, ORDERS_PERIOD, OrderStep, Plan, Situation, Step, plan};
use crate::records::{AccountRecord, Board, NewCertificate, Note, NoteError, Records};
use crate::window::ask_window;

/// The longest sleep: a clock that was set is noticed after that.
const SLEEP_MAX: Duration = Duration::from_secs(300);

/// How long the end of an order may take to be seen in the records; and how long a domain is left alone whose order
/// could not be recorded.
const SETTLE_LIMIT: Millis = Millis::from_secs(60);

/// How long what an authority said about a renewal is good for, at least and at most.
const ASK_AGAIN: (Millis, Millis) = (Millis::from_secs(60 * 60), Millis::from_secs(24 * 60 * 60));

/// The controller of one leadership.
#[allow(missing_debug_implementations, reason = "holds trait objects that have nothing to show")]
pub struct CertificateController<B> {
    shared: Arc<Shared<B>>,
}

/// What all orders use.
struct Shared<B> {
    board: Arc<B>,
    authority: Arc<Authority>,
    accounts: Accounts<B>,
    clock: Arc<dyn Clock>,
}

/// What the loop knows besides the records.
#[derive(Default)]
struct Memory {
    busy: BTreeMap<RouteDomain, Busy>,
    begun: Vec<Timestamp>,
    paused_until: Option<Timestamp>,
    ask_at: BTreeMap<RouteDomain, Timestamp>,
    asking: bool,
}

/// Why nothing is ordered for a domain now.
enum Busy {
    /// An order is in progress; this was recorded when it began.
    Ordering { before: Recorded },
    /// It has ended, and the records do not show it yet.
    Settling { until: Timestamp, before: Recorded },
}

/// What is recorded of a domain.
#[derive(Clone, PartialEq, Eq)]
struct Recorded {
    issued: Option<IssuedCertificate>,
    attempt: Option<IssueAttempt>,
}

/// What a task has come to.
enum Done {
    Ordered { domain: RouteDomain, end: OrderEnd },
    Explained { domain: RouteDomain },
    Asked { domain: RouteDomain, again: Timestamp },
}

/// How an order ended.
enum OrderEnd {
    Issued,
    Failed { next_try: Timestamp, reach: Reach },
    NotRecorded,
}

/// What else a failure says.
enum Reach {
    /// Nothing about other domains.
    ThisDomain,
    /// Others would fail as well.
    AllDomains,
}

impl<B: Board> CertificateController<B> {
    /// A controller that records on this board. One is made for each leadership.
    #[must_use]
    pub fn new(board: Arc<B>, authority: Authority, clock: Arc<dyn Clock>) -> Self {
        let authority = Arc::new(authority);
        let accounts = Accounts::new(Arc::clone(&authority), Arc::clone(&board));
        Self { shared: Arc::new(Shared { board, authority, accounts, clock }) }
    }

    /// Runs until it is stopped, or until nobody tells it of records any more. Orders that are in progress end with it.
    pub async fn run(self, mut records: watch::Receiver<Arc<Records>>, stop: CancellationToken) {
        let mut memory = Memory::default();
        let mut tasks = JoinSet::new();
        loop {
            let now = self.shared.clock.now();
            let seen = Arc::clone(&records.borrow_and_update());
            memory.forget(&seen, now);
            let plan = memory.plan(&self.shared.authority, &seen, now);
            for step in plan.steps {
                self.begin(step, &seen, &mut memory, &mut tasks);
            }
            let wake_at = plan.wake_at.into_iter().chain(memory.settled_at()).min();
            let sleep = wake_at.map_or(SLEEP_MAX, |at| {
                Duration::from_millis(at.since(now).0.max(1)).min(SLEEP_MAX)
            });
            tokio::select! {
                () = stop.cancelled() => return,
                changed = records.changed() => if changed.is_err() { return },
                Some(done) = tasks.join_next() => memory.take(done, self.shared.clock.now()),
                () = tokio::time::sleep(sleep) => {}
            }
        }
    }

    fn begin(&self, step: Step, seen: &Records, memory: &mut Memory, tasks: &mut JoinSet<Done>) {
        let shared = Arc::clone(&self.shared);
        let account = seen.account.clone();
        match step {
            Step::Order(order) => {
                memory.occupy(&order.domain, seen);
                memory.begun.push(self.shared.clock.now());
                tasks.spawn(async move { shared.order(order, account.as_deref()).await });
            }
            Step::Explain(domain, attempt) => {
                memory.occupy(&domain, seen);
                tasks.spawn(async move { shared.explain(domain, attempt).await });
            }
            Step::Ask(domain, chain) => {
                memory.asking = true;
                let known = seen.issued.get(&domain).and_then(|issued| issued.window);
                tasks.spawn(async move {
                    let again = shared.ask(&domain, &chain, known, account.as_deref()).await;
                    Done::Asked { domain, again }
                });
            }
        }
    }
}

impl<B: Board> Shared<B> {
    async fn order(&self, step: OrderStep, account: Option<&AccountRecord>) -> Done {
        let kind = self.authority.challenge.unwrap_or(step.kind);
        let outcome = self.certify(&step, account).await;
        let domain = step.domain;
        let end = match outcome {
            Ok(certificate) => self.note_issued(&domain, certificate).await,
            Err(Failure::Note(error)) => not_recorded(&domain, &error),
            Err(failure) => {
                if failure.concerns_all() {
                    self.accounts.close().await;
                }
                let now = self.clock.now();
                let attempt = attempt_after(step.before.as_ref(), &failure, kind, now);
                self.note_failed(&domain, &failure, attempt).await
            }
        };
        Done::Ordered { domain, end }
    }

    async fn certify(
        &self,
        step: &OrderStep,
        record: Option<&AccountRecord>,
    ) -> Result<NewCertificate, Failure> {
        let mut account = self.accounts.open(record, Wanted::Any).await?;
        let mut outcome = self.request(step, &account).certify(&*self.board).await;
        if outcome.as_ref().is_err_and(Failure::is_account_lost) {
            warn!(account = account.id(), "the authority does not know the account any more");
            account = self.accounts.open(record, Wanted::OtherThan(account.id())).await?;
            outcome = self.request(step, &account).certify(&*self.board).await;
        }
        outcome
    }

    fn request<'a>(
        &'a self,
        step: &'a OrderStep,
        account: &'a instant_acme::Account,
    ) -> Request<'a> {
        let only = self.authority.challenge;
        Request {
            account,
            directory: &self.authority.directory,
            domain: &step.domain,
            kind: only.unwrap_or(step.kind),
            other: if only.is_some() { OtherKind::Refused } else { OtherKind::Allowed },
            replaces: step.replaces.as_deref(),
            clock: &*self.clock,
        }
    }

    async fn note_issued(&self, domain: &RouteDomain, certificate: NewCertificate) -> OrderEnd {
        let until = certificate.not_after;
        let note = Note::Issued { domain: domain.clone(), certificate };
        match self.board.note(note).await {
            Ok(()) => {
                info!(%domain, not_after = until.0, "certificate issued");
                OrderEnd::Issued
            }
            Err(error) => not_recorded(domain, &error),
        }
    }

    async fn note_failed(
        &self,
        domain: &RouteDomain,
        failure: &Failure,
        attempt: IssueAttempt,
    ) -> OrderEnd {
        let next_try = attempt.next_try;
        warn!(%domain, reason = %attempt.reason, next_try = next_try.0, "no certificate was issued");
        let note = Note::Failed { domain: domain.clone(), attempt };
        let reach = if failure.concerns_all() { Reach::AllDomains } else { Reach::ThisDomain };
        match self.board.note(note).await {
            Ok(()) => OrderEnd::Failed { next_try, reach },
            Err(error) => not_recorded(domain, &error),
        }
    }

    async fn explain(&self, domain: RouteDomain, attempt: IssueAttempt) -> Done {
        let note = Note::Failed { domain: domain.clone(), attempt };
        if let Err(error) = self.board.note(note).await {
            not_recorded(&domain, &error);
        }
        Done::Explained { domain }
    }

    /// Asks when a certificate is to be renewed and records what is new; returns when to ask again.
    async fn ask(
        &self,
        domain: &RouteDomain,
        chain: &Arc<str>,
        known: Option<RenewalWindow>,
        record: Option<&AccountRecord>,
    ) -> Timestamp {
        let (least, most) = ASK_AGAIN;
        let Ok(account) = self.accounts.open(record, Wanted::Any).await else {
            return self.clock.now().after(least);
        };
        let (window, wait) = match ask_window(&account, chain).await {
            Ok(answer) => answer,
            Err(instant_acme::Error::Unsupported(_)) => (None, most),
            Err(_) => (known, least),
        };
        if window != known {
            let note = Note::Window { domain: domain.clone(), window };
            if let Err(error) = self.board.note(note).await {
                not_recorded(domain, &error);
            }
        }
        self.clock.now().after(wait.clamp(least, most))
    }
}

fn not_recorded(domain: &RouteDomain, error: &NoteError) -> OrderEnd {
    match error {
        // Whoever leads now does the same again.
        NoteError::NotLeading => info!(%domain, %error, "order given up"),
        NoteError::Refused(_) => warn!(%domain, %error, "order was not recorded"),
    }
    OrderEnd::NotRecorded
}

impl Memory {
    fn plan(&self, authority: &Authority, seen: &Records, now: Timestamp) -> Plan {
        let busy: BTreeSet<RouteDomain> = self.busy.keys().cloned().collect();
        plan(&Situation {
            records: seen,
            directory: &authority.directory,
            terms: authority.terms,
            busy: &busy,
            begun: &self.begun,
            paused_until: self.paused_until,
            ask_at: &self.ask_at,
            asking: if self.asking { Asking::Yes } else { Asking::No },
            now,
        })
    }

    /// Forgets what the records show, and what is too old to count.
    fn forget(&mut self, seen: &Records, now: Timestamp) {
        self.busy.retain(|domain, busy| match busy {
            Busy::Ordering { .. } => true,
            Busy::Settling { until, before } => {
                *until > now && Recorded::of(seen, domain) == *before
            }
        });
        self.begun.retain(|begun| begun.after(ORDERS_PERIOD) > now);
        self.ask_at.retain(|domain, _| seen.issued.contains(domain));
    }

    /// When the first order counts as settled that is not seen in the records.
    fn settled_at(&self) -> Option<Timestamp> {
        let until = |busy: &Busy| match busy {
            Busy::Ordering { .. } => None,
            Busy::Settling { until, .. } => Some(*until),
        };
        self.busy.values().filter_map(until).min()
    }

    fn take(&mut self, done: Result<Done, JoinError>, now: Timestamp) {
        match done {
            Ok(Done::Ordered { domain, end }) => {
                match end {
                    OrderEnd::Issued => {
                        self.paused_until = None;
                        self.ask_at.remove(&domain);
                    }
                    OrderEnd::Failed { next_try, reach: Reach::AllDomains } => {
                        self.paused_until = self.paused_until.max(Some(next_try));
                    }
                    OrderEnd::Failed { reach: Reach::ThisDomain, .. } => self.paused_until = None,
                    OrderEnd::NotRecorded => {}
                }
                self.settle(domain, now);
            }
            Ok(Done::Explained { domain }) => self.settle(domain, now),
            Ok(Done::Asked { domain, again }) => {
                self.asking = false;
                self.ask_at.insert(domain, again);
            }
            // Nothing is known of a task that panicked, so what it was at is not begun again by this leader.
            Err(error) => error!(%error, "a task of the controller broke off"),
        }
    }

    fn occupy(&mut self, domain: &RouteDomain, seen: &Records) {
        let before = Recorded::of(seen, domain);
        self.busy.insert(domain.clone(), Busy::Ordering { before });
    }

    fn settle(&mut self, domain: RouteDomain, now: Timestamp) {
        if let Some(Busy::Ordering { before }) = self.busy.remove(&domain) {
            self.busy.insert(domain, Busy::Settling { until: now.after(SETTLE_LIMIT), before });
        }
    }
}

impl Recorded {
    fn of(records: &Records, domain: &RouteDomain) -> Self {
        Self {
            issued: records.issued.get(domain).cloned(),
            attempt: records.attempts.get(domain).cloned(),
        }
    }
}
