//! What a node is: nothing yet, or a member of a cluster, with all that its services need.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use async_trait::async_trait;
use bytes::Bytes;
use jaco_agent::AgentHandle;
use jaco_agent::engine::ContainerEngine;
use jaco_controller::{RebalanceDesk, SignalBook};
use jaco_pki::{Connections, KeyEncryptionKey};
use jaco_proto::{storage, v1};
use jaco_raft::Quorum;
use jaco_state::{Command, Outcome};
use jaco_store::{Applied, Clock, Proposal, ProposeError};
use jaco_types::{Author, ErrorCode, Hostname, Identity, NodeId, Rejection, RequestId};
use prost::Message;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::sync::OnceCell;
use tracing::info;

use crate::peers::{Peers, no_leader};
use crate::raft_store::RaftStore;
use crate::refusals::Refusals;
use crate::status::{from_propose_error, invalid};

/// How long a request may take on its way to the leader and back: what the leader gives itself, and
/// a little for the way.
const FORWARD_DEADLINE: Duration = Duration::from_secs(4);

/// How long the first reader after a start waits for the node to have caught up: an election and the
/// leader's first word.
const RECOVERY_PATIENCE: Duration = Duration::from_secs(2);

/// How long a request waits for a new leader before it is refused: a little longer than an
/// election takes.
const LEADER_PATIENCE: Duration = Duration::from_secs(2);

/// A member of a cluster, and all that its services need.
pub struct Member {
    /// Its id.
    pub id: NodeId,
    /// Its name.
    pub hostname: Hostname,
    /// The replicated state.
    pub store: Arc<RaftStore>,
    /// The other members.
    pub peers: Peers,
    /// Open connections, so that a removed node's can be closed.
    pub connections: Connections,
    /// What the nodes tell the leader.
    pub signals: Arc<SignalBook>,
    /// What the nodes measured, and who leaves hot ones.
    pub rebalance: Arc<RebalanceDesk>,
    /// The node's container engine.
    pub engine: Arc<dyn ContainerEngine>,
    /// The node's agent.
    pub agent: AgentHandle,
    /// Opens the sealed values of the state.
    pub key_encryption_key: KeyEncryptionKey,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where refused access is noted.
    pub refusals: Refusals,
    /// Set once this node has had its time to learn what was agreed on before it was restarted.
    pub recovery: OnceCell<()>,
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("Member");
        out.field("id", &self.id).field("hostname", &self.hostname).finish_non_exhaustive()
    }
}

/// A node's stage of life: no cluster yet, or a member. It goes one way only.
pub type Stage = Arc<ArcSwapOption<Member>>;

/// What turns a node into a member; the daemon knows how.
#[async_trait]
pub trait Lifecycle: Send + Sync + 'static {
    /// Creates a cluster of this one node.
    async fn init(&self, name: &str, by: Identity) -> Result<v1::InitResponse, Rejection>;

    /// Joins the cluster of the node at `server`.
    async fn join(&self, server: &str, token: &str) -> Result<v1::JoinClusterResponse, Rejection>;
}

/// A request of a person that changes something, or asks what only the leader knows. It is executed
/// on the leader, wherever it was sent to.
#[async_trait]
pub trait Write: Message + Default + Clone + Send + Sync + 'static {
    /// The full name of the gRPC method.
    const METHOD: &'static str;

    /// What the person gets.
    type Answer: Message + Default;

    /// Does it, on the leader.
    async fn execute(self, member: &Member, by: Author) -> Result<Self::Answer, Rejection>;

    /// Gives the request a name if its sender gave none, so that it is executed once however often
    /// it is sent on.
    fn name(&mut self, fresh: &dyn Fn() -> String);
}

impl Member {
    /// Waits, once after a start, until this node has learnt what was agreed on before: otherwise it
    /// would answer from an older state than it has answered from already. Without a quorum there is
    /// nobody to learn from, and what it has must do.
    pub async fn recovered(&self) {
        let learn = || async {
            if let Err(error) = self.store.raft().wait_recovered(RECOVERY_PATIENCE).await {
                info!(%error, "answering from what this node has");
            }
        };
        self.recovery.get_or_init(learn).await;
    }

