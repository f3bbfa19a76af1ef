//! Problems as users see them: errors and warnings with position, expectation and suggestion.

use std::fmt;
use std::fmt::Write as _;

use serde_json::json;

use crate::diagnostics::code::Code;

/// How many problems are listed; the rest is a number.
///
/// Past fifty a reader fixes the first ones and runs again, and a hostile file must not be able to
/// make the answer large.
pub const MAX_LISTED: usize = 50;

/// Whether a problem stops the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The input is refused.
    Error,
    /// The input is taken; something in it has no effect, or another one than elsewhere.
    Warning,
}

impl Severity {
    /// The word used in text and JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// One error or warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What kind.
    pub code: Code,
    /// Whether it stops the load.
    pub severity: Severity,
    /// The file as the caller named it; empty if no file is to blame.
    pub file: String,
    /// Line from 1; 0 if the file as a whole is meant.
    pub line: u32,
    /// Column from 1; 0 if the file as a whole is meant.
    pub column: u32,
    /// The line itself.
    pub snippet: String,
    /// What is wrong, in one sentence without a period.
    pub message: String,
    /// What would have been right.
    pub expected: Option<String>,
    /// The nearest name, or what to write instead.
    pub suggestion: Option<String>,
}

impl Problem {
    /// The problem as JSON, for `-o json`.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        json!({
            "code": self.code.as_str(),
            "severity": self.severity.as_str(),
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "snippet": self.snippet,
            "message": self.message,
            "expected": self.expected,
            "suggestion": self.suggestion,
        })
    }
}

/// Compiler style: kind, message, place, line, marker, advice.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}[{}]: {}", self.severity.as_str(), self.code.as_str(), self.message)?;
        if !self.file.is_empty() && self.line == 0 {
            writeln!(f, "  --> {}", self.file)?;
        } else if !self.file.is_empty() {
            writeln!(f, "  --> {}:{}:{}", self.file, self.line, self.column)?;
        }
        if !self.snippet.is_empty() {
            let number = self.line.to_string();
            let gutter = " ".repeat(number.len());
            // Tabs are kept before the marker, so that it lands below its column.
            let lead: String = self
                .snippet
                .chars()
                .take((self.column as usize).saturating_sub(1))
                .map(|c| if c == '\t' { '\t' } else { ' ' })
                .collect();
            writeln!(f, "{gutter} |\n{number} | {}\n{gutter} | {lead}^", self.snippet)?;
        }
        if let Some(expected) = &self.expected {
            writeln!(f, "  expected: {expected}")?;
        }
        if let Some(suggestion) = &self.suggestion {
            writeln!(f, "  help: {suggestion}")?;
        }
        Ok(())
    }
}

/// Everything that was found, sorted by place; at least one is an error where this is an `Err`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problems {
    /// The first ones by position, errors before warnings, at most [`MAX_LISTED`] of each.
    pub list: Vec<Problem>,
    /// How many more there are.
    pub omitted: usize,
}

impl Problems {
    /// Whether nothing was found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The errors.
    pub fn errors(&self) -> impl Iterator<Item = &Problem> {
        self.list.iter().filter(|problem| problem.severity == Severity::Error)
    }

    /// The warnings.
    pub fn warnings(&self) -> impl Iterator<Item = &Problem> {
        self.list.iter().filter(|problem| problem.severity == Severity::Warning)
    }

    /// All of it as JSON.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        let list: Vec<_> = self.list.iter().map(Problem::to_json).collect();
        json!({ "problems": list, "omitted": self.omitted })
    }

    /// Puts two lists together, such as a load's warnings and a resolve's.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.list.extend(other.list);
        self.omitted += other.omitted;
        self
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        for problem in &self.list {
            writeln!(text, "{problem}")?;
        }
        if self.omitted > 0 {
            writeln!(text, "… and {} more", self.omitted)?;
        }
        f.write_str(text.trim_end())
    }
}

impl std::error::Error for Problems {}
