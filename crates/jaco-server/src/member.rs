//! A node as a member of a cluster, with everything that its services need.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use async_trait::async_trait;
use jaco_agent::AgentHandle;
use jaco_agent::engine::ContainerEngine;
use jaco_controller::{RebalanceState, SignalBook};
use jaco_pki::{Connections, KeyEncryptionKey};
use jaco_proto::v1;
use jaco_raft::Quorum;
use jaco_state::{Command, Outcome};
use jaco_store::{Applied, Clock, Proposal, ProposeError};
use jaco_trace::Tracer;
use jaco_types::{Author, Hostname, Identity, NodeId, Rejection, RequestId};
use tokio_util::sync::CancellationToken;

use crate::auth::cluster_key::ClusterKey;
use crate::auth::refusals::Refusals;
use crate::auth::sign_in_links::SignInLinks;
use crate::auth::uses::TokenUses;
use crate::edge::EdgeProbe;
use crate::feeds::Feeds;
use crate::gate::Gate;
use crate::images::ImageStore;
use crate::log_tail::LogTail;
use crate::metrics::Metrics;
use crate::past::{Past, Source, Then};
use crate::peers::Peers;
use crate::raft::RaftStore;
use crate::recovery::Recovery;
use crate::router::RouterProbe;
use crate::status::{from_propose_error, invalid};

/// A member of a cluster.
pub struct Member {
    /// Its id in the cluster.
    pub id: NodeId,
    /// Its host name.
    pub hostname: Hostname,
    /// The replicated state.
    pub store: Arc<RaftStore>,
    /// Connections to the other members.
    pub peers: Peers,
    /// Accepted connections, so that those of a removed node can be closed.
    pub connections: Connections,
    /// What the heartbeats report to the leader.
    pub signals: Arc<SignalBook>,
    /// Usage samples of the nodes, and the rebalancing state.
    pub rebalance: Arc<RebalanceState>,
    /// The node's container engine.
    pub engine: Arc<dyn ContainerEngine>,
    /// The node's router; none where containers are pretended.
    pub router: Option<Arc<dyn RouterProbe>>,
    /// The node's edge; none where containers are pretended.
    pub edge: Option<Arc<dyn EdgeProbe>>,
    /// The node's agent.
    pub agent: AgentHandle,
    /// The images that users pushed.
    pub images: ImageStore,
    /// Seals and opens what is sealed in the state.
    pub cluster_key: ClusterKey,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The queue of refused access to be audited.
    pub refusals: Refusals,
    /// The notes of uses of tokens that are to be recorded.
    pub uses: TokenUses,
    /// Whether this node has caught up since its start.
    pub recovery: Recovery,
    /// Bounds what is computed for requests at a time.
    pub gate: Gate,
    /// What is rendered for watchers.
    pub feeds: Feeds,
    /// Links that sign browsers in at this node's page.
    pub sign_in_links: SignInLinks,
    /// States of before.
    pub past: Past,
    /// What the metrics are made of.
    pub metrics: Metrics,
    /// Takes spans; none where traces are off.
    pub tracer: Option<Tracer>,
    /// The end of the daemon's log.
    pub log: LogTail,
    /// Cancelled when the daemon stops: from then on no request waits for an election.
    pub stopping: CancellationToken,
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("Member");
        out.field("id", &self.id).field("hostname", &self.hostname).finish_non_exhaustive()
    }
}

/// Empty until the node is a member of a cluster; never empty again.
pub type Stage = Arc<ArcSwapOption<Member>>;

/// Makes a node a member. Implemented by the daemon.
#[async_trait]
pub trait Lifecycle: Send + Sync + 'static {
    /// Creates a cluster of this one node.
    async fn init(
        &self,
        request: v1::InitRequest,
        by: Identity,
    ) -> Result<v1::InitResponse, Rejection>;

    /// Joins the cluster of the node at `server`.
    async fn join(&self, server: &str, token: &str) -> Result<v1::JoinClusterResponse, Rejection>;
}

impl Member {
    /// Proposes a command as the leader and waits until it is applied.
    ///
    /// # Errors
    /// The refusal of `apply`, or the error of consensus.
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
    /// The state as it was at an index.
    ///
    /// # Errors
    /// Those of [`Past::at`].
    pub async fn state_at(&self, index: u64) -> Result<Then, Rejection> {
        self.past.at(self.past_source(), index).await
    }

    /// What states of before are made of on this node.
    #[must_use]
    pub fn past_source(&self) -> Source<'_> {
        Source { raft: self.store.raft(), gate: &self.gate, hostname: &self.hostname }
    }
}

impl Member {
    /// The key-encryption key, if it is the cluster's. Not to be called while the state is read.
    ///
    /// # Errors
    /// Those of [`ClusterKey::of`].
    pub fn key(&self) -> Result<KeyEncryptionKey, Rejection> {
        self.store.read(|state| self.cluster_key.of(state))
    }

    /// A timed-out proposal is reported as `quorum_lost` if the quorum is lost.
    fn explain(&self, error: &ProposeError) -> Rejection {
        let lost = self.store.raft().status().quorum == Quorum::Lost;
        if lost && *error == ProposeError::Unknown {
            return from_propose_error(&ProposeError::QuorumLost);
        }
        from_propose_error(error)
    }
}
