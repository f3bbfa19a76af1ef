//! Checks a manifest against the members of the cluster: too few matching nodes are refused, a label that no node has
//! is a warning with the nearest name (R-RES-4).

use std::collections::{BTreeMap, BTreeSet};

use jaco_compose::nearest;
use jaco_scheduler::attribute::{attributes, count_admitted, is_built_in, label_key};
use jaco_state::Table;
use jaco_types::spec::{Operator, Placement, ServiceSpec};
use jaco_types::{Node, NodeId};

use super::notes::Notes;
use super::out_of_reach;

/// Compares a service, which needs at least `min_allocations` replicas, with the nodes.
pub(super) fn compare(
    spec: &ServiceSpec,
    min_allocations: u32,
    nodes: &Table<NodeId, Node>,
    notes: &mut Notes,
) {
    notes.warnings.extend(unknown_labels(spec, nodes));
    notes.warnings.extend(out_of_reach::warnings(spec, nodes));
    let count = match &spec.placement {
        // It follows another service, whose placement is not known yet.
        Placement::Global if !spec.scheduling.shares_namespaces_with.is_empty() => return,
        Placement::Global => {
            let nodes: Vec<&Node> = nodes.values().collect();
            let matching = count_admitted(&nodes, &spec.scheduling);
            u32::try_from(matching).unwrap_or(u32::MAX)
        }
        Placement::Spread | Placement::Pack | Placement::Hosts(_) => spec.replicas,
    };
    if count < min_allocations {
        let name = &spec.name;
        let what = match &spec.placement {
            Placement::Global => "nodes match its selectors and constraints",
            Placement::Spread | Placement::Pack | Placement::Hosts(_) => "replicas are desired",
        };
        notes.problems.push(format!(
            "service {name}: min_allocations_count is {min_allocations}, and only {count} {what}"
        ));
    }
}

/// Labels in selectors, constraints and spread criteria that no node has. Only a warning, because nodes may get them
/// later.
fn unknown_labels(spec: &ServiceSpec, nodes: &Table<NodeId, Node>) -> Vec<String> {
    if nodes.is_empty() {
        return Vec::new();
    }
    let known: BTreeSet<&str> =
        nodes.values().flat_map(|node| node.all_labels().into_keys()).collect();
    let policy = &spec.scheduling;
    let selectors = policy.selectors.iter().map(String::as_str).filter(|label| *label != "worker");
    let has_effect = |operator| !matches!(operator, Operator::IsNotSet | Operator::NotEqual);
    let constraints =
        policy.constraints.iter().filter(|constraint| has_effect(constraint.operator));
    let constrained = constraints.map(|constraint| constraint.attribute.as_str());
    let criteria = policy.spread.iter().map(|criterion| criterion.attribute.as_str());
    let named = constrained.chain(criteria).filter(|attribute| !is_built_in(attribute));
    let all: BTreeSet<&str> = selectors.chain(named.map(label_key)).collect();
    let unknown = all.into_iter().filter(|label| !known.contains(label));
    unknown
        .map(|label| {
            let built_in: BTreeMap<&str, &str> = attributes()
                .into_iter()
                .map(|attribute| (label_key(attribute.name), attribute.name))
                .filter(|(key, _)| !known.contains(key))
                .collect();
            let near = nearest(label, known.iter().copied().chain(built_in.keys().copied()));
            let near = near.map(|near| built_in.get(near).copied().unwrap_or(near));
            let hint = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            format!("service {}: no node has the label {label:?}{hint}", spec.name)
        })
        .collect()
}
