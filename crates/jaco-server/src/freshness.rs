//! How current this node's state is. What was committed while it had no contact with a quorum is unknown to
//! it; before it has caught up after its start, everything is.

use std::sync::atomic::Ordering;
use std::time::Duration;

use jaco_proto::v1;
use jaco_raft::{Contact, ReadError};
use jaco_types::{ErrorCode, Rejection};

use crate::member::Member;

/// How long after the start reads wait until the node has caught up: an election and the first message of the
/// leader.
const RECOVERY_PATIENCE: Duration = Duration::from_secs(2);

/// How long a request waits for this node to reach the index that the client has seen elsewhere.
const INDEX_PATIENCE: Duration = Duration::from_secs(5);

/// How current the state of a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// What is committed arrives here.
    Current,
    /// The node has had no contact with a quorum since then.
    Stale { since: Duration },
    /// The node started then, and has not caught up.
    NotCaughtUp { since: Duration },
}

impl Member {
    /// Waits until this node has applied what was committed before it stopped; otherwise it could answer from
    /// an older state than before the restart, or from none.
    ///
    /// # Errors
    /// `not_caught_up` if it has not within two seconds of its start, for example without a quorum.
    pub async fn caught_up(&self) -> Result<(), Rejection> {
        if self.has_caught_up() {
            return Ok(());
        }
        let recovery = &self.recovery;
        let patience = RECOVERY_PATIENCE.saturating_sub(recovery.started.elapsed());
        match self.store.raft().wait_recovered(patience).await {
            Ok(()) => {
                recovery.caught_up.store(true, Ordering::Relaxed);
                Ok(())
            }
            Err(ReadError::Stopped { reason }) => Err(Rejection::new(
                ErrorCode::Unavailable,
                format!("the node has stopped: {reason}"),
            )),
            Err(ReadError::Timeout | ReadError::QuorumLost | ReadError::NotLeader { .. }) => {
                Err(self.not_caught_up())
            }
        }
    }

    /// Waits until this node has the state that a client has seen on another node, so that the client reads its own writes.
    /// Index 0 asks for none.
    ///
    /// # Errors
    /// `not_caught_up` as [`Member::caught_up`]; `quorum_lost` if the node does not reach the index within five seconds.
    pub(crate) async fn reached(&self, index: u64) -> Result<(), Rejection> {
        self.caught_up().await?;
        // Raft's own: the index of the store comes in paces.
        let mut applied = self.store.raft().watch_applied();
        let reached = applied.wait_for(|applied| *applied >= index);
        if matches!(tokio::time::timeout(INDEX_PATIENCE, reached).await, Ok(Ok(_))) {
            return Ok(());
        }
        let message = format!(
            "this node did not reach index {index} within {} s: it may be cut off from the leader; \
             try again, or ask another node",
            INDEX_PATIENCE.as_secs()
        );
        Err(Rejection::new(ErrorCode::QuorumLost, message))
    }

    /// Whether this node has applied what was committed before it stopped.
    #[must_use]
    pub fn has_caught_up(&self) -> bool {
        let caught_up = &self.recovery.caught_up;
        if !caught_up.load(Ordering::Relaxed) && self.store.raft().has_recovered() {
            caught_up.store(true, Ordering::Relaxed);
        }
        caught_up.load(Ordering::Relaxed)
    }

    /// How current this node's state is.
    pub(crate) fn freshness(&self) -> Freshness {
        if !self.has_caught_up() {
            return Freshness::NotCaughtUp { since: self.recovery.started.elapsed() };
        }
        match self.store.raft().contact() {
            Contact::Recent => Freshness::Current,
            Contact::Lost { since } => Freshness::Stale { since },
        }
    }

    /// As [`Member::freshness`], after a look at whether the node has caught up by now.
    pub(crate) async fn freshness_now(&self) -> Freshness {
        // The refusal says no more than the freshness.
        self.caught_up().await.ok();
        self.freshness()
    }

    /// The refusal of a node that has not caught up.
    pub(crate) fn not_caught_up(&self) -> Rejection {
        let since = self.recovery.started.elapsed();
        let message = format!(
            "{} has not caught up with the cluster since its start {} s ago: it has no contact with a quorum",
            self.hostname,
            since.as_secs()
        );
        Rejection::new(ErrorCode::NotCaughtUp, message)
            .with("age_ms", since.as_millis().to_string())
    }
}

impl Freshness {
    /// Whether the state may lack what was committed before the start.
    pub(crate) fn knows_nothing(self) -> bool {
        matches!(self, Self::NotCaughtUp { .. })
    }

    /// The age of the state and its reason, unless the state is current. `hostname` is the node that answers.
    pub(crate) fn message(self, hostname: &str) -> Option<v1::Staleness> {
        let (since, reason) = match self {
            Self::Current => return None,
            Self::Stale { since } => (since, format!("{hostname} has no contact with a quorum")),
            Self::NotCaughtUp { since } => {
                (since, format!("{hostname} has not caught up with the cluster since its start"))
            }
        };
        let age_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        Some(v1::Staleness { age_ms, reason })
    }
}
