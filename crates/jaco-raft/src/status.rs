//! Status of a node, as a plain value on a watch channel.
//!
//! Must never expose a type of the consensus library.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use openraft::alias::WatchReceiverOf;
use openraft::async_runtime::WatchReceiver as _;
use openraft::{Instant, RaftMetrics, ServerState};
use tokio::sync::watch;

use crate::error::Member;
use crate::network::AddressBook;
use crate::types::TypeConfig;

/// Role of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Leader,
    Candidate,
    Follower,
    /// Receives the log without a vote.
    Learner,
    /// Stopped, by request or after an error; see [`Status::failure`].
    Stopped,
}

/// Whether the leader has a quorum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quorum {
    /// Only the leader knows.
    Unknown,
    Held,
    /// No majority answered for a lease: writes are refused.
    Lost,
}

/// Contact of a node with a quorum: its own acknowledgements as leader, else the leader's messages. A leader
/// without a quorum stops sending them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contact {
    /// What is committed arrives here.
    Recent,
    /// Whatever was committed since then is unknown here.
    Lost { since: Duration },
}

/// A consistent view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    pub id: u64,
    pub role: Role,
    pub term: u64,
    pub leader: Option<Member>,
    pub last_log: Option<u64>,
    pub committed: Option<u64>,
    pub applied: Option<u64>,
    /// Last entry covered by the newest snapshot.
    pub snapshot: Option<u64>,
    pub purged: Option<u64>,
    /// All voters; during a joint change, of both sets.
    pub voters: BTreeSet<u64>,
    pub learners: BTreeSet<u64>,
    /// Addresses of voters and learners.
    pub members: BTreeMap<u64, String>,
    /// Entry that set the membership.
    pub membership_index: Option<u64>,
    /// Whether a joint membership change is in progress.
    pub joint: bool,
    /// On the leader: number of entries each peer lacks; `None` if it never answered.
    pub lag: BTreeMap<u64, Option<u64>>,
    pub quorum: Quorum,
    /// Why the node stopped because of an error. It must be restarted; acknowledged writes are
    /// safe.
    pub failure: Option<String>,
}

impl Status {
    pub fn is_leader(&self) -> bool {
        self.role == Role::Leader
    }

    /// Whether the node has ever been part of a cluster.
    pub fn is_initialized(&self) -> bool {
        !self.members.is_empty()
    }
}

/// Updates `sender` until the node stops or all receivers are gone.
pub(crate) async fn follow(
    mut metrics: WatchReceiverOf<TypeConfig, RaftMetrics<TypeConfig>>,
    sender: watch::Sender<Status>,
    addresses: AddressBook,
    lease: Duration,
) {
    let mut membership = None;
    loop {
        let status = status_of(&metrics.borrow_and_update(), lease);
        let stopped = status.role == Role::Stopped;
        if membership != status.membership_index {
            membership = status.membership_index;
            addresses.replace(&status.members);
        }
        sender.send_if_modified(|current| {
            let changed = *current != status;
            if changed {
                *current = status;
            }
            changed
        });
        if stopped {
            return;
        }
        // The loss of a quorum causes no event, so it is also checked by time.
        match tokio::time::timeout(lease, metrics.changed()).await {
            Ok(Ok(())) | Err(_) => {}
            Ok(Err(_)) => return,
        }
    }
}

pub(crate) fn status_of(metrics: &RaftMetrics<TypeConfig>, lease: Duration) -> Status {
    let membership = &metrics.membership_config;
    let failure = match &metrics.running_state {
        Ok(()) | Err(openraft::errors::Fatal::Stopped) => None,
        Err(fatal) => Some(fatal.to_string()),
    };
    let leader = metrics.current_leader.map(|id| Member {
        id,
        address: membership.get_node(&id).map(|peer| peer.address.clone()).unwrap_or_default(),
    });
    let voters: BTreeSet<u64> = membership.voter_ids().collect();
    let is_leader = metrics.state == ServerState::Leader && metrics.running_state.is_ok();
    let next = metrics.last_log_index.map_or(0, |index| index + 1);
    let lag = metrics.replication.iter().flatten().filter(|(id, _)| **id != metrics.id);
    Status {
        id: metrics.id,
        role: role_of(metrics),
        term: metrics.current_term,
        leader,
        last_log: metrics.last_log_index,
        committed: metrics.local_committed.map(|id| id.index),
        applied: metrics.last_applied.map(|id| id.index),
        snapshot: metrics.snapshot.map(|id| id.index),
        purged: metrics.purged.map(|id| id.index),
        learners: membership.membership().learner_ids().collect(),
        members: membership.nodes().map(|(id, peer)| (*id, peer.address.clone())).collect(),
        membership_index: membership.log_id().map(|id| id.index),
        joint: membership.get_joint_config().len() > 1,
        lag: lag.map(|(id, at)| (*id, at.map(|at| next.saturating_sub(at.index + 1)))).collect(),
        quorum: quorum_of(metrics, is_leader, voters.len(), lease),
        voters,
        failure,
    }
}

/// Contact with a quorum; `silence` is the time since the last message from another leader.
pub(crate) fn contact_of(
    metrics: &RaftMetrics<TypeConfig>,
    silence: Duration,
    limit: Duration,
) -> Contact {
    let leads = metrics.state == ServerState::Leader && metrics.running_state.is_ok();
    if leads && metrics.membership_config.voter_ids().count() == 1 {
        return Contact::Recent;
    }
    let acknowledged = metrics.last_quorum_acked.as_ref().filter(|_| leads);
    // A new leader has no acknowledgement yet.
    let since = acknowledged.map_or(silence, |at| Instant::elapsed(&**at));
    let led = leads || metrics.current_leader.is_some_and(|leader| leader != metrics.id);
    if led && since < limit { Contact::Recent } else { Contact::Lost { since } }
}

/// Whether everything in the log of a node is known to be committed, and applied.
pub(crate) fn has_recovered(metrics: &RaftMetrics<TypeConfig>) -> bool {
    let committed = metrics.cluster_committed.as_ref().map(|id| id.index);
    let applied = metrics.last_applied.as_ref().map(|id| id.index);
    committed.is_some() && committed >= metrics.last_log_index && applied >= committed
}

fn role_of(metrics: &RaftMetrics<TypeConfig>) -> Role {
    if metrics.running_state.is_err() {
        return Role::Stopped;
    }
    match metrics.state {
        ServerState::Leader => Role::Leader,
        ServerState::Candidate => Role::Candidate,
        ServerState::Follower => Role::Follower,
        ServerState::Learner => Role::Learner,
        ServerState::Shutdown => Role::Stopped,
    }
}

fn quorum_of(
    metrics: &RaftMetrics<TypeConfig>,
    is_leader: bool,
    voters: usize,
    lease: Duration,
) -> Quorum {
    if !is_leader {
        return Quorum::Unknown;
    }
    // A single voter is its own quorum and sends no heartbeats.
    let age = metrics.last_quorum_acked.as_ref().map(|at| Instant::elapsed(&**at));
    if voters == 1 || age.is_some_and(|age| age < lease) { Quorum::Held } else { Quorum::Lost }
}
