//! How old an answer may be, and why.

use std::time::Duration;

use jaco_proto::v1::Staleness;
use serde_json::{Value, json};

use crate::format::time;

/// The age as JSON.
pub(crate) fn json(staleness: &Staleness) -> Value {
    json!({ "age_ms": staleness.age_ms, "reason": staleness.reason })
}

/// The age and its reason as a line.
pub(crate) fn line(staleness: &Staleness) -> String {
    format!("{}\n", sentence(staleness))
}

/// The age and its reason as a sentence.
#[must_use]
pub(crate) fn sentence(staleness: &Staleness) -> String {
    let age = time::elapsed(Duration::from_millis(staleness.age_ms));
    format!("not current for {age}: {}", staleness.reason)
}
