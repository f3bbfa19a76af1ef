//! What the nodes tell the leader while it leads: never replicated, and forgotten with it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use jaco_scheduler::input::{EngineSignal, NodeSignal};
use jaco_scheduler::{ConsumerSignal, Signals};
use jaco_types::{
    Acknowledgement, ConsumerName, ImageNeed, ImagePull, ImageReadiness, NodeId, StateIndex,
    Timestamp,
};
use tokio::sync::{Notify, watch};

/// The last heartbeat of each node, shared between the listener that receives it and the loop that plans.
#[derive(Debug, Default)]
pub struct SignalBook {
    signals: Mutex<Signals>,
    /// Nothing is decided by these, so the planner does not get them.
    pulls: Mutex<BTreeMap<NodeId, Vec<ImagePull>>>,
    news: Notify,
    /// Told when a consumer says something else than before.
    acknowledged: watch::Sender<()>,
}

impl SignalBook {
    /// Begins to listen: what was heard under an earlier leadership is forgotten.
    pub fn start_listening(&self, now: Timestamp) {
        let mut signals = self.lock();
        *signals = Signals { listening_since: now, ..Signals::default() };
        drop(signals);
        self.lock_pulls().clear();
    }

    /// Takes a node's word. The loop is woken only by what could change a decision: a first word,
    /// or an engine or room on a disk that came or went.
    pub fn record(&self, node: NodeId, engine: EngineSignal, now: Timestamp) {
        let mut signals = self.lock();
        let known =
            signals.nodes.insert(node, NodeSignal { heard_at: now, engine: engine.clone() });
        drop(signals);
        if known.is_none_or(|known| !known.engine.is_alike(&engine)) {
            self.news.notify_one();
        }
    }

    /// Takes a node's word about the images that rollouts need there. Whatever is different from its
    /// last one wakes the loop.
    pub fn record_images(&self, node: NodeId, images: BTreeMap<ImageNeed, ImageReadiness>) {
        let mut signals = self.lock();
        let is_news = signals.images.get(&node).is_some_and(|known| *known != images)
            || (!images.is_empty() && !signals.images.contains_key(&node));
        signals.images.insert(node, images);
        drop(signals);
        if is_news {
            self.news.notify_one();
        }
    }

    /// Takes a node's word about its image pulls, for people.
    pub fn record_pulls(&self, node: NodeId, pulls: Vec<ImagePull>) {
        let mut known = self.lock_pulls();
        match pulls.is_empty() {
            true => known.remove(&node),
            false => known.insert(node, pulls),
        };
    }

    /// The image pulls of these nodes, as far as they told.
    #[must_use]
    pub fn pulls(&self, nodes: &BTreeSet<NodeId>) -> BTreeMap<NodeId, Vec<ImagePull>> {
        let known = self.lock_pulls();
        let of = |node: &NodeId| Some((*node, known.get(node)?.clone()));
        nodes.iter().filter_map(of).collect()
    }

    /// Records a consumer's acknowledgement. Only one that says something else than the last one wakes the loop.
    pub fn record_consumer(
        &self,
        name: ConsumerName,
        session: StateIndex,
        acknowledgement: Acknowledgement,
        now: Timestamp,
    ) {
        let signal =
            ConsumerSignal { session, heard_at: now, acknowledgement: acknowledgement.clone() };
        let known = self.lock().consumers.insert(name, signal);
        let is_news = |known: ConsumerSignal| {
            known.session != session || known.acknowledgement != acknowledgement
        };
        if known.is_none_or(is_news) {
            self.news.notify_one();
            self.acknowledged.send_replace(());
        }
    }

    /// Changes each time a consumer says something else than before.
    #[must_use]
    pub fn watch_acknowledgements(&self) -> watch::Receiver<()> {
        self.acknowledged.subscribe()
    }

    /// What was heard so far.
    #[must_use]
    pub fn snapshot(&self) -> Signals {
        self.lock().clone()
    }

    /// Waits until something was heard that could change a decision.
    pub async fn news(&self) {
        self.news.notified().await;
    }

    fn lock_pulls(&self) -> std::sync::MutexGuard<'_, BTreeMap<NodeId, Vec<ImagePull>>> {
        self.pulls.lock().expect("no holder of the lock panics")
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Signals> {
        self.signals.lock().expect("no holder of the lock panics")
    }
}
