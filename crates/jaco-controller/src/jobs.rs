//! The loop that proposes runs of jobs when they are due (R-JOB-2): on the leader, by the leader's clock alone. What is due says
//! [`jaco_scheduler::schedule`]; whether a run begins, `apply`.

use std::sync::Arc;
use std::time::Duration;

use jaco_scheduler::schedule::Agenda;
use jaco_state::{Command, Outcome};
use jaco_store::{Clock, Proposal, RaftRole, Store};
use jaco_types::{ErrorCode, Identity};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

/// How often it looks at least: also how soon a schedule that was applied is known, and a clock that was set.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The loop. It runs on every node, and acts where that node leads.
#[allow(missing_debug_implementations, reason = "holds trait objects that have nothing to show")]
pub struct JobLoop {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
}

impl JobLoop {
    /// A loop over this store.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock }
    }

    /// Runs until `shutdown`.
    pub async fn run(self, shutdown: CancellationToken) {
        let mut leadership = self.store.watch_leadership();
        let mut agenda = Agenda::default();
        loop {
            let leads = leadership.borrow_and_update().role == RaftRole::Leader;
            let pause = match leads {
                true => self.look(&mut agenda).await,
                false => LOOK_EVERY,
            };
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                changed = leadership.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(pause), if leads => {}
            }
        }
    }

    /// Proposes what is due, and says how long nothing else is.
    async fn look(&self, agenda: &mut Agenda) -> Duration {
        let now = self.clock.now();
        let (commands, next) = agenda.look(&self.store.snapshot(), now);
        for command in commands {
            self.propose(command).await;
        }
        let until = next.map_or(LOOK_EVERY, |next| Duration::from_millis(next.since(now).0));
        until.min(LOOK_EVERY)
    }

    /// What is refused is looked at again: what came in between decides then.
    async fn propose(&self, command: Command) {
        let proposal = Proposal { by: Identity::Scheduler, request: None, command };
        match self.store.propose(proposal).await {
            Ok(applied) => match applied.outcome {
                Outcome::Rejected(rejection) if rejection.code == ErrorCode::StalePlan => {
                    debug!(reason = %rejection.message, "due run is looked at again");
                }
                Outcome::Rejected(rejection) => warn!(error = %rejection, "due run was refused"),
                Outcome::Done | Outcome::NodeAdmitted { .. } | Outcome::Deployed { .. } => {
                    info!(raft_index = %applied.index, "due run of a job dealt with");
                }
            },
            Err(error) => warn!(%error, "due run could not be proposed; tried again"),
        }
    }
}
