//! How old an answer may be, and why.

use std::time::Duration;

use jaco_proto::v1::Staleness;

use crate::time;

/// The age and its reason as a line.
pub fn line(staleness: &Staleness) -> String {
    format!("{}\n", sentence(staleness))
}

/// The age and its reason as a sentence.
#[must_use]
pub fn sentence(staleness: &Staleness) -> String {
    let age = time::elapsed(Duration::from_millis(staleness.age_ms));
    format!("not current for {age}: {}", staleness.reason)
}
