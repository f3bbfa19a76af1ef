//! Image pulls: progress, attempts and the next attempt.

use jaco_proto::v1::PullInfo;
use serde_json::{Value, json};

use crate::fields::without_null;
use crate::time::rfc3339;

/// A pull as JSON.
#[must_use]
pub fn json(pull: &PullInfo) -> Value {
    without_null(json!({
        "done_bytes": pull.done_bytes,
        "total_bytes": pull.total_bytes,
        "attempts": pull.attempts,
        "next_attempt_at": rfc3339(pull.next_attempt_at_ms),
    }))
}
