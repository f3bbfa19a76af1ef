//! Keeps the router as the last plan says.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use jaco_dataplane::{InterfaceName, SitePlan};
use jaco_types::{NetworkId, StateIndex};
use tokio::sync::{mpsc, watch};
use tracing::{debug, info, warn};

use super::change_message::ChangeMessage;
use super::journal::Journal;
use super::key::Keys;
use super::message::RouterStatus;
use super::plan_message::PlanMessage;
use super::remembered::Remembered;
use crate::counts::RouterCounts;
use crate::error::{NetError, chain};
use crate::netlink::FilterEvents;
use crate::probe::{ProbeQuestion, ProbeReport};
use crate::resolver::Resolver;
use crate::router::{Applied, Router};

/// How often the router is compared with its plan: what others changed in it stays for so long at most, but for rules,
/// which the kernel tells of.
const OBSERVE: Duration = Duration::from_secs(30);

/// Between two looks at rules that change: one who changes them all the time does not keep the router from all else.
const LOOK_PAUSE: Duration = Duration::from_millis(200);

/// How long after a failure the first try follows; twice as long after each, up to the second of these.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));

/// How long after a try to open sockets of the edge that another program has the next one follows.
const OPEN_AGAIN: Duration = Duration::from_secs(1);

/// The router with its plan.
#[derive(Debug)]
pub(super) struct Keeper {
    router: Router,
    keys: Keys,
    /// The plan, for the next process.
    journal: Journal,
    status: watch::Sender<RouterStatus>,
    plan: Option<(StateIndex, SitePlan)>,
    resolver: Option<Resolver>,
    remembered: Remembered,
}

/// What the router is told to do.
#[derive(Debug)]
pub(super) enum Task {
    /// Hold another plan.
    Hold(Update),
    /// Try again at once what failed for want of a bridge.
    Retry,
    /// Find out what holds between this router and others, and say it there.
    Probe(ProbeQuestion, mpsc::Sender<ProbeReport>),
    /// Say there what was counted.
    Count(mpsc::Sender<Option<RouterCounts>>),
    /// Make another key that plans may name, and say its public part there.
    MakeKey(mpsc::Sender<MadeKey>),
}

/// The public part of a key, or why it could not be made.
pub(super) type MadeKey = Result<[u8; 32], String>;

/// The plan that is to be held.
#[derive(Debug)]
pub(super) enum Update {
    /// This one.
    Plan(Box<PlanMessage>),
    /// What this makes of the one that is held.
    Change(Box<ChangeMessage>),
}

/// Whether others may have changed what is there since it was seen last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    Seen,
    Nothing,
}

impl Keeper {
    pub(super) fn new(
        router: Router,
        keys: Keys,
        file: PathBuf,
        status: watch::Sender<RouterStatus>,
    ) -> Self {
        let (journal, remembered) = (Journal::new(file), Remembered::default());
        Self { router, keys, journal, status, plan: None, resolver: None, remembered }
    }

    /// Runs until nobody can send tasks any more.
    ///
    /// # Errors
    /// If the router's own thread has ended: a new process is needed.
    pub(super) async fn run(mut self, mut tasks: mpsc::Receiver<Task>) -> Result<(), NetError> {
        self.take_up().await?;
        let mut pause = RETRY.0;
        // Moments and not pauses: what is asked and told in between must not put them off.
        let mut retry_at = Instant::now() + pause;
        let mut observe_at = Instant::now() + OBSERVE;
        let mut rules = self.rules().await?;
        let (mut look_at, mut looked) = (None, None::<Instant>);
        let mut listeners = self.router.listeners().changes();
        let mut open_at = Instant::now() + OPEN_AGAIN;
        loop {
            let failing = self.status.borrow().has_failures();
            // The next try looks at what others have changed, with growing pauses.
            let is_stuck = self.status.borrow().error.is_some();
            let is_missing = self.status.borrow().misses_listeners();
            tokio::select! {
                task = tasks.recv() => {
                    let Some(task) = task else { return Ok(()) };
                    let due = Due::of(task, &mut tasks);
                    if !due.updates.is_empty() || due.retry && failing {
                        pause = RETRY.0;
                        retry_at = Instant::now() + pause;
                    }
                    if due.updates.is_empty() && due.retry && failing {
                        self.apply(Trust::Seen).await?;
                    }
                    for update in due.updates {
                        self.take(update).await?;
                    }
                    for answer in due.keys {
                        let made = self.make_key();
                        // Who has asked may be gone.
                        drop(answer.try_send(made));
                    }
                    for answer in due.counts {
                        let counted = self.counts().await?;
                        // Who has asked may be gone.
                        drop(answer.try_send(counted));
                    }
                    for (question, answer) in due.probes {
                        self.probe(&question, answer).await?;
                    }
                }
                () = until(Some(retry_at)), if failing => {
                    let is_changed = is_stuck && look_at.take().is_some();
                    self.apply(if is_changed { Trust::Nothing } else { Trust::Seen }).await?;
                    pause = (pause * 2).min(RETRY.1);
                    retry_at = Instant::now() + pause;
                }
                () = changed(&mut rules) => {
                    let next = looked.map_or_else(Instant::now, |looked| looked + LOOK_PAUSE);
                    look_at = look_at.or(Some(next));
                }
                () = until(look_at), if !is_stuck => {
                    (look_at, looked) = (None, Some(Instant::now()));
                    if self.others_changed_rules().await? {
                        self.apply(Trust::Nothing).await?;
                        observe_at = Instant::now() + OBSERVE;
                    }
                }
                Ok(()) = listeners.changed() => self.note_listeners(),
                () = until(Some(open_at)), if is_missing => {
                    self.router.open_missing_listeners();
                    open_at = Instant::now() + OPEN_AGAIN;
                }
                () = until(self.remembered.next()) => self.forget(),
                () = until(Some(observe_at)), if !is_stuck => {
                    self.apply(Trust::Nothing).await?;
                    observe_at = Instant::now() + OBSERVE;
                }
            }
        }
    }

