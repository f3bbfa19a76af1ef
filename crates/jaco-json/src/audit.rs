//! Audit events.

use jaco_proto::v1::AuditEvent;
use serde_json::{Map, Value, json};

use crate::fields::{non_empty, without_null};
use crate::time::rfc3339;

/// An event as JSON.
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
        "at": rfc3339(event.at_ms),
        "by": event.by,
        "origin": non_empty(&event.origin),
        "request_id": non_empty(&event.request_id),
        "payload": payload(event),
        "previous": non_empty(&event.previous),
    }))
}

/// Facts that are numbers.
const NUMBERS: [&str; 22] = [
    "dst_pressure_after",
    "dst_pressure_before",
    "events",
    "failures",
    "left",
    "move_cost",
    "node_id",
    "others",
    "patience_ms",
    "potential_after",
    "potential_before",
    "raft_index",
    "relief",
    "restores",
    "revision",
    "score",
    "since_ms",
    "src_pressure_after",
    "src_pressure_before",
    "steps",
    "times",
    "unreported",
];

/// The facts, by name. Numbers are numbers, and null if they are absent. By their names, because the name of
/// a service or node may consist of digits, too.
fn payload(event: &AuditEvent) -> Value {
    let fact = |(name, text): (&String, &String)| {
        let is_number = NUMBERS.contains(&name.as_str());
        let value = match (is_number, text.as_str()) {
            (false, text) => Value::from(text),
            (true, "") => Value::Null,
            (true, text) => serde_json::from_str(text)
                .ok()
                .filter(Value::is_number)
                .unwrap_or_else(|| Value::from(text)),
        };
        (name.clone(), value)
    };
    Value::Object(event.payload.iter().map(fact).collect::<Map<_, _>>())
}

/// The facts of an event as a line: `deployment=shop revision=2`, with where its request came from at the end.
#[must_use]
pub fn facts(event: &AuditEvent) -> String {
    let mut facts: Vec<_> = event.payload.iter().map(|(key, value)| pair(key, value)).collect();
    facts.sort();
    if !event.origin.is_empty() {
        facts.push(pair("origin", &event.origin));
    }
    facts.join(" ")
}

fn pair(key: &str, value: &str) -> String {
    if value.contains(char::is_whitespace) || value.is_empty() {
        return format!("{key}={value:?}");
    }
    format!("{key}={value}")
}

/// An event by its index and number: `120/0`.
#[must_use]
pub fn place(index: u64, number: u32) -> String {
    format!("{index}/{number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-CLI-5: programs get numbers as numbers and null for an absent one; names stay names.
    #[test]
    fn numbers_are_numbers_in_json() {
        let facts = [
            ("revision", "12"),
            ("relief", "0.0450"),
            ("score", ""),
            ("steps", "many"),
            ("service", "7"),
        ];
        let payload = facts.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let event = AuditEvent { payload, ..AuditEvent::default() };
        let expected = json!({
            "revision": 12,
            "relief": 0.045,
            "score": null,
            "steps": "many",
            "service": "7",
        });
        assert_eq!(json(&event)["payload"], expected);
    }
}
