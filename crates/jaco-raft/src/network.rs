//! Client side of raft's RPCs, over a transport that only moves bytes.
//!
//! Must implement every call: the library's defaults for pre-vote, transfer and snapshots are wrong
//! for us. No call may outlive its deadline.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{BoxStream, Fuse};
use futures::{Stream, StreamExt as _};
use openraft::OptionalSend;
use openraft::errors::{
    NetworkError, RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable,
};
use openraft::network::{Backoff, RPCOption, RPCTypes, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendResult,
    TransferLeaderError, TransferLeaderRequest, TransferLeaderResponse, VoteRequest, VoteResponse,
};
use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;

use crate::addresses::AddressBook;
use crate::codec::LogIdRecord;
use crate::commit_notice::CommitNotices;
use crate::engine::queue::Driver;
use crate::error::TransportError;
use crate::kept::Kept;
use crate::log_store::{LogStore, run_blocking};
use crate::pipe::{AppendStream, Pipe, Sent};
use crate::reconnect::Reconnects;
use crate::renewal::StreamRenewal;
use crate::reversion::{Acknowledged, Reverted};
use crate::snapshot::{SnapshotFile, SnapshotStore};
use crate::types::{LogId, Peer, TypeConfig, Vote};
use crate::wire::{self, KeptRecord, ReplyBody, RequestBody, RpcKind, SnapshotChunk, VoteAsk};

/// Bytes of a snapshot in one message: well under the 1 MiB every transport must carry.
const CHUNK_BYTES: usize = 512 << 10;
/// Time limit of one chunk.
const CHUNK_DEADLINE: Duration = Duration::from_secs(10);
/// Time limit for a follower to verify and load a snapshot.
const INSTALL_DEADLINE: Duration = Duration::from_secs(120);
/// Time limit for opening a stream that replaces another one; nobody waits for it.
const SUCCESSOR_DEADLINE: Duration = Duration::from_secs(5);
/// Pause before that is tried again.
const SUCCESSOR_PAUSE: Duration = Duration::from_secs(1);
/// Of so many heartbeats one is sent to a learner, which has no lease and elects nobody: at a thousand nodes they were most
/// of what the leader did at rest. A learner must hear of its leader twice within the time after which it takes its state
/// for outdated (`Contact`).
pub(crate) const LEARNER_HEARTBEATS: u32 = 3;
/// How often a follower is told what members have for good.
const KEPT_INTERVAL: Duration = Duration::from_secs(1);
/// Concurrent snapshot transfers; more would only slow each other down.
const CONCURRENT_SNAPSHOTS: usize = 2;

/// Carries messages to peers: over mutual TLS in the daemon, over a simulated network in tests.
///
/// An implementation must verify that the node at `address` is `target` before it sends, give up at
/// the deadline, and drop a connection after an error.
#[async_trait]
pub trait Transport: Send + Sync + 'static {
    /// Sends `body` and returns the answer of the peer's `Raft::handle`.
    ///
    /// # Errors
    /// See [`TransportError`].
    async fn call(
        &self,
        target: u64,
        address: &str,
        kind: RpcKind,
        body: Bytes,
        deadline: Duration,
    ) -> Result<Bytes, TransportError>;

    /// Opens a raft stream to the peer's `Raft::serve`. It may be dropped at any time.
    ///
    /// # Errors
    /// See [`TransportError`].
    async fn pipe(&self, target: u64, address: &str) -> Result<Box<dyn Pipe>, TransportError>;

    /// Says when streams are to be replaced. Asked once; by default they never are.
    fn renewal(&self) -> StreamRenewal {
        StreamRenewal::default()
    }
}

