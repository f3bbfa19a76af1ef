//! A part of this node as an endpoint consumer, the router or the edge: a terminating instance stops once neither
//! leads to it any more, and nobody remembers that one did (PL-13).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jaco_server::{ConsumerSession, Delivery, Member};
use jaco_state::Table;
use jaco_state::acme::AcmeChallenge;
use jaco_types::{Acknowledgement, ConsumerName, InvalidName, Millis, StateIndex};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tracing::{info, warn};

/// How often the lease is renewed.
const RENEWAL: Duration = Duration::from_secs(1);

/// How long after a refused attachment the next try follows.
const RETRY: Duration = Duration::from_secs(2);

/// What a part acknowledges; `None` while it is away, or another member speaks for it.
pub(crate) type Released = Option<Acknowledgement>;

/// A part of a node that sends traffic to instances, or leads others there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    /// What its name as a consumer begins with.
    pub(crate) name: &'static str,
    /// For how long it may be silent before nothing waits for it.
    pub(crate) lease: Millis,
    /// What its absence means.
    pub(crate) absence: Absence,
}

/// What it means that a part is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Absence {
    /// It may be doing what it did: it is waited for until its lease expires.
    Unknown,
    /// It does nothing: nothing waits for it.
    Ended,
}

/// Attaches and acknowledges for as long as there is something to acknowledge, until the sender is gone. `attached` is
/// the entry that attached it, as long as it is.
pub(crate) async fn run(
    member: Arc<Member>,
    part: Part,
    mut released: watch::Receiver<Released>,
    attached: watch::Sender<Option<StateIndex>>,
) {
    while let Ok(name) = name_of(&member, part) {
        if released.wait_for(Option::is_some).await.is_err() {
            return;
        }
        match ConsumerSession::attach(Arc::clone(&member), name, part.lease).await {
            Ok(session) => {
                info!(consumer = %session.name(), "replicas that leave wait for this consumer");
                attached.send_replace(Some(session.index()));
                acknowledge(&member, &session, part.absence, &mut released).await;
                attached.send_replace(None);
                info!(consumer = %session.name(), "replicas that leave no longer wait for this consumer");
            }
            Err(rejection) => {
                warn!(error = %rejection, "replicas that leave do not wait for {}", part.name);
                sleep(RETRY).await;
            }
        }
    }
}

/// Until the attachment has ended.
async fn acknowledge(
    member: &Member,
    session: &ConsumerSession,
    absence: Absence,
    released: &mut watch::Receiver<Released>,
) {
    let mut renewals = interval(RENEWAL);
    renewals.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut delivered = Acknowledgement::default();
    let mut challenges = Challenges::default();
    while session.ended().is_none() {
        let is_due = tokio::select! {
            changed = released.changed() => {
                if changed.is_err() {
                    return;
                }
                false
            }
            _ = renewals.tick() => true,
        };
        let Some(said) = released.borrow_and_update().clone() else {
            if absence == Absence::Ended {
                return session.detach().await;
            }
            continue;
        };
        // What left before stays so; what is busy does not.
        let said = Acknowledgement { index: said.index.max(delivered.index), ..said };
        let asked = Challenges::of(member);
        let is_asked = !asked.rows.is_same(&challenges.rows);
        if (is_due || is_asked || is_awaited(member, &delivered, &said))
            && session.acknowledge(&said).await == Delivery::Delivered
        {
            if said.index >= asked.index {
                challenges = asked;
            }
            delivered = said;
        }
    }
}

/// Whether an instance may wait to hear this and has not yet, or has to go on waiting for what was said before.
fn is_awaited(member: &Member, delivered: &Acknowledgement, said: &Acknowledgement) -> bool {
    member.store.read(|state| {
        let mut left = state.terminating.values();
        left.any(|row| {
            said.releases(&row.id, row.left_at) != delivered.releases(&row.id, row.left_at)
        })
    })
}

/// The challenges of a state: an order waits until the edges follow the state that has its own.
#[derive(Default)]
struct Challenges {
    index: StateIndex,
    rows: Table<Arc<str>, AcmeChallenge>,
}

impl Challenges {
    fn of(member: &Member) -> Self {
        member
            .store
            .read(|state| Self { index: state.index, rows: state.edges.acme.challenges.clone() })
    }
}

/// After the part; after the node's number where its host name is too long for that.
fn name_of(member: &Member, part: Part) -> Result<ConsumerName, InvalidName> {
    ConsumerName::new(&format!("{}-{}", part.name, member.hostname))
        .or_else(|_| ConsumerName::new(&format!("{}-{}", part.name, member.id)))
}

/// The union of what several processes of one part are busy with, by the oldest state that all of them follow.
pub(crate) fn combined(all: impl Iterator<Item = Acknowledgement>) -> Released {
    all.reduce(|one, other| Acknowledgement {
        index: one.index.min(other.index),
        busy: one.busy.union(&other.busy).cloned().collect::<BTreeSet<_>>(),
    })
}
