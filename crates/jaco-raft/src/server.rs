//! Server side of raft's RPCs.
//!
//! Must never act on a message addressed to another node, nor on one with an authority other than
//! its sender's; verifying the sender is the transport's duty.

use std::sync::Arc;

use bytes::Bytes;
use futures::stream::FuturesOrdered;
use futures::{SinkExt as _, StreamExt as _};
use openraft::ReadPolicy;
use openraft::async_runtime::WatchReceiver as _;
use openraft::errors::RaftError;
use openraft::raft::AppendEntriesResponse;
use tokio::sync::Mutex;

use crate::addresses::AddressBook;
use crate::engine::queue::Driver;
use crate::error::HandleError;
use crate::kept::Kept;
use crate::log_store::{LogStore, run_blocking};
use crate::machine::{MachineStore, StateMachine, snapshot_of};
use crate::network::Transport;
use crate::pipe::{CONCURRENT_APPENDS_MAX, Pipe};
use crate::reconnect::Reconnects;
use crate::reversion::{OwnLog, Reverted};
use crate::snapshot::SnapshotStore;
use crate::takeover::Takeover;
use crate::ticker::LeaderActivity;
use crate::types::{LogId, TypeConfig, Vote};
use crate::wire::{
    self, Append, History, KeptRecord, ReplyBody, Request, RequestBody, SnapshotChunk, VoteAsk,
};

/// Maximum size of an accepted snapshot; a larger claim is an attack or a bug.
const SNAPSHOT_BYTES: u64 = 16 << 30;

/// Context of the handlers.
pub(crate) struct Server<M: StateMachine> {
    pub(crate) own_id: u64,
    pub(crate) raft: openraft::Raft<TypeConfig, MachineStore<M>>,
    pub(crate) log: LogStore,
    pub(crate) snapshots: SnapshotStore,
    pub(crate) driver: Driver,
    pub(crate) history: History,
    /// One snapshot is received at a time.
    pub(crate) receiving: Arc<Mutex<()>>,
    pub(crate) leader_activity: LeaderActivity,
    pub(crate) addresses: AddressBook,
    pub(crate) reconnects: Reconnects,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) takeover: Takeover,
    pub(crate) own_log: OwnLog,
    pub(crate) kept: Kept,
}

impl<M: StateMachine> Server<M> {
    pub(crate) async fn handle(&self, body: Bytes) -> Result<Bytes, HandleError> {
        let Request { from, body, .. } = self.addressed(body)?;
        let Some(body) = body else {
            return Err(HandleError::Malformed("message of an unknown kind".to_owned()));
        };
        if wire::authority(&body).is_some_and(|authority| authority != from) {
            return Err(HandleError::Malformed(format!("node {from} speaks for another")));
        }
        let address = wire::address_of_sender(&body);
        let has_moved = address.is_some_and(|address| self.addresses.heard(from, address));
        if self.reconnects.reached(from) || has_moved {
            // It is back: replication does not sit its pause out. Only a stopped core refuses this.
            drop(self.raft.trigger().reset_backoff([from]).await);
        }
        if let Some(reason) = self.own_log.failure() {
            return Err(HandleError::Stopped { reason });
        }
        let reply = match body {
            RequestBody::Append(append) => self.append(append).await.inspect_err(log_divergence)?,
            RequestBody::Vote(ask) => self.vote(ask).await?,
            RequestBody::PreVote(ask) => self.pre_vote(ask).await?,
            RequestBody::TransferLeader(message) => {
                let request = wire::transfer_from(message);
                let answer = self.raft.handle_transfer_leader(request).await;
                ReplyBody::TransferLeader(answer.map_err(|fatal| stopped(&fatal))?.is_ok())
            }
            RequestBody::Snapshot(chunk) => {
                self.snapshot(chunk).await.inspect_err(log_divergence)?
            }
            RequestBody::ReadIndex(_) => self.read_index().await?,
        };
        Ok(wire::encode_reply(reply))
    }

    /// Serves a peer's raft stream until either side closes it. `admit` verifies the sender of each frame.
    pub(crate) async fn serve(
        &self,
        pipe: Box<dyn Pipe>,
        admit: impl Fn(u64) -> Result<(), String>,
    ) -> Result<(), HandleError> {
        if let Some(peer) = self.serve_appends(pipe, admit).await? {
            self.takeover.connection_closed(&self.raft, self.transport.as_ref(), peer).await;
        }
        Ok(())
    }

