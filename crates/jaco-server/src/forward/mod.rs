//! Requests that the leader executes. A node that does not lead forwards them to the one that does, once.
//!
//! Which rpcs these are is declared in `proto/jaco/v1`; this module must not name any of them.

mod dispatch;

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use jaco_proto::rpc::LeaderRpc;
use jaco_proto::{storage, v1};
use jaco_raft::Contact;
use jaco_types::{Author, ErrorCode, NodeId, Rejection};
use prost::Message;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::time::Instant;

use crate::member::Member;
use crate::peers::no_leader;
use crate::status::invalid;

pub(crate) use dispatch::execute_forwarded;

/// Deadline of a forwarded request: what the leader allows itself for a write, plus the round trip.
const FORWARD_DEADLINE: Duration = Duration::from_secs(4);

/// How long a request waits for an election before it is refused with `no_leader`: a little longer than
/// an election takes.
const ELECTION_PATIENCE: Duration = Duration::from_secs(2);

/// How long it waits at least after an attempt that failed, which may have taken longer than an election.
const SUCCESSOR_PATIENCE: Duration = Duration::from_millis(500);

/// Without a leader for so long, one does not come by itself: an election takes a second or two.
const OUTAGE: Duration = Duration::from_secs(10);

/// How often a waiting request looks for a leader: the status may name one that refuses.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// A request that changes the replicated state (`WRITE` in the proto). The leader decides on it and
/// proposes the command.
#[async_trait]
pub(crate) trait Write: LeaderRpc {
    /// Whether it has a span of its own: what changes nothing has none.
    fn is_traced(&self) -> bool {
        true
    }

    /// Executes it on the leader, in the name of `by`.
    async fn execute(self, member: &Member, by: Author) -> Result<Self::Response, Rejection>;
}

/// A question that only the leader can answer (`LEADER_READ` in the proto). It changes nothing.
#[async_trait]
pub(crate) trait LeaderRead: LeaderRpc {
    /// Answers it on the leader.
    async fn answer(self, member: &Member) -> Result<Self::Response, Rejection>;
}

/// How long a leader that was replaced may still answer: it may have executed the request before.
const LAST_ANSWER: Duration = Duration::from_millis(100);

type Execute<R> = for<'m> fn(
    R,
    &'m Member,
    Author,
) -> BoxFuture<'m, Result<<R as LeaderRpc>::Response, Rejection>>;

/// Executes a write on the leader, wherever that is.
///
/// # Errors
/// The refusal of the request, or `no_leader`, `quorum_lost` or `timed_out`.
pub(crate) async fn write<W: Write>(
    member: &Member,
    by: Author,
    request: W,
) -> Result<W::Response, Rejection> {
    on_leader(member, by, request, |request, member, by| request.execute(member, by)).await
}

/// Answers a question on the leader, wherever that is.
///
/// # Errors
/// As [`write`].
pub(crate) async fn leader_read<R: LeaderRead>(
    member: &Member,
    by: Author,
    request: R,
) -> Result<R::Response, Rejection> {
    on_leader(member, by, request, |request, member, _| request.answer(member)).await
}

/// Executes a request here if this node leads, and through the leader otherwise. Waits out an election.
async fn on_leader<R: LeaderRpc>(
    member: &Member,
    by: Author,
    mut request: R,
    execute: Execute<R>,
) -> Result<R::Response, Rejection> {
    if let Some(request_id) = request.request_id_mut() {
        set_if_empty(request_id, fresh_request_id);
    }
    let election = Instant::now() + ELECTION_PATIENCE;
    let mut patience = None;
    loop {
        let refused = match attempt(member, by.clone(), request.clone(), execute).await {
            Err(rejection) if is_leaderless(rejection.code) => rejection,
            done => return done,
        };
        // The first attempt may have taken longer than an election: a successor is asked in any case.
        let until =
            *patience.get_or_insert_with(|| election.max(Instant::now() + SUCCESSOR_PATIENCE));
        // The request id makes another attempt safe, even if this one took effect.
        let waited = tokio::time::timeout_at(until, next_attempt(member));
        let is_over = tokio::select! {
            waited = waited => waited.is_err(),
            () = member.stopping.cancelled() => true,
        };
        if is_over {
            return Err(refused);
        }
    }
}

/// Waits until there is a leader, and for the pause between attempts.
async fn next_attempt(member: &Member) {
    let mut status = member.store.raft().watch_status();
    // An error means that consensus has stopped; the next attempt reports it.
    status.wait_for(|status| status.leader.is_some()).await.ok();
    tokio::time::sleep(RETRY_PAUSE).await;
}

