//! Observations on their way into the log, as the agent's reporter sends them: gathered, in order,
//! until they are written.

use std::collections::{BTreeMap, BTreeSet};

use jaco_state::Command;
use jaco_state::command::Observe;
use jaco_types::{InstanceId, InstanceObserved, Millis, NodeId};

/// How long the first observation waits for others, and the pauses after failed attempts.
const GATHER: Millis = Millis(5);
const RETRY_MIN: Millis = Millis(50);
const RETRY_MAX: Millis = Millis(1000);

/// What is still to be written. Of several observations of an instance only the latest counts.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    waiting: Batch,
    sent: Option<Batch>,
    pause: Option<Millis>,
    /// Whether a moment to send at is planned.
    planned: Planned,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Batch {
    observed: BTreeMap<InstanceId, InstanceObserved>,
    gone: BTreeSet<InstanceId>,
    joined: BTreeSet<InstanceId>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Planned {
    #[default]
    No,
    Yes,
}

impl Outbox {
    /// Takes a report. Says when to send, if that was not planned already.
    pub(crate) fn take(
        &mut self,
        observed: Vec<InstanceObserved>,
        gone: Vec<InstanceId>,
        joined: Vec<InstanceId>,
    ) -> Option<Millis> {
        for seen in observed {
            self.waiting.gone.remove(&seen.id);
            self.waiting.observed.insert(seen.id.clone(), seen);
        }
        for id in gone {
            self.waiting.observed.remove(&id);
            self.waiting.gone.insert(id);
        }
        self.waiting.joined.extend(joined);
        self.plan(GATHER)
    }

    fn plan(&mut self, after: Millis) -> Option<Millis> {
        let is_due =
            self.planned == Planned::No && self.sent.is_none() && self.waiting != Batch::default();
        is_due.then(|| {
            self.planned = Planned::Yes;
            after
        })
    }

    /// The moment has come: what to propose.
    pub(crate) fn send(&mut self, node: NodeId) -> Option<Command> {
        self.planned = Planned::No;
        if self.sent.is_some() || self.waiting == Batch::default() {
            return None;
        }
        let batch = std::mem::take(&mut self.waiting);
        let command = Observe::new(node)
            .observed(batch.observed.values().cloned().collect())
            .gone(batch.gone.iter().cloned().collect())
            .joined(batch.joined.iter().cloned().collect())
            .into();
        self.sent = Some(batch);
        Some(command)
    }

    /// It was written. Says when to send what came in the meantime.
    pub(crate) fn written(&mut self) -> Option<Millis> {
        self.sent = None;
        self.pause = None;
        self.plan(Millis(0))
    }

    /// It was not, or nobody knows: observing the same thing twice changes nothing.
    pub(crate) fn failed(&mut self) -> Option<Millis> {
        if let Some(batch) = self.sent.take() {
            for (id, seen) in batch.observed {
                if !self.waiting.gone.contains(&id) {
                    self.waiting.observed.entry(id).or_insert(seen);
                }
            }
            for id in batch.gone {
                if !self.waiting.observed.contains_key(&id) {
                    self.waiting.gone.insert(id);
                }
            }
            self.waiting.joined.extend(batch.joined);
        }
        let pause = self.pause.map_or(RETRY_MIN, |pause| Millis(pause.0 * 2).min(RETRY_MAX));
        self.pause = Some(pause);
        self.plan(pause)
    }
}
