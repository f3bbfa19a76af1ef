//! The eligibility of every node for a service.

use jaco_proto::v1::{ExplainResponse, NodeAnswer};
use jaco_types::unit::{Bytes, MilliCores};
use serde_json::{Value, json};

use super::json::{non_empty, without_null};
use super::plan::{pending_json, pending_line};
use crate::format::quantity::count;
use crate::format::table::Table;
use crate::output::{Frame, Show};

/// The result of `jaco explain`.
#[derive(Debug)]
pub(crate) struct Explanation<'a>(pub(crate) &'a ExplainResponse);

impl Show for Explanation<'_> {
    fn json(&self) -> Value {
        let all = self.0;
        without_null(json!({
            "deployment": all.deployment,
            "service": all.service,
            "placement": all.placement,
            "desired": all.desired,
            "present": all.present,
            "replica": non_empty(&all.replica),
            "replica_node": non_empty(&all.replica_node),
            "nodes": all.nodes.iter().map(node_json).collect::<Value>(),
            "pending": all.waits.iter().map(pending_json).collect::<Value>(),
            "smallest_change": all.smallest_change,
        }))
    }

    fn text(&self, _: &Frame) -> String {
        let all = self.0;
        let mut text = head(all);
        for wait in &all.waits {
            text.push_str(&format!("{}\n", pending_line(wait, "cannot be placed")));
        }
        let eligible = all.nodes.iter().filter(|node| node.failed.is_empty()).count();
        text.push_str(&format!(
            "one more replica: {} of {} eligible\n",
            eligible,
            count(all.nodes.len(), "node")
        ));
        if !all.smallest_change.is_empty() {
            text.push_str(&format!("smallest change: {}\n", all.smallest_change.join("; and ")));
        }
        text.push('\n');
        let mut table = Table::new(&[
            "NODE",
            "OF SERVICE",
            "OF ALL",
            "CPU LEFT",
            "MEMORY LEFT",
            "AFFINITY",
            "ELIGIBILITY",
        ]);
        for node in &all.nodes {
            let rules: Vec<&str> = node.failed.iter().map(|rule| rule.text.as_str()).collect();
            let eligibility =
                if rules.is_empty() { "eligible".to_owned() } else { rules.join("; ") };
            table.row([
                node.node.clone(),
                node.of_service.to_string(),
                node.of_all.to_string(),
                node.cpu_left_millis.map(|n| MilliCores(n).to_string()).unwrap_or_default(),
                node.memory_left_bytes.map(|n| Bytes(n).to_string()).unwrap_or_default(),
                node.affinity.to_string(),
                eligibility,
            ]);
        }
        text + &table.render()
    }
}

fn head(all: &ExplainResponse) -> String {
    let ExplainResponse { deployment, service, placement, desired, present, .. } = all;
    let counts = match placement.as_str() {
        "global" => format!("{present} present, one per node"),
        _ => format!("{present} of {desired} present"),
    };
    let mut text = format!("{deployment}/{service}: placement {placement}, {counts}\n");
    if !all.replica.is_empty() {
        text.push_str(&format!("{} is on {}\n", all.replica, all.replica_node));
    }
    text
}

fn node_json(node: &NodeAnswer) -> Value {
    let rules = node.failed.iter().map(|rule| json!({ "rule": rule.rule, "text": rule.text }));
    without_null(json!({
        "node": node.node,
        "eligible": node.failed.is_empty(),
        "failed": rules.collect::<Value>(),
        "affinity": node.affinity,
        "of_service": node.of_service,
        "of_all": node.of_all,
        "cpu_left_millis": node.cpu_left_millis,
        "memory_left_bytes": node.memory_left_bytes,
    }))
}
