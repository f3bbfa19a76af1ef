//! Hands the leadership on where raft hears the other voters and none of their requests arrives: something keeps
//! connections from this node's port, a firewall for one, while those that it makes itself go on. Such a leader would
//! declare all others down, and refuse what is forwarded to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jaco_raft::Progress;
use jaco_scheduler::Signals;
use jaco_server::Member;
use jaco_types::{Millis, NodeId, Timestamp};
use tokio::time::{Instant, sleep};
use tracing::{debug, warn};

use crate::leading::while_leading;

/// How often a leader looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Silence of a member after which it does not reach this node: four heartbeats, and half of the time after which the
/// planner would declare it down (`PlannerConfig::node_down_after`).
const SILENT_AFTER: Millis = Millis(4000);

/// A voter that answered raft within this time is heard: more than a heartbeat interval of any `network`.
const HEARD_WITHIN: Duration = Duration::from_secs(2);

/// The least time between two times that this node hands the leadership on: where no voter is reached by the others,
/// it must not go round among them for ever, as silence counts anew with each leader.
const PAUSE: Duration = Duration::from_secs(60);

/// Runs until the store has stopped.
pub(crate) async fn run(member: Arc<Member>) {
    let handed_on = Mutex::default();
    while_leading(&member, || watch(&member, &handed_on)).await;
}

/// Looks until it has handed the leadership on.
async fn watch(member: &Member, handed_on: &Mutex<Option<Instant>>) {
    let raft = member.store.raft();
    // Found twice in a row: after a machine stood still, silence counts anew once the clocks were looked at.
    let mut was_found = false;
    loop {
        sleep(LOOK_EVERY).await;
        let paused = *handed_on.lock().unwrap_or_else(PoisonError::into_inner);
        if paused.is_some_and(|at| at.elapsed() < PAUSE) {
            continue;
        }
        let (signals, now) = (member.signals.snapshot(), member.clock.now());
        let joined = member
            .store
            .read(|state| state.nodes.values().map(|node| (node.id, node.joined_at)).collect());
        let seen =
            Seen { voters: &raft.status().voters, progress: &raft.progress(), joined: &joined };
        let found = successor(member.id, &seen, &signals, now);
        let is_found_again = std::mem::replace(&mut was_found, found.is_some());
        let Some(successor) = found.filter(|_| is_found_again) else { continue };
        warn!(
            %successor,
            "raft hears the other voters, and no request of theirs arrives: something keeps connections from this node's port; the leadership is handed on"
        );
        match raft.transfer_leader_to(successor.0).await {
            Ok(()) => {
                let mut handed_on = handed_on.lock().unwrap_or_else(PoisonError::into_inner);
                *handed_on = Some(Instant::now());
            }
            Err(error) => debug!(%error, "leadership not handed on"),
        }
    }
}

/// What a leader knows of the members.
struct Seen<'a> {
    voters: &'a BTreeSet<u64>,
    /// How far the others are, and when each answered raft.
    progress: &'a BTreeMap<u64, Progress>,
    /// When each was admitted.
    joined: &'a BTreeMap<NodeId, Timestamp>,
}

/// Who is to lead instead: of the other voters that raft hears the one that lacks the fewest entries. None unless most
/// of them are silent otherwise, and they are a majority without this node: as they do not reach it, it would not
/// follow its successor.
fn successor(own: NodeId, seen: &Seen<'_>, signals: &Signals, now: Timestamp) -> Option<NodeId> {
    let is_heard = |id: &u64| {
        let contact = seen.progress.get(id).and_then(|progress| progress.contact);
        contact.is_some_and(|age| age < HEARD_WITHIN)
    };
    let heard: Vec<u64> =
        seen.voters.iter().copied().filter(|id| *id != own.0 && is_heard(id)).collect();
    let is_silent = |id: &u64| {
        let id = NodeId(*id);
        let Some(joined) = seen.joined.get(&id) else { return false };
        let heard_at = signals.nodes.get(&id).map(|signal| signal.heard_at).unwrap_or_default();
        now.since(heard_at.max(signals.listening_since).max(*joined)) >= SILENT_AFTER
    };
    let silent = heard.iter().filter(|id| is_silent(id)).count();
    if 2 * heard.len() <= seen.voters.len() || 2 * silent <= heard.len() {
        return None;
    }
    let next = heard.into_iter().min_by_key(|id| seen.progress.get(id).map(|of| of.lag));
    next.map(NodeId)
}