    /// Answers the appends of a raft stream, in order; returns who sent them.
    async fn serve_appends(
        &self,
        mut pipe: Box<dyn Pipe>,
        admit: impl Fn(u64) -> Result<(), String>,
    ) -> Result<Option<u64>, HandleError> {
        let mut sender = None;
        let mut answers = FuturesOrdered::new();
        loop {
            tokio::select! {
                biased;
                Some(answer) = answers.next(), if !answers.is_empty() => {
                    let answer: Result<_, RaftError<TypeConfig>> = answer;
                    let reply = self.appended(answer.map_err(|error| stopped(&error))?);
                    if pipe.send(wire::encode_reply(reply)).await.is_err() {
                        return Ok(sender);
                    }
                }
                frame = pipe.next(), if answers.len() < CONCURRENT_APPENDS_MAX => {
                    // A closed stream is logged by the peer.
                    let Some(Ok(frame)) = frame else { return Ok(sender) };
                    let append = self.append_in(frame.freeze(), &admit)?;
                    self.learn_kept(&append);
                    sender = Some(append.vote.node_id);
                    if let Some(reverted) = self.reverted(&append) {
                        self.stop(reverted);
                        let reply = wire::encode_reply(wire::reverted_of(reverted.end));
                        // Nobody waits for an answer of a node that stops.
                        drop(pipe.send(reply).await);
                        return Ok(sender);
                    }
                    let request = wire::append_from(append, &self.log, self.history);
                    let request = request.inspect_err(log_divergence)?;
                    // Processed in this order as soon as `answers` is polled, which is next.
                    answers.push_back(self.raft.append_entries(request));
                }
            }
        }
    }

    /// The append in a frame, if its sender is admitted.
    fn append_in(
        &self,
        frame: Bytes,
        admit: impl Fn(u64) -> Result<(), String>,
    ) -> Result<Append, HandleError> {
        let Request { from, body, .. } = self.addressed(frame)?;
        admit(from).map_err(HandleError::Malformed)?;
        match body {
            Some(RequestBody::Append(append)) if append.vote.node_id == from => Ok(append),
            _ => Err(HandleError::Malformed(format!("node {from} sent no append of its own"))),
        }
    }

    /// Decodes the message; refuses one for another node.
    fn addressed(&self, body: Bytes) -> Result<Request, HandleError> {
        let request = wire::decode_request(body)?;
        if request.to != self.own_id {
            return Err(HandleError::Malformed(format!("message is for node {}", request.to)));
        }
        Ok(request)
    }

    /// What the log of this node has lost, if this append proves that it lost something that it acknowledged.
    fn reverted(&self, append: &Append) -> Option<Reverted> {
        let acknowledged = append.acknowledged.map(LogId::from)?;
        // What a leader of a later term told this node to truncate is not lost.
        let heard_of_a_later = self.log.vote().is_some_and(|own| own > append.vote.clone().into());
        if heard_of_a_later || !self.compares() {
            return None;
        }
        self.lacks(acknowledged)
    }

    /// What the log of this node has lost, if it had this entry.
    fn lacks(&self, acknowledged: LogId) -> Option<Reverted> {
        let (snapshot, applied) = {
            let metrics = self.raft.metrics();
            let metrics = metrics.borrow_watched();
            (metrics.snapshot, metrics.last_applied)
        };
        // A snapshot that was installed just before the end of a process may cover more than the log.
        let end = self.log.last().max(snapshot).max(applied);
        (end < Some(acknowledged)).then_some(Reverted { acknowledged, end })
    }

    /// Refuses to elect where a disk was set back: this node's, or the candidate's.
    fn may_elect(&self, ask: &VoteAsk) -> Result<(), HandleError> {
        if !self.compares() {
            return Ok(());
        }
        // No leader truncates what is committed, so this is so in any term.
        if let Some(reverted) = ask.kept.and_then(|kept| self.lacks(kept.into())) {
            self.stop(reverted);
            return Err(HandleError::Stopped { reason: format!("its data is older: {reverted}") });
        }
        let newest = self.kept.newest();
        if ask.last.map(LogId::from) < newest {
            let index = newest.map_or(0, |newest| newest.index);
            let refused = format!("the candidate lacks entry {index}, which is committed");
            return Err(HandleError::Unavailable(refused));
        }
        Ok(())
    }

    /// Whether histories are compared: the simulation shows what happens without.
    fn compares(&self) -> bool {
        self.history == History::Compared
    }

