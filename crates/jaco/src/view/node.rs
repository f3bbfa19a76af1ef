//! Nodes of the cluster.

pub(crate) use jaco_json::node::json;
use jaco_proto::v1::NodeInfo;
use jaco_types::unit::Bytes;

use crate::format::quantity::natural_order;
use crate::format::table::Table;
use crate::format::time;
use crate::output::{Detail, Frame};

/// Nodes as a table, in natural order of their names.
pub(crate) fn table(nodes: &[NodeInfo], frame: &Frame) -> String {
    table_of(nodes.iter().map(|node| (node, notes(node))).collect(), frame)
}

/// Nodes with their notes as a table, in natural order of their names.
pub(crate) fn table_of(mut nodes: Vec<(&NodeInfo, String)>, frame: &Frame) -> String {
    let mut head = vec!["NODE", "STATUS", "AVAILABILITY", "RAFT"];
    // Without networks of the cluster there is nothing to say.
    let has_net = nodes.iter().any(|(node, _)| !node.net.is_empty());
    head.extend(has_net.then_some("NET"));
    // Nor without routes.
    let has_edge = nodes.iter().any(|(node, _)| !node.edge.is_empty());
    head.extend(has_edge.then_some("EDGE"));
    head.extend(["REPLICAS", "ADDRESS", "NOTES"]);
    if frame.detail == Detail::Wide {
        head.extend(["ID", "CPU", "MEMORY", "ENGINE", "VERSION", "PLATFORM", "LABELS", "JOINED"]);
    }
    let mut table = Table::new(&head);
    nodes.sort_by(|(a, _), (b, _)| natural_order(&a.hostname, &b.hostname));
    for (node, notes) in nodes {
        let mut row = vec![
            node.hostname.clone(),
            node.status.clone(),
            node.availability.clone(),
            node.suffrage.clone(),
        ];
        row.extend(has_net.then(|| node.net.clone()));
        row.extend(has_edge.then(|| node.edge.clone()));
        row.extend([node.replicas.to_string(), node.address.clone(), notes]);
        if frame.detail == Detail::Wide {
            row.extend(wide_cells(node, frame));
        }
        table.row(row);
    }
    table.render()
}

fn notes(node: &NodeInfo) -> String {
    let of = |what: &str, reason: &String| match reason.is_empty() {
        true => String::new(),
        false => format!("{what}: {reason}"),
    };
    let net = of("no network", &node.net_reason);
    let edge = of("edge", &node.edge_reason);
    let (status, availability) = (node.status_reason.as_str(), node.availability_reason.as_str());
    let notes = [status, availability, net.as_str(), edge.as_str()];
    notes.into_iter().filter(|note| !note.is_empty()).collect::<Vec<_>>().join("; ")
}

fn wide_cells(node: &NodeInfo, frame: &Frame) -> [String; 8] {
    let mut labels: Vec<_> =
        node.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    labels.sort();
    let platform = match (node.os.as_str(), node.arch.as_str()) {
        ("", "") => String::new(),
        (os, arch) => format!("{os}/{arch}"),
    };
    [
        node.id.to_string(),
        if node.cpu_millis == 0 { String::new() } else { format!("{}m", node.cpu_millis) },
        if node.memory_bytes == 0 { String::new() } else { Bytes(node.memory_bytes).to_string() },
        node.engine.clone(),
        node.version.clone(),
        platform,
        labels.join(","),
        time::ago(node.joined_at_ms, frame.now_ms),
    ]
}
