//! Keeps raft's membership in step with the replicated state: adds admitted nodes, removes removed
//! ones, and adjusts the voters (R-NODE-4). Only the leader acts. A node that was removed itself, which
//! it learns from its state or from a member that refuses it, stops what it runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jaco_pki::{IdentityDir, Members};
use jaco_raft::{MembershipError, Reconciler};
use jaco_server::Member;
use jaco_types::{NodeId, StateIndex};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

/// Interval of checks; each makes one change at most.
const INTERVAL: Duration = Duration::from_millis(500);

/// How long a learner must be caught up before it may vote: four elections, so that a flapping node
/// does not become a voter.
const CAUGHT_UP_FOR: Duration = Duration::from_secs(2);

/// Time limit for a removed node to stop and remove its containers. Those with a longer grace
/// period stay and are logged.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(60);

/// What this loop tells the rest of the daemon.
pub(crate) struct Signals {
    /// Cancelled by a peer that refuses this node because it was removed, and here as soon as the state
    /// says so: the agent stops everything then.
    pub(crate) removal: CancellationToken,
    /// Cancelled once nothing of a removed node is left on its engine.
    pub(crate) left: CancellationToken,
    /// Ends the daemon.
    pub(crate) shutdown: CancellationToken,
    /// Where the addresses of the other members are kept.
    pub(crate) identity: IdentityDir,
}

/// Runs until this node was removed or consensus has failed; then it ends the daemon.
pub(crate) async fn run(member: Arc<Member>, signals: Signals) {
    let Signals { removal, left, shutdown, identity } = signals;
    let mut reconciler = Reconciler::new(member.store.raft().clone(), CAUGHT_UP_FOR);
    let mut addresses = Addresses::new(identity);
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = removal.cancelled() => {}
        }
        // After a disk error nothing is acknowledged; only a restart helps.
        if let Some(reason) = member.store.raft().failure() {
            error!(%reason, "consensus failed, daemon stops");
            shutdown.cancel();
            return;
        }
        if removal.is_cancelled() {
            info!("node removed from its cluster, daemon stops once its containers are removed");
            if await_cleanup(&member).await == Cleanup::Done {
                left.cancel();
            }
            shutdown.cancel();
            return;
        }
        if let Err(error) = member.store.raft().compact_log().await {
            warn!(%error, "log compaction failed, will retry");
        }
        let Some(admitted) = Admitted::read(&member) else { continue };
        let nodes = &admitted.nodes;
        if !nodes.contains_key(&member.id) {
            removal.cancel();
            continue;
        }
        close_removed(&member, &admitted);
        addresses.keep(member.id, nodes);
        let status = member.store.raft().status();
        if !status.is_leader() {
            continue;
        }
        add_missing(&member, nodes, &status.members).await;
        let removed: BTreeSet<u64> =
            status.members.keys().copied().filter(|id| !nodes.contains_key(&NodeId(*id))).collect();
        if let Err(error) = reconciler.tick(&removed).await {
            warn!(%error, "membership change failed, will retry");
        }
    }
}

/// Whether a removed node's containers are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cleanup {
    Done,
    Late,
}

/// Waits until the agent has stopped and removed all containers: no other node can.
async fn await_cleanup(member: &Member) -> Cleanup {
    let mut agent = member.agent.status();
    // If the agent has ended the daemon is shutting down.
    let drained = agent.wait_for(|status| status.is_drained);
    let is_drained = timeout(CLEANUP_TIMEOUT, drained).await.is_ok_and(|seen| seen.is_ok());
    if is_drained {
        return Cleanup::Done;
    }
    let left: Vec<_> = agent.borrow().containers.values().map(ToString::to_string).collect();
    warn!(containers = left.join(", "), "containers not removed in time");
    Cleanup::Late
}

/// Admitted nodes that were not removed, by the replicated state, with their addresses.
struct Admitted {
    nodes: BTreeMap<NodeId, String>,
    as_of: StateIndex,
}

impl Admitted {
    /// `None` until this node has applied its own admission.
    fn read(member: &Member) -> Option<Self> {
        member.store.read(|state| {
            state.meta.as_ref()?;
            if state.index.0 < member.id.0 {
                return None;
            }
            let nodes = state.nodes.values().map(|node| (node.id, node.address.clone()));
            Some(Self { nodes: nodes.collect(), as_of: state.index })
        })
    }
}

/// The addresses of the other members, in a file beside the key: a node that lost its log finds them there.
struct Addresses {
    identity: IdentityDir,
    /// What was stored last; `None` before anything was.
    stored: Option<Vec<String>>,
}

impl Addresses {
    fn new(identity: IdentityDir) -> Self {
        Self { identity, stored: None }
    }

    /// Stores them if they changed.
    fn keep(&mut self, own: NodeId, nodes: &BTreeMap<NodeId, String>) {
        let others = nodes.iter().filter(|(id, _)| **id != own);
        let others: Vec<String> = others.map(|(_, address)| address.clone()).collect();
        if self.stored.as_ref() == Some(&others) {
            return;
        }
        match self.identity.store_members(&others) {
            Ok(()) => self.stored = Some(others),
            Err(error) => warn!(%error, "addresses of members not stored, will retry"),
        }
    }
}

/// Closes connections to and from removed nodes and refuses new ones.
fn close_removed(member: &Member, admitted: &Admitted) {
    member.peers.retain(&admitted.nodes);
    let nodes = admitted.nodes.keys().copied().collect();
    for node in member.connections.set_members(Members { nodes, as_of: admitted.as_of }) {
        info!(%node, "connections of removed node closed");
    }
}

/// Adds all members that are missing by one entry, and tells consensus of addresses that have changed.
async fn add_missing(
    member: &Member,
    nodes: &BTreeMap<NodeId, String>,
    members: &BTreeMap<u64, String>,
) {
    let mut missing = BTreeMap::new();
    for (id, address) in nodes {
        match members.get(&id.0) {
            None => {
                missing.insert(id.0, address.clone());
            }
            Some(known) if known != address => {
                let changed = member.store.raft().update_address(id.0, address.clone()).await;
                log_change(&[(id.0, address.clone())].into(), changed);
            }
            Some(_) => {}
        }
    }
    if !missing.is_empty() {
        let added = member.store.raft().add_learners(missing.clone()).await;
        log_change(&missing, added);
    }
}

fn log_change(nodes: &BTreeMap<u64, String>, changed: Result<(), MembershipError>) {
    for (id, address) in nodes {
        let node = NodeId(*id);
        match &changed {
            Ok(()) => info!(%node, %address, "node added to membership"),
            Err(error) => warn!(%node, %error, "node not added to membership, will retry"),
        }
    }
}
