//! Compares this node's key-encryption key with the cluster's, as soon as the state is there to compare it with: at the
//! start, and after a join. A node with another key goes on as a voter and runs its containers; nothing is sealed with
//! that key, and it hands the leadership on, because the leader seals.

use std::sync::Arc;
use std::time::Duration;

use jaco_server::Member;
use jaco_store::{Leadership, RaftRole, Store};
use jaco_types::ErrorCode;
use tokio::time::sleep;
use tracing::{debug, error, info};

/// The pause after the first time that the leadership is handed on. Doubled each time: where all keys are wrong, the
/// voters must not elect each other for ever.
const FIRST_PAUSE: Duration = Duration::from_secs(10);

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(3600);

/// Runs until the key is known to be right: in a rotation a node that lost one gets it again from another member.
pub(crate) async fn run(member: Arc<Member>) {
    let mut index = member.store.watch_index();
    let refusal = loop {
        match member.key() {
            Ok(_) => return,
            Err(refusal) if refusal.code == ErrorCode::KekMismatch => break refusal,
            // The state has not arrived yet.
            Err(_) => {}
        }
        if index.changed().await.is_err() {
            return;
        }
    };
    error!(code = %refusal.code, reason = %refusal.message, "key-encryption key is not the cluster's");
    hand_on(&member).await;
}

/// Hands the leadership on whenever this node has it, until the key is right or the store has stopped.
async fn hand_on(member: &Member) {
    let mut leadership = member.store.watch_leadership();
    let mut pause = FIRST_PAUSE;
    let leads = |now: &Leadership| now.role == RaftRole::Leader;
    while leadership.wait_for(leads).await.is_ok() {
        if member.key().is_ok() {
            info!("key-encryption key is the cluster's now");
            return;
        }
        match member.store.raft().transfer_leader().await {
            Ok(()) => info!("leadership handed on to a member that can seal"),
            Err(error) => debug!(%error, "leadership not handed on"),
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}
