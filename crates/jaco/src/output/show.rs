//! Results that can be printed as a table or as JSON.

use clap::ValueEnum;
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

/// A result of a command.
pub trait Show {
    /// The stable form for programs: lower snake case, times as RFC 3339 in UTC, amounts as integers.
    fn json(&self) -> Value;
    /// The form for a terminal. It ends with a line break unless it is empty.
    fn text(&self, frame: &Frame) -> String;
}