    /// Word of changes of the rules. Without it, what others change is found by the next comparison of all.
    async fn rules(&self) -> Result<Option<FilterEvents>, NetError> {
        match self.router.filter_events().await {
            Ok(events) => Ok(Some(events)),
            Err(NetError::Ended) => Err(NetError::Ended),
            Err(error) => {
                warn!(error = %chain(&error), "the kernel does not tell of changes of the rules");
                Ok(None)
            }
        }
    }

    /// Whether another process has changed rules, as far as the kernel says; if it does not, they are compared.
    async fn others_changed_rules(&self) -> Result<bool, NetError> {
        match self.router.others_changed_rules().await {
            Err(NetError::Ended) => Err(NetError::Ended),
            changed => Ok(changed.unwrap_or(true)),
        }
    }

    /// Goes on with the plan of the process before.
    async fn take_up(&mut self) -> Result<(), NetError> {
        self.plan = self.journal.read();
        self.apply(Trust::Seen).await
    }

    /// What is told is kept before it is carried out: a process that is killed on the way leaves the next one what to
    /// go on with.
    async fn take(&mut self, update: Update) -> Result<(), NetError> {
        match update {
            Update::Plan(message) => self.hold(&message).await,
            Update::Change(message) => self.change(&message).await,
        }
    }

    async fn hold(&mut self, message: &PlanMessage) -> Result<(), NetError> {
        let Some(plan) = message.plan() else {
            let error =
                Some("the plan is not readable: both processes need one version".to_owned());
            self.status.send_modify(|status| status.error = error);
            return Ok(());
        };
        self.journal.write(message);
        self.plan = Some((StateIndex(message.index), plan));
        // Said with what this plan leads to: nobody waits for it.
        self.status.send_if_modified(|status| {
            status.refuse_nothing();
            false
        });
        self.apply(Trust::Seen).await
    }

    /// Holds what a change makes of the plan that is held; one of another plan is refused.
    async fn change(&mut self, message: &ChangeMessage) -> Result<(), NetError> {
        let held = self.plan.as_mut().filter(|(index, _)| index.0 == message.base);
        let Some(((index, plan), change)) = held.zip(message.change()) else {
            warn!(
                raft_index = message.index,
                base = message.base,
                "change of another plan refused"
            );
            self.status.send_modify(|status| status.refuse(StateIndex(message.index)));
            return Ok(());
        };
        self.journal.append(message, || PlanMessage::new(*index, plan));
        plan.change(&change);
        *index = StateIndex(message.index);
        // What failed before is tried again with it.
        let failing = self.status.borrow().has_failures();
        let result = match failing {
            true => self.router.apply(plan).await,
            false => self.router.change(plan, &change).await,
        };
        self.note(result).await?;
        if let Some((index, plan)) = self.plan.as_ref().filter(|_| self.journal.is_long()) {
            self.journal.write(&PlanMessage::new(*index, plan));
        }
        Ok(())
    }

    /// Makes another key, unless one waits for its plan already.
    fn make_key(&mut self) -> MadeKey {
        let next = self.keys.make_next().map_err(|error| chain(&error))?;
        let public = next.public_key();
        info!(key = ?public, "next key offered");
        self.router.offer_key(next);
        self.status.send_modify(|status| status.offer(public));
        Ok(public.0)
    }

    /// What was counted; none if the tunnel cannot be asked.
    async fn counts(&self) -> Result<Option<RouterCounts>, NetError> {
        match self.router.counts().await {
            Ok(counts) => Ok(Some(counts)),
            Err(NetError::Ended) => Err(NetError::Ended),
            Err(error) => {
                debug!(error = %chain(&error), "the router could not be counted");
                Ok(None)
            }
        }
    }

    /// Begins a probe of what is held; it goes on beside all else.
    async fn probe(
        &self,
        question: &ProbeQuestion,
        answer: mpsc::Sender<ProbeReport>,
    ) -> Result<(), NetError> {
        let nothing = SitePlan::default();
        let plan = self.plan.as_ref().map_or(&nothing, |(_, plan)| plan);
        let probe = match self.router.probe(plan, question).await {
            Ok(probe) => probe,
            Err(NetError::Ended) => return Err(NetError::Ended),
            Err(error) => {
                let report = ProbeReport { error: Some(chain(&error)), ..ProbeReport::default() };
                // Who has asked may be gone.
                drop(answer.try_send(report));
                return Ok(());
            }
        };
        tokio::task::spawn_blocking(move || drop(answer.blocking_send(probe.run())));
        Ok(())
    }

