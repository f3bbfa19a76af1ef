//! Planned changes.

use jaco_proto::v1::{
    ApplyResponse, Loss, PlannedChange, PlannedPort, PlannedRoute, PlannedService, PlannedStay,
    PlannedWait, Preview, Survival,
};
use jaco_sentences::plan;
use serde_json::{Value, json};

use super::json::{non_empty, string_map, without_null};
use crate::format::table::Table;
use crate::output::{Frame, Show};

/// The plan of an apply.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan<'a> {
    /// The response to the dry run.
    pub(crate) response: &'a ApplyResponse,
    /// `node` or `zone` if the loss of one is required to be survived.
    pub(crate) required: Option<&'static str>,
}

impl<'a> Plan<'a> {
    fn preview(&self) -> Option<&'a Preview> {
        self.response.preview.as_ref()
    }

    /// Identifies the planned changes.
    pub(crate) fn digest(&self) -> &'a str {
        self.preview().map_or("", |preview| &preview.digest)
    }

    /// Whether anything of the deployment would change.
    pub(crate) fn has_changes(&self) -> bool {
        let is_own = |change: &PlannedChange| change.deployment == self.response.deployment;
        let changes = self.preview().map_or(&[][..], |preview| &preview.changes);
        self.response.change != "unchanged" || changes.iter().any(is_own)
    }

    /// Whether some replicas of the deployment could not be placed.
    pub(crate) fn has_pending_replicas(&self) -> bool {
        let is_own = |wait: &PlannedWait| wait.deployment == self.response.deployment;
        self.preview().is_some_and(|preview| preview.waits.iter().any(is_own))
    }

    /// Whether the required loss would be survived; `None` if none is required.
    pub(crate) fn survives(&self) -> Option<bool> {
        let of = self.required?;
        let found = self.preview()?.survival.iter().find(|survival| survival.of == of);
        Some(found.is_some_and(|s| s.tried && s.known > 0 && s.losses.is_empty()))
    }

    /// The changes as text.
    pub(crate) fn changes(&self) -> String {
        self.preview().map(text).unwrap_or_default()
    }
}

impl Show for Plan<'_> {
    fn json(&self) -> Value {
        let response = self.response;
        let mut all = json!({
            "deployment": response.deployment,
            "revision": response.revision,
            "change": response.change,
            "warnings": response.warnings,
            "outcome": if self.has_changes() { "changes_pending" } else { "nothing_to_do" },
        });
        if let (Some(preview), Value::Object(all)) = (self.preview(), &mut all) {
            if let Value::Object(more) = json(preview) {
                all.extend(more);
            }
            all.extend(self.survives().map(|survives| ("survives".to_owned(), survives.into())));
        }
        all
    }

    fn text(&self, _: &Frame) -> String {
        let ApplyResponse { deployment, revision, change, .. } = self.response;
        let head = match change.as_str() {
            "unchanged" => format!("{deployment} revision {revision} is the current revision"),
            change => format!("{deployment} revision {revision} would be {change}"),
        };
        format!("{head}; nothing was changed\n\n{}", self.changes())
    }
}

/// A preview as JSON.
pub(crate) fn json(preview: &Preview) -> Value {
    json!({
        "services": preview.services.iter().map(service_json).collect::<Value>(),
        "changes": preview.changes.iter().map(change_json).collect::<Value>(),
        "routes": preview.routes.iter().map(route_json).collect::<Value>(),
        "ports": preview.ports.iter().map(port_json).collect::<Value>(),
        "pending": preview.waits.iter().map(pending_json).collect::<Value>(),
        "noncompliant": preview.stays.iter().map(stay_json).collect::<Value>(),
        "survival": preview.survival.iter().map(survival_json).collect::<Value>(),
        "complete": preview.complete,
        "based_on": preview.based_on,
        "digest": preview.digest,
    })
}