/// Creates clients for openraft.
#[derive(Clone)]
pub(crate) struct Network {
    pub(crate) own_id: u64,
    /// Where the others reach this node; empty if it does not say so.
    pub(crate) own_address: String,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) log: LogStore,
    pub(crate) snapshots: SnapshotStore,
    pub(crate) driver: Driver,
    /// Back-off after a peer was unreachable.
    pub(crate) retry: Duration,
    pub(crate) addresses: AddressBook,
    pub(crate) reconnects: Reconnects,
    pub(crate) acknowledged: Acknowledged,
    pub(crate) kept: Kept,
    renewal: StreamRenewal,
    sending: Arc<Semaphore>,
}

impl Network {
    pub(crate) fn new(
        own_id: u64,
        own_address: String,
        transport: Arc<dyn Transport>,
        log: LogStore,
        snapshots: SnapshotStore,
        driver: Driver,
        retry: Duration,
    ) -> Self {
        let sending = Arc::new(Semaphore::new(CONCURRENT_SNAPSHOTS));
        let renewal = transport.renewal();
        Self {
            own_id,
            own_address,
            transport,
            log,
            snapshots,
            driver,
            retry,
            addresses: AddressBook::default(),
            reconnects: Reconnects::default(),
            acknowledged: Acknowledged::default(),
            kept: Kept::default(),
            renewal,
            sending,
        }
    }
}

impl Network {
    /// What follower `id` has, as far as this node knows as the leader of `term`.
    fn has(&self, id: u64, term: u64) -> Option<LogId> {
        self.acknowledged.upto(id, term).max(self.kept.of(id))
    }

    fn client(&self, target: u64, node: &Peer, purpose: Purpose) -> Client {
        let successor = Successor::None;
        let address = node.address.clone();
        let told = (Instant::now(), BTreeMap::new());
        Client { network: self.clone(), target, address, stream: None, successor, told, purpose }
    }

    /// Notes what follower `id` and this node have for good, as the leader of `term`.
    fn note_kept(&self, id: u64, term: u64, committed: Option<LogId>) {
        self.kept.learn(id, self.acknowledged.upto(id, term), committed);
        self.kept.learn(self.own_id, self.log.durable(), committed);
    }
}

impl RaftNetworkFactory<TypeConfig> for Network {
    type Network = Client;

    async fn new_client(&mut self, target: u64, node: &Peer) -> Client {
        self.client(target, node, Purpose::Log)
    }

    async fn new_heartbeat_client(&mut self, target: u64, node: &Peer) -> Client {
        self.client(target, node, Purpose::Heartbeats { spare: 0 })
    }
}

/// What a client is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Entries, and everything else but heartbeats.
    Log,
    /// Heartbeats, of which so many need not be sent to a learner: it has just answered one.
    Heartbeats { spare: u32 },
}

impl Purpose {
    /// Whether the next heartbeat is left out.
    fn spares(&mut self) -> bool {
        match self {
            Self::Log | Self::Heartbeats { spare: 0 } => false,
            Self::Heartbeats { spare } => {
                *spare -= 1;
                true
            }
        }
    }

    /// The last message to a learner was answered, or to a voter, or it failed: after those nothing is left out.
    fn answered_by(&mut self, answered: AnsweredBy) {
        if let Self::Heartbeats { spare } = self {
            *spare = match answered {
                AnsweredBy::Learner => LEARNER_HEARTBEATS - 1,
                AnsweredBy::Voter | AnsweredBy::Nobody => 0,
            };
        }
    }
}

/// Who has answered a heartbeat with success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnsweredBy {
    Learner,
    Voter,
    Nobody,
}

/// Client of one peer.
pub(crate) struct Client {
    network: Network,
    target: u64,
    /// Address when the client was created; the address book may have a newer one.
    address: String,
    /// The raft stream for appends, kept across append calls.
    stream: Option<AppendStream>,
    /// The stream that is to replace that one.
    successor: Successor,
    /// What the peer was told last of what members have for good, and when.
    told: (Instant, BTreeMap<u64, LogId>),
    purpose: Purpose,
}

