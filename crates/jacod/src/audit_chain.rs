//! Begins the chain of audit events, once. A node that does not know the command would stop at it, so
//! the leader waits until all members run its own version.

use std::sync::Arc;
use std::time::Duration;

use jaco_server::Member;
use jaco_state::{ClusterState, Command};
use jaco_store::{Proposal, Store};
use jaco_types::Identity;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// How often it is looked whether it is time. It is done once in the life of a cluster.
const INTERVAL: Duration = Duration::from_secs(1);

/// Whether the chain can be begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chain {
    Begun,
    /// Some member runs another version, or this node has not seen the cluster's beginning.
    NotYet,
    Possible,
}

/// Runs until the chain is begun, by this node or another.
pub(crate) async fn run(member: Arc<Member>, shutdown: CancellationToken) {
    let mut ticks = tokio::time::interval(INTERVAL);
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            _ = ticks.tick() => {}
        }
        match member.store.read(chain) {
            Chain::Begun => return,
            Chain::NotYet => continue,
            Chain::Possible => {}
        }
        if !member.store.raft().status().is_leader() {
            continue;
        }
        let command = Command::AuditBegin;
        let proposal = Proposal { by: Identity::Scheduler, request: None, command };
        match member.store.propose(proposal).await {
            Ok(_) => info!("the chain of audit events was begun"),
            Err(error) => warn!(%error, "the chain of audit events was not begun; tried again"),
        }
    }
}

fn chain(state: &ClusterState) -> Chain {
    if state.audit.head.is_some() {
        return Chain::Begun;
    }
    let same = |version: &str| version == env!("CARGO_PKG_VERSION");
    let all = state.nodes.values().all(|node| same(&node.facts.version));
    if state.meta.is_some() && all { Chain::Possible } else { Chain::NotYet }
}
