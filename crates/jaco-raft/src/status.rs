//! Status of a node, as a plain value on a watch channel.
//!
//! Must never expose a type of the consensus library.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use openraft::alias::WatchReceiverOf;
use openraft::async_runtime::WatchReceiver as _;
use openraft::metrics::RaftServerMetrics;
use openraft::{Instant as _, RaftMetrics, ServerState};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use crate::addresses::AddressBook;
use crate::error::Member;
use crate::kept::Kept;
use crate::progress::Movements;
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
    /// The voters of the last membership that is complete: during a joint change those of the old set. One that is
    /// only in the new set protects nothing yet, as the old set still decides alone what it always did.
    pub established_voters: BTreeSet<u64>,
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

/// The pause between two statuses that differ only in how far the node is. Under load that changes thousands of
/// times a second, and each status is a copy of the membership; nobody who watches it needs every one.
const PROGRESS_PAUSE: Duration = Duration::from_millis(5);

/// As long for each member, where that is longer: at a hundred of them both are the same. Each answer to a heartbeat is
/// progress, and a status takes the longer the more members there are.
const PROGRESS_PAUSE_PER_MEMBER: Duration = Duration::from_micros(50);

/// The pause of a cluster with so many members, bounded by a lease, within which the loss of a quorum has to be noticed.
fn progress_pause(members: usize, lease: Duration) -> Duration {
    let members = u32::try_from(members).unwrap_or(u32::MAX);
    PROGRESS_PAUSE_PER_MEMBER.saturating_mul(members).clamp(PROGRESS_PAUSE, lease / 2)
}

/// The metrics of the core: all of them, and those that are not about how far it is.
pub(crate) struct Metrics {
    pub(crate) all: WatchReceiverOf<TypeConfig, RaftMetrics<TypeConfig>>,
    pub(crate) server: WatchReceiverOf<TypeConfig, RaftServerMetrics<TypeConfig>>,
}

impl Metrics {
    /// Waits until something has changed: term, role, leader or membership at any time, the rest only after
    /// `pause_end`. Returns whether the core still runs. Cancel-safe.
    async fn changed(&mut self, pause_end: Instant) -> bool {
        if self.all.changed().await.is_err() {
            return false;
        }
        if Instant::now() < pause_end {
            // Either way there is a new status; after an end of the core the next call notices it.
            tokio::select! {
                _ = self.server.changed() => {}
                () = sleep_until(pause_end) => {}
            }
        }
        true
    }
}

/// Updates `sender` until the node stops or all receivers are gone.
pub(crate) async fn follow(
    mut metrics: Metrics,
    sender: watch::Sender<Status>,
    addresses: AddressBook,
    kept: Kept,
    movements: Movements,
    lease: Duration,
) {
    let mut membership = None;
    loop {
        metrics.server.borrow_and_update();
        let mut status = {
            let all = metrics.all.borrow_and_update();
            movements.look(&all);
            status_of(&all, lease)
        };
        let stopped = status.role == Role::Stopped;
        let pause = progress_pause(status.members.len(), lease);
        if membership != status.membership_index {
            membership = status.membership_index;
            addresses.replace(&status.members);
            kept.retain(&status.members, &status.voters);
        }
        if let Some(leader) = &mut status.leader
            && let Some(address) = addresses.get(leader.id)
        {
            leader.address = address;
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
        let changed = metrics.changed(Instant::now() + pause);
        if let Ok(false) = timeout(lease, changed).await {
            return;
        }
    }
}

/// Why the node stopped because of an error, if it did.
pub(crate) fn failure_of(metrics: &RaftMetrics<TypeConfig>) -> Option<String> {
    match &metrics.running_state {
        Ok(()) | Err(openraft::errors::Fatal::Stopped) => None,
        Err(fatal) => Some(fatal.to_string()),
    }
}

pub(crate) fn status_of(metrics: &RaftMetrics<TypeConfig>, lease: Duration) -> Status {
    let membership = &metrics.membership_config;
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
        established_voters: membership.get_joint_config().first().cloned().unwrap_or_default(),
        learners: membership.membership().learner_ids().collect(),
        members: membership.nodes().map(|(id, peer)| (*id, peer.address.clone())).collect(),
        membership_index: membership.log_id().map(|id| id.index),
        joint: membership.get_joint_config().len() > 1,
        lag: lag.map(|(id, at)| (*id, at.map(|at| next.saturating_sub(at.index + 1)))).collect(),
        quorum: quorum_of(metrics, is_leader, voters.len(), lease),
        voters,
        failure: failure_of(metrics),
    }
}

