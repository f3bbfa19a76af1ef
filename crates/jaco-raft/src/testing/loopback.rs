//! A network inside the process, with links that can be cut in one direction.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::error::TransportError;
use crate::machine::StateMachine;
use crate::network::Transport;
use crate::node::Raft;
use crate::wire::{RpcKind, claimed_sender};

struct State<M: StateMachine> {
    nodes: BTreeMap<u64, Raft<M>>,
    cut: BTreeSet<(u64, u64)>,
    calls: BTreeMap<RpcKind, u64>,
    /// The address each node was last called at.
    addresses: BTreeMap<u64, String>,
}

/// Connects nodes of one process. Clones are the same network.
pub struct Loopback<M: StateMachine> {
    state: Arc<Mutex<State<M>>>,
}

impl<M: StateMachine> Clone for Loopback<M> {
    fn clone(&self) -> Self {
        Self { state: Arc::clone(&self.state) }
    }
}

impl<M: StateMachine> Default for Loopback<M> {
    fn default() -> Self {
        let state = State {
            nodes: BTreeMap::new(),
            cut: BTreeSet::new(),
            calls: BTreeMap::new(),
            addresses: BTreeMap::new(),
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }
}

impl<M: StateMachine> std::fmt::Debug for Loopback<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loopback").finish_non_exhaustive()
    }
}

impl<M: StateMachine> Loopback<M> {
    /// The transport of node `id`.
    pub fn transport(&self, id: u64) -> Arc<dyn Transport> {
        Arc::new(Link { network: self.clone(), from: id })
    }

    /// Makes a node reachable.
    pub fn attach(&self, raft: Raft<M>) {
        self.lock().nodes.insert(raft.id(), raft);
    }

    /// Makes a node unreachable and forgets it.
    pub fn detach(&self, id: u64) {
        self.lock().nodes.remove(&id);
    }

    /// Drops everything `from` sends to `to`, and the answers on that link.
    pub fn cut(&self, from: u64, to: u64) {
        self.lock().cut.insert((from, to));
    }

    /// Restores every link.
    pub fn heal(&self) {
        self.lock().cut.clear();
    }

    /// How many calls of each kind were made.
    pub fn calls(&self) -> BTreeMap<RpcKind, u64> {
        self.lock().calls.clone()
    }

    /// The address at which `id` was last called.
    pub fn called_at(&self, id: u64) -> Option<String> {
        self.lock().addresses.get(&id).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, State<M>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Link<M: StateMachine> {
    network: Loopback<M>,
    from: u64,
}

#[async_trait]
impl<M: StateMachine> Transport for Link<M> {
    async fn call(
        &self,
        target: u64,
        address: &str,
        kind: RpcKind,
        body: Bytes,
        _deadline: Duration,
    ) -> Result<Bytes, TransportError> {
        let claimed = claimed_sender(&body).map_err(|e| TransportError::Refused(e.to_string()))?;
        if claimed != self.from {
            return Err(TransportError::Refused(format!("{} is not {claimed}", self.from)));
        }
        let (peer, cut) = {
            let mut state = self.network.lock();
            *state.calls.entry(kind).or_default() += 1;
            state.addresses.insert(target, address.to_owned());
            (state.nodes.get(&target).cloned(), state.cut.contains(&(self.from, target)))
        };
        let peer = peer.filter(|_| !cut);
        let peer = peer.ok_or_else(|| TransportError::Unreachable("no such link".to_owned()))?;
        let answer = peer.handle(body).await.map_err(|e| TransportError::Refused(e.to_string()))?;
        if self.network.lock().cut.contains(&(target, self.from)) {
            return Err(TransportError::Timeout);
        }
        Ok(answer)
    }
}
