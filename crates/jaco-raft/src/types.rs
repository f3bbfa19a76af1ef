//! openraft's type parameters.
//!
//! The rest of the crate uses these aliases. None of them may appear in the public API, and none
//! may be written to disk or sent except through `codec` and `wire`: their layout belongs to an
//! alpha release.

use std::fmt;

use bytes::Bytes;
use openraft::vote::RaftLeaderId as _;

/// The bytes of one command, opaque to consensus.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Payload(pub(crate) Bytes);

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// A member's address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) address: String,
}

/// tokio, with the election jitter drawn from the seed passed to `open`.
pub(crate) type Runtime =
    openraft_rt::deterministic_rng::DeterministicRng<openraft_rt_tokio::TokioRuntime>;

openraft::declare_raft_types!(
    pub(crate) TypeConfig:
        D = Payload,
        R = Bytes,
        NodeId = u64,
        Node = Peer,
        AsyncRuntime = Runtime,
);

pub(crate) type LogId = openraft::alias::LogIdOf<TypeConfig>;
pub(crate) type LeaderId = openraft::alias::LeaderIdOf<TypeConfig>;
pub(crate) type Vote = openraft::alias::VoteOf<TypeConfig>;
pub(crate) type Entry = openraft::alias::EntryOf<TypeConfig>;
pub(crate) type EntryPayload = openraft::EntryPayload<Payload, u64, Peer>;
pub(crate) type Membership = openraft::Membership<u64, Peer>;
pub(crate) type StoredMembership = openraft::alias::StoredMembershipOf<TypeConfig>;
pub(crate) type SnapshotMeta = openraft::alias::SnapshotMetaOf<TypeConfig>;

/// Builds a log id from its three numbers.
pub(crate) fn log_id(term: u64, node_id: u64, index: u64) -> LogId {
    LogId::new(LeaderId::new(term, node_id), index)
}
