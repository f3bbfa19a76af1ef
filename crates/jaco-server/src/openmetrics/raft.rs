//! Consensus, as this node sees it.

use std::fmt;

use jaco_raft::{Contact, Progress, Role, Status};
use jaco_state::ClusterState;
use jaco_types::NodeId;
use prometheus_client::metrics::histogram::Histogram;

use super::exposition::Exposition;
use super::family::Family;
use crate::member::Member;
use crate::view;

static IS_LEADER: Family = Family::gauge("jaco_raft_is_leader", "Whether this node leads");
static HAS_LEADER: Family =
    Family::gauge("jaco_raft_has_leader", "Whether this node knows a leader");
static IS_VOTER: Family = Family::gauge("jaco_raft_is_voter", "Whether this node has a vote");
static HAS_FAILED: Family = Family::gauge(
    "jaco_raft_has_failed",
    "Whether consensus has stopped on this node because of an error, so that the daemon must be restarted",
);
static TERM: Family = Family::gauge("jaco_raft_term", "The current term");
static CHANGES: Family = Family::counter(
    "jaco_raft_leader_changes",
    "Leaders that this node has followed since its start, itself included",
);
static CONTACT: Family = Family::gauge(
    "jaco_raft_contact_age",
    "Time since the last contact with a quorum, 0 while there is one",
)
.seconds();
static LAST: Family =
    Family::gauge("jaco_raft_last_log_index", "The last entry in the log of this node");
static COMMITTED: Family = Family::gauge(
    "jaco_raft_committed_index",
    "The last entry that this node knows to be committed",
);
static APPLIED: Family =
    Family::gauge("jaco_raft_applied_index", "The last entry that this node has applied");
static SNAPSHOT: Family =
    Family::gauge("jaco_raft_snapshot_index", "The last entry in the newest snapshot of this node");
static LOG: Family = Family::gauge("jaco_raft_log_size", "Bytes of the entries in the log").bytes();
static COMMIT: Family = Family::durations(
    "jaco_raft_log_sync_duration",
    "How long it took to write a group of log records and to sync them to the disk",
);
static VOTERS: Family =
    Family::gauge("jaco_raft_voters", "Nodes with a vote, as this node knows them");
static PEER_LAG: Family =
    Family::gauge("jaco_raft_peer_lag_entries", "Entries of the leader that a node lacks")
        .labels(&["node"])
        .of_leader();
static PEER_CONTACT: Family = Family::gauge(
    "jaco_raft_peer_contact_age",
    "Time since the last answer of a node to the leader",
)
.seconds()
.labels(&["node"])
.of_leader();
static PEER_REFUSED: Family = Family::gauge(
    "jaco_raft_peer_is_refused",
    "Whether the leader refuses a node because it lost what it had acknowledged",
)
.labels(&["node"])
.of_leader();

pub(super) const FAMILIES: &[&Family] = &[
    &IS_LEADER,
    &HAS_LEADER,
    &IS_VOTER,
    &HAS_FAILED,
    &TERM,
    &CHANGES,
    &CONTACT,
    &LAST,
    &COMMITTED,
    &APPLIED,
    &SNAPSHOT,
    &LOG,
    &COMMIT,
    &VOTERS,
    &PEER_LAG,
    &PEER_CONTACT,
    &PEER_REFUSED,
];

#[derive(Debug)]
pub(super) struct Seen {
    status: Status,
    contact: Contact,
    leader_changes: u64,
    log_bytes: usize,
    commit_times: Histogram,
    /// By host name; empty where this node does not lead.
    peers: Vec<(String, Progress)>,
}

impl Seen {
    pub(super) fn of(member: &Member, state: &ClusterState) -> Self {
        let raft = member.store.raft();
        let named = |(id, progress)| (view::hostname(state, NodeId(id)), progress);
        Self {
            status: raft.status(),
            contact: raft.contact(),
            leader_changes: member.store.leader_changes(),
            log_bytes: raft.log_bytes(),
            commit_times: raft.commit_times(),
            peers: raft.progress().into_iter().map(named).collect(),
        }
    }
}

pub(super) fn write(out: &mut Exposition<'_>, seen: &Seen) -> fmt::Result {
    let Seen { status, peers, .. } = seen;
    out.gauge(&IS_LEADER, status.role == Role::Leader)?;
    out.gauge(&HAS_LEADER, status.leader.is_some())?;
    out.gauge(&IS_VOTER, status.voters.contains(&status.id))?;
    out.gauge(&HAS_FAILED, status.failure.is_some())?;
    out.gauge(&TERM, status.term)?;
    out.counter(&CHANGES, seen.leader_changes)?;
    let contact = match seen.contact {
        Contact::Recent => 0.0,
        Contact::Lost { since } => since.as_secs_f64(),
    };
    out.gauge(&CONTACT, contact)?;
    out.gauge(&LAST, status.last_log.unwrap_or_default())?;
    out.gauge(&COMMITTED, status.committed.unwrap_or_default())?;
    out.gauge(&APPLIED, status.applied.unwrap_or_default())?;
    out.gauge(&SNAPSHOT, status.snapshot.unwrap_or_default())?;
    out.gauge(&LOG, seen.log_bytes)?;
    out.histograms(&COMMIT, [([""; 0], &seen.commit_times)])?;
    out.gauge(&VOTERS, status.voters.len())?;
    if !status.is_leader() {
        return Ok(());
    }
    out.gauges(&PEER_LAG, peers.iter().map(|(node, peer)| ([node], peer.lag)))?;
    let contacts = peers.iter().filter_map(|(node, peer)| Some(([node], peer.contact?)));
    out.gauges(&PEER_CONTACT, contacts.map(|(node, age)| (node, age.as_secs_f64())))?;
    out.gauges(&PEER_REFUSED, peers.iter().map(|(node, peer)| ([node], peer.refused.is_some())))
}
