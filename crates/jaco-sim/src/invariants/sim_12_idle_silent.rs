//! SIM-12: a converged cluster writes nothing.

use super::{Invariant, InvariantViolation, Verdict};

#[derive(Debug, Default)]
pub(super) struct IdleSilent;

impl Invariant for IdleSilent {
    fn idle(&mut self, entries: usize) -> Verdict {
        match entries {
            0 => Ok(()),
            entries => Err(InvariantViolation::WroteWhileIdle { entries }),
        }
    }
}
