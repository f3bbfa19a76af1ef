//! How old an answer may be, and why.

use jaco_proto::v1::Staleness;
use serde_json::{Value, json};

/// The age as JSON.
#[must_use]
pub fn json(staleness: &Staleness) -> Value {
    json!({ "age_ms": staleness.age_ms, "reason": staleness.reason })
}
