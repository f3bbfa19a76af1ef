//! Wire format: one versioned envelope, frozen by tests.
//!
//! Field numbers are never reused. The envelope's `from` is never trusted: the transport compares
//! it with the identity of the connection.

use bytes::Bytes;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, TransferLeaderRequest, VoteRequest, VoteResponse,
};
use prost::Message;

use crate::codec::{EntryRecord, FORMAT, LogIdRecord, UNKNOWN, VoteRecord};
use crate::error::HandleError;
use crate::log_store::LogStore;
use crate::types::{Entry, LogId, TypeConfig, Vote};

/// Kind of a message. A transport may use a deadline or connection per kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RpcKind {
    /// An append without entries. Small and urgent.
    Heartbeat,
    /// Log entries; up to about 1 MiB, or one larger entry.
    Append,
    Vote,
    PreVote,
    TransferLeader,
    /// A chunk of a snapshot; up to about 512 KiB. Many, and not urgent.
    Snapshot,
    /// A follower asks for the leader's read index.
    ReadIndex,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct Request {
    #[prost(uint32, tag = "1")]
    pub(crate) format: u32,
    #[prost(uint64, tag = "2")]
    pub(crate) from: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) to: u64,
    #[prost(oneof = "RequestBody", tags = "4, 5, 6, 7, 8, 9")]
    pub(crate) body: Option<RequestBody>,
}

#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub(crate) enum RequestBody {
    #[prost(message, tag = "4")]
    Append(Append),
    #[prost(message, tag = "5")]
    Vote(VoteAsk),
    #[prost(message, tag = "6")]
    PreVote(VoteAsk),
    #[prost(message, tag = "7")]
    TransferLeader(TransferLeader),
    #[prost(message, tag = "8")]
    Snapshot(SnapshotChunk),
    /// The value is always 0.
    #[prost(uint32, tag = "9")]
    ReadIndex(u32),
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct Append {
    #[prost(message, required, tag = "1")]
    pub(crate) vote: VoteRecord,
    #[prost(message, optional, tag = "2")]
    pub(crate) prev: Option<LogIdRecord>,
    /// The leader's running hash up to `prev`; absent if it was purged.
    #[prost(fixed64, optional, tag = "3")]
    pub(crate) prev_chain: Option<u64>,
    #[prost(message, optional, tag = "4")]
    pub(crate) commit: Option<LogIdRecord>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) entries: Vec<EntryRecord>,
    /// What the follower has acknowledged to the sender in this term, in the first append of a stream: a log that lost
    /// it is the log of another process.
    #[prost(message, optional, tag = "6")]
    pub(crate) acknowledged: Option<LogIdRecord>,
    /// What members have for good, where that is news.
    #[prost(message, repeated, tag = "7")]
    pub(crate) kept: Vec<KeptRecord>,
}

/// A committed entry that a member has acknowledged.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct KeptRecord {
    #[prost(uint64, tag = "1")]
    pub(crate) node: u64,
    #[prost(message, required, tag = "2")]
    pub(crate) last: LogIdRecord,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct VoteAsk {
    #[prost(message, required, tag = "1")]
    pub(crate) vote: VoteRecord,
    #[prost(message, optional, tag = "2")]
    pub(crate) last: Option<LogIdRecord>,
    #[prost(bool, tag = "3")]
    pub(crate) leadership_transfer: bool,
    /// What the receiver has for good, as the sender was told.
    #[prost(message, optional, tag = "4")]
    pub(crate) kept: Option<LogIdRecord>,
    /// Where the sender is reached, as it was told; empty from members before 0.2.0.
    #[prost(string, tag = "5")]
    pub(crate) address: String,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct TransferLeader {
    #[prost(message, required, tag = "1")]
    pub(crate) from_leader: VoteRecord,
    #[prost(uint64, tag = "2")]
    pub(crate) target: u64,
    #[prost(message, optional, tag = "3")]
    pub(crate) last: Option<LogIdRecord>,
}

/// A chunk of a snapshot file. Without data it only asks how much was received.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct SnapshotChunk {
    #[prost(message, required, tag = "1")]
    pub(crate) vote: VoteRecord,
    /// SHA-256 of the file without its trailer: identifies the snapshot.
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) sum: Bytes,
    #[prost(uint64, tag = "3")]
    pub(crate) file_len: u64,
    #[prost(uint64, tag = "4")]
    pub(crate) offset: u64,
    #[prost(bytes = "bytes", tag = "5")]
    pub(crate) data: Bytes,
    /// All chunks were sent: verify and install.
    #[prost(bool, tag = "6")]
    pub(crate) install: bool,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct Reply {
    #[prost(uint32, tag = "1")]
    pub(crate) format: u32,
    #[prost(oneof = "ReplyBody", tags = "2, 3, 4, 5, 6, 7")]
    pub(crate) body: Option<ReplyBody>,
}