#[cfg(test)]
mod tests {
    use jaco_scheduler::input::{EngineSignal, NodeSignal};

    use super::*;

    const NOW: Timestamp = Timestamp(100_000);

    /// Voters 1 to `voters`, of which 1 leads: the age of each other one's last answer to raft and of its last heartbeat,
    /// in milliseconds, and how many entries it lacks.
    fn judged(voters: u64, others: &[(u64, Option<u64>, u64, u64)]) -> Option<u64> {
        let voters: BTreeSet<u64> = (1..=voters).collect();
        let progress = |&(id, answered, _, lag): &(u64, Option<u64>, u64, u64)| {
            let contact = answered.map(Duration::from_millis);
            let still = Duration::ZERO;
            (id, Progress { matched: None, lag, contact, still, refused: None })
        };
        let progress: BTreeMap<u64, Progress> = others.iter().map(progress).collect();
        let joined = voters.iter().map(|id| (NodeId(*id), Timestamp(1))).collect();
        let signal = |&(id, _, age, _): &(u64, Option<u64>, u64, u64)| {
            let heard_at = Timestamp(NOW.0 - age);
            (NodeId(id), NodeSignal { heard_at, engine: EngineSignal::Up })
        };
        let nodes = others.iter().map(signal).collect();
        let signals = Signals { listening_since: Timestamp(50_000), nodes, ..Signals::default() };
        let seen = Seen { voters: &voters, progress: &progress, joined: &joined };
        successor(NodeId(1), &seen, &signals, NOW).map(|id| id.0)
    }

    /// R-NODE-1: a leader that raft hears others from, and that none of them reaches, hands on.
    #[test]
    fn a_leader_that_nobody_reaches_is_succeeded() {
        let fresh = Some(100);
        assert_eq!(judged(3, &[(2, fresh, 4000, 0), (3, fresh, 5000, 0)]), Some(2));
        // To the one that is further.
        assert_eq!(judged(3, &[(2, fresh, 4000, 7), (3, fresh, 5000, 0)]), Some(3));
        // One of four still reaches it.
        let one_reaches =
            [(2, fresh, 900, 0), (3, fresh, 9000, 0), (4, fresh, 9000, 0), (5, fresh, 9000, 0)];
        assert_eq!(judged(5, &one_reaches), Some(2));
    }

    /// R-NODE-1: what is silent for another reason makes no leader hand on.
    #[test]
    fn silence_alone_unseats_nobody() {
        let fresh = Some(100);
        // Not silent for long enough; half of them; and nodes that raft does not hear either.
        assert_eq!(judged(3, &[(2, fresh, 3999, 0), (3, fresh, 3999, 0)]), None);
        assert_eq!(judged(3, &[(2, fresh, 9000, 0), (3, fresh, 100, 0)]), None);
        assert_eq!(judged(3, &[(2, Some(2000), 9000, 0), (3, None, 9000, 0)]), None);
        // A successor would have no quorum without this node.
        assert_eq!(judged(2, &[(2, fresh, 9000, 0)]), None);
        assert_eq!(judged(3, &[(2, fresh, 9000, 0), (3, None, 9000, 0)]), None);
    }

    /// R-NODE-1: a new leader has listened for too short a time to tell, and so has one that knows a voter only now.
    #[test]
    fn silence_counts_from_when_it_was_listened_to() {
        let voters: BTreeSet<u64> = [1, 2, 3].into();
        let contact = Some(Duration::ZERO);
        let progress =
            Progress { matched: None, lag: 0, contact, still: Duration::ZERO, refused: None };
        let progress: BTreeMap<u64, Progress> = [(2, progress.clone()), (3, progress)].into();
        let at = |listening: u64, joined: u64| {
            let joined = voters.iter().map(|id| (NodeId(*id), Timestamp(joined))).collect();
            let seen = Seen { voters: &voters, progress: &progress, joined: &joined };
            let signals = Signals { listening_since: Timestamp(listening), ..Signals::default() };
            successor(NodeId(1), &seen, &signals, NOW)
        };
        assert_eq!(at(NOW.0 - 3999, 1), None);
        assert_eq!(at(1, NOW.0 - 3999), None);
        assert_eq!(at(NOW.0 - 4000, NOW.0 - 4000), Some(NodeId(2)));
    }
}
