//! Results that can be printed as a table or as JSON.

use clap::ValueEnum;
use serde::Serialize;
use serde_json::Value;

/// The output format of results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table
    #[default]
    Table,
    /// A table with more columns
    Wide,
    /// JSON; a stream prints one object per line
    Json,
    /// YAML
    Yaml,
}

/// How many columns a table has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Those that fit on a terminal.
    Short,
    /// All of them.
    Wide,
}

/// What the text of a result depends on besides the result.
#[derive(Debug, Clone, Copy)]
pub struct Frame {
    /// How many columns to show.
    pub detail: Detail,
    /// The present, in milliseconds since the Unix epoch: ages are computed from it.
    pub now_ms: i64,
}

/// How JSON is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonLayout {
    /// Indented: a result.
    Indented,
    /// On one line: one of many.
    Line,
}

impl JsonLayout {
    /// The JSON of `value`, and a line break.
    pub(crate) fn text(self, value: &impl Serialize) -> String {
        let text = match self {
            Self::Indented => serde_json::to_string_pretty(value),
            Self::Line => serde_json::to_string(value),
        };
        let mut text = text.expect("keys are texts, and memory can be written to");
        text.push('\n');
        text
    }
}

/// A result of a command.
pub trait Show {
    /// The stable form for programs: lower snake case, times as RFC 3339 in UTC, amounts as integers.
    fn json(&self) -> Value;
    /// The text of that form, and a line break. For results of thousands of objects, for which a [`Value`]
    /// takes longer than its text.
    fn json_text(&self, layout: JsonLayout) -> String {
        layout.text(&self.json())
    }
    /// The form for a terminal. It ends with a line break unless it is empty.
    fn text(&self, frame: &Frame) -> String;
}
