//! Errors of the public API. Each states one fact; causes stay in the chain.

use std::io;

/// A member of the cluster and its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub id: u64,
    pub address: String,
}

/// Why a node could not be opened. Retrying does not help.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("data directory {dir:?} is in use by another process")]
    Locked { dir: std::path::PathBuf },
    #[error(
        "data directory belongs to node {found} of cluster {found_cluster:?}, not to node {expected} of cluster {expected_cluster:?}"
    )]
    WrongIdentity { found: u64, found_cluster: String, expected: u64, expected_cluster: String },
    #[error(
        "data directory holds a log but no identity file: it is incomplete: run `jacod rejoin` on this node, which has it join again as a new one"
    )]
    IdentityMissing,
    #[error(
        "the raft log of this node is gone from {dir:?} or was replaced by another ({found}); it may have held acknowledged writes, so this node must not vote without it: restore the log, or run `jacod rejoin` on this node, which has it join again as a new one"
    )]
    LogLost { dir: std::path::PathBuf, found: String },
    #[error(
        "the raft log of this node in {dir:?} is an older copy ({found}); what it acknowledged since then is gone, so this node must not vote with it: run `jacod rejoin` on this node, which has it join again as a new one"
    )]
    LogReverted { dir: std::path::PathBuf, found: String },
    #[error("data directory has format version {found}, this program reads up to {supported}")]
    FormatVersion { found: u32, supported: u32 },
    #[error(
        "the log is damaged: {what}; the other members hold its content: run `jacod rejoin` on this node, which has it join again as a new one"
    )]
    Corrupt { what: String },
    #[error("data directory is not usable")]
    Io(#[from] io::Error),
    #[error("raft settings are not valid: {what}")]
    Settings { what: String },
    #[error("consensus did not start: {what}")]
    Start { what: String },
}

/// Result of a proposal that was not confirmed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// Nothing was written; ask the leader, if known.
    #[error("this node is not the leader")]
    NotLeader { leader: Option<Member> },
    /// Nothing was written: no quorum acknowledged the leader for a lease.
    #[error("the leader has lost its quorum")]
    QuorumLost,
    /// Nothing was written: too many proposals are in flight.
    #[error("too many proposals in flight")]
    Overloaded,
    /// Nothing was written or ever will be.
    #[error("a proposal of {size} bytes is over the limit of {limit}")]
    TooLarge { size: usize, limit: usize },
    /// The write may happen or may have happened. Only an idempotent retry is safe.
    #[error("the outcome of the proposal is unknown")]
    Unknown,
    /// The node has stopped, by request or because its disk failed.
    #[error("this node has stopped: {reason}")]
    Stopped { reason: String },
}

/// Why a read could not be made linearizable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    #[error("this node is not the leader")]
    NotLeader { leader: Option<Member> },
    #[error("the leader has lost its quorum")]
    QuorumLost,
    #[error("the read was not confirmed in time")]
    Timeout,
    #[error("this node has stopped: {reason}")]
    Stopped { reason: String },
}

/// Why a membership change was not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MembershipError {
    #[error("this node is not the leader")]
    NotLeader { leader: Option<Member> },
    #[error("another membership change is in flight")]
    Busy,
    #[error("the change is refused: {reason}")]
    Refused { reason: String },
    /// The change may yet be committed; look at the membership before trying again.
    #[error("the outcome of the membership change is unknown")]
    Unknown,
    #[error("this node has stopped: {reason}")]
    Stopped { reason: String },
}

/// Why a message to a peer got no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TransportError {
    /// No connection; raft backs off before a retry.
    #[error("peer is unreachable: {0}")]
    Unreachable(String),
    /// No connection, because the peer's machine answered that no process listens at the address.
    #[error("peer does not listen: {0}")]
    NotListening(String),
    #[error("peer did not answer in time")]
    Timeout,
    /// The peer refused, or its answer cannot be decoded.
    #[error("peer refused: {0}")]
    Refused(String),
}

/// Why a message from a peer was not answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HandleError {
    #[error("message is malformed: {0}")]
    Malformed(String),
    /// The sender's log has other content under the same log ids. Needs an operator.
    #[error("log divergence at index {index}: same id, different content")]
    Divergence { index: u64 },
    #[error("this node cannot answer: {0}")]
    Unavailable(String),
    #[error("this node has stopped: {reason}")]
    Stopped { reason: String },
}
