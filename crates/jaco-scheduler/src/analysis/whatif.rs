//! What would happen if nodes were lost: the planner itself, asked about a copy of the world.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use jaco_types::{NodeId, ServiceKey};

use super::hypothetical;
use crate::attribute::value_of;
use crate::input::PlanInput;
use crate::pass::{Plan, plan};

/// The plan that would follow if these nodes became unreachable now.
#[must_use]
pub fn lose(input: &PlanInput<'_>, lost: &BTreeSet<NodeId>) -> Plan {
    let mut state = input.state.clone();
    let mut signals = input.signals.clone();
    hypothetical::lose(&mut state, &mut signals, lost);
    plan(&PlanInput { state: &state, signals: &signals, ..*input })
}

/// What a loss would leave without a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survival {
    /// What is lost: a host's name, or the value of the attribute that the nodes have in common.
    pub lost: String,
    /// How many replicas of each service would wait that do not wait now. Empty when all survive.
    pub waiting: BTreeMap<ServiceKey, u32>,
}

/// What would happen for each value of an attribute if all nodes that have it were lost at once;
/// with `node.hostname`, for each node by itself.
#[must_use]
pub fn survival(input: &PlanInput<'_>, attribute: &str) -> Vec<Survival> {
    let mut groups: BTreeMap<Cow<'_, str>, BTreeSet<NodeId>> = BTreeMap::new();
    for node in input.state.nodes.values() {
        if let Some(value) = value_of(node, attribute) {
            groups.entry(value).or_default().insert(node.id);
        }
    }
    if groups.is_empty() {
        return Vec::new();
    }
    let now = waiting(&plan(input));
    let survive = |(lost, nodes): (Cow<'_, str>, BTreeSet<NodeId>)| {
        let more = waiting(&lose(input, &nodes)).into_iter().filter_map(|(service, count)| {
            let count = count.saturating_sub(now.get(&service).copied().unwrap_or_default());
            (count > 0).then_some((service, count))
        });
        Survival { lost: lost.into_owned(), waiting: more.collect() }
    };
    groups.into_iter().map(survive).collect()
}

fn waiting(plan: &Plan) -> BTreeMap<ServiceKey, u32> {
    let mut waiting: BTreeMap<ServiceKey, u32> = BTreeMap::new();
    for entry in &plan.report.unplaced {
        let count = waiting.entry(entry.service.clone()).or_default();
        *count = count.saturating_add(entry.count);
    }
    waiting
}
