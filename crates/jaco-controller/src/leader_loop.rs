//! The loop around the planner.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jaco_scheduler::{Plan, PlanInput, Planner, PlannerConfig};
use jaco_state::command::Batch;
use jaco_state::{Change, Outcome};
use jaco_store::{Clock, Leadership, Proposal, ProposeError, RaftRole, Store};
use jaco_types::{ErrorCode, Identity, Millis, StateIndex, Timestamp};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::clock_watch::{ClockStep, ClockWatch, LOOK_EVERY};
use crate::parts::{Indivisible, Parts};
use crate::schedule::{Pace, PassResult, PassSchedule};
use crate::signals::SignalBook;
use crate::tally::{PlannerTally, Rollouts, rollouts_before};

/// Settings of the loop. Defaults are the product's.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// How often it plans.
    pub pace: Pace,
    /// The planner's settings.
    pub planner: PlannerConfig,
    /// What is counted of its passes.
    pub tally: PlannerTally,
    /// Who is told of plans that were agreed on; nobody waits for it.
    pub agreed: Option<mpsc::Sender<AgreedPlan>>,
}

/// An entry of a plan was agreed on and is executed.
#[derive(Debug, Clone, Copy)]
pub struct AgreedPlan {
    /// The entry.
    pub index: StateIndex,
    /// When its pass began.
    pub begun: Instant,
    /// When it was executed.
    pub done: Instant,
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
    /// The state had changed before the changes of the last pass were agreed on; the next one plans again.
    Refused {
        /// The state that it looked at.
        based_on: StateIndex,
    },
    /// The last pass could not have its changes agreed on, as by a leader that hears too few others; the next one plans
    /// again after a pause that grows.
    Failed {
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
    /// The zero of the steady clock.
    started: Instant,
}

/// What the loop keeps while this node leads.
struct Leading {
    term: u64,
    schedule: PassSchedule,
    planner: Planner,
}

/// What can make the loop act.
enum Wake {
    /// The state grew.
    State,
    /// A node said something that matters.
    Signals,
    /// Leadership changed, to or from this node.
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
        let (status, started) = (watch::Sender::default(), Instant::now());
        Self { store, signals, clock, options, status, started }
    }

