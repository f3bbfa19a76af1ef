//! Writes observations to the replicated state: batched, in order, retried until committed. It does
//! not decide what to report.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jaco_state::Outcome;
use jaco_state::command::Observe;
use jaco_store::{Proposal, ProposeError, Store};
use jaco_types::{Identity, InstanceId, InstanceObserved, NodeId};
use tokio::sync::Notify;

/// How long the first observation waits for others. Ten containers that start together become one
/// or two entries; five milliseconds are not noticeable.
const GATHER: Duration = Duration::from_millis(5);
/// Pause after the first failed attempt; doubled up to [`RETRY_MAX`].
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(1);
/// Maximum instances per entry, so that no entry grows with the node: an observation takes less
/// than a kilobyte.
const BATCH_MAX: usize = 200;

/// Accepts reports without blocking.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reporter {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    arrived: Notify,
}

/// Reports not yet written; only the latest observation of an instance counts.
#[derive(Debug, Default, Clone)]
struct Waiting {
    observed: BTreeMap<InstanceId, InstanceObserved>,
    gone: BTreeSet<InstanceId>,
    joined: BTreeSet<InstanceId>,
}

impl Reporter {
    /// Queues a report.
    pub(crate) fn report(
        &self,
        observed: Vec<InstanceObserved>,
        gone: Vec<InstanceId>,
        joined: Vec<InstanceId>,
    ) {
        let mut waiting = self.shared.waiting.lock().expect("no holder of the lock panics");
        for seen in observed {
            waiting.gone.remove(&seen.id);
            waiting.observed.insert(seen.id.clone(), seen);
        }
        for id in gone {
            waiting.observed.remove(&id);
            waiting.gone.insert(id);
        }
        waiting.joined.extend(joined);
        drop(waiting);
        self.shared.arrived.notify_one();
    }

    /// Writes queued reports, as long as it is polled.
    pub(crate) async fn run(self, store: Arc<dyn Store>, node: NodeId) {
        loop {
            self.shared.arrived.notified().await;
            tokio::time::sleep(GATHER).await;
            let mut pause = RETRY_MIN;
            while let Some(batch) = self.take() {
                match propose(&*store, node, &batch).await {
                    Ok(()) => pause = RETRY_MIN,
                    Err(error) => {
                        tracing::debug!(%error, "observations not written, will retry");
                        self.put_back(batch);
                        tokio::time::sleep(pause).await;
                        pause = (pause * 2).min(RETRY_MAX);
                    }
                }
            }
        }
    }

    fn take(&self) -> Option<Waiting> {
        let mut waiting = self.shared.waiting.lock().expect("no holder of the lock panics");
        let mut batch = Waiting::default();
        while batch.len() < BATCH_MAX {
            if let Some((id, seen)) = waiting.observed.pop_first() {
                batch.observed.insert(id, seen);
            } else if let Some(id) = waiting.gone.pop_first() {
                batch.gone.insert(id);
            } else if let Some(id) = waiting.joined.pop_first() {
                batch.joined.insert(id);
            } else {
                break;
            }
        }
        (batch.len() > 0).then_some(batch)
    }

    /// Queues a failed batch again, except where newer reports arrived.
    fn put_back(&self, batch: Waiting) {
        let mut waiting = self.shared.waiting.lock().expect("no holder of the lock panics");
        for (id, seen) in batch.observed {
            if !waiting.gone.contains(&id) {
                waiting.observed.entry(id).or_insert(seen);
            }
        }
        for id in batch.gone {
            if !waiting.observed.contains_key(&id) {
                waiting.gone.insert(id);
            }
        }
        waiting.joined.extend(batch.joined);
    }
}

impl Waiting {
    fn len(&self) -> usize {
        self.observed.len() + self.gone.len() + self.joined.len()
    }
}

async fn propose(store: &dyn Store, node: NodeId, batch: &Waiting) -> Result<(), ProposeError> {
    let command = Observe::new(node)
        .observed(batch.observed.values().cloned().collect())
        .gone(batch.gone.iter().cloned().collect())
        .joined(batch.joined.iter().cloned().collect())
        .into();
    // No request id: repeated observations change nothing.
    let proposal = Proposal { by: Identity::Node { id: node }, request: None, command };
    let applied = store.propose(proposal).await?;
    if let Outcome::Rejected(rejection) = applied.outcome {
        // The node was removed from the cluster: nothing to report to.
        tracing::warn!(%rejection, "observations rejected");
    }
    Ok(())
}