    /// Executes a request here if this node leads, and through the leader otherwise.
    ///
    /// # Errors
    /// The refusal of a rule, or `no_leader` and its kin when nobody can decide.
    pub async fn write<W: Write>(
        &self,
        by: Author,
        mut request: W,
    ) -> Result<W::Answer, Rejection> {
        request.name(&fresh_request_id);
        let patience = tokio::time::Instant::now() + LEADER_PATIENCE;
        loop {
            let refused = match self.write_once(by.clone(), request.clone()).await {
                Err(rejection) if rejection.code == ErrorCode::NoLeader => rejection,
                done => return done,
            };
            // Wait for somebody to lead, then try again: the request id makes that safe.
            let mut status = self.store.raft().watch_status();
            let led = status.wait_for(|status| status.leader.is_some());
            if tokio::time::timeout_at(patience, led).await.is_err()
                || tokio::time::Instant::now() >= patience
            {
                return Err(refused);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn write_once<W: Write>(&self, by: Author, request: W) -> Result<W::Answer, Rejection> {
        if self.store.leads() {
            return request.execute(self, by).await;
        }
        let (node, address) = self.store.leader_elsewhere().ok_or_else(no_leader)?;
        let message = v1::ForwardRequest {
            method: W::METHOD.to_owned(),
            body: request.encode_to_vec().into(),
            identity: storage::encode_author(&by),
        };
        let answer = self.peers.forward((node, &address), message, FORWARD_DEADLINE).await;
        let body = match answer {
            // The leader went away before or while it answered; the next one will be asked. The
            // request id keeps what it may have done from being done again.
            Err(rejection)
                if matches!(rejection.code, ErrorCode::Unavailable | ErrorCode::TimedOut) =>
            {
                return Err(no_leader());
            }
            answer => answer?,
        };
        decode(&body)
    }

    /// Executes a request that another member passed on. Only the leader does: a request is never
    /// passed on twice.
    ///
    /// # Errors
    /// As the request's own, and `no_leader` when this node does not lead.
    pub async fn execute_forwarded<W: Write>(
        &self,
        by: Author,
        body: &Bytes,
    ) -> Result<Bytes, Rejection> {
        if !self.store.leads() {
            return Err(no_leader());
        }
        let request: W = decode(body)?;
        let answer = request.execute(self, by).await?;
        Ok(answer.encode_to_vec().into())
    }

    /// Writes a command, as the leader.
    ///
    /// # Errors
    /// The refusal of `apply`, or of consensus.
    pub async fn commit(
        &self,
        by: Author,
        request_id: &str,
        command: Command,
    ) -> Result<Applied, Rejection> {
        let request = match request_id {
            "" => None,
            text => Some(RequestId::new(text).map_err(invalid)?),
        };
        let Author { by, origin } = by;
        let proposal = Proposal { by, request, command };
        let applied = self.store.propose_here(proposal, origin).await;
        let applied = applied.map_err(|error| self.explain(&error))?;
        match applied.outcome {
            Outcome::Rejected(rejection) => Err(rejection),
            Outcome::Done | Outcome::NodeAdmitted { .. } | Outcome::Deployed { .. } => Ok(applied),
        }
    }
}

impl Member {
    /// A proposal that nobody confirmed in time is a matter of the quorum, if that is lost.
    fn explain(&self, error: &ProposeError) -> Rejection {
        let lost = self.store.raft().status().quorum == Quorum::Lost;
        if lost && *error == ProposeError::Unknown {
            return from_propose_error(&ProposeError::QuorumLost);
        }
        from_propose_error(error)
    }
}

fn decode<M: Message + Default>(body: &Bytes) -> Result<M, Rejection> {
    M::decode(body.clone()).map_err(|error| invalid(format!("the request is malformed: {error}")))
}

/// Gives a request a name if its sender gave none: what most requests answer to [`Write::name`].
pub(crate) fn name_if_unnamed(request_id: &mut String, fresh: &dyn Fn() -> String) {
    if request_id.is_empty() {
        *request_id = fresh();
    }
}

/// 128 random bits in hex: names a request that its sender did not name.
fn fresh_request_id() -> String {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).expect("the system gives random bytes");
    hex::encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A retry of the sender's own must meet its own name again.
    #[test]
    fn only_a_request_without_a_name_gets_one() {
        let (mut named, mut unnamed) = ("mine".to_owned(), String::new());
        for request_id in [&mut named, &mut unnamed] {
            name_if_unnamed(request_id, &|| "fresh".to_owned());
        }
        assert_eq!((named.as_str(), unnamed.as_str()), ("mine", "fresh"));
    }
}