    /// What the loop is at.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<PassStatus> {
        self.status.subscribe()
    }

    /// Runs until `shutdown`.
    pub async fn run(self, shutdown: CancellationToken) {
        let clocks = Mutex::default();
        tokio::select! {
            () = self.lead(&clocks, &shutdown) => {}
            () = self.watch_clocks(&clocks) => {}
        }
    }

    /// Plans whenever it is time to, as long as this node leads.
    async fn lead(&self, clocks: &Mutex<ClockWatch>, shutdown: &CancellationToken) {
        let mut index = self.store.watch_index();
        let mut leadership = self.store.watch_leadership();
        let mut leading: Option<Leading> = None;
        loop {
            let term = term_if_leading(*leadership.borrow_and_update());
            if term != leading.as_ref().map(|leading| leading.term) {
                self.change_of_role(term);
                // What was remembered is of no use to a follower, and a new leader needs none of it.
                leading = term.map(|term| Leading {
                    term,
                    schedule: PassSchedule::new(self.options.pace, self.clock.now()),
                    planner: Planner::default(),
                });
            }
            let due = leading.as_ref().map(|leading| leading.schedule.due_at());
            let wake = self.wait(&mut index, &mut leadership, due, shutdown).await;
            match (wake, &mut leading) {
                (Wake::Shutdown, _) => return,
                (Wake::State | Wake::Signals, Some(Leading { schedule, .. })) => {
                    schedule.event(self.clock.now());
                }
                (Wake::Due, Some(Leading { schedule, planner, .. })) => {
                    index.mark_unchanged();
                    let now = self.look(clocks);
                    schedule.begin(now);
                    let result = self.pass(planner, now).await;
                    schedule.end(self.clock.now(), result);
                }
                (Wake::Leadership, _) | (Wake::State | Wake::Signals | Wake::Due, None) => {}
            }
        }
    }

    /// Looks at the clocks all the time, also while a pass waits for its proposal: what then is not looked at
    /// for long, did not run.
    async fn watch_clocks(&self, clocks: &Mutex<ClockWatch>) {
        loop {
            self.look(clocks);
            tokio::time::sleep(Duration::from_millis(LOOK_EVERY.0)).await;
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

    /// Looks at the clocks, and gives the time that it is now. After the clock was set, or this process did
    /// not run, nobody's silence can be judged by what was heard before.
    fn look(&self, clocks: &Mutex<ClockWatch>) -> Timestamp {
        let (now, steady) = (self.clock.now(), self.started.elapsed());
        let steady = Millis(u64::try_from(steady.as_millis()).unwrap_or(u64::MAX));
        let step = clocks.lock().expect("no holder of the lock panics").look(now, steady);
        match step {
            ClockStep::None => return now,
            ClockStep::Set => warn!("the machine's clock was set; silence of nodes counts anew"),
            ClockStep::Stalled => warn!("this process did not run; silence of nodes counts anew"),
        }
        self.signals.start_listening(now);
        now
    }

    /// One pass at this moment.
    async fn pass(&self, planner: &mut Planner, now: Timestamp) -> PassResult {
        let state = self.store.snapshot();
        let signals = self.signals.snapshot();
        let config = &self.options.planner;
        let begun = Instant::now();
        let plan = planner.plan(&PlanInput { state: &state, signals: &signals, now, config });
        self.options.tally.pass_seconds.observe(begun.elapsed().as_secs_f64());
        let before = rollouts_before(&state, &plan);
        drop(state);
        let wake_at = plan.wake_at;
        let status = self.propose(plan, &before, begun).await;
        self.count(status);
        self.status.send_replace(status);
        match status {
            PassStatus::Refused { .. } => PassResult::Refused,
            PassStatus::Failed { .. } => PassResult::Failed,
            PassStatus::NotLeading
            | PassStatus::Idle { .. }
            | PassStatus::Changed { .. }
            | PassStatus::TooLarge { .. } => PassResult::Done { wake_at },
        }
    }

    /// Counts what a pass came to.
    fn count(&self, status: PassStatus) {
        let tally = &self.options.tally;
        let counter = match status {
            PassStatus::NotLeading => return,
            PassStatus::Idle { .. } => &tally.idle,
            PassStatus::Changed { .. } => &tally.changed,
            PassStatus::Refused { .. } | PassStatus::Failed { .. } => &tally.refused,
            PassStatus::TooLarge { .. } => &tally.too_large,
        };
        counter.inc();
    }

    /// Has a plan agreed on, in as many entries as it needs. Each is based on the state that the plan
    /// was made from; the first that is refused ends it, and the next pass plans what is left.
    async fn propose(&self, plan: Plan, before: &Rollouts, begun: Instant) -> PassStatus {
        let (based_on, changes) = (plan.based_on, plan.changes.len());
        if changes == 0 {
            return PassStatus::Idle { at: based_on };
        }
        let mut parts = Parts::cut(plan.changes);
        while let Some(part) = parts.next() {
            match self.agree(based_on, part.clone()).await {
                Agreement::Agreed(index) => {
                    self.options.tally.agreed(&part, before);
                    self.tell(AgreedPlan { index, begun, done: Instant::now() });
                }
                Agreement::Refused => return PassStatus::Refused { based_on },
                Agreement::Failed => return PassStatus::Failed { based_on },
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

    /// Who is behind misses what does not fit.
    fn tell(&self, plan: AgreedPlan) {
        if let Some(agreed) = &self.options.agreed {
            agreed.try_send(plan).ok();
        }
    }

    /// Proposes one part of a plan.
    async fn agree(&self, based_on: StateIndex, part: Vec<Change>) -> Agreement {
        let changes = part.len();
        let command = Batch::new(based_on, part).into();
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
                    Agreement::Agreed(applied.index)
                }
            },
            Err(error @ ProposeError::TooLarge { .. }) => {
                debug!(%based_on, changes, %error, "part of a plan is cut in two");
                Agreement::TooLarge
            }
            Err(error) => {
                warn!(%based_on, %error, "plan could not be proposed");
                Agreement::Failed
            }
        }
    }
}

/// What came of a proposal.
enum Agreement {
    /// It was agreed on and executed, as this entry.
    Agreed(StateIndex),
    /// It was not: the state had changed.
    Refused,
    /// It could not be proposed, or nobody knows what came of it.
    Failed,
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
