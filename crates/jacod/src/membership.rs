//! Keeps raft's membership in step with the replicated state: whoever was admitted is added,
//! whoever was removed is taken out, and the voters follow the policy (R-NODE-4). Only the leader
//! acts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jaco_raft::Reconciler;
use jaco_server::Member;
use jaco_types::NodeId;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

/// How often the membership is looked at. One change is made at a time.
const INTERVAL: Duration = Duration::from_millis(500);

/// How long a learner must follow closely before it may vote: four elections' worth, so that a
/// node that flaps does not become a voter that flaps.
const STEADY: Duration = Duration::from_secs(2);

/// Runs until `shutdown`, or until this node is no member any more; then it cancels `shutdown`.
pub(crate) async fn run(member: Arc<Member>, shutdown: CancellationToken) {
    let mut reconciler = Reconciler::new(member.store.raft().clone(), STEADY);
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            _ = ticks.tick() => {}
        }
        // After a disk error nothing more is acknowledged, and only a restart can help.
        if let Some(reason) = member.store.raft().status().failure {
            error!(%reason, "consensus has failed; the daemon stops");
            shutdown.cancel();
            return;
        }
        let nodes = known_nodes(&member);
        follow_removals(&member, &nodes);
        if nodes.as_ref().is_some_and(|nodes| !nodes.contains_key(&member.id)) {
            info!("this node was removed from its cluster; the daemon stops");
            shutdown.cancel();
            return;
        }
        let status = member.store.raft().status();
        let Some(nodes) = nodes.filter(|_| status.is_leader()) else { continue };
        add_missing(&member, &nodes, &status.members).await;
        let leaving: BTreeSet<u64> =
            status.members.keys().copied().filter(|id| !nodes.contains_key(&NodeId(*id))).collect();
        if let Err(error) = reconciler.tick(&leaving).await {
            warn!(%error, "membership was not changed; tried again");
        }
    }
}

/// The members by the replicated state; `None` before this node has seen any of it.
fn known_nodes(member: &Member) -> Option<BTreeMap<NodeId, String>> {
    member.store.read(|state| {
        state.meta.as_ref()?;
        // A joiner may not have seen its own admission yet.
        if state.index.0 < member.id.0 {
            return None;
        }
        Some(state.nodes.values().map(|node| (node.id, node.address.clone())).collect())
    })
}

/// Connections of nodes that were removed are closed, and none are opened to them.
fn follow_removals(member: &Member, nodes: &Option<BTreeMap<NodeId, String>>) {
    let Some(nodes) = nodes else { return };
    member.peers.retain(nodes);
    let index = member.store.read(|state| state.index.0);
    let open = member.connections.nodes();
    // A node that this state has not heard of yet is not a removed one.
    let removed = open.into_iter().filter(|id| id.0 <= index && !nodes.contains_key(id));
    for id in removed.collect::<Vec<_>>() {
        let closed = member.connections.close_node(id);
        info!(node = %id, closed, "connections of a removed node were closed");
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