    async fn apply(&mut self, trust: Trust) -> Result<(), NetError> {
        let Some((_, plan)) = &self.plan else { return Ok(()) };
        let result = match trust {
            Trust::Seen => self.router.apply(plan).await,
            Trust::Nothing => repair(&mut self.router, plan).await,
        };
        self.note(result).await
    }

    /// Says what holds, after the plan was carried out or could not be.
    async fn note(&mut self, result: Result<Applied, NetError>) -> Result<(), NetError> {
        let Some((index, plan)) = &self.plan else { return Ok(()) };
        let result = match (result, &self.resolver) {
            (Ok(applied), None) => match self.router.serve_names().await {
                Ok(resolver) => {
                    self.resolver = Some(resolver);
                    Ok(applied)
                }
                Err(error) => Err(error),
            },
            (result, _) => result,
        };
        let mut status = self.status.borrow().clone();
        status.miss_listeners(self.router.listeners().missing());
        match result {
            Ok(applied) => {
                status.hold(*index, failures(plan, applied));
                if let Some(tunnel) = plan.tunnel {
                    match self.keys.settle(tunnel.key) {
                        Ok(true) => {
                            info!(key = ?tunnel.key, "tunnel has its next key");
                            status.take_key(tunnel.key);
                        }
                        Ok(false) => {}
                        // Both stay, and the next plan tries again.
                        Err(error) => warn!(error = %chain(&error), "key not replaced on disk"),
                    }
                }
                self.remembered.note(*index, self.router.remembered_until());
                if let Some(index) = self.remembered.forgotten(Instant::now()) {
                    status.forget(index);
                }
            }
            Err(NetError::Ended) => return Err(NetError::Ended),
            Err(error) => status.error = Some(chain(&error)),
        }
        self.status.send_if_modified(|known| {
            let changed = *known != status;
            if changed {
                log(&status);
                *known = status;
            }
            changed
        });
        Ok(())
    }

    /// Says which sockets of the edge are missing; they came or went without a plan.
    fn note_listeners(&mut self) {
        self.router.see_listeners();
        let missing = self.router.listeners().missing();
        self.status.send_if_modified(|status| status.miss_listeners(missing));
    }

    /// Says which names nobody remembers any more.
    fn forget(&mut self) {
        if let Some(index) = self.remembered.forgotten(Instant::now()) {
            self.status.send_modify(|status| status.forget(index));
        }
    }
}

/// Waits for the next change of the rules; for ever where nobody tells of them.
async fn changed(rules: &mut Option<FilterEvents>) {
    match rules {
        Some(rules) => rules.changed().await,
        None => std::future::pending().await,
    }
}

/// Ends at this moment; never without one.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}

fn log(status: &RouterStatus) {
    match &status.error {
        Some(error) => warn!(%error, "plan not carried out"),
        None => info!(raft_index = ?status.applied(), failed = status.has_failures(), "plan holds"),
    }
}

async fn repair(router: &mut Router, plan: &SitePlan) -> Result<Applied, NetError> {
    router.observe().await?;
    let applied = router.apply(plan).await?;
    if applied.steps > 0 {
        warn!(steps = applied.steps, "others had changed the router; it is as planned again");
    }
    Ok(applied)
}

/// What is to be done of the tasks that wait: of several plans, the last one and what changes it.
#[derive(Debug, Default)]
struct Due {
    updates: Vec<Update>,
    retry: bool,
    probes: Vec<(ProbeQuestion, mpsc::Sender<ProbeReport>)>,
    counts: Vec<mpsc::Sender<Option<RouterCounts>>>,
    keys: Vec<mpsc::Sender<MadeKey>>,
}

impl Due {
    fn of(first: Task, tasks: &mut mpsc::Receiver<Task>) -> Self {
        let mut due = Self::default();
        let mut next = Some(first);
        while let Some(task) = next {
            match task {
                Task::Hold(update) => {
                    if matches!(update, Update::Plan(_)) {
                        due.updates.clear();
                    }
                    due.updates.push(update);
                }
                Task::Retry => due.retry = true,
                Task::Probe(question, answer) => due.probes.push((question, answer)),
                Task::Count(answer) => due.counts.push(answer),
                Task::MakeKey(answer) => due.keys.push(answer),
            }
            next = tasks.try_recv().ok();
        }
        due
    }
}

fn failures(plan: &SitePlan, applied: Applied) -> BTreeMap<NetworkId, String> {
    let reasons: BTreeMap<InterfaceName, String> =
        applied.failed_ports.iter().map(|(port, error)| (port.clone(), chain(error))).collect();
    let failed = plan.ports.iter();
    failed.filter_map(|(id, port)| Some((*id, reasons.get(&port.interface)?.clone()))).collect()
}
