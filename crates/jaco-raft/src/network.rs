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
use openraft::OptionalSend;
use openraft::errors::{
    NetworkError, RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable,
};
use openraft::network::{Backoff, RPCOption, RPCTypes, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderError,
    TransferLeaderRequest, TransferLeaderResponse, VoteRequest, VoteResponse,
};
use tokio::sync::Semaphore;

use crate::engine::queue::Driver;
use crate::error::TransportError;
use crate::log_store::{LogStore, run_blocking};
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
        Client { network: self.clone(), target, address: node.address.clone() }
    }
}

/// Talks to one peer.
pub(crate) struct Client {
    network: Network,
    target: u64,
    /// Where it was when the client was made; the address book may know better.
    address: String,
}

impl Client {
    async fn call(
        &self,
        kind: RpcKind,
        body: RequestBody,
        deadline: Duration,
    ) -> Result<ReplyBody, TransportError> {
        let body = wire::encode_request(self.network.own_id, self.target, body);
        let known = self.network.addresses.get(self.target);
        let address = known.as_deref().unwrap_or(&self.address);
        let call = self.network.transport.call(self.target, address, kind, body, deadline);
        let bytes =
            tokio::time::timeout(deadline, call).await.unwrap_or(Err(TransportError::Timeout))?;
        wire::decode_reply(bytes).map_err(TransportError::Refused)
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

fn unexpected() -> RPCError<TypeConfig> {
    let error = TransportError::Refused("reply to another question".to_owned());
    RPCError::Network(NetworkError::new(&error))
}

impl RaftNetworkV2<TypeConfig> for Client {
    type SnapshotData = SnapshotFile;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<TypeConfig>, RPCError<TypeConfig>> {
        let kind = if rpc.entries.is_empty() { RpcKind::Heartbeat } else { RpcKind::Append };
        let deadline = option.hard_ttl();
        let body = RequestBody::Append(wire::append_of(rpc, &self.network.log));
        let reply = self.call(kind, body, deadline).await;
        let reply =
            reply.map_err(|error| self.failed(RPCTypes::AppendEntries, deadline, &error))?;
        wire::appended_from(reply).ok_or_else(unexpected)
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
