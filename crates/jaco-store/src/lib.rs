//! The seam between consensus and everything that uses it: how to write, how to read, and who
//! leads. Controllers, agents and servers know only this; whether raft or memory is behind it is
//! decided where the daemon is wired.

pub mod clock;
pub mod cluster_time;
pub mod mem;

use async_trait::async_trait;
use jaco_state::{ClusterState, Command, Outcome};
use jaco_types::{Identity, NodeId, RequestId, StateIndex};
use tokio::sync::watch;

pub use clock::{Clock, SystemClock};
pub use cluster_time::{ClusterClock, ClusterTime};
pub use mem::MemStore;

/// A command to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// The author.
    pub by: Identity,
    /// The sender's id for it, so that a retry takes effect once.
    pub request: Option<RequestId>,
    /// What to do.
    pub command: Command,
}

/// A proposal that was committed and applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// Its place in the log.
    pub index: StateIndex,
    /// Its outcome; a refusal is one too.
    pub outcome: Outcome,
}

/// Why a proposal was not written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// This node does not lead. Nothing was written.
    #[error("there is no leader at the moment")]
    NoLeader,
    /// Too few voters answer. Nothing was written.
    #[error("too few voters answer to agree on anything")]
    QuorumLost,
    /// Too many proposals are in progress. Nothing was written.
    #[error("too many proposals are in progress")]
    Overloaded,
    /// The proposal is larger than an entry may be. Nothing was written.
    #[error("the proposal has {size} bytes, more than the {limit} that an entry may have")]
    TooLarge {
        /// Its size in bytes.
        size: usize,
        /// The most an entry may have.
        limit: usize,
    },
    /// No answer came in time. It may or may not be written: only a retry under the same request
    /// id shows which.
    #[error("no answer came in time; whether it was written is not known")]
    Unknown,
    /// The store is shutting down, or has failed for good.
    #[error("the store has stopped: {reason}")]
    Stopped {
        /// Why.
        reason: String,
    },
}

/// The leadership, as this node sees it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Leadership {
    /// The leader, if one is known.
    pub leader: Option<NodeId>,
    /// The election that it won.
    pub term: u64,
    /// Whether it is this node.
    pub role: RaftRole,
}

/// What this node is in the present term.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RaftRole {
    /// It leads.
    Leader,
    /// It follows, or does not know yet.
    #[default]
    Follower,
}

/// The replicated state, from one node's view.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Writes, through the leader wherever it is, and waits until it is committed and applied.
    ///
    /// # Errors
    /// Only [`ProposeError::Unknown`] leaves open whether it was written.
    async fn propose(&self, proposal: Proposal) -> Result<Applied, ProposeError>;

    /// Waits until the local state is at least as new as everything that was agreed on when this
    /// was called.
    ///
    /// # Errors
    /// When there is no leader or no quorum to ask.
    async fn catch_up(&self) -> Result<StateIndex, ProposeError>;

    /// A snapshot of this node's state, as far as decisions depend on it (without the audit log and
    /// the outcomes of requests); may lag behind the leader's.
    fn snapshot(&self) -> ClusterState;

    /// The index of the state as it grows. Under load it may be milliseconds old; the last one is always shown.
    fn watch_index(&self) -> watch::Receiver<StateIndex>;

    /// The leadership, each time it changes.
    fn watch_leadership(&self) -> watch::Receiver<Leadership>;
}
