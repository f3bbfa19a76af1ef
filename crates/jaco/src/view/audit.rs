//! Audit events.

pub(crate) use jaco_json::audit::json;
use jaco_json::audit::{facts, place};
use jaco_proto::v1::AuditEvent;
use serde_json::Value;

use crate::format::time;
use crate::output::{Frame, Show};

/// One audit event.
#[derive(Debug)]
pub(crate) struct Event<'a>(pub(crate) &'a AuditEvent);

/// An event as a line: `2026-01-31T12:00:00Z  deployment_applied  local:0  deployment=shop revision=2`.
pub(crate) fn line(event: &AuditEvent) -> String {
    let at = time::rfc3339(event.at_ms).unwrap_or_else(|| "-".to_owned());
    if event.gap.is_some() {
        return format!("{:<24}  gap", "-");
    }
    format!("{at:<24}  {:<20}  {:<18}  {}", event.kind, event.by, facts(event))
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

impl Show for Event<'_> {
    fn json(&self) -> Value {
        json(self.0)
    }

    fn text(&self, _: &Frame) -> String {
        format!("{}\n", line(self.0))
    }
}
