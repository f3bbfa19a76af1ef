//! Allocations of services on nodes, and disabled allocations.

pub(crate) use jaco_json::allocation::json;
use jaco_proto::v1::{AllocationInfo, DisabledInfo};
use serde_json::{Value, json};

use super::json::{non_empty, without_null};
use crate::format::table::Table;
use crate::format::time;
use crate::output::{Detail, Frame};

/// Allocations as a table.
pub(crate) fn table(allocations: &[AllocationInfo], frame: &Frame) -> String {
    let mut head = vec!["ALLOC ID", "NODE", "SERVICE", "DISABLED", "REMOVED", "ZONE"];
    if frame.detail == Detail::Wide {
        head.extend(["VERSION", "REVISION", "SPEC", "REPLICAS", "DISABLED WITH", "BY", "SINCE"]);
        head.push("LEFTOVERS");
    }
    let mut table = Table::new(&head);
    for one in allocations {
        let mut row = vec![
            one.alloc_id.clone(),
            one.node.clone(),
            format!("{}/{}", one.deployment, one.service),
            yes_or_no(one.disabled),
            yes_or_no(one.removed),
            one.zone.clone(),
        ];
        if frame.detail == Detail::Wide {
            row.extend([
                one.version.clone(),
                if one.removed { String::new() } else { one.revision.to_string() },
                one.spec_hash.clone(),
                one.replicas.join(","),
                one.disabled_with.clone(),
                one.disabled_by.clone(),
                time::ago(one.disabled_at_ms.max(one.removed_at_ms), frame.now_ms),
                leftovers(one),
            ]);
        }
        table.row(row);
    }
    table.render()
}

/// Logs and volumes that a removed allocation left on its node.
fn leftovers(one: &AllocationInfo) -> String {
    let logs = (one.log_bytes > 0).then_some("logs");
    logs.into_iter().chain(one.volumes.iter().map(String::as_str)).collect::<Vec<_>>().join(",")
}

fn yes_or_no(holds: bool) -> String {
    if holds { "yes" } else { "no" }.to_owned()
}

/// A disabled allocation as JSON.
pub(crate) fn disabled_json(disabled: &DisabledInfo) -> Value {
    without_null(json!({
        "deployment": non_empty(&disabled.deployment),
        "service": non_empty(&disabled.service),
        "node": non_empty(&disabled.node),
        "replica": non_empty(&disabled.replica),
        "by": disabled.by,
        "at": time::rfc3339(disabled.at_ms),
    }))
}

/// All disabled allocations as a table.
pub(crate) fn disabled_table(disabled: &[DisabledInfo], frame: &Frame) -> String {
    if disabled.is_empty() {
        return "nothing is disabled\n".to_owned();
    }
    let mut table = Table::new(&["DISABLED", "NODE", "REPLICA", "BY", "SINCE"]);
    for one in disabled {
        let service = match one.service.as_str() {
            "" => "everything".to_owned(),
            service => format!("{}/{service}", one.deployment),
        };
        let node = match (one.node.as_str(), one.replica.as_str()) {
            ("", "") => "every node".to_owned(),
            (node, _) => node.to_owned(),
        };
        table.row([
            service,
            node,
            one.replica.clone(),
            one.by.clone(),
            time::ago(one.at_ms, frame.now_ms),
        ]);
    }
    table.render()
}
