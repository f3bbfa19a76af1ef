//! On-disk format: one versioned prost message per kind of record, frozen by tests.
//!
//! The meaning of a field number never changes. New facts get new numbers; removed numbers are
//! reserved. openraft's own types are converted here and nowhere else.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::io;

use bytes::Bytes;
use openraft::vote::RaftLeaderId as _;
use prost::Message;
use sha2::Digest as _;
use sha2::Sha256;

use crate::types::{
    Entry, EntryPayload, LeaderId, LogId, Membership, Payload, Peer, StoredMembership, Vote, log_id,
};

/// Version of every record below. A reader refuses a higher one.
pub(crate) const FORMAT: u32 = 1;

/// The running hash of an empty log.
pub(crate) const GENESIS: u64 = 1;
/// An unknown running hash, also of every entry that follows. Never compared.
pub(crate) const UNKNOWN: u64 = 0;

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(crate) struct LogIdRecord {
    #[prost(uint64, tag = "1")]
    pub(crate) term: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) node_id: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) index: u64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct VoteRecord {
    #[prost(uint32, tag = "1")]
    pub(crate) format: u32,
    #[prost(uint64, tag = "2")]
    pub(crate) term: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) node_id: u64,
    #[prost(bool, tag = "4")]
    pub(crate) committed: bool,
}

/// A log id stored on its own: the purged one and the committed one.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct MarkRecord {
    #[prost(uint32, tag = "1")]
    pub(crate) format: u32,
    #[prost(message, optional, tag = "2")]
    pub(crate) log_id: Option<LogIdRecord>,
    /// The running hash of the log up to and including `log_id`; 0 if unknown.
    #[prost(fixed64, tag = "3")]
    pub(crate) chain: u64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct VoterSet {
    #[prost(uint64, repeated, tag = "1")]
    pub(crate) ids: Vec<u64>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct PeerRecord {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    #[prost(string, tag = "2")]
    pub(crate) address: String,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct MembershipRecord {
    /// One set, or two during a joint change.
    #[prost(message, repeated, tag = "1")]
    pub(crate) configs: Vec<VoterSet>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) peers: Vec<PeerRecord>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct EntryRecord {
    #[prost(uint32, tag = "1")]
    pub(crate) format: u32,
    #[prost(uint64, tag = "2")]
    pub(crate) term: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) node_id: u64,
    #[prost(uint64, tag = "4")]
    pub(crate) index: u64,
    /// The running hash of the log up to and including this entry.
    #[prost(fixed64, tag = "5")]
    pub(crate) chain: u64,
    #[prost(oneof = "EntryBody", tags = "6, 7, 8")]
    pub(crate) body: Option<EntryBody>,
}

#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub(crate) enum EntryBody {
    /// The value is always 0.
    #[prost(uint32, tag = "6")]
    Blank(u32),
    #[prost(bytes = "bytes", tag = "7")]
    Normal(Bytes),
    #[prost(message, tag = "8")]
    Membership(MembershipRecord),
}

/// Membership of a snapshot, and the entry that set it.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct StoredMembershipRecord {
    #[prost(message, optional, tag = "1")]
    pub(crate) log_id: Option<LogIdRecord>,
    #[prost(message, optional, tag = "2")]
    pub(crate) membership: Option<MembershipRecord>,
}

/// First record of a snapshot file.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct SnapshotHeader {
    #[prost(uint32, tag = "1")]
    pub(crate) format: u32,
    #[prost(string, tag = "2")]
    pub(crate) cluster: String,
    #[prost(message, optional, tag = "3")]
    pub(crate) last: Option<LogIdRecord>,
    #[prost(message, optional, tag = "4")]
    pub(crate) membership: Option<StoredMembershipRecord>,
    /// The running hash of the log up to `last`, so that the chain continues after an install.
    #[prost(fixed64, tag = "5")]
    pub(crate) chain: u64,
}

/// Contents of the identity file.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct IdentityRecord {
    #[prost(uint32, tag = "1")]
    pub(crate) format: u32,
    #[prost(uint64, tag = "2")]
    pub(crate) node_id: u64,
    #[prost(string, tag = "3")]
    pub(crate) cluster: String,
}

impl From<&LogId> for LogIdRecord {
    fn from(id: &LogId) -> Self {
        Self { term: id.leader_id.term, node_id: id.leader_id.node_id, index: id.index }
    }
}

impl From<LogIdRecord> for LogId {
    fn from(record: LogIdRecord) -> Self {
        log_id(record.term, record.node_id, record.index)
    }
}

impl From<&Vote> for VoteRecord {
    fn from(vote: &Vote) -> Self {
        Self {
            format: FORMAT,
            term: vote.leader_id.term,
            node_id: vote.leader_id.node_id,
            committed: vote.committed,
        }
    }
}

impl From<VoteRecord> for Vote {
    fn from(record: VoteRecord) -> Self {
        Self { leader_id: LeaderId::new(record.term, record.node_id), committed: record.committed }
    }
}

impl From<&Membership> for MembershipRecord {
    fn from(membership: &Membership) -> Self {
        Self {
            configs: membership
                .get_joint_config()
                .iter()
                .map(|set| VoterSet { ids: set.iter().copied().collect() })
                .collect(),
            peers: membership
                .nodes()
                .map(|(id, peer)| PeerRecord { id: *id, address: peer.address.clone() })
                .collect(),
        }
    }
}

impl TryFrom<MembershipRecord> for Membership {
    type Error = io::Error;

