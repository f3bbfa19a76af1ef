//! What would happen.

use jaco_proto::v1::{
    ApplyResponse, Loss, PlannedChange, PlannedService, PlannedWait, Preview, Survival,
};
use serde_json::{Value, json};

use super::{facts, non_empty, without_null};
use crate::error::count;
use crate::table::Table;
use crate::ui::{Frame, Show};

/// What an apply would lead to.
#[derive(Debug, Clone, Copy)]
pub struct Planned<'a> {
    /// What the cluster says.
    pub told: &'a ApplyResponse,
    /// `node` or `zone`, where the loss of one is to be survived.
    pub required: Option<&'static str>,
}

impl<'a> Planned<'a> {
    fn preview(&self) -> Option<&'a Preview> {
        self.told.preview.as_ref()
    }

    /// What the outcome is recognised by.
    #[must_use]
    pub fn digest(&self) -> &'a str {
        self.preview().map_or("", |preview| &preview.digest)
    }

    /// Whether anything of the deployment would be different.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        let ours = |change: &PlannedChange| change.deployment == self.told.deployment;
        let changes = self.preview().map_or(&[][..], |preview| &preview.changes);
        self.told.change != "unchanged" || changes.iter().any(ours)
    }

    /// Whether some of the deployment would have no place.
    #[must_use]
    pub fn waits(&self) -> bool {
        let ours = |wait: &PlannedWait| wait.deployment == self.told.deployment;
        self.preview().is_some_and(|preview| preview.waits.iter().any(ours))
    }

    /// Whether the loss that is to be survived is known to be; `None` where none is.
    #[must_use]
    pub fn survives(&self) -> Option<bool> {
        let of = self.required?;
        let found = self.preview()?.survival.iter().find(|survival| survival.of == of);
        Some(found.is_some_and(|s| s.tried && s.known > 0 && s.losses.is_empty()))
    }

    /// The changes and where they lead, for people.
    #[must_use]
    pub fn changes(&self) -> String {
        self.preview().map(text).unwrap_or_default()
    }
}

