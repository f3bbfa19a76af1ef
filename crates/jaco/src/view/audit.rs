//! Events of the audit log.

use jaco_proto::v1::AuditEvent;
use serde_json::{Value, json};

use super::{facts, non_empty, without_null};
use crate::ui::{Frame, Show};
use crate::when;

/// One event.
#[derive(Debug)]
pub struct Event<'a>(pub &'a AuditEvent);

/// For programs.
#[must_use]
pub fn json(event: &AuditEvent) -> Value {
    without_null(json!({
        "index": event.index,
        "number": event.number,
        "kind": event.kind,
        "at": when::rfc3339(event.at_ms),
        "by": event.by,
        "request_id": non_empty(&event.request_id),
        "payload": facts(&event.payload),
        "previous": non_empty(&event.previous),
    }))
}

/// For people: `2026-01-31T12:00:00Z  deployment_applied  local:0  deployment=shop revision=2`.
#[must_use]
pub fn line(event: &AuditEvent) -> String {
    let at = when::rfc3339(event.at_ms).unwrap_or_else(|| "-".to_owned());
    let mut payload: Vec<_> = event.payload.iter().map(|(key, fact)| pair(key, fact)).collect();
    payload.sort();
    format!("{at:<24}  {:<20}  {:<18}  {}", event.kind, event.by, payload.join(" "))
        .trim_end()
        .to_owned()
}

fn pair(key: &str, fact: &str) -> String {
    if fact.contains(char::is_whitespace) || fact.is_empty() {
        return format!("{key}={fact:?}");
    }
    format!("{key}={fact}")
}

impl Show for Event<'_> {
    fn json(&self) -> Value {
        json(self.0)
    }

    fn text(&self, _: &Frame) -> String {
        format!("{}\n", line(self.0))
    }
}
