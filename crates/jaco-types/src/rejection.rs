//! A refusal with a name: what a user gets instead of a change.

use std::collections::BTreeMap;
use std::fmt;

use crate::code::ErrorCode;

/// Why something was refused. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Rejection {
    /// The stable name of the cause.
    pub code: ErrorCode,
    /// One sentence: what happened and where; lower case, no period.
    pub message: String,
    /// Facts that belong to it, for programs.
    pub details: BTreeMap<String, String>,
}

impl Rejection {
    /// A refusal without details.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: BTreeMap::new() }
    }

    /// Adds a fact.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<String>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}
