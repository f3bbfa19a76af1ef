//! Keeps raft's membership in step with the replicated state: whoever was admitted is added,
//! whoever was removed is taken out, and the voters follow the policy (R-NODE-4). Only the leader
//! acts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jaco_pki::Members;
use jaco_raft::Reconciler;
use jaco_server::Member;
use jaco_types::{NodeId, StateIndex};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

/// How often the membership is looked at. One change is made at a time.
const INTERVAL: Duration = Duration::from_millis(500);

/// How long a learner must follow closely before it may vote: four elections' worth, so that a
/// node that flaps does not become a voter that flaps.
const STEADY: Duration = Duration::from_secs(2);

/// How long a removed node may take to stop and remove what is left on it. A container with a longer
/// grace period stays, and is named.
const CLEAR_LIMIT: Duration = Duration::from_secs(60);

/// Runs until this node is no member any more, or consensus has failed; then it cancels `shutdown`.
pub(crate) async fn run(member: Arc<Member>, shutdown: CancellationToken) {
    let mut reconciler = Reconciler::new(member.store.raft().clone(), STEADY);
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        // After a disk error nothing more is acknowledged, and only a restart can help.
        if let Some(reason) = member.store.raft().status().failure {
            error!(%reason, "consensus has failed; the daemon stops");
            shutdown.cancel();
            return;
        }
        if let Err(error) = member.store.raft().bound_log().await {
            warn!(%error, "the log was not made shorter; tried again");
        }
        let Some(admitted) = Admitted::read(&member) else { continue };
        let nodes = &admitted.nodes;
        if !nodes.contains_key(&member.id) {
            info!(
                "this node was removed from its cluster; the daemon stops once nothing is left on it"
            );
            clear(&member).await;
            shutdown.cancel();
            return;
        }
        shut_out_removed(&member, &admitted);
        let status = member.store.raft().status();
        if !status.is_leader() {
            continue;
        }
        add_missing(&member, nodes, &status.members).await;
        let leaving: BTreeSet<u64> =
            status.members.keys().copied().filter(|id| !nodes.contains_key(&NodeId(*id))).collect();
        if let Err(error) = reconciler.tick(&leaving).await {
            warn!(%error, "membership was not changed; tried again");
        }
    }
}

/// Lets the agent stop and remove what still runs here: nobody else will.
async fn clear(member: &Member) {
    let mut agent = member.agent.status();
    // Without its agent the daemon is stopping anyway.
    let is_late = timeout(CLEAR_LIMIT, agent.wait_for(|status| status.is_clear)).await.is_err();
    if is_late {
        let left: Vec<_> = agent.borrow().containers.values().map(ToString::to_string).collect();
        warn!(containers = left.join(", "), "not everything here could be removed in time");
    }
}

/// Who was admitted and not removed, by the replicated state, and where they are reached.
struct Admitted {
    nodes: BTreeMap<NodeId, String>,
    as_of: StateIndex,
}

impl Admitted {
    /// `None` before this node has seen its own admission.
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

/// Connections to and from nodes that were removed are closed, and no new ones are opened or taken.
fn shut_out_removed(member: &Member, admitted: &Admitted) {
    member.peers.retain(&admitted.nodes);
    let nodes = admitted.nodes.keys().copied().collect();
    for node in member.connections.set_members(Members { nodes, as_of: admitted.as_of }) {
        info!(%node, "connections of a removed node were closed");
    }
}

async fn add_missing(
    member: &Member,
    nodes: &BTreeMap<NodeId, String>,
    members: &BTreeMap<u64, String>,
) {
    for (id, address) in nodes {
        let changed = match members.get(&id.0) {
            None => member.store.raft().add_learner(id.0, address.clone()).await,
            Some(known) if known != address => {
                member.store.raft().update_address(id.0, address.clone()).await
            }
            Some(_) => continue,
        };
        match changed {
            Ok(()) => info!(node = %id, %address, "raft knows the node"),
            Err(error) => warn!(node = %id, %error, "raft could not be told of the node yet"),
        }
    }
}