#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub(crate) enum ReplyBody {
    #[prost(message, tag = "2")]
    Append(Appended),
    #[prost(message, tag = "3")]
    Vote(Voted),
    /// Whether the transfer was accepted.
    #[prost(bool, tag = "4")]
    TransferLeader(bool),
    /// Bytes of the snapshot received so far.
    #[prost(uint64, tag = "5")]
    SnapshotReceived(u64),
    /// The snapshot was installed, or the sender is no longer the leader: the receiver's vote.
    #[prost(message, tag = "6")]
    SnapshotInstalled(VoteRecord),
    #[prost(uint64, tag = "7")]
    ReadIndex(u64),
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct Appended {
    #[prost(oneof = "AppendedBody", tags = "1, 2, 3, 4, 5")]
    pub(crate) body: Option<AppendedBody>,
}

#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub(crate) enum AppendedBody {
    /// The value is always 0; likewise `Conflict`.
    #[prost(uint32, tag = "1")]
    Success(u32),
    #[prost(message, tag = "2")]
    Partial(PartialAppend),
    #[prost(uint32, tag = "3")]
    Conflict(u32),
    #[prost(message, tag = "4")]
    HigherVote(VoteRecord),
    /// The receiver lacks what `Append::acknowledged` says; up to here it has the sender's entries or others. Sent only
    /// to who sends that field.
    #[prost(message, tag = "5")]
    Reverted(PartialAppend),
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct PartialAppend {
    #[prost(message, optional, tag = "1")]
    pub(crate) upto: Option<LogIdRecord>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct Voted {
    #[prost(message, required, tag = "1")]
    pub(crate) vote: VoteRecord,
    #[prost(bool, tag = "2")]
    pub(crate) granted: bool,
    #[prost(message, optional, tag = "3")]
    pub(crate) last: Option<LogIdRecord>,
}

/// The node id that a message claims as its sender. A transport must refuse the message unless the
/// connection's certificate has the same id and the node is a member.
///
/// # Errors
/// If the message cannot be decoded.
pub fn claimed_sender(body: &Bytes) -> Result<u64, HandleError> {
    decode_request(body.clone()).map(|request| request.from)
}

pub(crate) fn encode_request(from: u64, to: u64, body: RequestBody) -> Bytes {
    Request { format: FORMAT, from, to, body: Some(body) }.encode_to_vec().into()
}

pub(crate) fn decode_request(bytes: Bytes) -> Result<Request, HandleError> {
    let request = Request::decode(bytes).map_err(|e| HandleError::Malformed(e.to_string()))?;
    if request.format != FORMAT {
        return Err(HandleError::Malformed(format!("message format {}", request.format)));
    }
    Ok(request)
}

pub(crate) fn encode_reply(body: ReplyBody) -> Bytes {
    Reply { format: FORMAT, body: Some(body) }.encode_to_vec().into()
}

pub(crate) fn decode_reply(bytes: Bytes) -> Result<ReplyBody, String> {
    let reply = Reply::decode(bytes).map_err(|error| error.to_string())?;
    if reply.format != FORMAT {
        return Err(format!("reply format {}", reply.format));
    }
    reply.body.ok_or_else(|| "reply of unknown kind".to_owned())
}

/// Adds the leader's running hashes, so that the follower can detect a fork.
pub(crate) fn append_of(request: AppendEntriesRequest<TypeConfig>, log: &LogStore) -> Append {
    let prev_chain = request.prev_log_id.as_ref().and_then(|prev| log.chain_at(prev));
    Append {
        vote: (&request.vote).into(),
        prev: request.prev_log_id.as_ref().map(LogIdRecord::from),
        prev_chain,
        commit: request.leader_commit.as_ref().map(LogIdRecord::from),
        entries: request.entries.iter().map(|entry| entry_record(entry, log)).collect(),
        acknowledged: None,
        kept: Vec::new(),
    }
}

fn entry_record(entry: &Entry, log: &LogStore) -> EntryRecord {
    // An entry may be purged between read and send.
    EntryRecord::new(entry, log.chain_at(&entry.log_id).unwrap_or(UNKNOWN))
}

/// Whether a follower compares its running hashes with its leader's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum History {
    #[default]
    Compared,
    /// Simulation only, to show what happens without.
    #[cfg(feature = "testing")]
    Trusted,
}

