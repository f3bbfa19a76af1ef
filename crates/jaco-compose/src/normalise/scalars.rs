//! Scalars: checks the type and writes the canonical form.

use crate::diagnostics::code::Code;
use crate::diagnostics::path::Path;
use crate::normalise::checker::Checker;
use crate::notation::{paths, units};
use crate::yaml::node::{Node, Value};
use crate::yaml::scalar;

impl Checker<'_> {
    pub(super) fn text(&mut self, node: &Node, path: Path<'_>) {
        if !matches!(node.value, Value::Str(_)) {
            self.wrong_type(node, path, "a string").suggest("put the value in quotes");
        }
    }

    pub(super) fn path(&mut self, node: &mut Node, path: Path<'_>) {
        match &mut node.value {
            Value::Str(text) => *text = paths::resolve(self.dir, text, self.home).into(),
            Value::Null
            | Value::Bool(_)
            | Value::Int(_)
            | Value::Float(_)
            | Value::Seq(_)
            | Value::Map(_) => {
                self.wrong_type(node, path, "a path");
            }
        }
    }

    pub(super) fn text_or_number(&mut self, node: &mut Node, path: Path<'_>) {
        match node.value {
            Value::Str(_) => {}
            Value::Int(_) | Value::Float(_) => self.scalar_text(node, path),
            Value::Null | Value::Bool(_) | Value::Seq(_) | Value::Map(_) => {
                self.wrong_type(node, path, "a string or a number");
            }
        }
    }

    pub(super) fn scalar_text(&mut self, node: &mut Node, path: Path<'_>) {
        let text = match &node.value {
            Value::Null | Value::Str(_) => return,
            Value::Bool(value) => value.to_string(),
            Value::Int(value) => value.to_string(),
            Value::Float(value) => scalar::format_float(*value),
            Value::Seq(_) | Value::Map(_) => {
                self.wrong_type(node, path, "a string, a number or a boolean");
                return;
            }
        };
        node.value = Value::Str(text.into());
    }

    pub(super) fn boolean(&mut self, node: &mut Node, path: Path<'_>) {
        match &node.value {
            Value::Bool(_) => {}
            Value::Str(text) => match parse_bool(text) {
                Some(value) => node.value = Value::Bool(value),
                None => {
                    self.invalid(node.pos, path, text, "`true` or `false`");
                }
            },
            Value::Null | Value::Int(_) | Value::Float(_) | Value::Seq(_) | Value::Map(_) => {
                self.wrong_type(node, path, "`true` or `false`");
            }
        }
    }

    pub(super) fn integer(&mut self, node: &mut Node, path: Path<'_>) {
        match &node.value {
            Value::Int(_) => {}
            Value::Str(text) => match text.parse() {
                Ok(number) => node.value = Value::Int(number),
                Err(_) => {
                    self.invalid(node.pos, path, text, "a whole number");
                }
            },
            Value::Float(number) if number.fract() == 0.0 => match format!("{number:.0}").parse() {
                Ok(number) => node.value = Value::Int(number),
                Err(_) => {
                    let shown = scalar::format_float(*number);
                    self.invalid(node.pos, path, &shown, "a whole number");
                }
            },
            Value::Null | Value::Bool(_) | Value::Float(_) | Value::Seq(_) | Value::Map(_) => {
                self.wrong_type(node, path, "a whole number");
            }
        }
    }

    pub(super) fn number(&mut self, node: &mut Node, path: Path<'_>) {
        match &node.value {
            Value::Int(_) | Value::Float(_) => {}
            Value::Str(text) => match scalar::resolve_plain(text.trim()) {
                number @ (Value::Int(_) | Value::Float(_)) => node.value = number,
                Value::Null | Value::Bool(_) | Value::Str(_) | Value::Seq(_) | Value::Map(_) => {
                    self.invalid(node.pos, path, text, "a number");
                }
            },
            Value::Null | Value::Bool(_) | Value::Seq(_) | Value::Map(_) => {
                self.wrong_type(node, path, "a number");
            }
        }
    }

    pub(super) fn duration(&mut self, node: &mut Node, path: Path<'_>) {
        const EXPECTED: &str = "a duration such as `30s` or `1m30s`";
        match &node.value {
            Value::Str(text) => match units::parse_duration_nanos(text) {
                Some(nanos) => node.value = Value::Str(units::format_duration_nanos(nanos).into()),
                None => {
                    self.invalid(node.pos, path, text, EXPECTED);
                }
            },
            Value::Int(number) => {
                let suggestion = format!("write `{number}s` for seconds");
                self.wrong_type(node, path, EXPECTED).suggest(suggestion);
            }
            Value::Null | Value::Bool(_) | Value::Float(_) | Value::Seq(_) | Value::Map(_) => {
                self.wrong_type(node, path, EXPECTED);
            }
        }
    }

    pub(super) fn bytes(&mut self, node: &mut Node, path: Path<'_>) {
        const EXPECTED: &str = "a size in bytes such as `512m` or `2g`";
        match &node.value {
            // Compose uses -1 for "without a limit".
            Value::Int(number) if *number >= -1 => {
                node.value = Value::Str(number.to_string().into());
            }
            Value::Float(number) if *number >= i64::MAX as f64 => {
                self.invalid(node.pos, path, &scalar::format_float(*number), EXPECTED);
            }
            Value::Float(number) if *number >= 0.0 => {
                node.value = Value::Str(format!("{:.0}", number.trunc()).into());
            }
            Value::Str(text) if text == "-1" => {}
            Value::Str(text) => match units::parse_bytes(text) {
                Some(bytes) => node.value = Value::Str(bytes.to_string().into()),
                None => {
                    self.invalid(node.pos, path, text, EXPECTED);
                }
            },
            Value::Null
            | Value::Bool(_)
            | Value::Int(_)
            | Value::Float(_)
            | Value::Seq(_)
            | Value::Map(_) => {
                self.wrong_type(node, path, EXPECTED);
            }
        }
    }

    pub(super) fn mode(&mut self, node: &mut Node, path: Path<'_>) {
        const EXPECTED: &str = "a file mode such as `0444`";
        let bits = match &node.value {
            Value::Int(bits) => Some(*bits),
            Value::Str(text) => {
                let digits = text.strip_prefix("0o").unwrap_or(text);
                i64::from_str_radix(digits, 8).ok()
            }
            Value::Null | Value::Bool(_) | Value::Float(_) | Value::Seq(_) | Value::Map(_) => {
                self.wrong_type(node, path, EXPECTED);
                return;
            }
        };
        match bits {
            Some(bits @ 0..=0o7777) => node.value = Value::Str(format!("0{bits:o}").into()),
            Some(_) | None => {
                self.report
                    .error(
                        node.pos,
                        Code::InvalidValue,
                        format!("`{path}` is not a valid file mode"),
                    )
                    .expected(EXPECTED);
            }
        }
    }

    pub(super) fn one_of(&mut self, known: &'static [&'static str], node: &Node, path: Path<'_>) {
        let Some(text) = node.as_str() else {
            self.wrong_type(node, path, &join_names(known));
            return;
        };
        if !known.contains(&text) {
            let message = format!("`{path}` cannot be `{text}`");
            self.report
                .error(node.pos, Code::InvalidValue, message)
                .expected(join_names(known))
                .nearest(text, known.iter().copied());
        }
    }

    pub(super) fn count(&mut self, node: &mut Node, path: Path<'_>) {
        if node.as_str() == Some("all") {
            node.value = Value::Int(-1);
        } else {
            self.integer(node, path);
        }
    }
}

fn join_names(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Truth values as the official tool reads them from texts.
fn parse_bool(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "t" | "y" | "yes" | "on" => Some(true),
        "false" | "0" | "f" | "n" | "no" | "off" => Some(false),
        _ => None,
    }
}
