//! Commands about the audit log.

use std::collections::BTreeMap;

use jaco_types::Millis;

use crate::audit::AuditKind;

/// Sets the age at which events are evicted. The leader writes the default once, when all members
/// understand it; from then on refusals are counted as well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRetention {
    /// The age.
    pub age: Millis,
}

impl AuditRetention {
    /// Creates the command.
    #[must_use]
    pub fn new(age: Millis) -> Self {
        Self { age }
    }
}

/// Writes an event that comes with no change of state, for example a refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditNote {
    /// Its kind.
    pub kind: AuditKind,
    /// Its facts.
    pub payload: BTreeMap<String, String>,
}

impl AuditNote {
    /// Creates the command.
    #[must_use]
    pub fn new(kind: AuditKind, payload: BTreeMap<String, String>) -> Self {
        Self { kind, payload }
    }
}
