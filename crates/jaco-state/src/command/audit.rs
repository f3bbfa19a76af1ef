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
    /// What becomes of jumps of the time of entries.
    pub jumps: Jumps,
}

/// Whether events are aged by the time of an entry at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Jumps {
    /// As it was set before; at once if it never was.
    #[default]
    AsBefore,
    /// Not until a jump has lasted. The leader writes it once, when all members understand it.
    Doubted,
}

impl AuditRetention {
    /// Creates the command.
    #[must_use]
    pub fn new(age: Millis) -> Self {
        Self { age, jumps: Jumps::AsBefore }
    }

    /// From now on jumps are doubted.
    #[must_use]
    pub fn doubting_jumps(self) -> Self {
        Self { jumps: Jumps::Doubted, ..self }
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