    fn try_from(record: MembershipRecord) -> io::Result<Self> {
        let configs: Vec<BTreeSet<u64>> =
            record.configs.into_iter().map(|set| set.ids.into_iter().collect()).collect();
        let peers: BTreeMap<u64, Peer> = record
            .peers
            .into_iter()
            .map(|peer| (peer.id, Peer { address: peer.address }))
            .collect();
        if configs.is_empty() && peers.is_empty() {
            return Ok(Self::default());
        }
        Self::new(configs, peers).map_err(|error| invalid(format!("membership: {error}")))
    }
}

impl From<&StoredMembership> for StoredMembershipRecord {
    fn from(stored: &StoredMembership) -> Self {
        Self {
            log_id: stored.log_id().as_ref().map(LogIdRecord::from),
            membership: Some(stored.membership().into()),
        }
    }
}

impl TryFrom<StoredMembershipRecord> for StoredMembership {
    type Error = io::Error;

    fn try_from(record: StoredMembershipRecord) -> io::Result<Self> {
        let membership = record.membership.unwrap_or_default().try_into()?;
        Ok(Self::new(record.log_id.map(LogId::from), membership))
    }
}

impl EntryRecord {
    /// An entry as it is stored and sent, with the running hash that ends in it.
    pub(crate) fn new(entry: &Entry, chain: u64) -> Self {
        Self {
            format: FORMAT,
            term: entry.log_id.leader_id.term,
            node_id: entry.log_id.leader_id.node_id,
            index: entry.log_id.index,
            chain,
            body: Some(body_of(&entry.payload)),
        }
    }

    /// The inverse of [`EntryRecord::new`].
    pub(crate) fn into_entry(self) -> io::Result<(Entry, u64)> {
        check_format(self.format, "log entry")?;
        let log_id = log_id(self.term, self.node_id, self.index);
        Ok((Entry { log_id, payload: payload_of(self.body)? }, self.chain))
    }
}

fn body_of(payload: &EntryPayload) -> EntryBody {
    match payload {
        EntryPayload::Blank => EntryBody::Blank(0),
        EntryPayload::Normal(payload) => EntryBody::Normal(payload.0.clone()),
        EntryPayload::Membership(membership) => EntryBody::Membership(membership.into()),
    }
}

fn payload_of(body: Option<EntryBody>) -> io::Result<EntryPayload> {
    match body {
        Some(EntryBody::Blank(_)) => Ok(EntryPayload::Blank),
        Some(EntryBody::Normal(bytes)) => Ok(EntryPayload::Normal(Payload(bytes))),
        Some(EntryBody::Membership(record)) => Ok(EntryPayload::Membership(record.try_into()?)),
        // An unknown body was written by a newer version. Skipping it would fork the state.
        None => Err(invalid("entry of a kind this program does not know".to_owned())),
    }
}

pub(crate) fn encode_entry(entry: &Entry, chain: u64) -> Bytes {
    EntryRecord::new(entry, chain).encode_to_vec().into()
}

pub(crate) fn decode_entry(bytes: Bytes) -> io::Result<(Entry, u64)> {
    decode::<EntryRecord>(bytes, "log entry")?.into_entry()
}

/// The running hash after `entry`, given the one before it.
///
/// Sixty-four bits of SHA-256: enough to notice an accident, which is all it is for. It is the same
/// on every node that holds the same history, so it can be compared across nodes.
pub(crate) fn chain_after(previous: u64, entry: &Entry) -> u64 {
    if previous == UNKNOWN {
        return UNKNOWN;
    }
    let mut hash = Sha256::new();
    hash.update(previous.to_be_bytes());
    hash.update(entry.log_id.leader_id.term.to_be_bytes());
    hash.update(entry.log_id.leader_id.node_id.to_be_bytes());
    hash.update(entry.log_id.index.to_be_bytes());
    match &entry.payload {
        EntryPayload::Blank => hash.update([0]),
        EntryPayload::Normal(payload) => {
            hash.update([1]);
            hash.update(&payload.0);
        }
        EntryPayload::Membership(membership) => {
            hash.update([2]);
            hash.update(MembershipRecord::from(membership).encode_to_vec());
        }
    }
    let digest = hash.finalize();
    let chain = u64::from_be_bytes(digest[..8].try_into().expect("a SHA-256 digest has 32 bytes"));
    chain.max(GENESIS)
}

pub(crate) fn encode_vote(vote: &Vote) -> Bytes {
    VoteRecord::from(vote).encode_to_vec().into()
}

pub(crate) fn decode_vote(bytes: Bytes) -> io::Result<Vote> {
    let record: VoteRecord = decode(bytes, "vote")?;
    check_format(record.format, "vote")?;
    Ok(record.into())
}

pub(crate) fn encode_mark(log_id: Option<&LogId>, chain: u64) -> Bytes {
    MarkRecord { format: FORMAT, log_id: log_id.map(LogIdRecord::from), chain }
        .encode_to_vec()
        .into()
}

pub(crate) fn decode_mark(bytes: Bytes) -> io::Result<(Option<LogId>, u64)> {
    let record: MarkRecord = decode(bytes, "log mark")?;
    check_format(record.format, "log mark")?;
    Ok((record.log_id.map(LogId::from), record.chain))
}

pub(crate) fn check_format(found: u32, what: &str) -> io::Result<()> {
    if found == FORMAT {
        return Ok(());
    }
    Err(invalid(format!("{what} has format {found}, this program reads {FORMAT}")))
}

fn decode<M: Message + Default>(bytes: Bytes, what: &str) -> io::Result<M> {
    M::decode(bytes).map_err(|error| invalid(format!("{what}: {error}")))
}

pub(crate) fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
