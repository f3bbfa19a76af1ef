//! The health of the members and of their connections, measured now. Only the list of members is from the
//! replicated state, so it also works without a quorum.

use std::time::{Duration, Instant};

use futures::future::join_all;
use jaco_agent::service::EngineStatus;
use jaco_proto::v1;
use jaco_proto::v1::query_client::QueryClient;
use jaco_raft::Status as RaftStatus;
use jaco_store::{Clock, SystemClock};
use jaco_types::{ErrorCode, NodeId, Rejection, Timestamp};
use tonic::Request;
use tonic::transport::Channel;

use crate::freshness::Freshness;
use crate::member::Member;
use crate::status::{from_status, invalid};
use crate::view;

/// Deadline of a member that reports on itself.
const PROBE_PATIENCE: Duration = Duration::from_secs(2);

/// Deadline of a member that probes the voters.
const NODE_PATIENCE: Duration = Duration::from_secs(4);

/// What is examined.
enum Scope {
    Cluster,
    Node,
    Own,
    Leader,
}

/// A connection to another member.
type Peer = QueryClient<Channel>;

/// Another member of the cluster.
struct Other {
    id: NodeId,
    hostname: String,
    address: String,
}

/// Examines the requested scope.
///
/// # Errors
/// `invalid_request` for an unknown scope.
pub(super) async fn examine(
    member: &Member,
    request: &v1::ExamineRequest,
) -> Result<v1::ExamineResponse, Rejection> {
    let nodes = match scope(&request.scope)? {
        Scope::Own => vec![own(member)],
        Scope::Leader => leader(member).await.into_iter().collect(),
        Scope::Node => vec![with_reach(member).await],
        Scope::Cluster => {
            let asked = others(member).into_iter().map(|other| ask(member, other));
            let (own, mut nodes) = tokio::join!(with_reach(member), join_all(asked));
            nodes.push(own);
            nodes.sort_by(|a, b| a.node.cmp(&b.node));
            nodes
        }
    };
    Ok(v1::ExamineResponse { asked: member.hostname.to_string(), nodes })
}

fn scope(text: &str) -> Result<Scope, Rejection> {
    match text {
        "" | "cluster" => Ok(Scope::Cluster),
        "node" => Ok(Scope::Node),
        "self" => Ok(Scope::Own),
        "leader" => Ok(Scope::Leader),
        other => {
            let known = "write \"cluster\", \"node\", \"self\" or \"leader\"";
            Err(invalid(format!("scope is {other:?}: {known}")))
        }
    }
}

/// The leader's report; `None` if there is no leader.
async fn leader(member: &Member) -> Option<v1::ExaminedNode> {
    if member.store.leads() {
        return Some(own(member));
    }
    let (id, address) = member.store.leader_elsewhere()?;
    let node = member.store.read(|state| view::hostname(state, id));
    // Its connection is in use for every write, so it needs no new one.
    let answer = question(&member.peers.query(id, &address), "self", PROBE_PATIENCE).await;
    Some(answer.unwrap_or_else(|unreachable| v1::ExaminedNode {
        node,
        unreachable,
        ..v1::ExaminedNode::default()
    }))
}

fn others(member: &Member) -> Vec<Other> {
    let raft = member.store.raft().status();
    member.store.read(|state| {
        let others = state.nodes.values().filter(|node| node.id != member.id);
        let other = |node: &jaco_types::Node| Other {
            id: node.id,
            hostname: node.hostname.to_string(),
            address: node.address.clone(),
        };
        // A node that has not caught up knows them from its log alone.
        let unnamed = raft.members.iter().map(|(id, address)| (NodeId(*id), address));
        let unnamed = unnamed.filter(|(id, _)| *id != member.id && !state.nodes.contains(id));
        let unnamed = unnamed.map(|(id, address)| Other {
            id,
            hostname: id.to_string(),
            address: address.clone(),
        });
        others.map(other).chain(unnamed).collect()
    })
}

