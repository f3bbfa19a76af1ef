//! Starts the chain of audit events, sets the default retention and starts the clock that events are aged by, once in
//! the life of a cluster.
//! A node that does not know these commands would stop at them, so the leader waits until all
//! members run its own version.

use std::sync::Arc;
use std::time::Duration;

use jaco_server::Member;
use jaco_state::audit::DEFAULT_AGE;
use jaco_state::command::AuditRetention;
use jaco_state::{ClusterState, Command};
use jaco_store::{Proposal, Store};
use jaco_types::{Identity, Node, Version};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// How often the leader checks whether the setup is due.
const INTERVAL: Duration = Duration::from_secs(1);

/// The next setup step.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Next {
    Done,
    /// Some member may not know it, or this node has not applied the first command of the cluster.
    NotYet,
    Write(Box<Command>),
}

/// Runs until the setup is complete, done by this node or another leader.
pub(crate) async fn run(member: Arc<Member>, shutdown: CancellationToken) {
    let mut ticks = tokio::time::interval(INTERVAL);
    let mut next = member.store.read(next);
    loop {
        let command = match next {
            Next::Done => return,
            Next::Write(command) if member.store.raft().status().is_leader() => Some(command),
            Next::Write(_) | Next::NotYet => None,
        };
        let written = match command {
            Some(command) => write(&member, *command).await,
            None => false,
        };
        if !written {
            tokio::select! {
                () = shutdown.cancelled() => return,
                _ = ticks.tick() => {}
            }
        }
        next = member.store.read(self::next);
    }
}

/// Proposes the command; returns whether it was committed.
async fn write(member: &Member, command: Command) -> bool {
    let proposal = Proposal { by: Identity::Scheduler, request: None, command: command.clone() };
    match member.store.propose(proposal).await {
        Ok(_) => info!(?command, "audit log configured"),
        Err(error) => {
            warn!(%error, ?command, "audit log not configured, will retry");
            return false;
        }
    }
    true
}

fn next(state: &ClusterState) -> Next {
    let clock = state.audit.retention.and_then(|retention| retention.clock);
    if state.audit.head.is_some() && clock.is_some() {
        return Next::Done;
    }
    let knows = |node: &Node| Version::FIRST.is_known_by(&node.facts.version);
    let all = state.nodes.values().all(knows);
    match (state.meta.is_some() && all, state.audit.head) {
        (false, _) => Next::NotYet,
        (true, None) => Next::Write(Box::new(Command::AuditBegin)),
        (true, Some(_)) => {
            let age = state.audit.retention.map_or(DEFAULT_AGE, |retention| retention.age);
            Next::Write(Box::new(AuditRetention::new(age).doubting_jumps().into()))
        }
    }
}