/// Refuses entries with our log ids but other content; otherwise the inverse of [`append_of`].
pub(crate) fn append_from(
    append: Append,
    log: &LogStore,
    history: History,
) -> Result<AppendEntriesRequest<TypeConfig>, HandleError> {
    let prev_log_id = append.prev.map(LogId::from);
    if let (Some(prev), Some(theirs)) = (&prev_log_id, append.prev_chain) {
        compare(log, prev, theirs, history)?;
    }
    let mut entries = Vec::with_capacity(append.entries.len());
    for record in append.entries {
        let (entry, chain) =
            record.into_entry().map_err(|e| HandleError::Malformed(e.to_string()))?;
        compare(log, &entry.log_id, chain, history)?;
        entries.push(entry);
    }
    Ok(AppendEntriesRequest {
        vote: append.vote.into(),
        prev_log_id,
        entries,
        leader_commit: append.commit.map(LogId::from),
    })
}

/// Refuses a running hash that differs from ours for the same log id.
pub(crate) fn compare(
    log: &LogStore,
    log_id: &LogId,
    theirs: u64,
    history: History,
) -> Result<(), HandleError> {
    match history {
        History::Compared => {}
        #[cfg(feature = "testing")]
        History::Trusted => return Ok(()),
    }
    match log.chain_at(log_id) {
        Some(ours) if ours != theirs && ours != UNKNOWN && theirs != UNKNOWN => {
            Err(HandleError::Divergence { index: log_id.index })
        }
        Some(_) | None => Ok(()),
    }
}

pub(crate) fn appended_of(response: AppendEntriesResponse<TypeConfig>) -> ReplyBody {
    let body = match response {
        AppendEntriesResponse::Success => AppendedBody::Success(0),
        AppendEntriesResponse::PartialSuccess(upto) => {
            AppendedBody::Partial(PartialAppend { upto: upto.as_ref().map(LogIdRecord::from) })
        }
        AppendEntriesResponse::Conflict => AppendedBody::Conflict(0),
        AppendEntriesResponse::HigherVote(vote) => AppendedBody::HigherVote((&vote).into()),
    };
    ReplyBody::Append(Appended { body: Some(body) })
}

pub(crate) fn appended_from(reply: ReplyBody) -> Option<AppendEntriesResponse<TypeConfig>> {
    let ReplyBody::Append(Appended { body: Some(body) }) = reply else { return None };
    Some(match body {
        AppendedBody::Success(_) => AppendEntriesResponse::Success,
        AppendedBody::Partial(partial) => {
            AppendEntriesResponse::PartialSuccess(partial.upto.map(LogId::from))
        }
        AppendedBody::Conflict(_) => AppendEntriesResponse::Conflict,
        AppendedBody::HigherVote(vote) => AppendEntriesResponse::HigherVote(vote.into()),
        // See `reverted_from`.
        AppendedBody::Reverted(_) => AppendEntriesResponse::Conflict,
    })
}