    /// Takes no part any more.
    fn stop(&self, reverted: Reverted) {
        self.own_log.found(reverted);
        let raft = self.raft.clone();
        // Not awaited: the core may be the one that waits for this append.
        drop(tokio::spawn(async move { raft.shutdown().await }));
    }

    /// Notes what its leader says that members have for good.
    fn learn_kept(&self, append: &Append) {
        for KeptRecord { node, last } in &append.kept {
            let last = Some((*last).into());
            self.kept.learn(*node, last, last);
        }
    }

    async fn append(&self, append: Append) -> Result<ReplyBody, HandleError> {
        self.learn_kept(&append);
        if let Some(reverted) = self.reverted(&append) {
            self.stop(reverted);
            return Ok(wire::reverted_of(reverted.end));
        }
        let request = wire::append_from(append, &self.log, self.history)?;
        let response = self.raft.append_entries(request).await;
        Ok(self.appended(response.map_err(|error| stopped(&error))?))
    }

    /// The answer to an append. Unless it was refused for its term, it came from the leader.
    fn appended(&self, response: AppendEntriesResponse<TypeConfig>) -> ReplyBody {
        if !matches!(response, AppendEntriesResponse::HigherVote(_)) {
            self.leader_activity.record();
        }
        wire::appended_of(response)
    }

    async fn vote(&self, ask: VoteAsk) -> Result<ReplyBody, HandleError> {
        self.may_elect(&ask)?;
        let response = self.raft.vote(wire::vote_ask_from(ask)).await;
        Ok(wire::voted_of(&response.map_err(|error| stopped(&error))?))
    }

    async fn pre_vote(&self, ask: VoteAsk) -> Result<ReplyBody, HandleError> {
        self.may_elect(&ask)?;
        let response = self.raft.pre_vote(wire::vote_ask_from(ask)).await;
        Ok(wire::voted_of(&response.map_err(|error| stopped(&error))?))
    }

    async fn read_index(&self) -> Result<ReplyBody, HandleError> {
        let (read, _) = self
            .raft
            .get_read_log_id(ReadPolicy::ReadIndex)
            .await
            .map_err(|error| HandleError::Unavailable(error.to_string()))?;
        Ok(ReplyBody::ReadIndex(read.index()))
    }

    /// Handles a chunk, or the request to install a received snapshot.
    async fn snapshot(&self, chunk: SnapshotChunk) -> Result<ReplyBody, HandleError> {
        let sum: [u8; 32] = chunk
            .sum
            .as_ref()
            .try_into()
            .map_err(|_| HandleError::Malformed("snapshot checksum".to_owned()))?;
        if chunk.file_len > SNAPSHOT_BYTES {
            return Err(HandleError::Malformed("snapshot is too long".to_owned()));
        }
        let _one = self.receiving.lock().await;
        let name = SnapshotStore::incoming(&sum);
        let store = self.snapshots.clone();
        let install = chunk.install;
        let vote = Vote::from(chunk.vote.clone());
        let received = run_blocking(self.driver, {
            let (store, name) = (store.clone(), name.clone());
            move || {
                store.forget_incoming(&name)?;
                let have = store.received(&name)?;
                // Only the next bytes are accepted; anything else is answered with the current
                // offset.
                if chunk.offset == have && have + chunk.data.len() as u64 <= chunk.file_len {
                    store.receive(&name, &chunk.data)?;
                }
                store.received(&name)
            }
        })
        .await
        .map_err(unavailable)?;
        if !install {
            return Ok(ReplyBody::SnapshotReceived(received));
        }
        let file =
            run_blocking(self.driver, move || store.accept(&name)).await.map_err(unavailable)?;
        if let Some(last) = file.last() {
            wire::compare(&self.log, &last, file.header.chain, self.history)?;
            self.log.announce(last, file.header.chain);
        }
        let snapshot = snapshot_of(file).map_err(unavailable)?;
        let response = self.raft.install_full_snapshot(vote, snapshot).await;
        let response = response.map_err(|fatal| stopped(&fatal))?;
        Ok(ReplyBody::SnapshotInstalled((&response.vote).into()))
    }
}

/// Needs an operator: two nodes hold different histories.
fn log_divergence(error: &HandleError) {
    if let HandleError::Divergence { index } = error {
        tracing::error!(index, "log diverges from the leader's, append refused");
    }
}

fn unavailable(error: std::io::Error) -> HandleError {
    HandleError::Unavailable(error.to_string())
}

fn stopped(error: &impl std::error::Error) -> HandleError {
    HandleError::Stopped { reason: error.to_string() }
}