/// How far the stream is that replaces another one.
enum Successor {
    /// None is wanted.
    None,
    /// It is being opened.
    Opening(JoinHandle<Result<AppendStream, TransportError>>),
    /// It stands, and waits until nothing is unanswered on the other one.
    Ready(AppendStream),
    /// It could not be opened, and is tried again then. The other one goes on.
    Failed(Instant),
}

impl Client {
    /// The current address of the peer.
    fn address(&self) -> String {
        self.network.addresses.get(self.target).unwrap_or_else(|| self.address.clone())
    }

    async fn call(
        &self,
        kind: RpcKind,
        body: RequestBody,
        deadline: Duration,
    ) -> Result<ReplyBody, TransportError> {
        let body = wire::encode_request(self.network.own_id, self.target, body);
        let address = self.address();
        let call = self.network.transport.call(self.target, &address, kind, body, deadline);
        let bytes =
            tokio::time::timeout(deadline, call).await.unwrap_or(Err(TransportError::Timeout))?;
        wire::decode_reply(bytes).map_err(TransportError::Refused)
    }

    /// Opens the stream for appends.
    async fn open_stream(&mut self, within: Duration) -> Result<(), TransportError> {
        let address = self.address();
        if let Some(remaining) = self.network.acknowledged.pause(self.target) {
            let pause = format!("refused for another {} ms", remaining.as_millis());
            return Err(TransportError::Unreachable(pause));
        }
        let reconnects = &self.network.reconnects;
        if let Some(remaining) = reconnects.remaining(self.target, &address) {
            let pause = format!("not dialled again for another {} ms", remaining.as_millis());
            return Err(TransportError::Unreachable(pause));
        }
        let opening = self.network.transport.pipe(self.target, &address);
        let opened = tokio::time::timeout(within, opening).await;
        let pipe = opened
            .unwrap_or(Err(TransportError::Timeout))
            .inspect_err(|_| reconnects.failed(self.target, &address))?;
        reconnects.reached(self.target);
        let age = self.network.renewal.of(self.target);
        self.stream = Some(AppendStream::new(pipe, address, age));
        self.successor = Successor::None;
        Ok(())
    }

    /// Takes the next step in replacing a stream that is outdated.
    async fn replace_stream(&mut self, within: Duration) {
        let Some(stream) = &self.stream else { return };
        let wanted = self.network.renewal.of(self.target);
        match &mut self.successor {
            Successor::None if stream.age() < wanted => self.open_successor(wanted, within),
            Successor::Failed(retry) if *retry <= Instant::now() => {
                self.open_successor(wanted, within);
            }
            Successor::Opening(opening) if opening.is_finished() => {
                let opened = opening.await;
                self.successor = Successor::of(opened);
            }
            Successor::None
            | Successor::Failed(_)
            | Successor::Opening(_)
            | Successor::Ready(_) => {}
        }
        if stream_is_idle(self.stream.as_ref())
            && let Successor::Ready(_) = self.successor
            && let Successor::Ready(next) = std::mem::replace(&mut self.successor, Successor::None)
        {
            self.stream = Some(next);
        }
    }

    fn open_successor(&mut self, age: u64, within: Duration) {
        let (transport, target) = (Arc::clone(&self.network.transport), self.target);
        let address = self.address();
        self.successor = Successor::Opening(tokio::spawn(async move {
            let opening = transport.pipe(target, &address);
            let opened = tokio::time::timeout(within.max(SUCCESSOR_DEADLINE), opening).await;
            let pipe = opened.unwrap_or(Err(TransportError::Timeout))?;
            Ok(AppendStream::new(pipe, address, age))
        }));
    }

