//! Drains that do not come to their end (R-NODE-2).

use jaco_types::{Availability, Node, NodeId, Timestamp};

use crate::input::PlanInput;

/// How many of the replicas that did not leave are named.
const NAMED_MAX: usize = 5;

/// What becomes of a node's drain.
pub(crate) enum Verdict {
    /// It goes on, if there is one.
    GoesOn {
        /// When it would be given up.
        until: Option<Timestamp>,
    },
    /// The node has replicas, and none has left it for too long.
    GivenUp {
        /// What it is again.
        before: Availability,
        /// Some of what is left, for people.
        left: String,
    },
}

/// Judges a node's drain.
pub(crate) fn judge(input: &PlanInput<'_>, node: &Node) -> Verdict {
    let Some(drain) = node.drain else { return Verdict::GoesOn { until: None } };
    if input.now < drain.due() {
        return Verdict::GoesOn { until: Some(drain.due()) };
    }
    let left = left_on(input, node.id);
    if left.is_empty() {
        // Empty, it may stay so for ever.
        return Verdict::GoesOn { until: None };
    }
    Verdict::GivenUp { before: drain.before, left: in_words(&left) }
}

fn left_on(input: &PlanInput<'_>, node: NodeId) -> Vec<String> {
    let slots = input.state.slots.values();
    let here = slots.filter(|slot| slot.instances().any(|(_, instance)| instance.node == node));
    here.map(|slot| slot.id.to_string()).collect()
}

fn in_words(left: &[String]) -> String {
    let named = left[..left.len().min(NAMED_MAX)].join(", ");
    match left.len().saturating_sub(NAMED_MAX) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}
