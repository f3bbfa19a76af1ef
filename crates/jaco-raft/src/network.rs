//! The client side of raft's messages, over a transport that only moves bytes.
//!
//! Must implement every call: the library's defaults for pre-vote, transfer and snapshots look
//! harmless and do the wrong thing. Must never let a call outlive its deadline.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, PoisonError, RwLock};
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

use crate::engine::queue::Driver;
use crate::error::TransportError;
use crate::log_store::{LogStore, run_blocking};
use crate::pipe::{Line, Pipe, Sent};
use crate::snapshot::{SnapshotFile, SnapshotStore};
use crate::types::{Peer, TypeConfig, Vote};
use crate::wire::{self, ReplyBody, RequestBody, RpcKind, SnapshotChunk};

/// Bytes of a snapshot in one message: well under the 1 MiB every transport must carry.
const CHUNK_BYTES: usize = 512 << 10;
/// How long one chunk may take.
const CHUNK_DEADLINE: Duration = Duration::from_secs(10);
/// How long a follower may take to verify and load a snapshot.
const INSTALL_DEADLINE: Duration = Duration::from_secs(120);
/// Snapshots sent at once; more would only make each slower.
const SNAPSHOTS_AT_ONCE: usize = 2;

/// Carries messages to peers: over mutual TLS in the daemon, over a simulated network in tests.
///
/// An implementation must make sure that the node at `address` is `target` before it sends, must
/// give up at the deadline, and must not keep a dead connection after an error.
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

    /// Opens a line whose other end is the peer's `Raft::serve`. Who opened it may drop it at any time.
    ///
    /// # Errors
    /// See [`TransportError`].
    async fn pipe(&self, target: u64, address: &str) -> Result<Box<dyn Pipe>, TransportError>;
}

/// Where members are reached now. openraft tells a client once, when it is made, and keeps it while
/// its peer's address changes.
#[derive(Debug, Clone, Default)]
pub(crate) struct AddressBook {
    addresses: Arc<RwLock<BTreeMap<u64, String>>>,
}

impl AddressBook {
    pub(crate) fn replace(&self, members: &BTreeMap<u64, String>) {
        self.addresses.write().unwrap_or_else(PoisonError::into_inner).clone_from(members);
    }

    fn get(&self, id: u64) -> Option<String> {
        self.addresses.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }
}

/// Makes clients for openraft.
#[derive(Clone)]
pub(crate) struct Network {
    pub(crate) own_id: u64,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) log: LogStore,
    pub(crate) snapshots: SnapshotStore,
    pub(crate) driver: Driver,
    /// Pause after a peer was unreachable.
    pub(crate) retry: Duration,
    pub(crate) addresses: AddressBook,
    sending: Arc<Semaphore>,
}

impl Network {
    pub(crate) fn new(
        own_id: u64,
        transport: Arc<dyn Transport>,
        log: LogStore,
        snapshots: SnapshotStore,
        driver: Driver,
        retry: Duration,
    ) -> Self {
        let sending = Arc::new(Semaphore::new(SNAPSHOTS_AT_ONCE));
        let addresses = AddressBook::default();
        Self { own_id, transport, log, snapshots, driver, retry, addresses, sending }
    }
}

impl RaftNetworkFactory<TypeConfig> for Network {
    type Network = Client;

    async fn new_client(&mut self, target: u64, node: &Peer) -> Client {
        Client { network: self.clone(), target, address: node.address.clone(), line: None }
    }
}

/// Talks to one peer.
pub(crate) struct Client {
    network: Network,
    target: u64,
    /// Where it was when the client was made; the address book may know better.
    address: String,
    /// For appends; kept between streams of them.
    line: Option<Line>,
}

impl Client {
    /// Where the peer is reached now.
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

    /// The line for appends, opened if there is none.
    async fn line(&mut self, within: Duration) -> Result<&mut Line, TransportError> {
        if self.line.is_none() {
            let address = self.address();
            let opening = self.network.transport.pipe(self.target, &address);
            let opened = tokio::time::timeout(within, opening).await;
            let pipe = opened.unwrap_or(Err(TransportError::Timeout))?;
            self.line = Some(Line::new(pipe, address));
        }
        Ok(self.line.as_mut().expect("it was there or opened just now"))
    }