    /// Sends one append over the open stream.
    async fn send(
        &mut self,
        request: AppendEntriesRequest<TypeConfig>,
        timeout: Duration,
    ) -> Result<(), TransportError> {
        let sent = Sent::of(&request, timeout);
        let stream = self.stream.as_ref().expect("a stream is opened before anything is sent");
        self.network.note_kept(self.target, sent.term, request.leader_commit);
        let mut append = wire::append_of(request, &self.network.log);
        if stream.is_new() {
            let has = self.network.has(self.target, sent.term);
            append.acknowledged = has.as_ref().map(LogIdRecord::from);
            self.told.1.clear();
        }
        append.kept = self.news_of_kept();
        let body = RequestBody::Append(append);
        let frame = wire::encode_request(self.network.own_id, self.target, body);
        let stream = self.stream.as_mut().expect("it was there before");
        stream.send(frame, sent).await
    }

    /// What members have for good, if the peer was told less, and not just now.
    fn news_of_kept(&mut self) -> Vec<KeptRecord> {
        let (at, told) = &mut self.told;
        if !told.is_empty() && at.elapsed() < KEPT_INTERVAL {
            return Vec::new();
        }
        let all = self.network.kept.to_tell(self.target);
        if *told == all {
            return Vec::new();
        }
        let record = |(node, last): (&u64, &LogId)| KeptRecord { node: *node, last: last.into() };
        let records = all.iter().map(record).collect();
        (*at, *told) = (Instant::now(), all);
        records
    }

    /// Sends the items of `input` and returns the next answer; `None` once all are sent and
    /// answered. What tells of commits alone may be left out: the next answer is one to it, too.
    async fn next_answer<S>(
        &mut self,
        input: &mut Fuse<S>,
        notices: &mut CommitNotices,
        timeout: Duration,
    ) -> Result<Option<StreamAppendResult<TypeConfig>>, TransportError>
    where
        S: Stream<Item = AppendEntriesRequest<TypeConfig>> + Unpin,
    {
        if self.stream.is_none() {
            // openraft pauses after a failure before it hands out the next request. Connecting
            // before there is one would skip that pause.
            let Some(request) = input.next().await else { return Ok(None) };
            self.open_stream(timeout).await?;
            self.send(request, timeout).await?;
        }
        let mut renewals = self.network.renewal.watch();
        loop {
            self.replace_stream(timeout).await;
            let stream = self.stream.as_mut().expect("opened above, and dropped only on an error");
            if input.is_done() && stream.is_idle() && notices.is_empty() {
                return Ok(None);
            }
            // The last answers come before the first message on the next stream, so that all stay in order.
            let is_ready = matches!(self.successor, Successor::Ready(_));
            let may_send = stream.has_room() && !is_ready;
            let answered = tokio::select! {
                biased;
                answered = stream.answer() => Some(answered?),
                request = input.next(), if may_send && !input.is_done() => {
                    let request = match request {
                        Some(request) => notices.admit(request, Instant::now()),
                        None => notices.take(),
                    };
                    if let Some(request) = request {
                        self.send(request, timeout).await?;
                    }
                    None
                }
                request = notices.due(), if may_send => {
                    self.send(request, timeout).await?;
                    None
                }
                opened = self.successor.opened() => {
                    self.successor = opened;
                    None
                }
                Ok(()) = renewals.changed() => None,
            };
            if let Some((frame, sent)) = answered {
                let reply = wire::decode_reply(frame).map_err(TransportError::Refused)?;
                let reverted = self.reverted(&reply, &sent);
                if let Some(reverted) = reverted {
                    return Err(self.refuse(sent.term, reverted));
                }
                let unexpected = || TransportError::Refused("reply of another kind".to_owned());
                let response = wire::appended_from(reply).ok_or_else(unexpected)?;
                let result = response.into_stream_result(sent.prev, sent.last);
                if let Ok(Some(upto)) = result {
                    self.network.acknowledged.record(self.target, sent.term, upto);
                }
                return Ok(Some(result));
            }
        }
    }

    fn note_answer(
        &mut self,
        answer: &Result<Option<StreamAppendResult<TypeConfig>>, TransportError>,
    ) {
        let by = match answer {
            // The end of the stream, after an answer.
            Ok(None) => return,
            Ok(Some(Ok(_))) if self.network.kept.is_learner(self.target) => AnsweredBy::Learner,
            Ok(Some(Ok(_))) => AnsweredBy::Voter,
            Ok(Some(Err(_))) | Err(_) => AnsweredBy::Nobody,
        };
        self.purpose.answered_by(by);
    }

