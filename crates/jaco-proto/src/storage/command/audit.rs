//! Commands about the audit log.

use jaco_state::audit::AuditKind;
use jaco_state::command::{AuditNote, AuditRetention, Jumps};
use jaco_types::Millis;

use crate::storage::convert::Wire;
use crate::storage::error::Problem;
use crate::storage::wire;

impl Wire for AuditRetention {
    type Message = wire::AuditRetention;

    fn to_wire(&self) -> wire::AuditRetention {
        let Self { age, jumps } = self;
        let doubts_jumps = match jumps {
            Jumps::AsBefore => false,
            Jumps::Doubted => true,
        };
        wire::AuditRetention { age_ms: age.0, doubts_jumps }
    }

    fn from_wire(message: wire::AuditRetention) -> Result<Self, Problem> {
        let jumps = if message.doubts_jumps { Jumps::Doubted } else { Jumps::AsBefore };
        Ok(Self { age: Millis(message.age_ms), jumps })
    }
}

impl Wire for AuditNote {
    type Message = wire::AuditNote;

    fn to_wire(&self) -> wire::AuditNote {
        let Self { kind, payload } = self;
        wire::AuditNote { kind: kind.to_wire(), payload: payload.to_wire() }
    }

    fn from_wire(message: wire::AuditNote) -> Result<Self, Problem> {
        Ok(Self {
            kind: Wire::from_wire(message.kind)?,
            payload: Wire::from_wire(message.payload)?,
        })
    }
}

/// The kinds carry their own numbers, which are part of the interface.
impl Wire for AuditKind {
    type Message = u32;

    fn to_wire(&self) -> u32 {
        self.number()
    }

    fn from_wire(number: u32) -> Result<Self, Problem> {
        let unknown = Problem::UnknownValue { what: "audit kind", number: number.into() };
        Self::from_number(number).ok_or(unknown)
    }
}
