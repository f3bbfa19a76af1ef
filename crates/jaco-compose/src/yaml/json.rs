//! JSON to tree, bounded in depth and size, for models that come over the wire.

use serde_json::Value as Json;

use crate::diagnostics::code::Code;
use crate::diagnostics::report::Report;
use crate::diagnostics::source::{FileId, Pos};
use crate::yaml::builder::{MAX_DEPTH, MAX_NODES};
use crate::yaml::node::{Entry, Map, Node, Value};
use crate::yaml::parse::MAX_FILE_BYTES;

/// Reads a model; every position is the model as a whole.
pub(crate) fn parse(bytes: &[u8], file: FileId, report: &mut Report) -> Option<Node> {
    let pos = Pos { file, line: 0, column: 0 };
    if bytes.len() > 2 * MAX_FILE_BYTES {
        report.error(pos, Code::TooLarge, format!("the model has {} bytes", bytes.len()));
        return None;
    }
    // The JSON parser refuses more than 128 levels by itself.
    let json: Json = match serde_json::from_slice(bytes) {
        Ok(json) => json,
        Err(error) => {
            report.error(pos, Code::YamlSyntax, format!("the model is not valid JSON: {error}"));
            return None;
        }
    };
    let mut reader = Reader { pos, nodes: 0, has_nul: false };
    let node = reader.node(json, 0);
    if reader.has_nul {
        report.error(pos, Code::NotText, "the model contains a NUL character");
    }
    if node.is_none() {
        report
            .error(pos, Code::TooLarge, "the model is too large or too deep")
            .expected(format!("at most {MAX_NODES} values and {MAX_DEPTH} levels"));
    }
    node
}

struct Reader {
    pos: Pos,
    nodes: usize,
    has_nul: bool,
}

impl Reader {
    fn node(&mut self, json: Json, depth: usize) -> Option<Node> {
        self.nodes += 1;
        if depth > MAX_DEPTH || self.nodes > MAX_NODES {
            return None;
        }
        let value = match json {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::Bool(value),
            Json::Number(number) => match number.as_i64() {
                Some(number) => Value::Int(number),
                None => Value::Float(number.as_f64()?),
            },
            Json::String(text) => {
                self.has_nul |= text.contains('\0');
                Value::Str(text.into())
            }
            Json::Array(items) => {
                let items = items.into_iter().map(|item| self.node(item, depth + 1));
                Value::Seq(items.collect::<Option<_>>()?)
            }
            Json::Object(map) => {
                let mut entries = Vec::with_capacity(map.len());
                for (key, value) in map {
                    self.has_nul |= key.contains('\0');
                    let node = self.node(value, depth + 1)?;
                    entries.push(Entry { key: key.into(), key_pos: self.pos, node });
                }
                Value::Map(Map::from_entries(entries))
            }
        };
        Some(Node::new(value, self.pos))
    }
}
