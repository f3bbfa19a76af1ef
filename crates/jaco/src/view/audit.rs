//! Audit events.

use jaco_proto::v1::AuditEvent;
use serde_json::{Value, json};

use super::json::{non_empty, string_map, without_null};
use crate::format::time;
use crate::output::{Frame, Show};

/// One audit event.
#[derive(Debug)]
pub(crate) struct Event<'a>(pub(crate) &'a AuditEvent);

/// An event as JSON.
pub(crate) fn json(event: &AuditEvent) -> Value {
    if let Some(gap) = &event.gap {
        let first = (gap.first_index > 0).then(|| place(gap.first_index, gap.first_number));
        let missing = place(event.index, event.number);
        return without_null(json!({ "gap": without_null(json!({
            "missing_through": missing,
            "first_kept": first,
        })) }));
    }
    without_null(json!({
        "index": event.index,
        "number": event.number,
        "kind": event.kind,
        "at": time::rfc3339(event.at_ms),
        "by": event.by,
        "origin": non_empty(&event.origin),
        "request_id": non_empty(&event.request_id),
        "payload": string_map(&event.payload),
        "previous": non_empty(&event.previous),
    }))
}

/// An event as a line: `2026-01-31T12:00:00Z  deployment_applied  local:0  deployment=shop revision=2`.
pub(crate) fn line(event: &AuditEvent) -> String {
    let at = time::rfc3339(event.at_ms).unwrap_or_else(|| "-".to_owned());
    if event.gap.is_some() {
        return format!("{:<24}  gap", "-");
    }
    let mut payload: Vec<_> = event.payload.iter().map(|(key, value)| pair(key, value)).collect();
    payload.sort();
    if !event.origin.is_empty() {
        payload.push(pair("origin", &event.origin));
    }
    format!("{at:<24}  {:<20}  {:<18}  {}", event.kind, event.by, payload.join(" "))
        .trim_end()
        .to_owned()
}

/// The warning for evicted events that a follower has not received.
pub(crate) fn gap_warning(event: &AuditEvent) -> Option<String> {
    let gap = event.gap.as_ref()?;
    let oldest = match gap.first_index {
        0 => "no events are kept".to_owned(),
        index => format!("the oldest kept event is {}", place(index, gap.first_number)),
    };
    let through = place(event.index, event.number);
    Some(format!(
        "warning: events up to {through} were evicted before they were printed; {oldest}. Each node \
         has them in its archive"
    ))
}

fn place(index: u64, number: u32) -> String {
    format!("{index}/{number}")
}

fn pair(key: &str, value: &str) -> String {
    if value.contains(char::is_whitespace) || value.is_empty() {
        return format!("{key}={value:?}");
    }
    format!("{key}={value}")
}

impl Show for Event<'_> {
    fn json(&self) -> Value {
        json(self.0)
    }

    fn text(&self, _: &Frame) -> String {
        format!("{}\n", line(self.0))
    }
}
