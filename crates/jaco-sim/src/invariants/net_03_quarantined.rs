//! NET-3: an address is not given within a minute after its holder was observed gone.

use jaco_state::invariants::network::AddressWatch;

use super::{Committed, Facts, Invariant, InvariantViolation, Verdict};

/// Who has which address, followed from entry to entry.
#[derive(Debug, Default)]
pub(super) struct Quarantined(AddressWatch);

impl Invariant for Quarantined {
    fn committed(&mut self, facts: &Facts, step: &Committed<'_>) -> Verdict {
        let found = self.0.follow(&facts.state, step.entry.at).into_iter().next();
        found.map_or(Ok(()), |violation| Err(InvariantViolation::State(violation)))
    }
}
