//! The store over raft: proposals go to the leader, on whichever node that is; reads are local.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jaco_proto::storage::{self, Payload};
use jaco_raft::{Quorum, Raft};
use jaco_state::ClusterState;
use jaco_store::{Applied, Clock, Leadership, Proposal, ProposeError, RaftRole, Store};
use jaco_types::{ErrorCode, Node, NodeId, Origin, StateIndex, Version};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::machine::ClusterMachine;
use crate::peers::Peers;
use crate::status::from_status;

/// Deadline of a proposal that is sent to the leader.
const FORWARD_DEADLINE: Duration = Duration::from_secs(4);

/// The shortest time between two indexes that [`Store::watch_index`] shows. A dozen tasks of a daemon wait for news of
/// the state; under load each entry would wake all of them, which costs more than the entry does.
const INDEX_PAUSE: Duration = Duration::from_millis(5);

/// The replicated state of a member.
pub struct RaftStore {
    own: NodeId,
    raft: Raft<ClusterMachine>,
    peers: Peers,
    clock: Arc<dyn Clock>,
    index: watch::Sender<StateIndex>,
    leadership: watch::Sender<Leadership>,
    leader_changes: Counter,
}

impl std::fmt::Debug for RaftStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RaftStore").field("own", &self.own).finish_non_exhaustive()
    }
}

impl RaftStore {
    /// A store over this raft node. [`RaftStore::follow`] must run beside it.
    #[must_use]
    pub fn new(
        own: NodeId,
        raft: Raft<ClusterMachine>,
        peers: Peers,
        clock: Arc<dyn Clock>,
    ) -> Arc<Self> {
        let index = watch::Sender::new(StateIndex(0));
        let leadership = watch::Sender::default();
        let leader_changes = Counter::default();
        Arc::new(Self { own, raft, peers, clock, index, leadership, leader_changes })
    }

