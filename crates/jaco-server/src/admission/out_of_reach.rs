//! What no member has: values of constraints that no node has, with the nearest one, and amounts beyond what the
//! nodes have that the constraints leave (R-RES-4). Only warnings, because nodes may join or change later.

use std::collections::BTreeSet;

use jaco_compose::nearest;
use jaco_scheduler::attribute::{count_admitted, value_of};
use jaco_state::Table;
use jaco_types::spec::{Operator, ServiceSpec};
use jaco_types::{Node, NodeId, VolumeClass};

/// The warnings for one service.
pub(super) fn warnings(spec: &ServiceSpec, nodes: &Table<NodeId, Node>) -> Vec<String> {
    let mut warnings = unknown_values(spec, nodes);
    // Without a node that is left, the amounts say nothing.
    if warnings.is_empty() {
        warnings.extend(amounts(spec, nodes));
        warnings.extend(classes(spec, nodes));
    }
    warnings
}

/// Constraints by a value that no node has, where nodes have the attribute.
fn unknown_values(spec: &ServiceSpec, nodes: &Table<NodeId, Node>) -> Vec<String> {
    let wanted = spec.scheduling.constraints.iter();
    let wanted = wanted.filter(|constraint| constraint.operator == Operator::Equal);
    wanted
        .filter_map(|constraint| {
            let (attribute, value) = (&constraint.attribute, constraint.value.as_str());
            let known = nodes.values().filter_map(|node| value_of(node, attribute));
            let known: BTreeSet<String> = known.map(|known| known.into_owned()).collect();
            if known.is_empty() || known.contains(value) {
                return None;
            }
            let near = nearest(value, known.iter().map(String::as_str));
            let hint = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            let name = &spec.name;
            Some(format!("service {name}: no node has {attribute} = {value}{hint}"))
        })
        .collect()
}

/// Classes of volumes that no node offers, with the nearest one.
fn classes(spec: &ServiceSpec, nodes: &Table<NodeId, Node>) -> Vec<String> {
    let offered = nodes.values().flat_map(|node| node.facts.volume_classes.keys());
    let offered: BTreeSet<&VolumeClass> = offered.collect();
    let asked: BTreeSet<&VolumeClass> = spec.volumes.iter().map(|volume| &volume.class).collect();
    let missing = asked.difference(&offered).map(|class| {
        let near = nearest(class.as_str(), offered.iter().map(|offered| offered.as_str()));
        let hint = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        format!("service {}: no node offers volumes of class {class}{hint}", spec.name)
    });
    missing.collect()
}

/// Amounts of cpu and memory that none of the nodes has that the selectors and constraints leave.
fn amounts(spec: &ServiceSpec, nodes: &Table<NodeId, Node>) -> Vec<String> {
    let is_left = |node: &&Node| count_admitted(&[*node], &spec.scheduling) == 1;
    let left: Vec<&Node> = nodes.values().filter(is_left).collect();
    let (minimum, reserved) = (spec.scheduling.minimum, spec.reservation);
    let cpu = minimum.cpu.max(reserved.cpu);
    let memory = minimum.memory.max(reserved.memory);
    let most_cpu = left.iter().max_by_key(|node| node.facts.capacity.cpu);
    let most_memory = left.iter().max_by_key(|node| node.facts.capacity.memory);
    let beyond = |what: &str, asked: String, node: &Node, has: String| {
        let name = &spec.name;
        let host = &node.hostname;
        let which = match left.len() {
            1 => format!("{host}, the only node that it may be on, has {has}"),
            _ => format!("no node that it may be on has as much; {host} has the most, {has}"),
        };
        format!("service {name}: it asks for {asked} of {what}, and {which}")
    };
    let mut warnings = Vec::new();
    // A capacity of zero declares none, and nothing is enforced then.
    let enforces = |most: u64, asked: u64| most > 0 && asked > most;
    if let Some(node) = most_cpu.filter(|node| enforces(node.facts.capacity.cpu.0, cpu.0)) {
        warnings.push(beyond("cpu", cpu.to_string(), node, node.facts.capacity.cpu.to_string()));
    }
    if let Some(node) = most_memory.filter(|node| enforces(node.facts.capacity.memory.0, memory.0))
    {
        let has = node.facts.capacity.memory.to_string();
        warnings.push(beyond("memory", memory.to_string(), node, has));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jaco_types::unit::{Bytes, MilliCores, Resources};
    use jaco_types::{Availability, Hostname, NodeFacts, NodeStatus, StateIndex, Timestamp};

    use crate::admission::{Stored, admit};

    use super::*;

    /// Nodes with their zone and memory in GiB, of two cores each.
    fn members(all: &[(&str, &str, u64)]) -> Table<NodeId, Node> {
        let node = |(number, (host, zone, memory)): (u64, &(&str, &str, u64))| {
            let capacity = Resources { cpu: MilliCores(2000), memory: Bytes(memory << 30) };
            let labels = [("zone".to_owned(), (*zone).to_owned())].into();
            let node = Node {
                id: NodeId(number),
                hostname: Hostname::new(host).unwrap(),
                address: String::new(),
                mesh_address: None,
                key_fingerprint: [0; 32],
                status: NodeStatus::Ready,
                status_reason: String::new(),
                availability: Availability::Active,
                availability_reason: String::new(),
                drain: None,
                facts: NodeFacts { capacity, labels, ..NodeFacts::default() },
                labels: BTreeMap::new(),
                joined_at: Timestamp(0),
                modified: StateIndex(0),
            };
            (node.id, node)
        };
        (1..).zip(all).map(node).collect()
    }

    /// R-RES-4: values that no node has are warned about with the nearest one, and so are amounts that none of the
    /// nodes has that are left, with the node that has the most.
    #[test]
    fn what_no_node_has_is_a_warning() {
        let nodes = members(&[("n1", "eu-west", 2), ("n2", "eu-west", 8), ("db1", "eu-east", 4)]);
        let check = |constraints: &str, expected: &[&str]| {
            let overlay = format!(
                "deployment: shop\nservices:\n  - {{name: web, constraints: '{constraints}'}}\n"
            );
            let request = jaco_proto::v1::ApplyRequest {
                compose_json: r#"{"name":"shop","services":{"web":{"image":"web:1"}}}"#.to_owned(),
                overlay_yaml: overlay,
                ..Default::default()
            };
            let stored = Stored { nodes: nodes.clone(), ..Stored::default() };
            assert_eq!(admit(&request, &stored).unwrap().warnings, expected, "{constraints}");
        };
        check("zone=eu-west ram=8G cpu=2", &[]);
        check("place-in=db2", &["service web: no node has node.hostname = db2; did you mean db1?"]);
        check(
            "zone=eu-wets",
            &["service web: no node has node.zone = eu-wets; did you mean eu-west?"],
        );
        check("zone=0", &["service web: no node has node.zone = 0"]);
        check(
            "ram=8G place-in=n1",
            &[
                "service web: it asks for 8 GiB of memory, and n1, the only node that it may be on, has 2 GiB",
            ],
        );
        check(
            "ram=9G zone=eu-west cpu=2.5",
            &[
                "service web: it asks for 2500m of cpu, and no node that it may be on has as much; n2 has the \
                 most, 2000m",
                "service web: it asks for 9 GiB of memory, and no node that it may be on has as much; n2 has the \
                 most, 8 GiB",
            ],
        );
    }
}