    /// Sends what `input` has and returns the next answer; `None` once all is sent and answered.
    async fn next_answer<S>(
        &mut self,
        input: &mut Fuse<S>,
        patience: Duration,
    ) -> Result<Option<StreamAppendResult<TypeConfig>>, TransportError>
    where
        S: Stream<Item = AppendEntriesRequest<TypeConfig>> + Unpin,
    {
        let (from, to) = (self.network.own_id, self.target);
        let log = self.network.log.clone();
        let line = self.line(patience).await?;
        loop {
            if input.is_done() && line.is_quiet() {
                return Ok(None);
            }
            let may_send = line.has_room() && !input.is_done();
            let answered = tokio::select! {
                biased;
                answered = line.answer() => Some(answered?),
                request = input.next(), if may_send => {
                    if let Some(request) = request {
                        let sent = Sent::of(&request, patience);
                        let body = RequestBody::Append(wire::append_of(request, &log));
                        line.send(wire::encode_request(from, to, body), sent).await?;
                    }
                    None
                }
            };
            if let Some((frame, sent)) = answered {
                let reply = wire::decode_reply(frame).map_err(TransportError::Refused)?;
                let unexpected = || TransportError::Refused("reply to another question".to_owned());
                let response = wire::appended_from(reply).ok_or_else(unexpected)?;
                return Ok(Some(response.into_stream_result(sent.prev, sent.last)));
            }
        }
    }

    fn failed(
        &self,
        action: RPCTypes,
        after: Duration,
        error: &TransportError,
    ) -> RPCError<TypeConfig> {
        match error {
            TransportError::Unreachable(_) => RPCError::Unreachable(Unreachable::new(error)),
            TransportError::Refused(_) => RPCError::Network(NetworkError::new(error)),
            TransportError::Timeout => RPCError::Timeout(Timeout {
                action,
                id: self.network.own_id,
                target: self.target,
                timeout: after,
            }),
        }
    }

    async fn ask_vote(
        &self,
        kind: RpcKind,
        body: RequestBody,
        deadline: Duration,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        let reply = self.call(kind, body, deadline).await;
        let reply = reply.map_err(|error| self.failed(RPCTypes::Vote, deadline, &error))?;
        wire::voted_from(reply).ok_or_else(unexpected)
    }

    /// Sends what the follower lacks of `file`, then has it installed.
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
        // Nothing but a question: where to go on after an interrupted transfer.
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
                    return Err(TransportError::Refused("not about the snapshot".to_owned()));
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
                return Err(TransportError::Refused("own snapshot is cut short".to_owned()));
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

type Answers<'s> = BoxStream<'s, Result<StreamAppendResult<TypeConfig>, RPCError<TypeConfig>>>;

fn unexpected() -> RPCError<TypeConfig> {
    let error = TransportError::Refused("reply to another question".to_owned());
    RPCError::Network(NetworkError::new(&error))
}

impl RaftNetworkV2<TypeConfig> for Client {
    type SnapshotData = SnapshotFile;

    /// openraft's own loops only call `stream_append`.
    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<TypeConfig>, RPCError<TypeConfig>> {
        let mut answers = self.stream_append(futures::stream::iter([rpc]), option).await?;
        let answer = answers.next().await.ok_or_else(unexpected)??;
        Ok(AppendEntriesResponse::from(answer))
    }

    /// Ends after the first answer that is not a success: what was sent behind it is void.
    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        option: RPCOption,
    ) -> BoxFuture<'s, Result<Answers<'s>, RPCError<TypeConfig>>>
    where
        S: Stream<Item = AppendEntriesRequest<TypeConfig>> + OptionalSend + Unpin + 'static,
    {
        // A line that is given up for one slow answer costs more than the wait for it.
        let patience = option.hard_ttl().max(self.network.retry);
        let address = self.address();
        // An answer that the stream before this one left behind would be taken for one of this one's;
        // and a member that has moved is not to be called where it was.
        self.line.take_if(|line| !line.is_quiet() || line.address() != address);
        let answers =
            futures::stream::unfold(Some((self, input.fuse())), move |state| async move {
                let (client, mut input) = state?;
                match client.next_answer(&mut input, patience).await {
                    Ok(None) => None,
                    Ok(Some(Ok(matching))) => Some((Ok(Ok(matching)), Some((client, input)))),
                    Ok(Some(Err(refusal))) => Some((Ok(Err(refusal)), None)),
                    Err(error) => {
                        client.line = None;
                        let error = client.failed(RPCTypes::AppendEntries, patience, &error);
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
        let body = RequestBody::Vote(wire::vote_ask_of(&rpc));
        self.ask_vote(RpcKind::Vote, body, option.hard_ttl()).await
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        let body = RequestBody::PreVote(wire::vote_ask_of(&rpc));
        self.ask_vote(RpcKind::PreVote, body, option.hard_ttl()).await
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
            tracing::warn!(target_node = self.target, %error, "snapshot was not delivered");
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
        Some(Backoff::new(std::iter::repeat(self.network.retry)))
    }
}