async fn attempt<R: LeaderRpc>(
    member: &Member,
    by: Author,
    request: R,
    execute: Execute<R>,
) -> Result<R::Response, Rejection> {
    if member.store.leads() {
        check_quorum(member)?;
        member.admit_rpc(&by, R::METHOD)?;
        return execute(request, member, by).await;
    }
    let (node, address) = member.store.leader_elsewhere().ok_or_else(no_leader)?;
    if let Contact::Lost { since } = member.store.raft().contact() {
        return Err(silent_leader(member, since));
    }
    let message = v1::ForwardRequest {
        method: R::METHOD.to_owned(),
        body: request.encode_to_vec().into(),
        identity: storage::encode_author(&by),
    };
    let forwarded = member.peers.forward((node, &address), message, FORWARD_DEADLINE);
    let answer = tokio::select! {
        answer = forwarded => answer,
        // One that stands still answers nothing, and is not waited for once it leads no more.
        () = replaced(member, node) => return Err(no_leader()),
    };
    let lost = |code| matches!(code, ErrorCode::Unavailable | ErrorCode::TimedOut);
    match answer {
        // The leader failed before or while it answered: try its successor.
        Err(rejection) if lost(rejection.code) => Err(unreached(member, node, &rejection)),
        answer => decode(&answer?),
    }
}

/// Completes a moment after this node follows another leader than that one, which may still answer what it has done.
async fn replaced(member: &Member, leader: NodeId) {
    let mut status = member.store.raft().watch_status();
    let is_another = |status: &jaco_raft::Status| {
        status.leader.as_ref().is_some_and(|other| other.id != leader.0)
    };
    if status.wait_for(is_another).await.is_err() {
        // Consensus has stopped; the answer, or its deadline, tells.
        return std::future::pending().await;
    }
    tokio::time::sleep(LAST_ANSWER).await;
}

/// This node knows a leader and cannot ask it.
fn unreached(member: &Member, leader: NodeId, why: &Rejection) -> Rejection {
    let name = member.store.read(|state| state.nodes.get(&leader).map(|it| it.hostname.clone()));
    let name = name.map_or_else(|| format!("node {leader}"), |name| name.to_string());
    let own = &member.hostname;
    let message = format!(
        "{own} cannot reach the leader {name}: {}; other nodes may: ask them with --server, and see `jaco doctor`",
        why.message
    );
    Rejection::new(ErrorCode::NoLeader, message)
}

/// Executes a request that another member forwarded. Never forwards it again.
async fn here<R: LeaderRpc>(
    member: &Member,
    by: Author,
    body: &Bytes,
    execute: Execute<R>,
) -> Result<Bytes, Rejection> {
    if !member.store.leads() {
        return Err(no_leader());
    }
    check_quorum(member)?;
    member.admit_rpc(&by, R::METHOD)?;
    let answer = execute(decode(body)?, member, by).await?;
    Ok(answer.encode_to_vec().into())
}

/// Refuses on a leader that no quorum answers: it may have been replaced, and its state may be old.
fn check_quorum(member: &Member) -> Result<(), Rejection> {
    let Contact::Lost { since } = member.store.raft().contact() else { return Ok(()) };
    let message = format!(
        "too few voters answer: {} has had no contact with a quorum for {} s",
        member.hostname,
        since.as_secs()
    );
    Err(Rejection::new(ErrorCode::QuorumLost, message))
}

fn silent_leader(member: &Member, since: Duration) -> Rejection {
    let message = format!(
        "{} has heard of no leader with a quorum for {} s",
        member.hostname,
        since.as_secs()
    );
    let code = if since < OUTAGE { ErrorCode::NoLeader } else { ErrorCode::QuorumLost };
    Rejection::new(code, message)
}

/// Whether an election may help.
fn is_leaderless(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::NoLeader | ErrorCode::QuorumLost)
}

fn decode<M: Message + Default>(body: &Bytes) -> Result<M, Rejection> {
    M::decode(body.clone()).map_err(|error| invalid(format!("the message is malformed: {error}")))
}

fn set_if_empty(request_id: &mut String, fresh: impl FnOnce() -> String) {
    if request_id.is_empty() {
        *request_id = fresh();
    }
}

/// 128 random bits in hex.
pub(crate) fn fresh_request_id() -> String {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).expect("the system has a source of randomness");
    hex::encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client's retry must be recognised by the id that the client chose.
    #[test]
    fn only_a_request_without_an_id_gets_one() {
        let (mut given, mut empty) = ("mine".to_owned(), String::new());
        for request_id in [&mut given, &mut empty] {
            set_if_empty(request_id, || "fresh".to_owned());
        }
        assert_eq!((given.as_str(), empty.as_str()), ("mine", "fresh"));
    }
}