    /// What the follower has lost of what it acknowledged, if this answer proves that.
    fn reverted(&self, reply: &ReplyBody, sent: &Sent) -> Option<Reverted> {
        let has = self.network.has(self.target, sent.term)?;
        if let Some(end) = wire::reverted_from(reply) {
            return Some(Reverted { acknowledged: has, end });
        }
        // From a member that does not compare this itself, or whose log went back under its feet.
        let lacking = wire::is_conflict(reply).then_some(sent.prev).flatten()?;
        Reverted::of(has, lacking)
    }

    /// Refuses the follower: nothing is sent to it for a while.
    fn refuse(&self, term: u64, reverted: Reverted) -> TransportError {
        if self.network.acknowledged.refuse(self.target, term, reverted) {
            tracing::error!(node_id = self.target, reason = %reverted, "follower is refused: remove it, and join it as a new node");
        }
        TransportError::Unreachable(reverted.to_string())
    }

    fn failed(
        &self,
        action: RPCTypes,
        after: Duration,
        error: &TransportError,
    ) -> RPCError<TypeConfig> {
        match error {
            TransportError::Unreachable(_) | TransportError::NotListening(_) => {
                RPCError::Unreachable(Unreachable::new(error))
            }
            TransportError::Refused(_) => RPCError::Network(NetworkError::new(error)),
            TransportError::Timeout => RPCError::Timeout(Timeout {
                action,
                id: self.network.own_id,
                target: self.target,
                timeout: after,
            }),
        }
    }

    fn vote_ask(&self, request: &VoteRequest<TypeConfig>) -> VoteAsk {
        let kept = self.network.kept.of(self.target);
        wire::vote_ask_of(request, kept, self.network.own_address.clone())
    }

    async fn request_vote(
        &self,
        kind: RpcKind,
        body: RequestBody,
        deadline: Duration,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        let reply = self.call(kind, body, deadline).await;
        let reply = reply.map_err(|error| self.failed(RPCTypes::Vote, deadline, &error))?;
        wire::voted_from(reply).ok_or_else(unexpected)
    }

    /// Sends the missing part of `file` to the follower, then requests the install.
    async fn send_snapshot(
        &self,
        vote: Vote,
        file: &SnapshotFile,
    ) -> Result<SnapshotResponse<TypeConfig>, TransportError> {
        let chunk = |offset: u64, data: Bytes, install| {
            RequestBody::Snapshot(SnapshotChunk {
                vote: (&vote).into(),
                sum: Bytes::copy_from_slice(&file.sum),
                file_len: file.len,
                offset,
                data,
                install,
            })
        };
        // Asks where to continue after an interrupted transfer.
        let mut body = chunk(0, Bytes::new(), false);
        loop {
            let reply = self.call(RpcKind::Snapshot, body, CHUNK_DEADLINE).await?;
            let offset = match reply {
                ReplyBody::SnapshotReceived(offset) => offset,
                ReplyBody::SnapshotInstalled(vote) => {
                    return Ok(SnapshotResponse::new(vote.into()));
                }
                ReplyBody::Append(_)
                | ReplyBody::Vote(_)
                | ReplyBody::TransferLeader(_)
                | ReplyBody::ReadIndex(_) => {
                    return Err(TransportError::Refused("not a snapshot reply".to_owned()));
                }
            };
            if offset >= file.len {
                break;
            }
            let (snapshots, name) = (self.network.snapshots.clone(), file.name.clone());
            let read = move || snapshots.read_chunk(&name, offset, CHUNK_BYTES);
            let data = run_blocking(self.network.driver, read)
                .await
                .map_err(|error| TransportError::Refused(format!("own snapshot: {error}")))?;
            if data.is_empty() {
                return Err(TransportError::Refused("own snapshot is truncated".to_owned()));
            }
            body = chunk(offset, data.into(), false);
        }
        let install = chunk(file.len, Bytes::new(), true);
        match self.call(RpcKind::Snapshot, install, INSTALL_DEADLINE).await? {
            ReplyBody::SnapshotInstalled(vote) => Ok(SnapshotResponse::new(vote.into())),
            ReplyBody::SnapshotReceived(_)
            | ReplyBody::Append(_)
            | ReplyBody::Vote(_)
            | ReplyBody::TransferLeader(_)
            | ReplyBody::ReadIndex(_) => {
                Err(TransportError::Refused("snapshot was not installed".to_owned()))
            }
        }
    }
}

