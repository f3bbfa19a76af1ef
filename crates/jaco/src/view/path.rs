//! Whether a replica reaches another service, step by step.

use jaco_proto::v1::{ExplainPathResponse, PathStep};
use serde_json::{Value, json};

use super::json::{non_empty, without_null};
use crate::format::table::Table;
use crate::output::{Frame, Show};

/// The result of `jaco explain --to`.
#[derive(Debug)]
pub(crate) struct Path<'a>(pub(crate) &'a ExplainPathResponse);

impl Show for Path<'_> {
    fn json(&self) -> Value {
        let path = self.0;
        without_null(json!({
            "from": path.from,
            "from_node": non_empty(&path.from_node),
            "asked": path.asked,
            "to": path.to,
            "port": (path.port > 0).then_some(path.port),
            "holds": path.steps.iter().all(|step| step.holds),
            "steps": path.steps.iter().map(step_json).collect::<Value>(),
        }))
    }

    fn text(&self, _: &Frame) -> String {
        let path = self.0;
        let on = non_empty(&path.from_node).map(|node| format!(" on {node}")).unwrap_or_default();
        let port = if path.port > 0 { format!(":{}", path.port) } else { String::new() };
        let mut text = format!("{}{on} to {}{port}\n", path.from, path.to);
        if path.asked.len() > 1 {
            text.push_str(&format!("asked from {}\n", path.asked.join(", ")));
        }
        text.push('\n');
        let mut table = Table::new(&["STEP", "HOLDS", "FOUND"]);
        for step in &path.steps {
            let holds = if step.holds { "yes" } else { "no" };
            table.row([step.step.clone(), holds.to_owned(), step.detail.clone()]);
        }
        text.push_str(&table.render());
        for step in path.steps.iter().filter(|step| !step.holds) {
            text.push_str(&format!("\nfix: {}\n", step.fix));
        }
        text
    }
}

fn step_json(step: &PathStep) -> Value {
    without_null(json!({
        "step": step.step,
        "holds": step.holds,
        "detail": step.detail,
        "fix": non_empty(&step.fix),
    }))
}
