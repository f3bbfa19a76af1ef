//! The loop around the planner.

use std::sync::Arc;
use std::time::Duration;

use jaco_scheduler::{Plan, PlanInput, Planner, PlannerConfig};
use jaco_state::{Change, Command, Outcome};
use jaco_store::{Clock, Leadership, Proposal, ProposeError, RaftRole, Store};
use jaco_types::{ErrorCode, Identity, Millis, StateIndex, Timestamp};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::clock_watch::{ClockStep, ClockWatch};
use crate::debounce::Debounce;
use crate::parts::{Indivisible, Parts};
use crate::signals::SignalBook;

/// How the loop paces itself. Defaults are the product's (R-LOOP-2); tests shorten them.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long things must be quiet before a pass, or must have been (50 ms).
    pub quiet: Millis,
    /// How long a steady stream of events can put a pass off (250 ms).
    pub at_most: Millis,
    /// A pass runs at least this often (30 s).
    pub safety_tick: Millis,
    /// The planner's settings.
    pub planner: PlannerConfig,
}

impl Options {
    /// The product's, for a daemon of this version.
    #[must_use]
    pub fn of_version(version: &str) -> Self {
        let planner = PlannerConfig { version: version.to_owned(), ..PlannerConfig::default() };
        Self { planner, ..Self::default() }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            quiet: Millis(50),
            at_most: Millis(250),
            safety_tick: Millis::from_secs(30),
            planner: PlannerConfig::default(),
        }
    }
}

/// What the loop is at, as a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PassStatus {
    /// Another node leads.
    #[default]
    NotLeading,
    /// The last pass found nothing to change at this index.
    Idle {
        /// The state that it looked at.
        at: StateIndex,
    },
    /// The last pass proposed changes, which were agreed on.
    Changed {
        /// The state that it looked at.
        based_on: StateIndex,
        /// How many changes.
        changes: usize,
    },
    /// The last pass could not get its changes agreed on; the next one plans again.
    Refused {
        /// The state that it looked at.
        based_on: StateIndex,
    },
    /// The last pass wants a change that alone is more than an entry can hold. Planning again would
    /// want the same: the next pass waits for a change or the safety tick.
    TooLarge {
        /// The state that it looked at.
        based_on: StateIndex,
    },
}

/// The leader's loop.
#[allow(missing_debug_implementations, reason = "holds trait objects that have nothing to show")]
pub struct Controller {
    store: Arc<dyn Store>,
    signals: Arc<SignalBook>,
    clock: Arc<dyn Clock>,
    options: Options,
    status: watch::Sender<PassStatus>,
}

/// What can make the loop act.
enum Wake {
    /// The state grew.
    State,
    /// A node said something that matters.
    Signals,
    /// Somebody else leads, or this node does now.
    Leadership,
    /// The moment has come that was waited for.
    Due,
    /// The daemon stops.
    Shutdown,
}

