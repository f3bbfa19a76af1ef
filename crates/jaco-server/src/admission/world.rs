//! What a manifest asks for, held against the nodes that there are: too few of them for a service is
//! refused, a label that nobody carries is told, with the name that is nearest (R-RES-4).

use std::collections::{BTreeMap, BTreeSet};

use jaco_compose::nearest;
use jaco_scheduler::attribute::{admits, attributes, is_built_in, label_key};
use jaco_state::Table;
use jaco_types::spec::{Operator, Placement, ServiceSpec};
use jaco_types::{Node, NodeId};

use super::policy::Notes;

/// Notes what the nodes have to say to a service that wants `min_allocations` replicas at least.
pub(super) fn compare(
    spec: &ServiceSpec,
    min_allocations: u32,
    nodes: &Table<NodeId, Node>,
    notes: &mut Notes,
) {
    notes.warnings.extend(unknown_labels(spec, nodes));
    let count = match &spec.placement {
        // Wherever the others are, which nobody can count yet.
        Placement::Global if !spec.scheduling.beside.is_empty() => return,
        Placement::Global => {
            let matching = nodes.values().filter(|node| admits(node, &spec.scheduling));
            u32::try_from(matching.count()).unwrap_or(u32::MAX)
        }
        Placement::Spread | Placement::Pack | Placement::Hosts(_) => spec.replicas,
    };
    if count < min_allocations {
        let name = &spec.name;
        let what = match &spec.placement {
            Placement::Global => "match its selectors and constraints",
            Placement::Spread | Placement::Pack | Placement::Hosts(_) => "are wanted",
        };
        notes.problems.push(format!(
            "service {name}: min_allocations_count is {min_allocations}, and only {count} {what}"
        ));
    }
}

/// The labels that are asked for and that no node carries. Nodes may get them later, so it is no
/// mistake for certain, and what waits for one says so.
fn unknown_labels(spec: &ServiceSpec, nodes: &Table<NodeId, Node>) -> Vec<String> {
    if nodes.is_empty() {
        return Vec::new();
    }
    let carried: BTreeSet<&str> =
        nodes.values().flat_map(|node| node.all_labels().into_keys()).collect();
    let policy = &spec.scheduling;
    let selectors = policy.selectors.iter().map(String::as_str).filter(|label| *label != "worker");
    let has_effect = |operator| !matches!(operator, Operator::IsNotSet | Operator::NotEqual);
    let asked = policy.constraints.iter().filter(|constraint| has_effect(constraint.operator));
    let constrained = asked.map(|constraint| constraint.attribute.as_str());
    let criteria = policy.spread.iter().map(|criterion| criterion.attribute.as_str());
    let named = constrained.chain(criteria).filter(|attribute| !is_built_in(attribute));
    let all: BTreeSet<&str> = selectors.chain(named.map(label_key)).collect();
    let unknown = all.into_iter().filter(|label| !carried.contains(label));
    unknown
        .map(|label| {
            let built_in: BTreeMap<&str, &str> = attributes()
                .into_iter()
                .map(|attribute| (label_key(attribute.name), attribute.name))
                .filter(|(key, _)| !carried.contains(key))
                .collect();
            let near = nearest(label, carried.iter().copied().chain(built_in.keys().copied()));
            let near = near.map(|near| built_in.get(near).copied().unwrap_or(near));
            let hint = near.map(|near| format!(", perhaps {near} is meant")).unwrap_or_default();
            format!("service {}: no node carries the label {label:?}{hint}", spec.name)
        })
        .collect()
}
