//! Delivers notifications of audit events while this node leads (R-OPS-1, ADR 0149): each target by a task of its own, from
//! where the state says that it is. What is sent, and whether once more, is for `jaco-notify` and `jaco-server` to say. Must
//! never write an entry for each notification, nor one where nothing was sent.
//!
//! ```text
//! target    the deliveries to one target, one after the other
//! reports   how far the targets are, collected for one entry
//! ```

mod reports;
mod target;

use std::collections::BTreeMap;
use std::sync::Arc;

use jaco_server::Member;
use jaco_state::Table;
use jaco_state::notify::NotifyTarget;
use jaco_store::Store;
use jaco_types::{ClusterId, NotifyTargetName, StateIndex};
use tokio::task::{AbortHandle, JoinSet};
use tracing::error;

use crate::leading::while_leading;

use reports::Reports;
use target::TargetLoop;

/// The loop around the leaderships of this node.
pub(crate) struct NotifyLoop {
    member: Arc<Member>,
    cluster: ClusterId,
}

impl NotifyLoop {
    pub(crate) fn new(member: Arc<Member>, cluster: ClusterId) -> Self {
        Self { member, cluster }
    }

    /// Runs until it is dropped. Deliveries end with the leadership: whoever leads next begins behind the last one that
    /// was reported, under the same ids.
    pub(crate) async fn run(self) {
        while_leading(&self.member, || self.lead()).await;
    }

    /// Delivers until it is dropped.
    async fn lead(&self) {
        if let Err(refusal) = self.member.key() {
            error!(code = %refusal.code, reason = %refusal.message, "no notification is delivered");
            // This leadership is handed on.
            return std::future::pending().await;
        }
        let reports = Arc::new(Reports::default());
        tokio::select! {
            () = self.follow(&reports) => {}
            () = reports.write(&*self.member.store) => {}
        }
    }

    /// Keeps a task for each target, until the store has stopped.
    async fn follow(&self, reports: &Arc<Reports>) {
        let mut index = self.member.store.watch_index();
        let mut tasks = Tasks::default();
        let mut known = Table::default();
        loop {
            index.borrow_and_update();
            let targets = self.member.store.read(|state| state.notify.targets.clone());
            if !known.is_same(&targets) {
                tasks.are_for(&targets, |name, id| {
                    let to = TargetLoop::new(Arc::clone(&self.member), self.cluster.clone());
                    to.run(name, id, Arc::clone(reports))
                });
                known = targets;
            }
            if index.changed().await.is_err() {
                return;
            }
        }
    }
}

/// The tasks of the targets. They end when this is dropped.
#[derive(Default)]
struct Tasks {
    set: JoinSet<()>,
    by_name: BTreeMap<NotifyTargetName, (StateIndex, AbortHandle)>,
}

impl Tasks {
    /// Starts and ends tasks until there is one for each target. One that was replaced gets a new one.
    fn are_for<T: Future<Output = ()> + Send + 'static>(
        &mut self,
        targets: &Table<NotifyTargetName, NotifyTarget>,
        task: impl Fn(NotifyTargetName, StateIndex) -> T,
    ) {
        self.by_name.retain(|name, (id, task)| {
            let stays = targets.get(name).is_some_and(|target| target.id == *id);
            if !stays {
                task.abort();
            }
            stays
        });
        for (name, target) in targets.iter() {
            if !self.by_name.contains_key(name) {
                let handle = self.set.spawn(task(name.clone(), target.id));
                self.by_name.insert(name.clone(), (target.id, handle));
            }
        }
        while self.set.try_join_next().is_some() {}
    }
}
