//! Text forms of times and durations, and the present.

pub use jaco_sentences::time::{Since, ago, duration, elapsed, left, length, rfc3339};

/// The current time by this machine's clock.
#[must_use]
pub fn now_ms() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
