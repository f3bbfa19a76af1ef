//! The eligibility of every node for a service.

use jaco_proto::v1::{ExplainResponse, NodeAnswer, NodeScore, SpreadShare};
use jaco_sentences::explain;
use jaco_types::unit::{Bytes, MilliCores};
use serde_json::{Value, json};

use super::json::{non_empty, without_null};
use super::plan::pending_json;
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
            "shares": (!all.shares.is_empty())
                .then(|| all.shares.iter().map(share_json).collect::<Value>()),
        }))
    }

    fn text(&self, _: &Frame) -> String {
        let all = self.0;
        let sentences = explain::sentences(all).join("\n") + "\n\n";
        let tables = [shares_table(&all.shares), scores_table(all), nodes_table(&all.nodes)];
        let tables: Vec<String> = tables.into_iter().flatten().collect();
        sentences + &tables.join("\n")
    }
}

/// The nodes with the values by which eligible ones are ranked.
fn nodes_table(nodes: &[NodeAnswer]) -> Option<String> {
    let mut table = Table::new(&[
        "NODE",
        "OF SERVICE",
        "OF ALL",
        "CPU LEFT",
        "MEMORY LEFT",
        "AFFINITY",
        "ELIGIBILITY",
    ]);
    for node in nodes {
        let rules: Vec<&str> = node.failed.iter().map(|rule| rule.text.as_str()).collect();
        let eligibility = if rules.is_empty() { "eligible".to_owned() } else { rules.join("; ") };
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
    Some(table.render())
}

/// What each value of the spread criteria should have, and has; `None` without criteria.
fn shares_table(shares: &[SpreadShare]) -> Option<String> {
    let mut table = Table::new(&["SPREAD OVER", "VALUE", "DESIRED", "ACTUAL"]);
    for share in shares {
        table.row([
            share.attribute.clone(),
            share.value.clone().unwrap_or_else(|| "(none)".to_owned()),
            share.desired.to_string(),
            share.actual.to_string(),
        ]);
    }
    (!shares.is_empty()).then(|| table.render())
}

/// The scores by Nomad's formulas, the highest first; `None` where nodes are not compared by them.
fn scores_table(all: &ExplainResponse) -> Option<String> {
    let fit = if all.placement == "pack" { "BINPACK" } else { "SPREAD FIT" };
    let mut table = Table::new(&[
        "SCORE OF NODE",
        "TOTAL",
        fit,
        "ANTI-AFFINITY",
        "AFFINITY",
        "SPREAD",
        "ELIGIBLE",
    ]);
    let scored = all.nodes.iter().filter_map(|node| Some((node, node.score.as_ref()?)));
    let mut scored: Vec<(&NodeAnswer, &NodeScore)> = scored.collect();
    scored.sort_by_key(|(_, score)| std::cmp::Reverse(score.total));
    for (node, score) in &scored {
        let term = |term: Option<i64>| term.map(score_text).unwrap_or_default();
        table.row([
            node.node.clone(),
            score_text(score.total),
            score_text(score.fit),
            term(score.anti_affinity),
            term(score.affinity),
            term(score.spread),
            if node.failed.is_empty() { "yes" } else { "no" }.to_owned(),
        ]);
    }
    (!scored.is_empty()).then(|| table.render())
}

/// Millionths with three decimals, rounded to the nearest.
fn score_text(micros: i64) -> String {
    let thousandths = (micros.unsigned_abs() + 500) / 1000;
    let sign = if micros < 0 && thousandths > 0 { "-" } else { "" };
    format!("{sign}{}.{:03}", thousandths / 1000, thousandths % 1000)
}

fn share_json(share: &SpreadShare) -> Value {
    json!({
        "attribute": share.attribute,
        "value": share.value,
        "desired": share.desired,
        "actual": share.actual,
    })
}

fn score_json(score: &NodeScore) -> Value {
    without_null(json!({
        "fit_micros": score.fit,
        "anti_affinity_micros": score.anti_affinity,
        "affinity_micros": score.affinity,
        "spread_micros": score.spread,
        "total_micros": score.total,
    }))
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
        "score": node.score.as_ref().map(score_json),
    }))
}
