//! How far the peers are, as the leader knows it.
//!
//! Must never expose a type of the consensus library.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use openraft::{Instant as _, RaftMetrics, ServerState};
use tokio::time::Instant;

use crate::types::TypeConfig;

/// How far a member is, as the leader knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// The last entry that it is known to have in common with the leader; `None` before its first answer.
    pub matched: Option<u64>,
    /// How many entries of the leader it lacks.
    pub lag: u64,
    /// The time since its last answer to the leader; `None` before the first.
    pub contact: Option<Duration>,
    /// How long `matched` has been the same although entries are missing; zero where none are.
    pub still: Duration,
    /// Why the leader refuses it: it lost what it had acknowledged. `None` if it does not.
    pub refused: Option<String>,
}

/// Since when each peer is where it is. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Movements {
    peers: Arc<Mutex<BTreeMap<u64, Position>>>,
}

/// Where a peer is.
#[derive(Debug)]
struct Position {
    matched: Option<u64>,
    since: Instant,
}

impl Movements {
    /// Takes a look; `follow` does so at each change, and at least once per lease.
    pub(crate) fn look(&self, metrics: &RaftMetrics<TypeConfig>) {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let matches = matches(metrics);
        peers.retain(|id, _| matches.contains_key(id));
        for (id, matched) in matches {
            let position = peers.entry(id).or_insert(Position { matched, since: now });
            if position.matched != matched || lag(metrics, matched) == 0 {
                *position = Position { matched, since: now };
            }
        }
    }

    fn still(&self, id: u64, matched: Option<u64>) -> Duration {
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let same = peers.get(&id).filter(|position| position.matched == matched);
        same.map(|position| position.since.elapsed()).unwrap_or_default()
    }
}

/// The other members and how far each is; none where this node does not lead.
pub(crate) fn progress_of(
    metrics: &RaftMetrics<TypeConfig>,
    movements: &Movements,
) -> BTreeMap<u64, Progress> {
    let contacts = metrics.heartbeat.as_ref();
    let of = |(id, matched): (u64, Option<u64>)| {
        let lag = lag(metrics, matched);
        let contact = contacts.and_then(|contacts| contacts.get(&id)).and_then(Option::as_ref);
        let contact = contact.map(|at| at.elapsed());
        let still = if lag == 0 { Duration::ZERO } else { movements.still(id, matched) };
        (id, Progress { matched, lag, contact, still, refused: None })
    };
    matches(metrics).into_iter().map(of).collect()
}

fn matches(metrics: &RaftMetrics<TypeConfig>) -> BTreeMap<u64, Option<u64>> {
    let leads = metrics.state == ServerState::Leader && metrics.running_state.is_ok();
    let peers = metrics.replication.iter().flatten().filter(|(id, _)| leads && **id != metrics.id);
    peers.map(|(id, matched)| (*id, matched.map(|at| at.index))).collect()
}

fn lag(metrics: &RaftMetrics<TypeConfig>, matched: Option<u64>) -> u64 {
    let next = |index: Option<u64>| index.map_or(0, |index| index + 1);
    next(metrics.last_log_index).saturating_sub(next(matched))
}

#[cfg(test)]
mod tests {
    use crate::types::log_id;

    use super::*;

    fn leader(last: u64, peer: Option<u64>) -> RaftMetrics<TypeConfig> {
        let mut metrics = RaftMetrics::new_initial(1);
        metrics.state = ServerState::Leader;
        metrics.last_log_index = Some(last);
        let at = |index| Some(log_id(1, 1, index));
        metrics.replication = Some([(1, at(last)), (2, peer.and_then(at))].into());
        metrics
    }

    /// R-FAULT-1: a peer that lacks entries and does not move is told from one that catches up.
    #[tokio::test(start_paused = true)]
    async fn a_peer_that_does_not_move_is_still() {
        let movements = Movements::default();
        let check = |metrics: &RaftMetrics<TypeConfig>, lag, still: u64| {
            movements.look(metrics);
            let progress = progress_of(metrics, &movements)[&2].clone();
            assert_eq!((progress.lag, progress.still), (lag, Duration::from_secs(still)));
        };
        let pass = || tokio::time::advance(Duration::from_secs(5));
        check(&leader(9, None), 10, 0);
        pass().await;
        check(&leader(9, Some(9)), 0, 0);
        pass().await;
        // Idle: it has everything.
        check(&leader(9, Some(9)), 0, 0);
        check(&leader(12, Some(9)), 3, 0);
        pass().await;
        check(&leader(14, Some(9)), 5, 5);
        check(&leader(14, Some(10)), 4, 0);
        pass().await;
        check(&leader(14, Some(10)), 4, 5);

        let mut follower = leader(14, Some(10));
        follower.state = ServerState::Follower;
        assert_eq!(progress_of(&follower, &movements), BTreeMap::new());
        movements.look(&follower);
        pass().await;
        check(&leader(14, Some(10)), 4, 0);
    }
}
