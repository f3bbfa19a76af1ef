//! Findings of `jaco doctor`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Severity {
    /// Something does not work.
    Failing,
    /// It works, with reduced fault tolerance or unexpected behaviour.
    Warning,
}

impl Severity {
    /// The name in the output.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Failing => "failing",
            Self::Warning => "warning",
        }
    }
}

/// One problem that was found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Finding {
    /// Findings are sorted by it, failures first.
    pub(super) severity: Severity,
    /// The name of the check, which is part of the interface.
    pub(super) check: &'static str,
    /// The node, service or replica, or `cluster`.
    pub(super) object: String,
    /// The problem.
    pub(super) message: String,
    /// The advice.
    pub(super) help: String,
}

impl Finding {
    /// The finding as JSON.
    pub(super) fn json(&self) -> Value {
        json!({
            "severity": self.severity.as_str(),
            "check": self.check,
            "object": self.object,
            "message": self.message,
            "help": self.help,
        })
    }
}

/// The findings, sorted by severity, each once.
#[derive(Debug, Default)]
pub(super) struct Findings(BTreeSet<Finding>);

impl Findings {
    pub(super) fn failing(
        &mut self,
        check: &'static str,
        object: &str,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.add(Severity::Failing, check, object, message.into(), help.into());
    }

    pub(super) fn warning(
        &mut self,
        check: &'static str,
        object: &str,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.add(Severity::Warning, check, object, message.into(), help.into());
    }

    fn add(
        &mut self,
        severity: Severity,
        check: &'static str,
        object: &str,
        message: String,
        help: String,
    ) {
        self.0.insert(Finding { severity, check, object: object.to_owned(), message, help });
    }

    pub(super) fn into_sorted(self) -> Vec<Finding> {
        self.0.into_iter().collect()
    }
}
