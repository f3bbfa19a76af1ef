//! Takes the backups that schedules ask for, while this node leads (R-CLI-6, ADR 0157): one at a time. Which one is due says
//! the state; whether a due time begins a run, `apply`; what is in a file and which files stay, `jaco-backup`.
//!
//! ```text
//! agenda     which schedule is next
//! assembled  the parts of a state, in a file
//! folder     one attempt, to a folder
//! bucket     one attempt, to an object store
//! ```

mod agenda;
mod assembled;
mod bucket;
mod folder;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jaco_server::Member;
use jaco_state::backup::{BackupKeep, BackupSchedule, BackupTarget};
use jaco_state::command::{AttemptEnd, BackupBegin, BackupReport};
use jaco_state::{Command, Outcome};
use jaco_store::{Proposal, Store};
use jaco_types::{BackupScheduleName, ErrorCode, Identity, StateIndex};
use tokio::time::{sleep, timeout};
use tracing::{debug, error, info, warn};

use crate::leading::while_leading;

use agenda::{Next, next};

/// How often it looks: also how soon a schedule that was stored is known, and a clock that was set.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The longest that an attempt may take: one that hangs does not keep other schedules from theirs for longer.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(3600);

/// The loop around the leaderships of this node.
pub(crate) struct BackupLoop {
    member: Arc<Member>,
    /// Where a file is until an object store has it.
    spool: PathBuf,
}

/// What an attempt is about.
#[derive(Debug, Clone)]
struct Attempt {
    name: BackupScheduleName,
    schedule: Arc<BackupSchedule>,
    run: StateIndex,
    ended: Ended,
}

/// Tells the part of an attempt that waits for a disk that nobody waits for it any more.
#[derive(Debug, Clone, Default)]
struct Ended(Arc<AtomicBool>);

impl Ended {
    fn check(&self) -> Result<(), String> {
        match self.0.load(Ordering::Relaxed) {
            true => Err("the attempt was ended".to_owned()),
            false => Ok(()),
        }
    }
}

/// Ends what is left of an attempt when it is dropped, as it is with the leadership.
struct EndsWith(Ended);

impl Drop for EndsWith {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

impl BackupLoop {
    pub(crate) fn new(member: Arc<Member>, spool: PathBuf) -> Self {
        Self { member, spool }
    }

    /// Runs until it is dropped. Whoever leads next goes on with the run that has not ended.
    pub(crate) async fn run(self) {
        while_leading(&self.member, || self.lead()).await;
    }

    async fn lead(&self) {
        if let Err(refusal) = self.member.key() {
            error!(code = %refusal.code, reason = %refusal.message, "no backup of a schedule is taken");
            // This leadership is handed on.
            return std::future::pending().await;
        }
        loop {
            let now = self.member.clock.now();
            match self.member.store.read(|state| next(state, now)) {
                Next::Due { name, id, due } => {
                    self.propose(BackupBegin::new(name, id, Some(due)).into()).await;
                }
                Next::Run { name, schedule, run } => self.attempt(name, *schedule, run).await,
                Next::Nothing => {}
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Takes a backup once, and reports what came of it.
    async fn attempt(&self, name: BackupScheduleName, schedule: BackupSchedule, run: StateIndex) {
        let (id, target) = (schedule.id, schedule.target.clone());
        let ended = Ended::default();
        let _ends_with = EndsWith(ended.clone());
        let attempt = Attempt { name: name.clone(), schedule: Arc::new(schedule), run, ended };
        let attempted = async {
            match &target {
                BackupTarget::Folder(path) => folder::take(&self.member, attempt, path).await,
                BackupTarget::Bucket(bucket) => {
                    bucket::take(&self.member, attempt, bucket, &self.spool).await
                }
            }
        };
        let attempted = timeout(ATTEMPT_LIMIT, attempted).await;
        let attempted = attempted.unwrap_or_else(|_| {
            Err(format!("it was not done within {} min", ATTEMPT_LIMIT.as_secs() / 60))
        });
        let end = match attempted {
            Ok(taken) => {
                info!(schedule = %name, %target, file = %taken.name, bytes = taken.bytes, "backup stored");
                AttemptEnd::Taken(taken)
            }
            Err(reason) => {
                warn!(schedule = %name, %target, %reason, "backup failed, will be tried again");
                AttemptEnd::Failed { reason }
            }
        };
        self.propose(BackupReport::new(name, id, run, end).into()).await;
    }

    /// What is refused is looked at again: what came in between decides then.
    async fn propose(&self, command: Command) {
        let proposal = Proposal { by: Identity::Scheduler, request: None, command };
        match self.member.store.propose(proposal).await.map(|applied| applied.outcome) {
            Ok(Outcome::Rejected(rejection)) if rejection.code == ErrorCode::StalePlan => {
                debug!(reason = %rejection.message, "backup schedule is looked at again");
            }
            Ok(Outcome::Rejected(rejection)) => {
                warn!(error = %rejection, "the progress of a backup schedule was refused");
            }
            Ok(Outcome::Done | Outcome::NodeAdmitted { .. } | Outcome::Deployed { .. }) => {}
            // A backup that is there is found by the next attempt of its run.
            Err(error) => warn!(%error, "the progress of a backup schedule was not written"),
        }
    }
}

/// The rules as those of a folder.
fn retention(keep: BackupKeep) -> jaco_backup::Retention {
    let number = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    let BackupKeep { newest, days, weeks, months } = keep;
    jaco_backup::Retention {
        newest: number(newest),
        days: number(days),
        weeks: number(weeks),
        months: number(months),
    }
}