    /// Updates the watches of the store from those of raft until `shutdown`.
    pub async fn follow(self: Arc<Self>, shutdown: CancellationToken) {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = follow_index(self.raft.watch_applied(), &self.index) => {}
            () = self.follow_leadership() => {}
        }
    }

    async fn follow_leadership(&self) {
        let mut status = self.raft.watch_status();
        // A term is known before its leader is.
        let mut followed = None;
        loop {
            let leadership = leadership(self.own, &status.borrow_and_update());
            if leadership.leader.is_some() && followed != Some(leadership.term) {
                followed = Some(leadership.term);
                self.leader_changes.inc();
            }
            self.leadership.send_if_modified(|known| {
                let changed = *known != leadership;
                *known = leadership;
                changed
            });
            if status.changed().await.is_err() {
                return;
            }
        }
    }

    /// How many leaders this node has followed since its start, itself included.
    #[must_use]
    pub fn leader_changes(&self) -> u64 {
        self.leader_changes.get()
    }

    /// The raft node underneath.
    #[must_use]
    pub fn raft(&self) -> &Raft<ClusterMachine> {
        &self.raft
    }

    /// Reads the state without a copy. Blocks `apply`, so it must be short.
    pub fn read<T>(&self, look: impl FnOnce(&ClusterState) -> T) -> T {
        self.raft.with_state(|machine| look(machine.state()))
    }

    /// Waits until evicted audit events are in the archive, if this node has one.
    pub async fn archived(&self) {
        let archived = self.raft.with_state(ClusterMachine::archived);
        if let Some(archived) = archived {
            let waited = tokio::task::spawn_blocking(move || archived.wait()).await;
            waited.expect("waiting does not panic");
        }
    }

    /// The leader and its address, unless this node leads or there is none.
    #[must_use]
    pub fn leader_elsewhere(&self) -> Option<(NodeId, String)> {
        let status = self.raft.status();
        let leader = status.leader.filter(|leader| leader.id != self.own.0)?;
        Some((NodeId(leader.id), leader.address))
    }

    /// Whether this node leads.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.raft.leader_id() == Some(self.own.0)
    }

    /// Whether this node leads and has recent contact with a quorum.
    #[must_use]
    pub fn has_quorum(&self) -> bool {
        self.leads() && self.raft.status().quorum == Quorum::Held
    }

    /// Proposes a command as the leader.
    ///
    /// # Errors
    /// `NoLeader` when this node does not lead.
    pub async fn propose_here(
        &self,
        proposal: Proposal,
        origin: Option<Origin>,
    ) -> Result<Applied, ProposeError> {
        self.propose_bytes(self.encode(proposal, origin)).await
    }

    /// Proposes a command to the leader, on whichever node that is.
    ///
    /// # Errors
    /// Those of [`Store::propose`].
    pub async fn propose_from(
        &self,
        proposal: Proposal,
        origin: Option<Origin>,
    ) -> Result<Applied, ProposeError> {
        let payload = self.encode(proposal, origin);
        match self.leader_elsewhere() {
            Some(leader) => self.propose_elsewhere(leader, payload).await,
            None => self.propose_bytes(payload).await,
        }
    }

    /// Proposes a command through one other member: for a node that hears of no leader.
    ///
    /// # Errors
    /// `NoLeader` when that member does not lead, and those of [`Store::propose`].
    pub async fn propose_through(
        &self,
        member: (NodeId, String),
        proposal: Proposal,
    ) -> Result<Applied, ProposeError> {
        let payload = self.encode(proposal, Some(Origin::Member { node: self.own }));
        self.propose_elsewhere(member, payload).await
    }

    /// Proposes as the leader what another member sent, with this node's time. The payload is decoded
    /// first: what this node does not understand must not enter the log.
    ///
    /// # Errors
    /// `NoLeader` when this node does not lead.
    pub async fn propose_for(&self, payload: Payload) -> Result<Applied, ProposeError> {
        let payload = Payload { at: self.clock.now(), ..payload };
        self.propose_bytes(storage::encode_payload(&payload)).await
    }

    async fn propose_bytes(&self, payload: bytes::Bytes) -> Result<Applied, ProposeError> {
        let applied = self.raft.propose(payload).await.map_err(translate)?;
        decode_applied(applied.index, &applied.outcome)
    }

    fn encode(&self, proposal: Proposal, origin: Option<Origin>) -> bytes::Bytes {
        let Proposal { by, request, command } = proposal;
        let origin = origin.filter(|_| self.read(understands_origins));
        storage::encode_payload(&Payload { at: self.clock.now(), by, origin, request, command })
    }

    async fn propose_elsewhere(
        &self,
        leader: (NodeId, String),
        payload: bytes::Bytes,
    ) -> Result<Applied, ProposeError> {
        let target = (leader.0, leader.1.as_str());
        match self.peers.propose(target, payload, FORWARD_DEADLINE).await {
            Ok((index, outcome)) => decode_applied(index, &outcome),
            Err(status) => Err(explain(from_status(&status).code)),
        }
    }
}

#[async_trait]
impl Store for RaftStore {
    async fn propose(&self, proposal: Proposal) -> Result<Applied, ProposeError> {
        self.propose_from(proposal, Some(Origin::Member { node: self.own })).await
    }

    async fn catch_up(&self) -> Result<StateIndex, ProposeError> {
        self.raft.linearizable_here().await.map(StateIndex).map_err(translate_read)
    }

    fn snapshot(&self) -> ClusterState {
        self.read(ClusterState::for_decisions)
    }

    fn watch_index(&self) -> watch::Receiver<StateIndex> {
        self.index.subscribe()
    }

    fn watch_leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.subscribe()
    }
}

/// Tells the first entry after a pause at once, and those that come within [`INDEX_PAUSE`] of it together.
async fn follow_index(mut applied: watch::Receiver<u64>, index: &watch::Sender<StateIndex>) {
    loop {
        index.send_replace(StateIndex(*applied.borrow_and_update()));
        sleep(INDEX_PAUSE).await;
        if applied.changed().await.is_err() {
            return;
        }
    }
}

