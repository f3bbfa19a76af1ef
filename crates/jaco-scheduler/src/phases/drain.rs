//! Drains that make no progress and end by their timeout (R-NODE-2).

use std::collections::BTreeMap;

use jaco_types::{Availability, Node, NodeId, ReplicaId, Timestamp};

use crate::input::PlanInput;

/// How many of the replicas that did not leave are named.
const NAMED_MAX: usize = 5;

/// The state of a node's drain.
pub(crate) enum Verdict {
    /// It continues, if there is one.
    Continues {
        /// When it would time out.
        until: Option<Timestamp>,
    },
    /// The node has replicas, and none has left it for too long.
    TimedOut {
        /// What it is again.
        before: Availability,
        /// Some of what is left, for the audit.
        left: String,
    },
}

/// What is left on the nodes whose drain is due.
pub(crate) type LeftBehind<'a> = BTreeMap<NodeId, Vec<&'a ReplicaId>>;

/// Finds what is left, in one walk for all nodes whose drain is due; without one where none is.
pub(crate) fn left_behind<'a>(input: &PlanInput<'a>) -> LeftBehind<'a> {
    let nodes = input.state.nodes.values();
    let due = nodes.filter(|node| node.drain.is_some_and(|drain| input.now >= drain.due()));
    let mut left: LeftBehind<'a> = due.map(|node| (node.id, Vec::new())).collect();
    if left.is_empty() {
        return left;
    }
    for slot in input.state.slots.values() {
        let mut counted = None;
        for (_, instance) in slot.instances() {
            let here = left.get_mut(&instance.node).filter(|_| counted != Some(instance.node));
            if let Some(here) = here {
                here.push(&slot.id);
            }
            counted = Some(instance.node);
        }
    }
    left
}

/// Judges a node's drain, by what all that are due left behind.
pub(crate) fn judge(input: &PlanInput<'_>, node: &Node, left: &LeftBehind<'_>) -> Verdict {
    let Some(drain) = node.drain else { return Verdict::Continues { until: None } };
    if input.now < drain.due() {
        return Verdict::Continues { until: Some(drain.due()) };
    }
    match left.get(&node.id) {
        Some(here) if !here.is_empty() => {
            Verdict::TimedOut { before: drain.before, left: in_words(here) }
        }
        // Empty, it may stay so for ever.
        Some(_) | None => Verdict::Continues { until: None },
    }
}

fn in_words(left: &[&ReplicaId]) -> String {
    let named: Vec<_> = left.iter().take(NAMED_MAX).map(|id| id.as_str()).collect();
    let named = named.join(", ");
    match left.len().saturating_sub(NAMED_MAX) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}
