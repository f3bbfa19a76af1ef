//! What a router has counted since its process started, for metrics. Nothing is decided by it.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// What a router has counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouterCounts {
    /// The other routers that this one has a tunnel to.
    pub peers: Vec<PeerCounts>,
    /// Questions of its resolver.
    pub questions: Questions,
}

/// The tunnel to another router.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerCounts {
    /// Milliseconds since the last handshake; `None` if there was none.
    pub handshake_ms: Option<u64>,
    /// Bytes that came from it.
    pub received: u64,
    /// Bytes that were sent to it.
    pub sent: u64,
}

/// Questions of a resolver by what became of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Questions {
    /// Answered from the names of the cluster.
    pub answered: u64,
    /// Of names of the cluster that lead nowhere.
    pub no_such_name: u64,
    /// Refused: who asks may not know it, or is not known.
    pub refused: u64,
    /// Answered by the resolvers outside.
    pub forwarded: u64,
    /// Those that the resolvers outside did not answer.
    pub forward_failed: u64,
    /// Dropped because their asker asks too much.
    pub limited: u64,
    /// Not to be understood.
    pub invalid: u64,
}

/// Counts questions.
#[derive(Debug, Default)]
pub(crate) struct QuestionCounters {
    pub(crate) answered: Count,
    pub(crate) no_such_name: Count,
    pub(crate) refused: Count,
    pub(crate) forwarded: Count,
    pub(crate) forward_failed: Count,
    pub(crate) limited: Count,
    pub(crate) invalid: Count,
}

#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl QuestionCounters {
    pub(crate) fn read(&self) -> Questions {
        Questions {
            answered: self.answered.read(),
            no_such_name: self.no_such_name.read(),
            refused: self.refused.read(),
            forwarded: self.forwarded.read(),
            forward_failed: self.forward_failed.read(),
            limited: self.limited.read(),
            invalid: self.invalid.read(),
        }
    }
}
