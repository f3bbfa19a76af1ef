//! A store in memory, for tests and simulation: a cluster of one, without disk or network.

use std::sync::Mutex;

use async_trait::async_trait;
use jaco_state::{ClusterState, Entry, apply};
use jaco_types::{NodeId, StateIndex, Timestamp};
use tokio::sync::watch;

use crate::{Applied, Leadership, Proposal, ProposeError, RaftRole, Store};

/// A store without replication.
#[derive(Debug)]
pub struct MemStore {
    state: Mutex<ClusterState>,
    now: Mutex<Timestamp>,
    index: watch::Sender<StateIndex>,
    leadership: watch::Sender<Leadership>,
}

impl MemStore {
    /// An empty store that leads, under this node's name.
    #[must_use]
    pub fn new(node: NodeId) -> Self {
        let leadership = Leadership { leader: Some(node), term: 1, role: RaftRole::Leader };
        Self {
            state: Mutex::default(),
            now: Mutex::new(Timestamp(0)),
            index: watch::Sender::new(StateIndex(0)),
            leadership: watch::Sender::new(leadership),
        }
    }

    /// Sets the moment that is stamped on what is written from now on.
    pub fn set_now(&self, now: Timestamp) {
        *self.now.lock().expect("no holder of the lock panics") = now;
    }

    /// Sets who leads.
    pub fn set_leadership(&self, leadership: Leadership) {
        self.leadership.send_replace(leadership);
    }
}

#[async_trait]
impl Store for MemStore {
    async fn propose(&self, proposal: Proposal) -> Result<Applied, ProposeError> {
        if self.leadership.borrow().role != RaftRole::Leader {
            return Err(ProposeError::NoLeader);
        }
        let at = *self.now.lock().expect("no holder of the lock panics");
        let mut state = self.state.lock().expect("no holder of the lock panics");
        let index = StateIndex(state.index.0 + 1);
        let Proposal { by, request, command } = proposal;
        let outcome = apply(&mut state, &Entry { index, at, by, origin: None, request, command });
        drop(state);
        self.index.send_replace(index);
        Ok(Applied { index, outcome })
    }

    async fn catch_up(&self) -> Result<StateIndex, ProposeError> {
        Ok(*self.index.borrow())
    }

    fn snapshot(&self) -> ClusterState {
        self.state.lock().expect("no holder of the lock panics").for_decisions()
    }

    fn watch_index(&self) -> watch::Receiver<StateIndex> {
        self.index.subscribe()
    }

    fn watch_leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.subscribe()
    }
}