/// Contact with a quorum; `silence` is the time since the last message from another leader.
pub(crate) fn contact_of(
    metrics: &RaftMetrics<TypeConfig>,
    silence: Duration,
    limit: Duration,
) -> Contact {
    let leads = metrics.state == ServerState::Leader && metrics.running_state.is_ok();
    let acknowledged = metrics.last_quorum_acked.as_ref().filter(|_| leads);
    // A new leader has no acknowledgement yet.
    let since = acknowledged.map_or(silence, |at| at.elapsed());
    let led = leads || metrics.current_leader.is_some_and(|leader| leader != metrics.id);
    if led && since < limit {
        return Contact::Recent;
    }
    // Asked last: the voters are collected for it, and every request asks for the contact.
    if leads && metrics.membership_config.voter_ids().count() == 1 {
        return Contact::Recent;
    }
    Contact::Lost { since }
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
    let age = metrics.last_quorum_acked.as_ref().map(|at| at.elapsed());
    if voters == 1 || age.is_some_and(|age| age < lease) { Quorum::Held } else { Quorum::Lost }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use openraft::async_runtime::WatchSender as _;
    use openraft::type_config::TypeConfigExt as _;

    use super::*;

    const LEASE: Duration = Duration::from_millis(600);

    fn at(last_log: u64, leader: Option<u64>) -> RaftMetrics<TypeConfig> {
        let mut metrics = RaftMetrics::new_initial(1);
        (metrics.last_log_index, metrics.current_leader) = (Some(last_log), leader);
        metrics
    }

    fn server(leader: Option<u64>) -> RaftServerMetrics<TypeConfig> {
        let RaftMetrics { id, vote, state, current_leader, membership_config, .. } = at(0, leader);
        let committed_membership_config = Arc::clone(&membership_config);
        RaftServerMetrics {
            id,
            vote,
            state,
            current_leader,
            membership_config,
            committed_membership_config,
        }
    }

    /// A status of many members is made less often, and often enough to notice that a quorum is lost.
    #[test]
    fn the_pace_of_progress_follows_the_number_of_members() {
        let pause = |members| progress_pause(members, LEASE).as_millis();
        assert_eq!([0, 7, 100].map(pause), [5, 5, 5]);
        assert_eq!([1_000, 5_000, usize::MAX].map(pause), [50, 250, 300]);
    }

    /// Progress is told in paces, the last of it too; a new leader is told at once.
    #[tokio::test(start_paused = true)]
    async fn progress_is_told_in_paces_and_a_leader_at_once() {
        let (all, seen) = TypeConfig::watch_channel(at(0, None));
        let (servers, server_seen) = TypeConfig::watch_channel(server(None));
        let (sender, mut told) = watch::channel(status_of(&at(0, None), LEASE));
        let metrics = Metrics { all: seen, server: server_seen };
        let following = tokio::spawn(follow(
            metrics,
            sender,
            AddressBook::default(),
            Kept::default(),
            Movements::default(),
            LEASE,
        ));
        let mut statuses = 0;
        for index in 1..=100 {
            all.send(at(index, None)).unwrap();
            tokio::time::sleep(Duration::from_millis(1)).await;
            statuses += u32::from(told.has_changed().unwrap());
            told.mark_unchanged();
        }
        assert!((15..=25).contains(&statuses), "{statuses} statuses of 100 ms");
        told.wait_for(|status| status.last_log == Some(100)).await.unwrap();
        // Within the pause after that.
        all.send(at(101, None)).unwrap();
        tokio::task::yield_now().await;
        let sent = Instant::now();
        servers.send(server(Some(2))).unwrap();
        all.send(at(101, Some(2))).unwrap();
        told.wait_for(|status| status.leader.is_some()).await.unwrap();
        assert_eq!(sent.elapsed(), Duration::ZERO);
        drop((all, servers));
        following.await.unwrap();
    }
}
