//! What the planner would do: where replicas go, what stays without a place, and what could be lost afterwards.

use std::collections::{BTreeMap, BTreeSet};

use jaco_proto::v1::{Loss, PlannedChange, PlannedWait, Preview, Survival};

use crate::quantity::{count, natural_order};
use crate::reason;

/// From how many changes on they are counted. Of fewer a glance at their table tells as much.
const COUNTED_FROM: usize = 5;

/// All that is to be said of a preview beside its tables, a sentence each.
#[must_use]
pub fn notes(preview: &Preview) -> Vec<String> {
    let mut notes: Vec<String> = total(&preview.changes).into_iter().collect();
    notes.extend(stops_first(&preview.changes));
    if preview.changes.is_empty() {
        notes.push("no replica would change".to_owned());
    }
    if !preview.complete {
        notes.push(
            "the plan is incomplete: it has more steps than are computed in advance; replicas without a node get \
             one in a later step"
                .to_owned(),
        );
    }
    notes.extend(pending(preview));
    notes.extend(stays(preview));
    notes.extend(preview.survival.iter().map(survival));
    notes
}

/// A sentence for each service with replicas that could not be placed.
pub fn pending(preview: &Preview) -> impl Iterator<Item = String> {
    preview.waits.iter().map(|wait| reason::of_wait(wait, "could not be placed"))
}

/// A sentence for each service with replicas whose data is on the nodes that are to be emptied.
pub fn bound_by_data(preview: &Preview) -> impl Iterator<Item = String> {
    let is_bound = |wait: &&PlannedWait| wait.reason == "data_stays_on_node";
    preview.waits.iter().filter(is_bound).map(|wait| reason::of_wait(wait, "cannot move"))
}

/// The changes in the order in which a reader expects their replicas.
#[must_use]
pub fn sorted(changes: &[PlannedChange]) -> Vec<&PlannedChange> {
    let mut sorted: Vec<&PlannedChange> = changes.iter().collect();
    sorted.sort_by(|a, b| natural_order(&a.replica, &b.replica));
    sorted
}

/// Where a replica is and will be.
#[must_use]
pub fn place(change: &PlannedChange) -> String {
    match change.action.as_str() {
        "move" => format!("{} → {}", change.from_node, change.node),
        _ if change.node.is_empty() && change.from_node.is_empty() => "?".to_owned(),
        _ if change.node.is_empty() => format!("{} → ?", change.from_node),
        _ => change.node.clone(),
    }
}

/// Why a replica changes, and which of its instances is there first.
#[must_use]
pub fn why(change: &PlannedChange) -> String {
    let mut why = match change.fields.is_empty() {
        true => change.reason.clone(),
        false => change.fields.join(", "),
    };
    match change.order.as_str() {
        "start_first" => why.push_str("; start first"),
        "stop_first" => why.push_str("; stop first"),
        _ => {}
    }
    why
}

/// How many replicas change, and how.
fn total(changes: &[PlannedChange]) -> Option<String> {
    if changes.len() < COUNTED_FROM {
        return None;
    }
    let mut actions: BTreeMap<&str, usize> = BTreeMap::new();
    for change in changes {
        *actions.entry(change.action.as_str()).or_default() += 1;
    }
    let actions: Vec<String> =
        actions.iter().map(|(action, number)| format!("{number} {action}")).collect();
    Some(format!("{} would change: {}", count(changes.len(), "replica"), actions.join(", ")))
}

/// A sentence for each service whose replicas stop before their successors start.
fn stops_first(changes: &[PlannedChange]) -> Vec<String> {
    let of_choice = |change: &&PlannedChange| {
        // One that has failed, or whose node is lost, serves nobody.
        change.order == "stop_first" && !["failed", "node_lost"].contains(&&*change.reason)
    };
    let changes = changes.iter().filter(of_choice);
    let services: BTreeSet<String> =
        changes.map(|change| format!("{}/{}", change.deployment, change.service)).collect();
    let sentence = |service: &String| {
        format!(
            "{service} stops each replica before its successor starts: it is a job, writes to a volume, holds a host port, has no room for both, or `order` says so"
        )
    };
    services.iter().map(sentence).collect()
}

/// A sentence for each replica that stays where its service would not place it any more, and how they move.
fn stays(preview: &Preview) -> Vec<String> {
    let mut sorted: Vec<_> = preview.stays.iter().collect();
    sorted.sort_by(|a, b| natural_order(&a.replica, &b.replica));
    let mut sentences: Vec<String> = sorted
        .into_iter()
        .map(|stay| {
            let (replica, node) = (&stay.replica, &stay.node);
            let failed = stay.failed.join("; ");
            format!("{replica} does not comply and stays on {node}: {node} {failed}")
        })
        .collect();
    if !sentences.is_empty() {
        sentences.push(
            "a changed rule moves no replica; draining its node moves one without data".to_owned(),
        );
    }
    sentences
}

/// Whether the loss of one node or zone would be survived.
fn survival(survival: &Survival) -> String {
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
        let waiting: BTreeMap<_, _> = loss.waiting.iter().collect();
        let pending: Vec<_> = waiting
            .iter()
            .map(|(service, number)| {
                format!("{} of {service}", count(**number as usize, "replica"))
            })
            .collect();
        let pending =
            (!pending.is_empty()).then(|| format!("{} would be pending", pending.join(", ")));
        let no_quorum = "no quorum would be left, so that nothing is replaced".to_owned();
        let effects = pending.into_iter().chain(loss.quorum_lost.then_some(no_quorum));
        format!("{} ({})", loss.lost, effects.collect::<Vec<_>>().join("; "))
    };
    let losses: Vec<_> = survival.losses.iter().map(loss).collect();
    format!("{head} no: {}", losses.join("; "))
}
