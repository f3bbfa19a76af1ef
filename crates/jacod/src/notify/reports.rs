//! How far the targets are, collected until it is worth an entry of the log: a flood of events is one entry every two
//! seconds, and without a delivery there is none.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jaco_state::Outcome;
use jaco_state::audit::AuditKey;
use jaco_state::command::{GivenUp, NotifyProgress, Retried, TargetProgress};
use jaco_state::notify::{Delivered, Failing};
use jaco_store::{Proposal, Store};
use jaco_types::{Identity, NotifyTargetName, StateIndex};
use tokio::sync::Notify;
use tokio::time::sleep;
use tracing::{debug, warn};

/// How long is collected. What a leader has not reported when it ends is delivered again by the next one.
const COLLECTED_FOR: Duration = Duration::from_secs(2);

/// What is not written yet.
#[derive(Default)]
pub(super) struct Reports {
    waiting: Mutex<BTreeMap<NotifyTargetName, TargetProgress>>,
    added: Notify,
}

/// What there is to report of a target.
pub(super) enum News {
    /// It accepted an event.
    Delivered(Delivered),
    /// It did not accept what it was sent, which is tried again.
    Failed,
    /// An event was given up.
    GivenUp(GivenUp),
    /// What a user asked for was sent.
    Retried(Retried),
}

impl Reports {
    /// Notes something of a target.
    pub(super) fn note(
        &self,
        (name, id): (&NotifyTargetName, StateIndex),
        cursor: AuditKey,
        failing: Option<Failing>,
        news: News,
    ) {
        let mut waiting = self.locked();
        let of = waiting.entry(name.clone()).or_insert_with(|| empty(name.clone(), id));
        if of.id != id {
            *of = empty(name.clone(), id);
        }
        of.cursor = of.cursor.max(cursor);
        of.failing = failing;
        match news {
            News::Delivered(delivered) => of.delivered = Some(delivered),
            News::Failed => {}
            News::GivenUp(given_up) => of.given_up.push(given_up),
            News::Retried(retried) => of.retried.push(retried),
        }
        drop(waiting);
        self.added.notify_one();
    }

    /// Writes what was added, as long as it is polled.
    pub(super) async fn write(&self, store: &dyn Store) {
        loop {
            self.added.notified().await;
            sleep(COLLECTED_FOR).await;
            let collected = std::mem::take(&mut *self.locked());
            if collected.is_empty() {
                continue;
            }
            let targets: Vec<TargetProgress> = collected.into_values().collect();
            let command = NotifyProgress::new(targets.clone()).into();
            let proposal = Proposal { by: Identity::Scheduler, request: None, command };
            match store.propose(proposal).await.map(|applied| applied.outcome) {
                Ok(Outcome::Rejected(rejection)) => {
                    warn!(error = %rejection, "the progress of notifications was refused");
                }
                Ok(Outcome::Done | Outcome::NodeAdmitted { .. } | Outcome::Deployed { .. }) => {
                    debug!(targets = targets.len(), "progress of notifications written");
                }
                Err(error) => {
                    warn!(%error, "the progress of notifications was not written, will retry");
                    self.put_back(targets);
                }
            }
        }
    }

    /// Once more in front of what was added meanwhile. Whether it was written is not known: twice is as good as once.
    fn put_back(&self, targets: Vec<TargetProgress>) {
        let mut waiting = self.locked();
        for older in targets {
            let merged = match waiting.remove(&older.name) {
                Some(newer) if newer.id == older.id => merged(older, newer),
                Some(newer) => newer,
                None => older,
            };
            waiting.insert(merged.name.clone(), merged);
        }
        drop(waiting);
        self.added.notify_one();
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<NotifyTargetName, TargetProgress>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn empty(name: NotifyTargetName, id: StateIndex) -> TargetProgress {
    TargetProgress {
        name,
        id,
        cursor: AuditKey::default(),
        delivered: None,
        failing: None,
        given_up: Vec::new(),
        retried: Vec::new(),
    }
}

fn merged(older: TargetProgress, newer: TargetProgress) -> TargetProgress {
    TargetProgress {
        name: newer.name,
        id: newer.id,
        cursor: newer.cursor.max(older.cursor),
        delivered: newer.delivered.or(older.delivered),
        failing: newer.failing,
        given_up: older.given_up.into_iter().chain(newer.given_up).collect(),
        retried: older.retried.into_iter().chain(newer.retried).collect(),
    }
}

#[cfg(test)]
mod tests {
    use jaco_store::MemStore;
    use jaco_types::{NodeId, Timestamp};

    use super::*;

    fn name() -> NotifyTargetName {
        NotifyTargetName::new("ops").unwrap()
    }

    fn key(index: u64) -> AuditKey {
        AuditKey { index: StateIndex(index), number: 0 }
    }

    fn delivered(index: u64) -> News {
        News::Delivered(Delivered { event: key(index), at: Timestamp(index) })
    }

    fn given_up(index: u64) -> GivenUp {
        GivenUp { event: key(index), attempts: 1, reason: "answered 400".to_owned() }
    }

    /// R-OPS-1: a thousand deliveries are one entry, and without one there is none.
    #[tokio::test(start_paused = true)]
    async fn a_flood_is_one_entry() {
        let store = MemStore::new(NodeId::FIRST);
        let before = store.snapshot().index;
        let reports = Reports::default();
        let quiet = tokio::time::timeout(Duration::from_secs(3600), reports.write(&store));
        assert!(quiet.await.is_err());
        assert_eq!(store.snapshot().index, before, "an idle hour writes nothing");
        for index in 1..=1000 {
            reports.note((&name(), StateIndex(1)), key(index), None, delivered(index));
        }
        let flood = tokio::time::timeout(Duration::from_secs(60), reports.write(&store));
        assert!(flood.await.is_err());
        assert_eq!(store.snapshot().index.0, before.0 + 1);
    }

    /// R-OPS-1: what could not be written stays in front of what came after.
    #[test]
    fn nothing_is_lost_that_was_not_written() {
        let reports = Reports::default();
        let id = StateIndex(1);
        reports.note((&name(), id), key(5), None, News::GivenUp(given_up(5)));
        let taken: Vec<_> = std::mem::take(&mut *reports.locked()).into_values().collect();
        let failing = Failing { since: Timestamp(1), reason: "answered 500".to_owned() };
        reports.note((&name(), id), key(6), Some(failing.clone()), News::GivenUp(given_up(6)));
        reports.put_back(taken.clone());
        let waiting = reports.locked().get(&name()).cloned().unwrap();
        assert_eq!(waiting.given_up, [given_up(5), given_up(6)]);
        assert_eq!((waiting.cursor, waiting.failing), (key(6), Some(failing)));
        // What is about a target that was replaced meanwhile is forgotten.
        reports.locked().clear();
        reports.note((&name(), StateIndex(9)), key(10), None, delivered(10));
        reports.put_back(taken);
        let waiting = reports.locked().get(&name()).cloned().unwrap();
        assert_eq!((waiting.id, waiting.given_up.len()), (StateIndex(9), 0));
    }
}