/// Whether all members can read entries with an origin; earlier ones would stop at one. The retention is
/// set once all members know it; before that their versions are compared.
fn understands_origins(state: &ClusterState) -> bool {
    let knows = |node: &Node| Version::FIRST.is_known_by(&node.facts.version);
    state.audit.retention.is_some() || state.nodes.values().all(knows)
}

/// Maps the leader's refusal of a proposal. Anything but a definite "not written" may have been written
/// before the connection was lost.
fn explain(code: ErrorCode) -> ProposeError {
    let definite = [
        (ErrorCode::NoLeader, ProposeError::NoLeader),
        (ErrorCode::QuorumLost, ProposeError::QuorumLost),
        (ErrorCode::Overloaded, ProposeError::Overloaded),
    ];
    let found = definite.into_iter().find(|(known, _)| *known == code);
    found.map_or(ProposeError::Unknown, |(_, error)| error)
}

fn leadership(own: NodeId, status: &jaco_raft::Status) -> Leadership {
    let leader = status.leader.as_ref().map(|leader| NodeId(leader.id));
    let role = if leader == Some(own) { RaftRole::Leader } else { RaftRole::Follower };
    Leadership { leader, term: status.term, role }
}

fn decode_applied(index: u64, outcome: &[u8]) -> Result<Applied, ProposeError> {
    let outcome = storage::decode_outcome(outcome).map_err(|error| ProposeError::Stopped {
        reason: format!("the outcome of entry {index} cannot be decoded: {error}"),
    })?;
    Ok(Applied { index: StateIndex(index), outcome })
}

fn translate(error: jaco_raft::ProposeError) -> ProposeError {
    match error {
        jaco_raft::ProposeError::NotLeader { .. } => ProposeError::NoLeader,
        jaco_raft::ProposeError::QuorumLost => ProposeError::QuorumLost,
        jaco_raft::ProposeError::Overloaded => ProposeError::Overloaded,
        jaco_raft::ProposeError::TooLarge { size, limit } => ProposeError::TooLarge { size, limit },
        jaco_raft::ProposeError::Unknown => ProposeError::Unknown,
        jaco_raft::ProposeError::Stopped { reason } => ProposeError::Stopped { reason },
    }
}

fn translate_read(error: jaco_raft::ReadError) -> ProposeError {
    match error {
        jaco_raft::ReadError::NotLeader { .. } => ProposeError::NoLeader,
        jaco_raft::ReadError::QuorumLost | jaco_raft::ReadError::Timeout => {
            ProposeError::QuorumLost
        }
        jaco_raft::ReadError::Stopped { reason } => ProposeError::Stopped { reason },
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    /// News of the state wakes its readers 200 times a second at most. The first is told at once, and none is left out in
    /// the end.
    #[tokio::test(start_paused = true)]
    async fn the_index_is_told_in_paces_and_the_first_at_once() {
        let (applied, seen) = watch::channel(0);
        let index = watch::Sender::new(StateIndex(0));
        let mut told = index.subscribe();
        let following = tokio::spawn(async move { follow_index(seen, &index).await });
        sleep(Duration::from_secs(1)).await;
        told.mark_unchanged();

        let sent = Instant::now();
        applied.send_replace(1);
        told.changed().await.unwrap();
        assert_eq!((sent.elapsed(), *told.borrow_and_update()), (Duration::ZERO, StateIndex(1)));

        let mut times = 0;
        for entry in 2..=101 {
            applied.send_replace(entry);
            sleep(Duration::from_millis(1)).await;
            times += u32::from(told.has_changed().unwrap());
            told.mark_unchanged();
        }
        assert!((15..=25).contains(&times), "{times} times in 100 ms");
        applied.send_replace(102);
        told.wait_for(|index| *index == StateIndex(102)).await.unwrap();
        drop(applied);
        following.await.unwrap();
    }
}
