//! How often the agent has tried to pull an image, and when it tries again.

use jaco_types::Timestamp;

/// The attempts at one image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PullAttempts {
    /// How many there were, with the one that goes on.
    pub made: u32,
    /// When the next one begins; `None` while one goes on, and after the last one.
    pub next_at: Option<Timestamp>,
}

impl PullAttempts {
    /// Those of two that wait for the same image: they share a pull, and the earlier next attempt counts.
    pub(super) fn with(self, other: Self) -> Self {
        let next_at = self.next_at.zip(other.next_at).map(|(one, other)| one.min(other));
        Self { made: self.made.max(other.made), next_at }
    }
}