/// This node.
fn own(member: &Member) -> v1::ExaminedNode {
    let raft = member.store.raft().status();
    let current = member.freshness() == Freshness::Current;
    let leader = raft.leader.as_ref().filter(|_| current).map(|leader| NodeId(leader.id));
    let leader = leader.map(|id| member.store.read(|state| view::hostname(state, id)));
    let engine_down = match &member.agent.status().borrow().engine {
        EngineStatus::Up | EngineStatus::Unknown => String::new(),
        EngineStatus::Down { reason } => reason.clone(),
    };
    // Without a state there is nothing to compare it with.
    let key_problem = member.key().err().filter(|refusal| refusal.code == ErrorCode::KekMismatch);
    v1::ExaminedNode {
        node: member.hostname.to_string(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        clock_ms: view::millis(SystemClock.now()),
        term: raft.term,
        leader: leader.unwrap_or_default(),
        applied: raft.applied.unwrap_or_default(),
        suffrage: suffrage(&raft, member.id).to_owned(),
        engine_down,
        voters: voters(member, &raft),
        key_problem: key_problem.map(|refusal| refusal.message).unwrap_or_default(),
        ..v1::ExaminedNode::default()
    }
}

/// How far each voter is, where this node leads.
fn voters(member: &Member, raft: &RaftStatus) -> Vec<v1::VoterProgress> {
    if !raft.is_leader() {
        return Vec::new();
    }
    let progress = member.store.raft().progress();
    let voter = |id: &u64| {
        let node = member.store.read(|state| view::hostname(state, NodeId(*id)));
        if *id == member.id.0 {
            let (match_index, last_contact_ms) = (raft.last_log, Some(0));
            return v1::VoterProgress { node, match_index, last_contact_ms, ..Default::default() };
        }
        let Some(known) = progress.get(id) else {
            return v1::VoterProgress { node, ..Default::default() };
        };
        v1::VoterProgress {
            node,
            match_index: known.matched,
            lag: known.lag,
            last_contact_ms: known.contact.map(millis_of),
            still_ms: millis_of(known.still),
            refused: known.refused.clone().unwrap_or_default(),
        }
    };
    raft.voters.iter().map(voter).collect()
}

fn millis_of(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn suffrage(raft: &RaftStatus, id: NodeId) -> &'static str {
    if raft.established_voters.contains(&id.0) {
        "voter"
    } else if raft.members.contains_key(&id.0) {
        "learner"
    } else {
        "none"
    }
}

/// This node and its connections to the voters.
async fn with_reach(member: &Member) -> v1::ExaminedNode {
    let voters = member.store.raft().status().voters;
    let voters = others(member).into_iter().filter(|other| voters.contains(&other.id.0));
    let reaches = join_all(voters.map(|other| reach(member, other))).await;
    v1::ExaminedNode { reaches, ..own(member) }
}

async fn reach(member: &Member, other: Other) -> v1::Reach {
    let peer = member.peers.probe(other.id, &other.address);
    let RoundTrip { answer, taken, .. } = round_trip(&peer).await;
    v1::Reach {
        node: other.hostname,
        unreachable: answer.err().unwrap_or_default(),
        round_trip_us: micros(taken),
    }
}

/// A short question over an open connection.
struct RoundTrip {
    answer: Result<v1::ExaminedNode, String>,
    sent_at: Timestamp,
    taken: Duration,
}

/// Opens the connection by one question and measures another: a handshake is not part of a round trip.
async fn round_trip(peer: &Peer) -> RoundTrip {
    let opened = question(peer, "self", PROBE_PATIENCE).await;
    let (sent_at, begun) = (SystemClock.now(), Instant::now());
    let answer = match opened {
        Ok(_) => question(peer, "self", PROBE_PATIENCE).await,
        Err(why) => Err(why),
    };
    RoundTrip { answer, sent_at, taken: begun.elapsed() }
}

/// Another member's report, with its clock difference and round trip.
async fn ask(member: &Member, other: Other) -> v1::ExaminedNode {
    // The clock is compared by the short request: the long one waits for other nodes.
    let peer = member.peers.probe(other.id, &other.address);
    let RoundTrip { answer: short, sent_at, taken } = round_trip(&peer).await;
    let long = match short {
        Ok(_) => question(&peer, "node", NODE_PATIENCE).await,
        Err(ref why) => Err(why.clone()),
    };
    match (short, long) {
        (Ok(short), Ok(long)) => v1::ExaminedNode {
            clock_ahead_ms: ahead(sent_at, taken, short.clock_ms),
            round_trip_us: micros(taken),
            ..long
        },
        (_, Err(unreachable)) | (Err(unreachable), _) => {
            v1::ExaminedNode { node: other.hostname, unreachable, ..v1::ExaminedNode::default() }
        }
    }
}

/// How far a remote clock is ahead that read `said_ms` during a request sent at `before` which took `taken`, by
/// Cristian's algorithm.
fn ahead(before: Timestamp, taken: Duration, said_ms: i64) -> i64 {
    let half = i64::try_from(taken.as_millis() / 2).unwrap_or(i64::MAX);
    said_ms.saturating_sub(view::millis(before).saturating_add(half))
}

async fn question(
    peer: &Peer,
    scope: &str,
    patience: Duration,
) -> Result<v1::ExaminedNode, String> {
    let request = Request::new(v1::ExamineRequest { scope: scope.to_owned() });
    let mut peer = peer.clone();
    match tokio::time::timeout(patience, peer.examine(request)).await {
        Ok(Ok(answer)) => {
            let node = answer.into_inner().nodes.into_iter().next();
            node.ok_or_else(|| "its response has no report".to_owned())
        }
        Ok(Err(status)) => Err(from_status(&status).message),
        Err(_) => Err(format!("no response within {} s", patience.as_secs())),
    }
}

fn micros(taken: Duration) -> u64 {
    u64::try_from(taken.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-CLI-6: latency is not reported as a clock difference.
    #[test]
    fn clocks_are_compared_at_half_of_the_round_trip() {
        let before = Timestamp(100_000);
        let check = |taken_ms: u64, said: i64, expected: i64| {
            assert_eq!(ahead(before, Duration::from_millis(taken_ms), said), expected);
        };
        check(0, 100_000, 0);
        check(400, 100_200, 0);
        check(400, 105_200, 5_000);
        check(10, 40_005, -60_000);
    }
}
