//! Nodes with the reasons why they take no replicas and do not help the quorum.

use jaco_sentences::node::Reason;
pub(crate) use jaco_sentences::node::{ListedNode, entries, is_stuck, listed};
use serde_json::{Value, json};

use super::node;
use crate::output::Frame;

/// A node as JSON.
pub(crate) fn listed_json(listed: &ListedNode) -> Value {
    let reason = |reason: &Reason| {
        json!({
            "about": reason.about.as_str(),
            "code": reason.code,
            "message": reason.message,
        })
    };
    let mut json = node::json(&listed.node);
    json["reasons"] = listed.reasons.iter().map(reason).collect();
    json
}

/// Nodes as a table; what is ordinary is left out.
pub(crate) fn listed_table(listed: &[ListedNode], frame: &Frame) -> String {
    node::table_of(listed.iter().map(|listed| (&listed.node, listed.notes())).collect(), frame)
}
