//! Replaces the variables of a document, and reports those that are not set.
//!
//! Values only, never keys; each text is read once, so a value that holds a `$` is not read again.

use std::collections::{BTreeMap, BTreeSet};

use compact_str::CompactString;

use crate::diagnostics::code::Code;
use crate::diagnostics::report::Report;
use crate::diagnostics::source::Pos;
use crate::load::expression::{ExpandError, MAX_NESTING, MAX_TEXT_BYTES, expand};
use crate::yaml::node::{Node, Value};

/// Where variables come from.
pub(crate) type Env = BTreeMap<String, String>;

/// Most bytes all texts of one file may grow to; a variable can be long and used often.
const MAX_TOTAL_BYTES: usize = 16 << 20;

/// Replaces the variables in every text of `node`. Each unset variable is warned about once;
/// `warned` remembers which.
pub(crate) fn interpolate(
    node: &mut Node,
    env: &Env,
    warned: &mut BTreeSet<String>,
    report: &mut Report,
) {
    let mut walk = Walk { env, warned, report, spent: 0 };
    walk.node(node);
}

struct Walk<'w> {
    env: &'w Env,
    warned: &'w mut BTreeSet<String>,
    report: &'w mut Report,
    spent: usize,
}

impl Walk<'_> {
    fn node(&mut self, node: &mut Node) {
        match &mut node.value {
            Value::Str(text) if text.contains('$') => {
                let pos = node.pos;
                self.text(text, pos);
            }
            Value::Seq(items) => {
                for item in items {
                    self.node(item);
                }
            }
            Value::Map(map) => {
                for entry in map.iter_mut() {
                    self.node(&mut entry.node);
                }
            }
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Str(_) => {}
        }
    }

    fn text(&mut self, text: &mut CompactString, pos: Pos) {
        if self.spent > MAX_TOTAL_BYTES {
            // Reported already.
            return;
        }
        match expand(text, &|name| self.env.get(name).map(String::as_str)) {
            Ok(expansion) => {
                self.spent += expansion.text.len();
                *text = expansion.text.into();
                self.warn_unset(expansion.unset, pos);
            }
            Err(error) => refuse(&error, pos, self.report),
        }
        if self.spent > MAX_TOTAL_BYTES {
            self.report
                .error(pos, Code::TooLarge, "the variables of this file expand to too many bytes")
                .expected(format!("at most {MAX_TOTAL_BYTES} bytes"));
        }
    }

    fn warn_unset(&mut self, unset: Vec<String>, pos: Pos) {
        for name in unset {
            self.report.note_unset(pos, &name);
            if self.warned.contains(&name) {
                continue;
            }
            self.report
                .warning(pos, Code::UnsetVariable, format!("the variable `{name}` is not set"))
                .suggest(format!("set it, or write `${{{name}:-}}` if it may be empty"));
            self.warned.insert(name);
        }
    }
}

fn refuse(error: &ExpandError, pos: Pos, report: &mut Report) {
    match error {
        ExpandError::Invalid(form) => {
            report
                .error(
                    pos,
                    Code::InvalidInterpolation,
                    format!("`{form}` is not a valid variable expression"),
                )
                .expected("`$NAME`, `${NAME}`, `${NAME:-default}`, `${NAME:?message}`, …")
                .suggest("write `$$` for a dollar sign");
        }
        ExpandError::Required { name, message } => {
            let reason = if message.is_empty() { String::new() } else { format!(": {message}") };
            report.error(
                pos,
                Code::MissingVariable,
                format!("the required variable `{name}` has no value{reason}"),
            );
        }
        ExpandError::TooLarge => {
            report
                .error(pos, Code::TooLarge, "the variables of this value expand to too many bytes")
                .expected(format!("at most {MAX_TEXT_BYTES} bytes, {MAX_NESTING} levels"));
        }
    }
}
