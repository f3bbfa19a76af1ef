//! Writes and linearizable reads. Must never report a write as failed that may have happened.

use std::time::Duration;

use bytes::Bytes;
use openraft::ReadPolicy;
use openraft::async_runtime::WatchReceiver as _;
use openraft::errors::{
    ClientWriteError, ForwardReason, ForwardToLeader, LinearizableReadError, RaftError,
};

use super::{Applied, Raft};
use crate::error::{Member, ProposeError, ReadError};
use crate::machine::StateMachine;
use crate::status;
use crate::types::{Payload, TypeConfig};
use crate::wire::{self, ReplyBody, RequestBody, RpcKind};

impl<M: StateMachine> Raft<M> {
    /// Proposes a command; returns once it is committed and applied on this node.
    ///
    /// # Errors
    /// See [`ProposeError`]: after `Unknown` alone the write may or may not happen.
    pub async fn propose(&self, payload: Bytes) -> Result<Applied, ProposeError> {
        let limits = self.inner.limits;
        if payload.len() > limits.bytes {
            return Err(ProposeError::TooLarge { size: payload.len(), limit: limits.bytes });
        }
        let _permit = self.inner.in_flight.try_acquire().map_err(|_| ProposeError::Overloaded)?;
        if let Some(reason) = self.failure() {
            return Err(ProposeError::Stopped { reason });
        }
        let write = self.inner.raft.client_write(Payload(payload));
        let Ok(written) = tokio::time::timeout(limits.deadline, write).await else {
            return Err(ProposeError::Unknown);
        };
        match written {
            Ok(response) => Ok(Applied { index: response.log_id.index, outcome: response.data }),
            Err(RaftError::APIError(error)) => Err(refused_write(error)),
            // It may have been replicated before the core stopped.
            Err(RaftError::Fatal(_)) => Err(ProposeError::Unknown),
        }
    }

    /// Waits after a start until the local state has caught up with the commit index of the
    /// cluster. Before that, serve no requests and run no controller.
    ///
    /// # Errors
    /// `Timeout` if it did not in time, for example without a quorum.
    pub async fn wait_recovered(&self, within: Duration) -> Result<(), ReadError> {
        let recovered = self.inner.raft.wait_for_recovery(Some(within)).await;
        recovered.map(|_| ()).map_err(|_| match self.failure() {
            Some(reason) => ReadError::Stopped { reason },
            None => ReadError::Timeout,
        })
    }

    /// Whether the local state has caught up by now, as [`Raft::wait_recovered`] would find. Once true, it
    /// stays so in effect: later it is false only while entries are in flight.
    pub fn has_recovered(&self) -> bool {
        status::has_recovered(&self.inner.raft.metrics().borrow_watched())
    }

    /// Waits until a read of the local state is linearizable: it sees every write acknowledged
    /// before this call. Leader only.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn linearizable(&self) -> Result<u64, ReadError> {
        let confirm = self.inner.raft.ensure_linearizable(ReadPolicy::ReadIndex);
        match tokio::time::timeout(self.inner.limits.deadline, confirm).await {
            Err(_) => Err(ReadError::Timeout),
            Ok(Ok(read)) => Ok(read.index()),
            Ok(Err(RaftError::Fatal(fatal))) => {
                Err(ReadError::Stopped { reason: self.failure().unwrap_or(fatal.to_string()) })
            }
            Ok(Err(RaftError::APIError(LinearizableReadError::QuorumNotEnough(_)))) => {
                Err(ReadError::QuorumLost)
            }
            Ok(Err(RaftError::APIError(LinearizableReadError::ForwardToLeader(forward)))) => {
                Err(match forward.reason {
                    ForwardReason::LeaseExpired => ReadError::QuorumLost,
                    ForwardReason::NotLeader | ForwardReason::LeadershipTransfer => {
                        ReadError::NotLeader { leader: member_of(forward) }
                    }
                })
            }
        }
    }

    /// As [`Raft::linearizable`], but on any node: asks the leader for the read index.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn linearizable_here(&self) -> Result<u64, ReadError> {
        let leader = match self.linearizable().await {
            Err(ReadError::NotLeader { leader: Some(leader) }) if leader.id != self.inner.id => {
                leader
            }
            answer => return answer,
        };
        let deadline = self.inner.limits.deadline;
        let ask = RequestBody::ReadIndex(0);
        let body = wire::encode_request(self.inner.id, leader.id, ask);
        let (id, address) = (leader.id, leader.address.clone());
        let call = self.inner.transport.call(id, &address, RpcKind::ReadIndex, body, deadline);
        let reply = call.await.ok().and_then(|bytes| wire::decode_reply(bytes).ok());
        let Some(ReplyBody::ReadIndex(index)) = reply else {
            return Err(ReadError::NotLeader { leader: Some(leader) });
        };
        let mut applied = self.inner.machine.watch_applied();
        let reached = applied.wait_for(|applied| *applied >= index);
        match tokio::time::timeout(deadline, reached).await {
            Ok(Ok(_)) => Ok(index),
            Ok(Err(_)) | Err(_) => Err(ReadError::Timeout),
        }
    }
}

fn refused_write(error: ClientWriteError<TypeConfig>) -> ProposeError {
    match error {
        ClientWriteError::ForwardToLeader(forward) => match forward.reason {
            ForwardReason::LeaseExpired => ProposeError::QuorumLost,
            ForwardReason::NotLeader | ForwardReason::LeadershipTransfer => {
                ProposeError::NotLeader { leader: member_of(forward) }
            }
        },
        // The entry was written by a deposed leader; it may survive under the next one.
        ClientWriteError::LogEntryDiscarded(_)
        | ClientWriteError::ChangeMembershipError(_)
        | ClientWriteError::PreconditionFailed(_) => ProposeError::Unknown,
    }
}

pub(super) fn member_of(forward: ForwardToLeader<TypeConfig>) -> Option<Member> {
    let id = forward.leader_id?;
    Some(Member { id, address: forward.leader_node.map(|peer| peer.address).unwrap_or_default() })
}