/// A preview as text.
pub(crate) fn text(preview: &Preview) -> String {
    let mut parts = Vec::new();
    if !preview.services.is_empty() {
        parts.push(services_table(&preview.services));
    }
    if !preview.changes.is_empty() {
        parts.push(changes_table(&preview.changes));
    }
    if !preview.routes.is_empty() {
        parts.push(routes_table(&preview.routes));
    }
    if !preview.ports.is_empty() {
        parts.push(ports_table(&preview.ports));
    }
    let lines = plan::notes(preview).iter().map(|line| format!("{line}\n")).collect();
    parts.push(lines);
    parts.join("\n")
}

fn service_json(row: &PlannedService) -> Value {
    without_null(json!({
        "deployment": row.deployment,
        "service": row.service,
        "change": row.change,
        "fields": row.fields,
        "rolled_back": non_empty(&row.rolled_back),
    }))
}

fn route_json(row: &PlannedRoute) -> Value {
    json!({
        "deployment": row.deployment,
        "route": row.route,
        "change": row.change,
        "target": row.target,
        "tls": row.tls,
    })
}

fn routes_table(routes: &[PlannedRoute]) -> String {
    let mut table = Table::new(&["ROUTE", "CHANGE", "DEPLOYMENT", "TARGET", "TLS"]);
    for row in routes {
        table.row([
            row.route.clone(),
            row.change.clone(),
            row.deployment.clone(),
            row.target.clone(),
            row.tls.clone(),
        ]);
    }
    table.render()
}

fn port_json(row: &PlannedPort) -> Value {
    json!({
        "deployment": row.deployment,
        "port": row.port,
        "change": row.change,
        "target": row.target,
    })
}

fn ports_table(ports: &[PlannedPort]) -> String {
    let mut table = Table::new(&["PORT", "CHANGE", "DEPLOYMENT", "TARGET"]);
    for row in ports {
        table.row([
            row.port.clone(),
            row.change.clone(),
            row.deployment.clone(),
            row.target.clone(),
        ]);
    }
    table.render()
}

fn change_json(row: &PlannedChange) -> Value {
    without_null(json!({
        "action": row.action,
        "replica": row.replica,
        "deployment": row.deployment,
        "service": row.service,
        "node": non_empty(&row.node),
        "from_node": non_empty(&row.from_node),
        "reason": row.reason,
        "order": non_empty(&row.order),
        "fields": row.fields,
    }))
}

pub(super) fn pending_json(wait: &PlannedWait) -> Value {
    json!({
        "deployment": wait.deployment,
        "service": wait.service,
        "count": wait.count,
        "reason": wait.reason,
        "details": string_map(&wait.details),
    })
}

fn stay_json(stay: &PlannedStay) -> Value {
    json!({
        "deployment": stay.deployment,
        "service": stay.service,
        "replica": stay.replica,
        "node": stay.node,
        "failed": stay.failed,
    })
}

fn survival_json(survival: &Survival) -> Value {
    let loss = |loss: &Loss| {
        let waiting: std::collections::BTreeMap<_, _> = loss.waiting.iter().collect();
        json!({ "lost": loss.lost, "pending": waiting, "quorum_lost": loss.quorum_lost })
    };
    json!({
        "of": survival.of,
        "known": survival.known,
        "tried": survival.tried,
        "losses": survival.losses.iter().map(loss).collect::<Value>(),
    })
}

fn services_table(rows: &[PlannedService]) -> String {
    let mut table = Table::new(&["SERVICE", "CHANGE", "DETAILS"]);
    for row in rows {
        let mut details = row.fields.join(", ");
        if !row.rolled_back.is_empty() {
            details.push_str(&format!("; would be rolled back: {}", row.rolled_back));
        }
        table.row([format!("{}/{}", row.deployment, row.service), row.change.clone(), details]);
    }
    table.render()
}

fn changes_table(rows: &[PlannedChange]) -> String {
    let mut table = Table::new(&["ACTION", "REPLICA", "NODE", "REASON"]);
    for row in plan::sorted(rows) {
        table.row([row.action.clone(), row.replica.clone(), plan::place(row), plan::why(row)]);
    }
    table.render()
}