impl Successor {
    fn of(opened: Result<Result<AppendStream, TransportError>, JoinError>) -> Self {
        match opened {
            Ok(Ok(stream)) => Self::Ready(stream),
            Ok(Err(_)) | Err(_) => Self::Failed(Instant::now() + SUCCESSOR_PAUSE),
        }
    }

    /// What it becomes once it is open or may be tried again; pends while there is nothing to wait for. Cancel-safe.
    async fn opened(&mut self) -> Self {
        match self {
            Self::Opening(opening) => Self::of(opening.await),
            Self::Failed(retry) => {
                tokio::time::sleep_until(*retry).await;
                Self::Failed(*retry)
            }
            Self::None | Self::Ready(_) => std::future::pending().await,
        }
    }
}

fn stream_is_idle(stream: Option<&AppendStream>) -> bool {
    stream.is_some_and(AppendStream::is_idle)
}

type Answers<'s> = BoxStream<'s, Result<StreamAppendResult<TypeConfig>, RPCError<TypeConfig>>>;

fn unexpected() -> RPCError<TypeConfig> {
    let error = TransportError::Refused("reply of another kind".to_owned());
    RPCError::Network(NetworkError::new(&error))
}

impl RaftNetworkV2<TypeConfig> for Client {
    type SnapshotData = SnapshotFile;

    /// openraft itself only calls `stream_append`.
    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<TypeConfig>, RPCError<TypeConfig>> {
        let mut answers = self.stream_append(futures::stream::iter([rpc]), option).await?;
        let answer = answers.next().await.ok_or_else(unexpected)??;
        Ok(AppendEntriesResponse::from(answer))
    }

