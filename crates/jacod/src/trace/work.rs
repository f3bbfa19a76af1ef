//! What the container engine did, and the times of the state.

use std::time::{Duration, SystemTime};

use jaco_trace::Timer;
use jaco_types::Timestamp;

/// What the engine did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Work {
    pub(super) name: &'static str,
    pub(super) began: SystemTime,
    pub(super) took: Duration,
    /// Whether it succeeded.
    pub(super) done: bool,
}

impl Work {
    /// Of work that ended now.
    pub(super) fn that_took(name: &'static str, took: Duration, done: bool) -> Self {
        Self { name, began: Timer::started(took).began(), took, done }
    }
}

/// A time of the state, which counts milliseconds.
pub(super) fn moment(at: Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(at.0)
}
