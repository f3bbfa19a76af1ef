//! The router as an endpoint consumer: a terminating instance stops once no router leads to it any more, and nobody
//! remembers that one did (PL-13).
//!
//! A router that is away, fails, or is another member's acknowledges nothing: its lease expires, and nothing waits for it.

use std::sync::Arc;
use std::time::Duration;

use jaco_server::{ConsumerSession, Delivery, Member};
use jaco_types::{ConsumerName, InvalidName, Millis, StateIndex};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tracing::{info, warn};

/// The lease: longer than a restart of the router's process, shorter than what a node is waited for.
const LEASE: Millis = Millis(5000);

/// How often the lease is renewed.
const RENEWAL: Duration = Duration::from_secs(1);

/// How long after a refused attachment the next try follows.
const RETRY: Duration = Duration::from_secs(2);

/// The state up to which everything that left is released; `None` while the router does not work or is not this
/// member's.
pub(super) type Released = Option<StateIndex>;

/// Attaches and acknowledges for as long as there is something to acknowledge, until the sender is gone.
pub(super) async fn run(member: Arc<Member>, mut released: watch::Receiver<Released>) {
    while let Ok(name) = name_of(&member) {
        if released.wait_for(Option::is_some).await.is_err() {
            return;
        }
        match ConsumerSession::attach(Arc::clone(&member), name, LEASE).await {
            Ok(session) => {
                info!(consumer = %session.name(), "replicas that leave wait for this router");
                acknowledge(&member, &session, &mut released).await;
            }
            Err(rejection) => {
                warn!(error = %rejection, "replicas that leave do not wait for this router");
                sleep(RETRY).await;
            }
        }
    }
}

/// Until the attachment has ended.
async fn acknowledge(
    member: &Member,
    session: &ConsumerSession,
    released: &mut watch::Receiver<Released>,
) {
    let mut renewals = interval(RENEWAL);
    renewals.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut delivered = StateIndex(0);
    while session.ended().is_none() {
        let index = tokio::select! {
            changed = released.changed() => {
                if changed.is_err() {
                    return;
                }
                let index = *released.borrow_and_update();
                index.filter(|index| is_awaited(member, delivered, *index))
            }
            _ = renewals.tick() => *released.borrow_and_update(),
        };
        // It only grows: what was released stays so.
        if let Some(index) = index.map(|index| index.max(delivered))
            && session.acknowledge(index).await == Delivery::Delivered
        {
            delivered = index;
        }
    }
    info!(consumer = %session.name(), "replicas that leave no longer wait for this router");
}

/// Whether an instance may wait to hear of this state and has not yet.
fn is_awaited(member: &Member, delivered: StateIndex, index: StateIndex) -> bool {
    member.store.read(|state| {
        let mut left = state.terminating.values().map(|terminating| terminating.left_at);
        left.any(|left_at| delivered < left_at && left_at <= index)
    })
}

/// After the process of the router; after the node's number where its host name is too long for that.
fn name_of(member: &Member) -> Result<ConsumerName, InvalidName> {
    ConsumerName::new(&format!("jacod-net-{}", member.hostname))
        .or_else(|_| ConsumerName::new(&format!("jacod-net-{}", member.id)))
}