    /// Ends after the first unsuccessful answer: later requests are void.
    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        option: RPCOption,
    ) -> BoxFuture<'s, Result<Answers<'s>, RPCError<TypeConfig>>>
    where
        S: Stream<Item = AppendEntriesRequest<TypeConfig>> + OptionalSend + Unpin + 'static,
    {
        if self.network.kept.is_learner(self.target) && self.purpose.spares() {
            // As the last one was answered. Nothing is decided by what a learner answers.
            let answers = input.map(|request| Ok(Ok(request.prev_log_id)));
            return Box::pin(async move { Ok::<Answers<'s>, _>(answers.boxed()) });
        }
        // Reopening the stream for one slow answer costs more than waiting for it.
        let timeout = option.hard_ttl().max(self.network.retry);
        let address = self.address();
        // A pending answer of the previous call would be taken for one of this call, and a member
        // that moved must not be called at its old address.
        self.stream.take_if(|stream| !stream.is_idle() || stream.address() != address);
        let notices = CommitNotices::default();
        let answers =
            futures::stream::unfold(Some((self, input.fuse(), notices)), move |state| async move {
                let (client, mut input, mut notices) = state?;
                let answer = client.next_answer(&mut input, &mut notices, timeout).await;
                client.note_answer(&answer);
                match answer {
                    Ok(None) => None,
                    Ok(Some(Ok(matching))) => {
                        Some((Ok(Ok(matching)), Some((client, input, notices))))
                    }
                    Ok(Some(Err(refusal))) => Some((Ok(Err(refusal)), None)),
                    Err(error) => {
                        client.stream = None;
                        let error = client.failed(RPCTypes::AppendEntries, timeout, &error);
                        Some((Err(error), None))
                    }
                }
            });
        Box::pin(async move { Ok::<Answers<'s>, _>(Box::pin(answers)) })
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        let body = RequestBody::Vote(self.vote_ask(&rpc));
        self.request_vote(RpcKind::Vote, body, option.hard_ttl()).await
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        let body = RequestBody::PreVote(self.vote_ask(&rpc));
        self.request_vote(RpcKind::PreVote, body, option.hard_ttl()).await
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: openraft::alias::SnapshotOf<TypeConfig, SnapshotFile>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        let send = async {
            let _permit = self.network.sending.acquire().await;
            self.send_snapshot(vote, &snapshot.snapshot).await
        };
        let sent = tokio::select! {
            sent = send => sent,
            closed = cancel => return Err(StreamingError::Closed(closed)),
        };
        sent.map_err(|error| {
            tracing::warn!(target_node = self.target, %error, "snapshot transfer failed");
            self.failed(RPCTypes::InstallSnapshot, CHUNK_DEADLINE, &error).into()
        })
    }

    async fn transfer_leader(
        &mut self,
        req: TransferLeaderRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<TypeConfig>, RPCError<TypeConfig>> {
        let deadline = option.hard_ttl();
        let refused = TransferLeaderError::VoteChanged {
            expected: *req.from_leader(),
            actual: *req.from_leader(),
        };
        let body = RequestBody::TransferLeader(wire::transfer_of(&req));
        let reply = self.call(RpcKind::TransferLeader, body, deadline).await;
        let reply =
            reply.map_err(|error| self.failed(RPCTypes::TransferLeader, deadline, &error))?;
        match reply {
            ReplyBody::TransferLeader(true) => Ok(Ok(())),
            ReplyBody::TransferLeader(false) => Ok(Err(refused)),
            ReplyBody::Append(_)
            | ReplyBody::Vote(_)
            | ReplyBody::SnapshotReceived(_)
            | ReplyBody::SnapshotInstalled(_)
            | ReplyBody::ReadIndex(_) => Err(unexpected()),
        }
    }

    fn backoff(&self) -> Option<Backoff> {
        let (network, target, address) = (self.network.clone(), self.target, self.address());
        Some(Backoff::new(std::iter::repeat_with(move || {
            let refused = network.acknowledged.pause(target);
            let remaining = network.reconnects.remaining(target, &address);
            remaining.max(refused).unwrap_or_default().max(network.retry)
        })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timing::Timing;

    /// R-NODE-4: a learner gets one heartbeat of three, all of them until it answers, and all of them once it votes.
    #[test]
    fn heartbeats_to_a_learner_that_answers_are_left_out() {
        let mut purpose = Purpose::Heartbeats { spare: 0 };
        assert!(!purpose.spares(), "the first one");
        purpose.answered_by(AnsweredBy::Nobody);
        assert!(!purpose.spares(), "nobody has answered");
        purpose.answered_by(AnsweredBy::Learner);
        let next: Vec<bool> = (0..4).map(|_| purpose.spares()).collect();
        assert_eq!(next, [true, true, false, false], "it has to be answered again");
        purpose.answered_by(AnsweredBy::Learner);
        purpose.answered_by(AnsweredBy::Voter);
        assert!(!purpose.spares());
        let mut log = Purpose::Log;
        log.answered_by(AnsweredBy::Learner);
        assert!(!log.spares(), "entries are always sent");
    }

    /// A learner hears of its leader twice within the time after which its state counts as outdated.
    #[test]
    fn a_learner_does_not_lose_contact_between_heartbeats() {
        for timing in [Timing::lan(), Timing::wan()] {
            assert!(LEARNER_HEARTBEATS * timing.heartbeat <= timing.election_max);
        }
    }
}