impl Show for Planned<'_> {
    fn json(&self) -> Value {
        let told = self.told;
        let mut all = json!({
            "deployment": told.deployment,
            "revision": told.revision,
            "change": told.change,
            "warnings": told.warnings,
            "outcome": if self.is_pending() { "changes_pending" } else { "nothing_to_do" },
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
        let ApplyResponse { deployment, revision, change, .. } = self.told;
        let head = match change.as_str() {
            "unchanged" => format!("{deployment} revision {revision} is wanted already"),
            change => format!("{deployment} revision {revision} would be {change}"),
        };
        format!("{head}; nothing was changed\n\n{}", self.changes())
    }
}

/// A preview as JSON.
#[must_use]
pub fn json(preview: &Preview) -> Value {
    json!({
        "services": preview.services.iter().map(service_json).collect::<Value>(),
        "changes": preview.changes.iter().map(change_json).collect::<Value>(),
        "waits": preview.waits.iter().map(wait_json).collect::<Value>(),
        "survival": preview.survival.iter().map(survival_json).collect::<Value>(),
        "complete": preview.complete,
        "based_on": preview.based_on,
        "digest": preview.digest,
    })
}

/// A preview for people.
#[must_use]
pub fn text(preview: &Preview) -> String {
    let mut parts = Vec::new();
    if !preview.services.is_empty() {
        parts.push(services_table(&preview.services));
    }
    if !preview.changes.is_empty() {
        parts.push(changes_table(&preview.changes));
    }
    let mut lines = String::new();
    if preview.changes.is_empty() {
        lines.push_str("no replica would be touched\n");
    }
    if !preview.complete {
        lines.push_str(
            "this is not all: it takes more steps than are worked out in advance; those without a \
             node get one when their turn comes\n",
        );
    }
    for wait in waits(preview) {
        lines.push_str(&format!("{wait}\n"));
    }
    for survival in &preview.survival {
        lines.push_str(&format!("{}\n", survival_line(survival)));
    }
    parts.push(lines);
    parts.join("\n")
}

/// What would have no place, a line each.
pub fn waits(preview: &Preview) -> impl Iterator<Item = String> {
    preview.waits.iter().map(|wait| wait_line(wait, "would have", "would have"))
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

pub(super) fn wait_json(wait: &PlannedWait) -> Value {
    json!({
        "deployment": wait.deployment,
        "service": wait.service,
        "count": wait.count,
        "reason": wait.reason,
        "details": facts(&wait.details),
    })
}

fn survival_json(survival: &Survival) -> Value {
    let loss = |loss: &Loss| {
        let waiting: std::collections::BTreeMap<_, _> = loss.waiting.iter().collect();
        json!({ "lost": loss.lost, "waiting": waiting })
    };
    json!({
        "of": survival.of,
        "known": survival.known,
        "tried": survival.tried,
        "losses": survival.losses.iter().map(loss).collect::<Value>(),
    })
}

fn services_table(rows: &[PlannedService]) -> String {
    let mut table = Table::new(&["SERVICE", "CHANGE", "WHAT"]);
    for row in rows {
        let mut what = row.fields.join(", ");
        if !row.rolled_back.is_empty() {
            what.push_str(&format!("; would be rolled back: {}", row.rolled_back));
        }
        table.row([format!("{}/{}", row.deployment, row.service), row.change.clone(), what]);
    }
    table.render()
}

fn changes_table(rows: &[PlannedChange]) -> String {
    let mut table = Table::new(&["ACTION", "REPLICA", "NODE", "BECAUSE"]);
    for row in rows {
        let node = match row.action.as_str() {
            "move" => format!("{} → {}", row.from_node, row.node),
            _ if row.node.is_empty() && row.from_node.is_empty() => "?".to_owned(),
            _ if row.node.is_empty() => format!("{} → ?", row.from_node),
            _ => row.node.clone(),
        };
        let mut because =
            if row.fields.is_empty() { row.reason.clone() } else { row.fields.join(", ") };
        match row.order.as_str() {
            "start_first" => because.push_str("; starts before the old one stops"),
            "stop_first" => because.push_str("; the old one stops first"),
            _ => {}
        }
        table.row([row.action.clone(), row.replica.clone(), node, because]);
    }
    table.render()
}

/// `verb` for one replica, `verbs` for several.
pub(super) fn wait_line(wait: &PlannedWait, verb: &str, verbs: &str) -> String {
    let replicas = count(wait.count as usize, "replica");
    let details: std::collections::BTreeMap<_, _> = wait.details.iter().collect();
    let details: String = details.iter().map(|(key, fact)| format!(", {key}={fact}")).collect();
    let PlannedWait { deployment, service, reason, .. } = wait;
    let verb = if wait.count == 1 { verb } else { verbs };
    format!("{replicas} of {deployment}/{service} {verb} no place: {reason}{details}")
}

fn survival_line(survival: &Survival) -> String {
    let of = &survival.of;
    let head = format!("survives the loss of any one {of}:");
    if !survival.tried {
        return format!("{head} not tried, the cluster is too large");
    }
    if survival.known == 0 {
        return format!("{head} no node has a {of}");
    }
    if survival.losses.is_empty() {
        return format!("{head} yes");
    }
    let loss = |loss: &Loss| {
        let waiting: std::collections::BTreeMap<_, _> = loss.waiting.iter().collect();
        let waiting: Vec<_> =
            waiting.iter().map(|(service, count)| format!("{count} of {service}")).collect();
        format!("{} ({} would wait)", loss.lost, waiting.join(", "))
    };
    let losses: Vec<_> = survival.losses.iter().map(loss).collect();
    format!("{head} no: {}", losses.join("; "))
}
