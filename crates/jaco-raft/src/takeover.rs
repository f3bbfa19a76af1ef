//! An election without a timeout, once the process of the leader has ended.
//!
//! When a process ends, its machine closes its connections at once and refuses new ones to its port. A voter that
//! sees both of its leader gives up the lease that it granted, and asks for pre-votes. Nobody else leads in that term:
//! a restarted node never resumes it (`timing.rs`). Must never act on a closed connection or on silence alone, which a
//! slow machine or network causes too. A voter that does not see the same keeps its lease and refuses, so a leader
//! lives on unless a majority of the voters finds its port closed.

use std::sync::Arc;
use std::time::Duration;

use openraft::async_runtime::WatchReceiver as _;
use openraft::raft::TransferLeaderRequest;
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};

use crate::error::TransportError;
use crate::machine::{MachineStore, StateMachine};
use crate::network::Transport;
use crate::types::{TypeConfig, Vote};

/// Attempts to connect to the leader. A process that is just ending may accept a connection and drop it.
const DIALS: u32 = 10;
/// Pause between them.
const DIAL_PAUSE: Duration = Duration::from_millis(10);
/// Limit of one of them: a machine that is up refuses within a round trip.
const DIAL_LIMIT: Duration = Duration::from_millis(500);
/// Head start of each voter over the one with the next higher id, so that they do not split the votes. Longer than
/// a vote takes, which waits for a disk.
const TURN: Duration = Duration::from_millis(100);
/// Campaigns in a turn: the other voters may see the end of the leader a little later.
const CAMPAIGNS: u32 = 5;

/// The one takeover of this node that may be in progress: a leader has several connections to it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Takeover {
    running: Arc<Mutex<()>>,
}

/// The leader that this voter follows.
#[derive(Debug, PartialEq, Eq)]
struct Followed {
    leader: u64,
    address: String,
    /// With which it was elected.
    vote: Vote,
    /// How many voters go first.
    rank: u32,
}

impl Takeover {
    /// To be called when `peer` closed a connection of its. Returns at once unless it leads and its process has
    /// ended; else once there is another leader, or all campaigns were in vain and the election timeout decides.
    pub(crate) async fn connection_closed<M: StateMachine>(
        &self,
        raft: &openraft::Raft<TypeConfig, MachineStore<M>>,
        transport: &dyn Transport,
        peer: u64,
    ) {
        let Ok(_one) = self.running.try_lock() else { return };
        let Some(followed) = followed(raft).filter(|followed| followed.leader == peer) else {
            return;
        };
        if !has_ended(transport, &followed).await {
            return;
        }
        tracing::info!(
            leader = peer,
            address = followed.address,
            "the leader's process has ended: its connections are closed and its port refuses new ones"
        );
        // Whoever is named is not this node, so that this gives up the lease and does nothing else.
        let give_up = TransferLeaderRequest::new(followed.vote, peer, None);
        if raft.handle_transfer_leader(give_up).await.is_err() {
            return;
        }
        sleep(TURN * followed.rank).await;
        for _ in 0..CAMPAIGNS {
            // Only a stopped core refuses.
            if self::followed(raft).as_ref() != Some(&followed)
                || raft.trigger().elect(true).await.is_err()
            {
                return;
            }
            sleep(TURN / CAMPAIGNS).await;
        }
    }
}

/// Whom this node follows, if it is a voter.
fn followed<M: StateMachine>(
    raft: &openraft::Raft<TypeConfig, MachineStore<M>>,
) -> Option<Followed> {
    let metrics = raft.metrics();
    let metrics = metrics.borrow_watched();
    let leader = metrics.current_leader.filter(|leader| *leader != metrics.id)?;
    let membership = &metrics.membership_config;
    if !membership.voter_ids().any(|voter| voter == metrics.id) {
        return None;
    }
    let address = membership.get_node(&leader)?.address.clone();
    let first = membership.voter_ids().filter(|id| *id < metrics.id && *id != leader).count();
    let rank = u32::try_from(first).unwrap_or(u32::MAX);
    Some(Followed { leader, address, vote: metrics.vote, rank })
}

/// Whether nothing listens at the leader's address any more, by word of its machine.
async fn has_ended(transport: &dyn Transport, followed: &Followed) -> bool {
    for _ in 0..DIALS {
        let dialled = transport.pipe(followed.leader, &followed.address);
        match timeout(DIAL_LIMIT, dialled).await {
            Ok(Err(TransportError::NotListening(_))) => return true,
            Ok(Ok(_)) | Err(_) | Ok(Err(TransportError::Timeout)) => return false,
            Ok(Err(TransportError::Unreachable(_) | TransportError::Refused(_))) => {
                sleep(DIAL_PAUSE).await;
            }
        }
    }
    false
}
