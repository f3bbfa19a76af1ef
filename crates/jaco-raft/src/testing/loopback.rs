//! An in-process network whose links can be cut in one direction.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use tokio::io::duplex;

use crate::error::TransportError;
use crate::machine::StateMachine;
use crate::network::Transport;
use crate::node::Raft;
use crate::pipe::{Pipe, framed};
use crate::renewal::StreamRenewal;
use crate::wire::{Request, RequestBody, RpcKind, claimed_sender, decode_request};

/// Buffer of a stream.
const STREAM_BUFFER_BYTES: usize = 1 << 20;

struct State<M: StateMachine> {
    nodes: BTreeMap<u64, Raft<M>>,
    cut: BTreeSet<(u64, u64)>,
    /// From whom, to whom.
    closed_ports: BTreeSet<(u64, u64)>,
    /// Nodes that are reached at this address alone; all others at any.
    moved: BTreeMap<u64, String>,
    calls: BTreeMap<RpcKind, u64>,
    /// Last address used per node.
    addresses: BTreeMap<u64, String>,
    /// How often a line to each node was asked for, granted or not.
    connects: BTreeMap<u64, u64>,
    renewal: StreamRenewal,
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
            closed_ports: BTreeSet::new(),
            moved: BTreeMap::new(),
            calls: BTreeMap::new(),
            addresses: BTreeMap::new(),
            connects: BTreeMap::new(),
            renewal: StreamRenewal::default(),
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

    /// Ends a node as its process ends: nothing listens at its address any more.
    pub fn detach(&self, id: u64) {
        self.lock().nodes.remove(&id);
    }

    /// Drops all messages from `from` to `to`, and the answers on that link.
    pub fn cut(&self, from: u64, to: u64) {
        self.lock().cut.insert((from, to));
    }

    /// Refuses new connections from `from` to `to`, as if nothing listened there.
    pub fn close_port(&self, from: u64, to: u64) {
        self.lock().closed_ports.insert((from, to));
    }

    /// From now on `id` is reached at this address alone; what is connected stays so.
    pub fn move_to(&self, id: u64, address: &str) {
        self.lock().moved.insert(id, address.to_owned());
    }

    /// Restores every link and opens every port.
    pub fn heal(&self) {
        let mut state = self.lock();
        state.cut.clear();
        state.closed_ports.clear();
    }

    /// Number of calls of each kind.
    pub fn calls(&self) -> BTreeMap<RpcKind, u64> {
        self.lock().calls.clone()
    }

    /// How many attempts were made to open a line to `id`.
    pub fn connects(&self, id: u64) -> u64 {
        self.lock().connects.get(&id).copied().unwrap_or_default()
    }

    /// Which streams are to be replaced.
    pub fn renewal(&self) -> StreamRenewal {
        self.lock().renewal.clone()
    }

    /// Last address used for `id`.
    pub fn called_at(&self, id: u64) -> Option<String> {
        self.lock().addresses.get(&id).cloned()
    }

    /// The node at the other end of a link, if reachable.
    fn peer(&self, from: u64, to: u64, address: &str) -> Option<Raft<M>> {
        let mut state = self.lock();
        state.addresses.insert(to, address.to_owned());
        let peer = state.nodes.get(&to).cloned();
        let link = (from, to);
        let is_here = state.moved.get(&to).is_none_or(|here| here == address);
        let is_open = !state.cut.contains(&link) && !state.closed_ports.contains(&link);
        peer.filter(|_| is_here && is_open)
    }

    /// Why there is no connection.
    fn absence(&self, from: u64, to: u64) -> TransportError {
        if self.lock().cut.contains(&(from, to)) {
            return TransportError::Unreachable("no such link".to_owned());
        }
        TransportError::NotListening("no such node".to_owned())
    }

    fn is_cut(&self, from: u64, to: u64) -> bool {
        self.lock().cut.contains(&(from, to)) || !self.lock().nodes.contains_key(&to)
    }

    fn count(&self, frame: &Bytes) {
        let Ok(Request { body: Some(RequestBody::Append(append)), .. }) =
            decode_request(frame.clone())
        else {
            return;
        };
        let kind = if append.entries.is_empty() { RpcKind::Heartbeat } else { RpcKind::Append };
        *self.lock().calls.entry(kind).or_default() += 1;
    }

    fn lock(&self) -> MutexGuard<'_, State<M>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forwards frames both ways until one side closes its end. A frame sent over a cut link breaks the stream; an
/// answer over one is lost.
async fn relay<M: StateMachine>(
    network: Loopback<M>,
    (from, to): (u64, u64),
    mut near: Box<dyn Pipe>,
    mut far: Box<dyn Pipe>,
) {
    loop {
        tokio::select! {
            biased;
            frame = far.next() => {
                let Some(Ok(frame)) = frame else { return };
                if network.is_cut(to, from) {
                    continue;
                }
                if near.send(frame.freeze()).await.is_err() {
                    return;
                }
            }
            frame = near.next() => {
                let Some(Ok(frame)) = frame else { return };
                let frame = frame.freeze();
                network.count(&frame);
                if network.is_cut(from, to) || far.send(frame).await.is_err() {
                    return;
                }
            }
        }
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
        *self.network.lock().calls.entry(kind).or_default() += 1;
        let peer = self.network.peer(self.from, target, address);
        let peer = peer.ok_or_else(|| TransportError::Unreachable("no such link".to_owned()))?;
        let answer = peer.handle(body).await.map_err(|e| TransportError::Refused(e.to_string()))?;
        if self.network.lock().cut.contains(&(target, self.from)) {
            return Err(TransportError::Timeout);
        }
        Ok(answer)
    }

    async fn pipe(&self, target: u64, address: &str) -> Result<Box<dyn Pipe>, TransportError> {
        *self.network.lock().connects.entry(target).or_default() += 1;
        let peer = self.network.peer(self.from, target, address);
        let peer = peer.ok_or_else(|| self.network.absence(self.from, target))?;
        let (ours, relayed) = duplex(STREAM_BUFFER_BYTES);
        let (onward, theirs) = duplex(STREAM_BUFFER_BYTES);
        let from = self.from;
        let admit = move |claimed| match claimed == from {
            true => Ok(()),
            false => Err(format!("{from} is not {claimed}")),
        };
        tokio::spawn(async move { drop(peer.serve(framed(theirs), admit).await) });
        let network = self.network.clone();
        tokio::spawn(relay(network, (from, target), framed(relayed), framed(onward)));
        Ok(framed(ours))
    }

    fn renewal(&self) -> StreamRenewal {
        self.network.renewal()
    }
}