/// Whether the peer lacks the entry before those that were sent.
pub(crate) fn is_conflict(reply: &ReplyBody) -> bool {
    matches!(reply, ReplyBody::Append(Appended { body: Some(AppendedBody::Conflict(_)) }))
}

/// The answer of a node whose log lost what it acknowledged, and ends at `end`.
pub(crate) fn reverted_of(end: Option<LogId>) -> ReplyBody {
    let upto = end.as_ref().map(LogIdRecord::from);
    ReplyBody::Append(Appended { body: Some(AppendedBody::Reverted(PartialAppend { upto })) })
}

/// Whether the peer's log lost what it acknowledged; then also where it ends.
pub(crate) fn reverted_from(reply: &ReplyBody) -> Option<Option<LogId>> {
    let ReplyBody::Append(Appended { body: Some(AppendedBody::Reverted(at)) }) = reply else {
        return None;
    };
    Some(at.upto.map(LogId::from))
}

/// `kept` is what the receiver has for good, `address` where the sender is reached.
pub(crate) fn vote_ask_of(
    request: &VoteRequest<TypeConfig>,
    kept: Option<LogId>,
    address: String,
) -> VoteAsk {
    VoteAsk {
        vote: (&request.vote).into(),
        last: request.last_log_id.as_ref().map(LogIdRecord::from),
        leadership_transfer: request.leadership_transfer,
        kept: kept.as_ref().map(LogIdRecord::from),
        address,
    }
}

pub(crate) fn vote_ask_from(ask: VoteAsk) -> VoteRequest<TypeConfig> {
    VoteRequest {
        vote: ask.vote.into(),
        last_log_id: ask.last.map(LogId::from),
        leadership_transfer: ask.leadership_transfer,
    }
}

pub(crate) fn voted_of(response: &VoteResponse<TypeConfig>) -> ReplyBody {
    ReplyBody::Vote(Voted {
        vote: (&response.vote).into(),
        granted: response.vote_granted,
        last: response.last_log_id.as_ref().map(LogIdRecord::from),
    })
}

pub(crate) fn voted_from(reply: ReplyBody) -> Option<VoteResponse<TypeConfig>> {
    let ReplyBody::Vote(voted) = reply else { return None };
    let vote: Vote = voted.vote.into();
    Some(VoteResponse {
        vote,
        vote_granted: voted.granted,
        last_log_id: voted.last.map(LogId::from),
    })
}

pub(crate) fn transfer_of(request: &TransferLeaderRequest<TypeConfig>) -> TransferLeader {
    TransferLeader {
        from_leader: request.from_leader().into(),
        target: *request.to_node_id(),
        last: request.last_log_id().map(LogIdRecord::from),
    }
}

pub(crate) fn transfer_from(message: TransferLeader) -> TransferLeaderRequest<TypeConfig> {
    let last = message.last.map(LogId::from);
    TransferLeaderRequest::new(message.from_leader.into(), message.target, last)
}

/// Where the sender says that it is reached; only candidates do.
pub(crate) fn address_of_sender(body: &RequestBody) -> Option<&str> {
    match body {
        RequestBody::Vote(ask) | RequestBody::PreVote(ask) => Some(&ask.address),
        RequestBody::Append(_)
        | RequestBody::TransferLeader(_)
        | RequestBody::Snapshot(_)
        | RequestBody::ReadIndex(_) => None,
    }
}

/// The node in whose name a message acts; it must be the sender.
pub(crate) fn authority(body: &RequestBody) -> Option<u64> {
    match body {
        RequestBody::Append(append) => Some(append.vote.node_id),
        RequestBody::Vote(ask) | RequestBody::PreVote(ask) => Some(ask.vote.node_id),
        RequestBody::TransferLeader(message) => Some(message.from_leader.node_id),
        RequestBody::Snapshot(chunk) => Some(chunk.vote.node_id),
        RequestBody::ReadIndex(_) => None,
    }
}
