//! Targets of notifications and what was not delivered to them, without what is secret of their addresses.

use jaco_proto::v1::{NotifyFilter, NotifyTargetInfo, TestNotifyTargetResponse, UndeliveredInfo};
use serde_json::{Value, json};

use super::json::{non_empty, without_null};
use crate::format::table::Table;
use crate::format::time;
use crate::output::Frame;

/// A target as JSON.
pub(crate) fn json(target: &NotifyTargetInfo) -> Value {
    let failing = (target.failing_since_ms > 0).then(|| {
        json!({ "since": time::rfc3339(target.failing_since_ms), "reason": target.failing_reason })
    });
    let delivered = non_empty(&target.delivered)
        .map(|event| json!({ "event": event, "at": time::rfc3339(target.delivered_at_ms) }));
    without_null(json!({
        "name": target.name,
        "form": target.form,
        "address": target.address,
        "filter": target.filter.as_ref().map(filter_json),
        "behind": target.behind,
        "delivered": delivered,
        "failing": failing,
        "undelivered": target.undelivered,
        "pruned": target.pruned,
        "discarded": target.discarded,
        "paused_since": (target.paused_at_ms > 0).then(|| time::rfc3339(target.paused_at_ms)),
        "stored_at": time::rfc3339(target.stored_at_ms),
        "by": target.by,
    }))
}

fn filter_json(filter: &NotifyFilter) -> Value {
    json!({
        "groups": filter.groups,
        "types": filter.types,
        "deployments": filter.deployments,
        "severity": filter.severity,
    })
}

/// A filter as words: `wake, severity warning, deployment shop`.
pub(crate) fn filter_text(filter: &NotifyFilter) -> String {
    let NotifyFilter { groups, types, deployments, severity } = filter;
    let mut words: Vec<String> = groups.iter().chain(types).cloned().collect();
    if words.is_empty() {
        words.push("all".to_owned());
    }
    if !matches!(severity.as_str(), "" | "info") {
        words.push(format!("severity {severity}"));
    }
    words.extend(deployments.iter().map(|name| format!("deployment {name}")));
    words.join(", ")
}

/// Targets as a table, with a line for each that has a problem.
pub(crate) fn table(targets: &[NotifyTargetInfo], frame: &Frame) -> String {
    let mut table =
        Table::new(&["NAME", "FORM", "ADDRESS", "EVENTS", "DELIVERED", "BEHIND", "FAILED"]);
    for target in targets {
        let delivered = match target.delivered_at_ms {
            0 => "-".to_owned(),
            at => time::ago(at, frame.now_ms),
        };
        table.row([
            target.name.clone(),
            target.form.clone(),
            target.address.clone(),
            target.filter.as_ref().map(filter_text).unwrap_or_default(),
            delivered,
            target.behind.to_string(),
            target.undelivered.to_string(),
        ]);
    }
    let mut text = table.render();
    for target in targets {
        if target.paused_at_ms > 0 {
            let since = time::ago(target.paused_at_ms, frame.now_ms);
            text += &format!("{}: paused for {since}\n", target.name);
        }
        if target.failing_since_ms > 0 {
            let since = time::ago(target.failing_since_ms, frame.now_ms);
            text += &format!("{}: failing for {since}: {}\n", target.name, target.failing_reason);
        }
        if target.pruned > 0 {
            let pruned = target.pruned;
            text += &format!(
                "{}: {pruned} events were pruned before they could be delivered\n",
                target.name
            );
        }
        if target.discarded > 0 {
            let discarded = target.discarded;
            text += &format!(
                "{}: {discarded} notifications that were given up were discarded\n",
                target.name
            );
        }
    }
    text
}

/// An undelivered notification as JSON.
pub(crate) fn undelivered_json(one: &UndeliveredInfo) -> Value {
    without_null(json!({
        "target": one.target,
        "event": one.event,
        "kind": one.kind,
        "at": time::rfc3339(one.at_ms),
        "text": one.text,
        "attempts": one.attempts,
        "reason": one.reason,
        "given_up_at": time::rfc3339(one.given_up_at_ms),
        "retrying": one.retrying,
    }))
}

/// Undelivered notifications as a table.
pub(crate) fn undelivered_table(all: &[UndeliveredInfo], frame: &Frame) -> String {
    let mut table = Table::new(&["TARGET", "EVENT", "GIVEN UP", "ATTEMPTS", "REASON", "TEXT"]);
    for one in all {
        let given_up = match one.retrying {
            true => "is sent again".to_owned(),
            false => time::ago(one.given_up_at_ms, frame.now_ms),
        };
        table.row([
            one.target.clone(),
            one.event.clone(),
            given_up,
            one.attempts.to_string(),
            one.reason.clone(),
            one.text.clone(),
        ]);
    }
    table.render()
}

/// A test that was accepted, as JSON.
pub(crate) fn test_json(name: &str, test: &TestNotifyTargetResponse) -> Value {
    json!({
        "target": name,
        "address": test.address,
        "status": test.status,
        "took_ms": test.took_ms,
        "sent_by": test.sent_by,
    })
}