impl Controller {
    /// A loop over this store. It runs on every node, and plans where that node leads.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        signals: Arc<SignalBook>,
        clock: Arc<dyn Clock>,
        options: Options,
    ) -> Self {
        Self { store, signals, clock, options, status: watch::Sender::default() }
    }

    /// What the loop is at.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<PassStatus> {
        self.status.subscribe()
    }

    /// Runs until `shutdown`.
    pub async fn run(self, shutdown: CancellationToken) {
        let mut index = self.store.watch_index();
        let mut leadership = self.store.watch_leadership();
        let mut debounce = Debounce::new(self.options.quiet, self.options.at_most);
        let mut leading_term = None;
        let mut planner = Planner::default();
        let mut next_tick = self.clock.now();
        let (started, mut watch) = (Instant::now(), ClockWatch::default());
        loop {
            let term = term_if_leading(*leadership.borrow_and_update());
            if term != leading_term {
                leading_term = term;
                self.change_of_role(term);
                // What was remembered is of no use to a follower, and a new leader needs none of it.
                planner = Planner::default();
                debounce = Debounce::new(self.options.quiet, self.options.at_most);
                next_tick = self.clock.now();
            }
            let due =
                leading_term.map(|_| debounce.due_at().map_or(next_tick, |at| at.min(next_tick)));
            match self.wait(&mut index, &mut leadership, due, &shutdown).await {
                Wake::State | Wake::Signals => debounce.event(self.clock.now()),
                Wake::Leadership => {}
                Wake::Shutdown => return,
                Wake::Due => {
                    self.mind_the_clock(&mut watch, started.elapsed());
                    index.mark_unchanged();
                    next_tick = self.pass(&mut planner).await;
                    debounce.pass(self.clock.now());
                }
            }
        }
    }

    async fn wait(
        &self,
        index: &mut watch::Receiver<StateIndex>,
        leadership: &mut watch::Receiver<Leadership>,
        due: Option<Timestamp>,
        shutdown: &CancellationToken,
    ) -> Wake {
        let leading = due.is_some();
        let sleep =
            due.map_or(Duration::MAX, |due| Duration::from_millis(due.since(self.clock.now()).0));
        tokio::select! {
            biased;
            () = shutdown.cancelled() => Wake::Shutdown,
            changed = leadership.changed() => match changed {
                Ok(()) => Wake::Leadership,
                Err(_) => Wake::Shutdown,
            },
            () = tokio::time::sleep(sleep), if leading => Wake::Due,
            changed = index.changed(), if leading => match changed {
                Ok(()) => Wake::State,
                Err(_) => Wake::Shutdown,
            },
            () = self.signals.news(), if leading => Wake::Signals,
        }
    }

    fn change_of_role(&self, leading_term: Option<u64>) {
        match leading_term {
            Some(term) => {
                info!(term, "this node leads and plans");
                self.signals.start_listening(self.clock.now());
            }
            None => {
                self.status.send_replace(PassStatus::NotLeading);
            }
        }
    }

    /// When the clock was set, nobody's silence can be judged by what was heard before.
    fn mind_the_clock(&self, watch: &mut ClockWatch, steady: Duration) {
        let now = self.clock.now();
        let steady = Millis(u64::try_from(steady.as_millis()).unwrap_or(u64::MAX));
        if watch.look(now, steady) == ClockStep::Set {
            warn!("the machine's clock was set; who was silent is judged anew");
            self.signals.start_listening(now);
        }
    }

    /// One pass; says when the next is due if nothing happens before.
    async fn pass(&self, planner: &mut Planner) -> Timestamp {
        let now = self.clock.now();
        let state = self.store.snapshot();
        let signals = self.signals.snapshot();
        let config = &self.options.planner;
        let plan = planner.plan(&PlanInput { state: &state, signals: &signals, now, config });
        drop(state);
        let tick = now.after(self.options.safety_tick);
        let wake_at =
            plan.wake_at.map_or(tick, |at| at.min(tick)).max(now.after(self.options.quiet));
        let status = self.propose(plan).await;
        self.status.send_replace(status);
        match status {
            PassStatus::Refused { .. } => now.after(self.options.quiet),
            PassStatus::NotLeading
            | PassStatus::Idle { .. }
            | PassStatus::Changed { .. }
            | PassStatus::TooLarge { .. } => wake_at,
        }
    }

    /// Has a plan agreed on, in as many entries as it needs. Each is based on the state that the plan
    /// was made from; the first that is refused ends it, and the next pass plans what is left.
    async fn propose(&self, plan: Plan) -> PassStatus {
        let (based_on, changes) = (plan.based_on, plan.changes.len());
        if changes == 0 {
            return PassStatus::Idle { at: based_on };
        }
        let mut parts = Parts::cut(plan.changes);
        while let Some(part) = parts.next() {
            match self.agree(based_on, part.clone()).await {
                Agreement::Agreed => {}
                Agreement::Refused => return PassStatus::Refused { based_on },
                Agreement::TooLarge => {
                    if let Err(Indivisible) = parts.halve(part) {
                        warn!(%based_on, "a single change is larger than an entry may be");
                        return PassStatus::TooLarge { based_on };
                    }
                }
            }
        }
        PassStatus::Changed { based_on, changes }
    }

    /// Proposes one part of a plan.
    async fn agree(&self, based_on: StateIndex, part: Vec<Change>) -> Agreement {
        let changes = part.len();
        let command = Command::Batch { based_on, changes: part };
        let proposal = Proposal { by: Identity::Scheduler, request: None, command };
        match self.store.propose(proposal).await {
            Ok(applied) => match applied.outcome {
                Outcome::Rejected(rejection) if rejection.code == ErrorCode::StalePlan => {
                    debug!(%based_on, reason = %rejection.message, "plan was stale");
                    Agreement::Refused
                }
                Outcome::Rejected(rejection) => {
                    warn!(%based_on, error = %rejection, "plan was refused");
                    Agreement::Refused
                }
                Outcome::Done | Outcome::NodeAdmitted { .. } | Outcome::Deployed { .. } => {
                    info!(%based_on, raft_index = %applied.index, changes, "plan agreed on");
                    Agreement::Agreed
                }
            },
            Err(error @ ProposeError::TooLarge { .. }) => {
                debug!(%based_on, changes, %error, "part of a plan is cut in two");
                Agreement::TooLarge
            }
            Err(error) => {
                warn!(%based_on, %error, "plan could not be proposed");
                Agreement::Refused
            }
        }
    }
}

/// What came of a proposal.
enum Agreement {
    /// It was agreed on and executed.
    Agreed,
    /// It was not, or nobody knows.
    Refused,
    /// It does not fit an entry. Nothing was written.
    TooLarge,
}

/// The term that this node leads in. A new term is a new leadership, even if no other node led in
/// between: what was heard before it may be old.
fn term_if_leading(leadership: Leadership) -> Option<u64> {
    match leadership.role {
        RaftRole::Leader => Some(leadership.term),
        RaftRole::Follower => None,
    }
}
