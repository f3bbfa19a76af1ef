//! Begins the chain of audit events, once, and says how long events are kept, unless that was said. A
//! node that does not know the commands would stop at them, so the leader waits until all members run
//! its own version.

use std::sync::Arc;
use std::time::Duration;

use jaco_server::Member;
use jaco_state::audit::DEFAULT_AGE;
use jaco_state::{ClusterState, Command};
use jaco_store::{Proposal, Store};
use jaco_types::Identity;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// How often it is looked whether it is time. It is done once in the life of a cluster.
const INTERVAL: Duration = Duration::from_secs(1);

/// What there is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Next {
    Done,
    /// Some member runs another version, or this node has not seen the cluster's beginning.
    NotYet,
    Write(Box<Command>),
}

/// Runs until all is written, by this node or another.
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

/// Whether it was written.
async fn write(member: &Member, command: Command) -> bool {
    let proposal = Proposal { by: Identity::Scheduler, request: None, command: command.clone() };
    match member.store.propose(proposal).await {
        Ok(_) => info!(?command, "the audit log was set up"),
        Err(error) => {
            warn!(%error, ?command, "the audit log was not set up; tried again");
            return false;
        }
    }
    true
}

fn next(state: &ClusterState) -> Next {
    if state.audit.head.is_some() && state.audit.retention.is_some() {
        return Next::Done;
    }
    let same = |version: &str| version == env!("CARGO_PKG_VERSION");
    let all = state.nodes.values().all(|node| same(&node.facts.version));
    match (state.meta.is_some() && all, state.audit.head) {
        (false, _) => Next::NotYet,
        (true, None) => Next::Write(Box::new(Command::AuditBegin)),
        (true, Some(_)) => Next::Write(Box::new(Command::AuditRetention { age: DEFAULT_AGE })),
    }
}
