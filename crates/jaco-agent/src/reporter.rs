//! Brings observations into the replicated state: batched, in order, until they are written. It
//! never decides what is worth reporting.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jaco_state::{Command, Outcome};
use jaco_store::{Proposal, ProposeError, Store};
use jaco_types::{Identity, InstanceId, InstanceObserved, NodeId};
use tokio::sync::Notify;

/// How long the first observation waits for others to travel with it. Ten containers that start
/// together become one or two entries, and nobody sees five milliseconds.
const GATHER: Duration = Duration::from_millis(5);
/// The pause after a first failed attempt; doubled up to [`RETRY_MAX`].
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(1);
/// The most instances in one entry, so that no entry grows with the node: an observation has well
/// under a kilobyte, and an entry may have a few hundred.
const BATCH_MAX: usize = 200;

/// Takes reports without waiting.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reporter {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    arrived: Notify,
}

/// What is still to be written. Of several observations of an instance only the latest counts.
#[derive(Debug, Default, Clone)]
struct Waiting {
    observed: BTreeMap<InstanceId, InstanceObserved>,
    gone: BTreeSet<InstanceId>,
}

impl Reporter {
    /// Hands a report over.
    pub(crate) fn report(&self, observed: Vec<InstanceObserved>, gone: Vec<InstanceId>) {
        let mut waiting = self.shared.waiting.lock().expect("no holder of the lock panics");
        for seen in observed {
            waiting.gone.remove(&seen.id);
            waiting.observed.insert(seen.id.clone(), seen);
        }
        for id in gone {
            waiting.observed.remove(&id);
            waiting.gone.insert(id);
        }
        drop(waiting);
        self.shared.arrived.notify_one();
    }

    /// Writes what is handed over, for as long as it is polled.
    pub(crate) async fn run(self, store: Arc<dyn Store>, node: NodeId) {
        loop {
            self.shared.arrived.notified().await;
            tokio::time::sleep(GATHER).await;
            let mut pause = RETRY_MIN;
            while let Some(batch) = self.take() {
                match propose(&*store, node, &batch).await {
                    Ok(()) => pause = RETRY_MIN,
                    Err(error) => {
                        tracing::debug!(%error, "observation not written yet");
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
            } else {
                break;
            }
        }
        (batch.len() > 0).then_some(batch)
    }

    /// What was not written waits again, unless something newer has come in the meantime.
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
    }
}

impl Waiting {
    fn len(&self) -> usize {
        self.observed.len() + self.gone.len()
    }
}

async fn propose(store: &dyn Store, node: NodeId, batch: &Waiting) -> Result<(), ProposeError> {
    let command = Command::Observe {
        node,
        observed: batch.observed.values().cloned().collect(),
        gone: batch.gone.iter().cloned().collect(),
    };
    // No request id: observing the same thing twice changes nothing.
    let proposal = Proposal { by: Identity::Node { id: node }, request: None, command };
    let applied = store.propose(proposal).await?;
    if let Outcome::Rejected(rejection) = applied.outcome {
        // The node was removed from the cluster: there is nobody to tell any more.
        tracing::warn!(%rejection, "observation refused");
    }
    Ok(())
}
