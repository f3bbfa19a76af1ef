//! Planned changes.

use std::collections::{BTreeMap, BTreeSet};

use jaco_proto::v1::{
    ApplyResponse, Loss, PlannedChange, PlannedPort, PlannedRoute, PlannedService, PlannedStay,
    PlannedWait, Preview, Survival,
};
use serde_json::{Value, json};

use super::json::{non_empty, string_map, without_null};
use super::reason;
use crate::format::quantity::{count, natural_order};
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
    let mut lines = total(&preview.changes);
    lines.push_str(&stops_first(&preview.changes));
    if preview.changes.is_empty() {
        lines.push_str("no replica would change\n");
    }
    if !preview.complete {
        lines.push_str(
            "the plan is incomplete: it has more steps than are computed in advance; replicas without a \
             node get one in a later step\n",
        );
    }
    for line in pending_lines(preview) {
        lines.push_str(&format!("{line}\n"));
    }
    lines.push_str(&stays(&preview.stays));
    for survival in &preview.survival {
        lines.push_str(&format!("{}\n", survival_line(survival)));
    }
    parts.push(lines);
    parts.join("\n")
}

/// A line for each service with replicas that could not be placed.
pub(crate) fn pending_lines(preview: &Preview) -> impl Iterator<Item = String> {
    preview.waits.iter().map(|wait| reason::of_wait(wait, "could not be placed"))
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

/// A line for each replica that stays where its service would not place it any more, and how they move.
fn stays(stays: &[PlannedStay]) -> String {
    let mut sorted: Vec<&PlannedStay> = stays.iter().collect();
    sorted.sort_by(|a, b| natural_order(&a.replica, &b.replica));
    let line = |stay: &&PlannedStay| {
        let PlannedStay { replica, node, failed, .. } = stay;
        format!("{replica} does not comply and stays on {node}: {node} {}\n", failed.join("; "))
    };
    let mut text: String = sorted.iter().map(line).collect();
    if !stays.is_empty() {
        text.push_str(
            "a changed rule moves no replica; draining its node moves one without data\n",
        );
    }
    text
}

fn survival_json(survival: &Survival) -> Value {
    let loss = |loss: &Loss| {
        let waiting: std::collections::BTreeMap<_, _> = loss.waiting.iter().collect();
        json!({ "lost": loss.lost, "pending": waiting })
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

/// How many replicas change, and how; nothing where a glance at the table tells.
fn total(rows: &[PlannedChange]) -> String {
    const COUNTED_FROM: usize = 5;
    if rows.len() < COUNTED_FROM {
        return String::new();
    }
    let mut actions: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows {
        *actions.entry(row.action.as_str()).or_default() += 1;
    }
    let actions: Vec<String> =
        actions.iter().map(|(action, number)| format!("{number} {action}")).collect();
    format!("{} would change: {}\n", count(rows.len(), "replica"), actions.join(", "))
}

/// A sentence for each service whose replicas stop before their successors start.
fn stops_first(rows: &[PlannedChange]) -> String {
    let rows = rows.iter().filter(|row| row.order == "stop_first");
    let services: BTreeSet<String> =
        rows.map(|row| format!("{}/{}", row.deployment, row.service)).collect();
    let sentence = |service: &String| {
        format!(
            "{service} stops each replica before its successor starts: it writes to a volume, holds a host port, has no room for both, or `order` says so\n"
        )
    };
    services.iter().map(sentence).collect()
}

fn changes_table(rows: &[PlannedChange]) -> String {
    let mut table = Table::new(&["ACTION", "REPLICA", "NODE", "REASON"]);
    let mut rows: Vec<&PlannedChange> = rows.iter().collect();
    rows.sort_by(|a, b| natural_order(&a.replica, &b.replica));
    for row in rows {
        let node = match row.action.as_str() {
            "move" => format!("{} → {}", row.from_node, row.node),
            _ if row.node.is_empty() && row.from_node.is_empty() => "?".to_owned(),
            _ if row.node.is_empty() => format!("{} → ?", row.from_node),
            _ => row.node.clone(),
        };
        let mut reason =
            if row.fields.is_empty() { row.reason.clone() } else { row.fields.join(", ") };
        match row.order.as_str() {
            "start_first" => reason.push_str("; start first"),
            "stop_first" => reason.push_str("; stop first"),
            _ => {}
        }
        table.row([row.action.clone(), row.replica.clone(), node, reason]);
    }
    table.render()
}

fn survival_line(survival: &Survival) -> String {
    let of = &survival.of;
    let head = format!("survives the loss of any one {of}:");
    if !survival.tried {
        return format!("{head} not computed, the cluster is too large");
    }
    if survival.known == 0 {
        return format!("{head} no node has a {of}");
    }
    if survival.losses.is_empty() {
        return format!("{head} yes");
    }
    let loss = |loss: &Loss| {
        let waiting: std::collections::BTreeMap<_, _> = loss.waiting.iter().collect();
        let pending: Vec<_> = waiting
            .iter()
            .map(|(service, number)| {
                format!("{} of {service}", count(**number as usize, "replica"))
            })
            .collect();
        format!("{} ({} would be pending)", loss.lost, pending.join(", "))
    };
    let losses: Vec<_> = survival.losses.iter().map(loss).collect();
    format!("{head} no: {}", losses.join("; "))
}
