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
        "at": when::rfc3339(event.at_ms),
        "by": event.by,
        "origin": non_empty(&event.origin),
        "request_id": non_empty(&event.request_id),
        "payload": facts(&event.payload),
        "previous": non_empty(&event.previous),
    }))
}

/// For people: `2026-01-31T12:00:00Z  deployment_applied  local:0  deployment=shop revision=2`.
#[must_use]
pub fn line(event: &AuditEvent) -> String {
    let at = when::rfc3339(event.at_ms).unwrap_or_else(|| "-".to_owned());
    if event.gap.is_some() {
        return format!("{:<24}  gap", "-");
    }
    let mut payload: Vec<_> = event.payload.iter().map(|(key, fact)| pair(key, fact)).collect();
    payload.sort();
    if !event.origin.is_empty() {
        payload.push(pair("origin", &event.origin));
    }
    format!("{at:<24}  {:<20}  {:<18}  {}", event.kind, event.by, payload.join(" "))
        .trim_end()
        .to_owned()
}

/// What a follower is told where events are gone that it has not seen.
#[must_use]
pub fn gap_warning(event: &AuditEvent) -> Option<String> {
    let gap = event.gap.as_ref()?;
    let on = match gap.first_index {
        0 => "none is kept".to_owned(),
        index => format!("the first that is kept is {}", place(index, gap.first_number)),
    };
    let through = place(event.index, event.number);
    Some(format!(
        "warning: events up to {through} were let go of before they were shown; {on}. Each node has \
         them in the files of its audit folder"
    ))
}

fn place(index: u64, number: u32) -> String {
    format!("{index}/{number}")
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
